package keyed

import (
	"math"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// A sessionSeason subtracts the season from the values of a session before the smoother looks for segments, and
// adds it to the estimates. Each session has one season, which is learned from the whole session. With the season s
// at an observation x, the smoother sees x − s or, if the season is a factor, x·e⁻ˢ or the exposure eˢ of a count.
//
// For a regression it also subtracts the season of each regressor. The rest of the target then has the same
// coefficients on the rest of the regressors (Frisch and Waugh 1933). Otherwise a regressor with a rhythm of its
// own would lose its contribution to the season.
//
// The season is learned twice. At first no segments are known: the rhythm forgets the level of the values over
// time, so that changes of the level do not affect the season. Then the level restarts at each segment that was
// found, and outliers are not learned.
type sessionSeason struct {
	cfg         usual.RhythmConfig
	coordinates int  // coordinates of an observation, each has a season
	log         bool // times: the season is a factor
	counts      bool // counts: the season is their exposure
}

func newSessionSeason(cfg hafvf.Config, bank *hafvf.Bank) *sessionSeason {
	se := &sessionSeason{cfg: *cfg.Season, coordinates: bank.Dim(), log: cfg.Family == "exponential"}
	if _, se.counts = bank.Model().(expfam.Exposed); se.counts {
		se.coordinates = 1 // the other coordinate is the exposure
	}
	return se
}

// minPeriods is the minimum length of a session, in periods of a season, that allows telling the season from
// segments.
const minPeriods = 2

// A fittedSeason is the season of one session.
type fittedSeason struct {
	*sessionSeason
	observations []Observation
	steps        [][][]float64 // values on the scale of the filter
	rhythm       *usual.Rhythm // nil if the session is too short for a season
	mean         []float64     // s of all observations, coordinates entries each
	variance     []float64     // variance of s by observation, in units of the noise variance
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
		fs.rhythm = checked(usual.NewRhythm(cfg, se.coordinates)) // cfg is a part of a config that NewBank has checked
		fs.rhythm.Lasting()
	}
	return fs
}

// learn learns the season. weight is the probability that observation i is not an outlier, and starts reports
// whether a new segment starts at i.
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
				continue // zero times carry no information about a factor
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

// meanAt returns the season at observation i.
func (fs *fittedSeason) meanAt(i int) []float64 {
	return fs.mean[i*fs.coordinates : (i+1)*fs.coordinates]
}

// removeAll returns the steps without their season. Counts become rows with their exposure.
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
	for j := range y { // a missing value may have fewer coordinates
		if fs.log {
			y[j] *= math.Exp(-season[j])
		} else {
			y[j] -= season[j]
		}
	}
	return y
}

// restore adds the season to the moments m of the likelihood's mean at observation i, and its uncertainty for the
// standard deviation noise. The mean of a segment stays without season; for counts restore divides it by the
// exposure.
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
