package hafvf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/internal/testing/familytest"
	"hafvf/internal/testing/streams"
)

// A rateStep is a stream of coin tosses whose rate changes once.
type rateStep struct {
	before, after   float64
	calm, following int // number of tosses at each rate
}

func (r rateStep) draw(rng *rand.Rand) []float64 {
	x := make([]float64, r.calm+r.following)
	for t := range x {
		p := r.before
		if t >= r.calm {
			p = r.after
		}
		x[t] = streams.Toss(rng, p)
	}
	return x
}

// A rateScore is the result of the default bank with detection on streams.
type rateScore struct {
	streams, steps, calm int
	found, false, delay  int // delay is the sum over found changes
	logPredictive        float64
}

func (r rateStep) score(t testing.TB, streams int) (out rateScore) {
	for i := range streams {
		b := NewBank(familytest.OfStreams(t, "bernoulli"), DefaultBank(), DefaultForgetting, &Detect{})
		s := b.NewState()
		x := r.draw(rand.New(rand.NewPCG(*seed+uint64(i), 77)))
		found := false
		for t := range x {
			o := b.Update(s, x[t:t+1])
			out.logPredictive += o.LogPredictive
			switch {
			case o.Detection.Kind != Change:
			case t < r.calm:
				out.false++
			case !found:
				found = true
				out.found++
				out.delay += t - r.calm
			}
		}
		out.steps += len(x)
		out.calm += r.calm
	}
	out.streams = streams
	return out
}

// A change between rates of a few percent is found, although its evidence takes a thousand tosses to collect.
// Without a change hardly any is reported.
func TestRareRates(t *testing.T) {
	fall := rateStep{before: .05, after: .02, calm: 5000, following: 3000}.score(t, 3)
	if fall.found < 2 || fall.false > 1 {
		t.Errorf("%+v", fall)
	}
	if calm := (rateStep{before: .02, calm: 10000}).score(t, 1); calm.false > 1 {
		t.Errorf("%+v", calm)
	}
}

// BenchmarkRates scores the default bank with detection on coins whose rate changes, and on coins whose rate is
// constant. Run it with -benchtime 1x, and set the number of streams of every kind with -seeds.
func BenchmarkRates(b *testing.B) {
	for _, r := range []rateStep{
		{.05, .02, 5000, 3000}, {.05, .02, 30000, 3000}, {.02, .05, 5000, 3000},
		{.04, 0, 5000, 300}, {.1, 0, 5000, 300}, {.5, .7, 5000, 500}, {.3, .5, 5000, 500}, {.1, .9, 5000, 100},
		{.005, 0, 20000, 0}, {.02, 0, 20000, 0}, {.05, 0, 20000, 0}, {.3, 0, 20000, 0}, {.5, 0, 20000, 0},
	} {
		name := fmt.Sprintf("%g", r.before)
		if r.following > 0 {
			name = fmt.Sprintf("%g→%g after %d", r.before, r.after, r.calm)
		}
		b.Run(name, func(b *testing.B) {
			var s rateScore
			for b.Loop() {
				s = r.score(b, *seeds)
			}
			b.ReportMetric(1e4*s.logPredictive/float64(s.steps), "nats/10k")
			b.ReportMetric(1e4*float64(s.false)/float64(s.calm), "false/10k")
			if r.following > 0 {
				b.ReportMetric(float64(s.found)/float64(s.streams), "found")
				b.ReportMetric(float64(s.delay)/float64(max(s.found, 1)), "delay")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// The prediction equals the mixture that weighs the excursions, also if the excursions have the reference
// prior. The two differ by the excursion that starts at the predicted toss, which the prediction counts towards
// the running regime.
func TestPredictRareRate(t *testing.T) {
	b := NewBank(familytest.OfStreams(t, "bernoulli"), []Member{{Top: 1}}, DefaultForgetting, &Detect{})
	s := b.NewState()
	rng := rand.New(rand.NewPCG(*seed, 78))
	x := rateStep{before: .04, calm: 1000, following: 100}.draw(rng)
	for i := range x {
		b.Update(s, x[i:i+1])
	}
	ds := b.detection(s)
	if !b.detector.usesReference(ds, b.Member(s, 0)) || ds.alive() < maxExcursions {
		t.Fatal("too few excursions have the reference prior here")
	}
	b.detector.thin(ds) // otherwise the next toss would thin, after the prediction
	var mean, regime, sd [1]float64
	b.Predict(mean[:], sd[:], s, nil)
	b.PredictRegime(regime[:], sd[:], s, 1, nil)
	starts := ds[atStay] * (ds.mean(atOutlier) + ds.mean(atChange))

	p := math.Exp(b.Update(s, []float64{1}).LogPredictive)
	started := b.detector.excursion(ds, ds.alive()-1)
	if started[startedAt] != ds[atSteps] {
		t.Fatal("the excursion that starts at this toss is gone")
	}
	p -= p * (started[outlier] + started[change])
	if got := mean[0] - starts*regime[0]; math.Abs(got-p) > 1e-9*p {
		t.Errorf("heads are predicted with %.9g, and their density is %.9g", got, p)
	}
}
