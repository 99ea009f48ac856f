package keyed

import (
	"errors"
	"math"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/compact"
)

// With detection, predictions of the family normal are a mixture of the bank's prediction and of normals about its
// mean m. Their standard deviations are multiples cₖ of the standard deviation s of the regime:
//
//	p(x|past) = w₀ p(x|past, bank) + Σ wₖ N(x; m, (cₖs)²)
//
// The bank learns the spread of hundreds of values and more. The spread of most streams changes within a few
// values, by the hour and with events, so a prediction with the right tails is too wide at its centre. The next
// width equals the previous one or, with the probability h, is drawn from the long-run shares π (a hidden Markov
// model):
//
//	q ∝ w p(x),  π ← π + r(q − π),  w ← (1 − h)q + hπ
//
// Detection and alarms use the bank alone.

// spreadFactors are the cₖ.
var spreadFactors = [...]float64{1. / 8, 1. / 4, 1. / 2, 1, 2}

const (
	spreadHazard = .2   // h
	spreadRate   = .005 // r
	spreadFirst  = .05  // initial wₖ and πₖ
)

// widths are the shares of the bank and of the normals, in the precision in which they are stored.
type widths [1 + len(spreadFactors)]float32

// A spread is the mixture of widths of a key's predictions.
type spread struct {
	current, longRun widths // w, π
	learned          bool
}

func newSpread() (s spread) {
	s.current[0] = 1 - spreadFirst*float32(len(spreadFactors))
	for k := range spreadFactors {
		s.current[k+1] = spreadFirst
	}
	s.longRun = s.current
	return s
}

// spreads reports whether keys of a filter have a spread.
func spreads(cfg hafvf.Config) bool { return cfg.Family == "normal" && cfg.Detect != nil }

// normals appends the normals of the mixture to dst.
func (s *spread) normals(dst []hafvf.Normal) []hafvf.Normal {
	for k, c := range spreadFactors {
		dst = append(dst, hafvf.Normal{SDFactor: c, Weight: float64(s.current[k+1])})
	}
	return dst
}

// validSD reports whether sd can be the regime's standard deviation in the mixture, as Bank.PredictAll requires.
func validSD(sd float64) bool { return sd > 0 && !notFinite(sd) }

// sd returns the standard deviation of the mixture, from the standard deviations of the bank and of the regime.
func (s *spread) sd(bank, regime float64) float64 {
	if !validSD(regime) {
		return bank
	}
	sum := float64(s.current[0]) * (bank / regime) * (bank / regime)
	for k, c := range spreadFactors {
		sum += float64(s.current[k+1]) * c * c
	}
	return regime * math.Sqrt(sum)
}

// learn updates the shares with the values of a step, and returns their log density under the mixture. logBank is
// their log density under the bank, and slope the log slope of the scale. All values of a step have the same width.
func (s *spread) learn(xs [][]float64, mean, regime, logBank, slope float64) float64 {
	if !validSD(regime) {
		return logBank
	}
	n, squares := 0., 0.
	for _, x := range xs {
		if !expfam.Incomplete(x) {
			z := (x[0] - mean) / regime
			n++
			squares += z * z
		}
	}
	logs := [len(s.current)]float64{logBank}
	top, norm := logBank, math.Log(2*math.Pi)/2+math.Log(regime)
	for k, c := range spreadFactors {
		logs[k+1] = slope - n*(norm+math.Log(c)) - squares/(2*c*c)
		top = math.Max(top, logs[k+1])
	}
	sum := 0.
	for k := range logs {
		logs[k] = float64(s.current[k]) * math.Exp(logs[k]-top)
		sum += logs[k]
	}
	if !(sum > 0) || notFinite(top) { // for example if the mean is undefined
		return logBank
	}
	for k := range logs {
		q := logs[k] / sum
		s.longRun[k] += float32(spreadRate * (q - float64(s.longRun[k])))
		s.current[k] = float32((1-spreadHazard)*q + spreadHazard*float64(s.longRun[k]))
	}
	s.learned = true
	return top + math.Log(sum)
}

func (s *spread) form(c *compact.Codec) {
	s.learned = true
	for _, v := range [...]*widths{&s.current, &s.longRun} {
		for k := range v {
			share := float64(v[k])
			c.Shorts(&share)
			v[k] = float32(share)
		}
	}
}

var errSpread = errors.New("state is corrupt: shares of widths")

// valid returns an error unless the shares of s are non-negative and sum to 1.
func (s *spread) valid() error {
	for _, v := range [...]*widths{&s.current, &s.longRun} {
		sum := 0.
		for _, share := range v {
			if !(share >= 0) {
				return errSpread
			}
			sum += float64(share)
		}
		if !(math.Abs(sum-1) < 1e-3) {
			return errSpread
		}
	}
	return nil
}
