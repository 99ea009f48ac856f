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
const minPeriods = 2

// A seasonOf is the season of one session.
type fittedSeason struct {
	*sessionSeason
	observations []Observation
	steps        [][][]float64 // the values on their scale
	rhythm       *usual.Rhythm // nil where the session is too short for a season
	mean         []float64     // s by observation
	variance     []float64     // of s, by observation, in units of the noise's
}

func (se *sessionSeason) start(observations []Observation, steps [][][]float64) *fittedSeason {
	n := len(observations)
	fs := &fittedSeason{sessionSeason: se, observations: observations, steps: steps, mean: make([]float64, n*se.coordinates), variance: make([]float64, n)}
	cfg := se.cfg
	cfg.Seasons = nil
	length := observations[n-1].Time.Sub(observations[0].Time)
	for _, s := range se.cfg.Seasons {
		if length >= minPeriods*s.Period {
			cfg.Seasons = append(cfg.Seasons, s)
		}
	}
	if len(cfg.Seasons) > 0 {
		fs.rhythm = checked(usual.NewRhythm(cfg, se.coordinates)) // of a part of a config that NewBank has checked
		fs.rhythm.Lasting()
	}
	return fs
}

// learn learns the season, where weight is the probability that observation i is no
// accident, and a new segment begins where begins says so.
func (fs *fittedSeason) learn(weight func(i int) float64, starts func(i int) bool) {
	if fs.rhythm == nil {
		return
	}
	state := fs.rhythm.NewState()
	value, minSD := make([]float64, fs.coordinates), make([]float64, fs.coordinates)
	for i, o := range fs.observations {
		if starts(i) {
			fs.rhythm.ForgetLevel(state)
		}
		for _, x := range complete(fs.steps[i]) {
			copy(value, x)
			switch {
			case fs.counts:
				value[0] = math.Log(x[0] + .5)
			case fs.log && x[0] == 0:
				continue // tells nothing of a factor
			case fs.log:
				value[0] = math.Log(x[0])
			}
			fs.rhythm.Learn(state, o.Time, value, weight(i), minSD)
		}
	}
	var last time.Time
	for i, o := range fs.observations {
		mean := fs.meanAt(i)
		if i > 0 && o.Time.Equal(last) {
			copy(mean, fs.meanAt(i-1))
			fs.variance[i] = fs.variance[i-1]
			continue
		}
		last = o.Time
		fs.variance[i] = fs.rhythm.Predict(mean, state, o.Time)
		if fs.log || fs.counts {
			mean[0] = math.Max(-maxFactor, math.Min(mean[0], maxFactor))
		}
	}
}

// at is the season at observation i.
func (fs *fittedSeason) meanAt(i int) []float64 {
	return fs.mean[i*fs.coordinates : (i+1)*fs.coordinates]
}

// removed are the steps less their season; those of counts are rows with their exposure.
func (fs *fittedSeason) removeAll() [][][]float64 {
	steps := make([][][]float64, len(fs.steps))
	for i, step := range fs.steps {
		if fs.counts && len(step) == 0 {
			step = [][]float64{{math.NaN()}}
		}
		for _, x := range step {
			steps[i] = append(steps[i], fs.remove(i, x))
		}
	}
	return steps
}

func (fs *fittedSeason) remove(i int, x []float64) []float64 {
	if fs.counts {
		return []float64{math.Exp(fs.meanAt(i)[0]), x[0]}
	}
	y := append([]float64(nil), x...)
	season := fs.meanAt(i)
	for j := range y { // one for a bare missing value
		if fs.log {
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
func (fs *fittedSeason) restore(i int, m, segment Moments, noise []float64) {
	season := fs.meanAt(i)
	for j, s := range season[len(season)-len(m.Mean):] { // the target is the last coordinate
		switch {
		case fs.counts:
			r := math.Exp(s)
			segment.Mean[j] /= r
			segment.SD[j] /= r
		case fs.log:
			m.Mean[j] *= math.Exp(s)
			m.SD[j] *= math.Exp(s)
		default:
			m.Mean[j] += s
			if v := math.Sqrt(fs.variance[i]) * noise[j]; v < math.Inf(1) {
				m.SD[j] = math.Hypot(m.SD[j], v)
			}
		}
	}
}
