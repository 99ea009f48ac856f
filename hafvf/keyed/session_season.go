package keyed

import (
	"math"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// A sessionSeason takes the season out of the values of a session before the smoother looks
// for segments, and puts it back into the estimates. It is one season for the session,
// known from the whole of it: with s the season at an observation x, the smoother has x − s,
// or where the season is a factor, x·e⁻ˢ or the exposure eˢ of a count.
//
// Of a regression it takes the season out of the regressors too: what is left of the target
// then has the same coefficients on what is left of them (Frisch and Waugh 1933), where a
// regressor with a rhythm of its own would else lose its part in the target to the season.
//
// It is learned twice. At first nothing is known of segments: the level of the values is
// forgotten as they come, so that its changes leave the season alone. Then the level begins
// anew with each of the segments that were found, and outliers do not count.
type sessionSeason struct {
	cfg         usual.RhythmConfig
	coordinates int  // of an observation, all of which have a season
	log         bool // the season is a factor of times
	counts      bool // the season is the exposure of counts
}

func newSessionSeason(cfg hafvf.Config, bank *hafvf.Bank) *sessionSeason {
	se := &sessionSeason{cfg: *cfg.Season, coordinates: bank.Dim(), log: cfg.Family == "exponential"}
	if _, se.counts = bank.Model().(expfam.Exposed); se.counts {
		se.coordinates = 1 // the other one is the exposure
	}
	return se
}

// leastPeriods is how many periods a session has of a season that can be told from its
// segments.
const leastPeriods = 2

// A seasonOf is the season of one session.
type seasonOf struct {
	*sessionSeason
	observations []Observation
	steps        [][][]float64 // the values on their scale
	rhythm       *usual.Rhythm // nil where the session is too short for a season
	mean         []float64     // s by observation
	variance     []float64     // of s, by observation, in units of the noise's
}

func (se *sessionSeason) of(observations []Observation, steps [][][]float64) *seasonOf {
	n := len(observations)
	of := &seasonOf{sessionSeason: se, observations: observations, steps: steps, mean: make([]float64, n*se.coordinates), variance: make([]float64, n)}
	cfg := se.cfg
	cfg.Seasons = nil
	length := observations[n-1].Time.Sub(observations[0].Time)
	for _, s := range se.cfg.Seasons {
		if length >= leastPeriods*s.Period {
			cfg.Seasons = append(cfg.Seasons, s)
		}
	}
	if len(cfg.Seasons) > 0 {
		of.rhythm = checked(usual.NewRhythm(cfg, se.coordinates)) // of a part of a config that NewBank has checked
		of.rhythm.Lasting()
	}
	return of
}

// learn learns the season, where weight is the probability that observation i is no
// accident, and a new segment begins where begins says so.
func (of *seasonOf) learn(weight func(i int) float64, begins func(i int) bool) {
	if of.rhythm == nil {
		return
	}
	state := of.rhythm.NewState()
	value, least := make([]float64, of.coordinates), make([]float64, of.coordinates)
	for i, o := range of.observations {
		if begins(i) {
			of.rhythm.ForgetLevel(state)
		}
		for _, x := range complete(of.steps[i]) {
			copy(value, x)
			switch {
			case of.counts:
				value[0] = math.Log(x[0] + .5)
			case of.log && x[0] == 0:
				continue // tells nothing of a factor
			case of.log:
				value[0] = math.Log(x[0])
			}
			of.rhythm.Learn(state, o.Time, value, weight(i), least)
		}
	}
	var last time.Time
	for i, o := range of.observations {
		at := of.at(i)
		if i > 0 && o.Time.Equal(last) {
			copy(at, of.at(i-1))
			of.variance[i] = of.variance[i-1]
			continue
		}
		last = o.Time
		of.variance[i] = of.rhythm.Predict(at, state, o.Time)
		if of.log || of.counts {
			at[0] = math.Max(-maxFactor, math.Min(at[0], maxFactor))
		}
	}
}

// at is the season at observation i.
func (of *seasonOf) at(i int) []float64 {
	return of.mean[i*of.coordinates : (i+1)*of.coordinates]
}

// removed are the steps less their season; those of counts are rows with their exposure.
func (of *seasonOf) removed() [][][]float64 {
	all := make([][][]float64, len(of.steps))
	for i, step := range of.steps {
		if of.counts && len(step) == 0 {
			step = [][]float64{{math.NaN()}}
		}
		for _, x := range step {
			all[i] = append(all[i], of.remove(i, x))
		}
	}
	return all
}

func (of *seasonOf) remove(i int, x []float64) []float64 {
	if of.counts {
		return []float64{math.Exp(of.at(i)[0]), x[0]}
	}
	y := append([]float64(nil), x...)
	season := of.at(i)
	for j := range y { // one for a bare missing value
		if of.log {
			y[j] *= math.Exp(-season[j])
		} else {
			y[j] -= season[j]
		}
	}
	return y
}

// restore puts the season back into the moments of the likelihood's mean at observation i,
// with its uncertainty where the noise has that standard deviation. The mean of a segment
// is that of the values less their season.
func (of *seasonOf) restore(i int, m, segment Moments, noise []float64) {
	season := of.at(i)
	for j, s := range season[len(season)-len(m.Mean):] { // the target is the last coordinate
		switch {
		case of.counts:
			r := math.Exp(s)
			segment.Mean[j] /= r
			segment.SD[j] /= r
		case of.log:
			m.Mean[j] *= math.Exp(s)
			m.SD[j] *= math.Exp(s)
		default:
			m.Mean[j] += s
			if v := math.Sqrt(of.variance[i]) * noise[j]; v < math.Inf(1) {
				m.SD[j] = math.Hypot(m.SD[j], v)
			}
		}
	}
}
