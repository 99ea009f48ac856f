package keyed

import (
	"math"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// A season subtracts the season from the values of keys before the bank sees them, and adds it to the bank's
// results. With the season's mean s and variance h at the time of an observation x, in units of the noise variance,
// the bank learns
//
//	y = m + (x − s − m)·√ω,  ω = 1/(1+h)
//
// where m is the mean that the running regime predicts. While the season is unknown, y thus contains little of what
// may be season; later y is x − s. If s + m is far from the value that the rhythm expects, ω is 1. All of s, m and
// ω depend on the past alone, so for each vector of length k
//
//	log p(x|past) = log p(y|past) + ½k·log ω
//
// Exponential times have a factor as their season. s is then the season of log x, and
//
//	y = x·e⁻ˢ,  log p(x|past) = log p(y|past) − s
//
// The season of counts is also a factor, which is their exposure: x ~ Poisson(λeˢ). s is then the season of log(x +
// ½).
type season struct {
	rhythm *usual.Rhythm
	first  int  // first coordinate that has a season
	log    bool // times: the season is a factor
	counts bool // counts: the season is their exposure in the rows of the bank

	// Scratch of the last step:
	mean     []float64 // s
	root     float64   // √ω
	variance float64   // h
	center   []float64 // m
	expected []float64 // mean that the rhythm expects
	spread   []float64 // standard deviations of expected
	noise    []float64 // standard deviation of y
	learned  []float64 // values that the rhythm learns from a vector
	minSD    []float64 // minimum standard deviations of learned
	row      []float64 // for counts: a row with the exposure and no count
	copies   vectorCopies
}

// newSeason returns the season of a configuration, which must have one, and its bank.
func newSeason(cfg hafvf.Config, bank *hafvf.Bank) *season {
	n := bank.Model().Outputs()
	se := &season{
		rhythm: checked(usual.NewRhythm(*cfg.Season, n)), log: cfg.Family == "exponential",
		mean: make([]float64, n), center: make([]float64, n), noise: make([]float64, n), expected: make([]float64, n), spread: make([]float64, n), learned: make([]float64, n), minSD: make([]float64, n),
	}
	if cfg.Family == "regression" {
		se.first = bank.Dim() - 1
	}
	var exposed expfam.Exposed
	if exposed, se.counts = bank.Model().(expfam.Exposed); se.counts {
		se.row = exposed.Unit()
	}
	if se.log || se.counts {
		for j := range se.minSD { // the values are logarithms
			se.minSD[j] = minSDShare
		}
	}
	return se
}

// expose sets the exposure of counts to the season at the time of the track's next observation.
func (se *season) expose(t *Track, o Observation) {
	if se.counts {
		se.rhythm.Predict(se.mean, t.rhythm, o.Time)
		se.row[0] = math.Exp(math.Max(-maxFactor, math.Min(se.mean[0], maxFactor)))
	}
}

// maxFactor bounds the absolute logarithm of a season that is a factor.
const maxFactor = 50.

// remove returns the vectors of the track's next observation without their season. Counts get their exposure in
// front instead.
func (se *season) remove(t *Track, o Observation, elapsed float64) [][]float64 {
	if se.counts {
		return se.copies.copy(o.X, se.row[0])
	}
	c := t.stages
	se.variance = se.rhythm.Predict(se.mean, t.rhythm, o.Time)
	se.root = 1 / math.Sqrt(1+se.variance)
	c.bank.PredictRegime(se.center, se.noise, t.state, elapsed, c.regressors(t.state, o))
	if !se.log {
		se.setMinSD(t)
	}
	switch {
	case se.log:
		se.root, se.variance = 1, 0
		se.mean[0] = math.Max(-maxFactor, math.Min(se.mean[0], maxFactor))
	case math.IsNaN(se.center[0]): // a prior of less than one observation predicts no mean
		se.root = 1
		clear(se.center)
	default:
		se.trust(t, o)
	}
	steps := se.copies.copy(o.X)
	for _, y := range steps {
		for j, s := range se.mean {
			v := &y[se.first+j]
			if se.log {
				*v *= math.Exp(-s)
				continue
			}
			*v = se.center[j] + (*v-s-se.center[j])*se.root
		}
	}
	return steps
}

// maxAgreedSD is the distance between the predictions of bank and rhythm, in standard deviations, up to which the
// bank's mean is used as the center. From twice that distance on, no center is used.
const maxAgreedSD = 4.

// trust moves root to 1 if bank and rhythm predict different values, because the center then says nothing about x.
// Otherwise an outlier that the bank still believes in would recur with each of the following values.
func (se *season) trust(t *Track, o Observation) {
	se.rhythm.Expect(se.expected, se.spread, t.rhythm, o.Time)
	worst := 0.
	for j, s := range se.mean {
		sd := math.Max(se.spread[j], se.minSD[j])
		worst = math.Max(worst, math.Abs(s+se.center[j]-se.expected[j])/sd)
	}
	se.root += (1 - se.root) * math.Max(0, math.Min(worst/maxAgreedSD-1, 1))
}

// learn updates the track's rhythm with an observation that remove has processed, weighted by the bank's outcome.
// It converts the log densities of the outcome to log densities of the observation's own values.
func (se *season) learn(t *Track, o Observation, out *hafvf.Outcome) {
	weight := 1.
	if t.stages.bank.Detects() {
		weight = out.Detection.Stay
	}
	jacobian := 0.
	for _, x := range complete(o.X) {
		copy(se.learned, x[se.first:])
		switch {
		case se.counts:
			se.learned[0] = math.Log(x[0] + .5)
		case !se.log:
			jacobian += float64(len(se.mean)) * math.Log(se.root)
		default:
			jacobian -= se.mean[0]
			se.learned[0] = math.Log(x[0])
			if x[0] == 0 {
				continue // zero times carry no information about a factor
			}
		}
		se.boundFirst(t)
		se.rhythm.Learn(t.rhythm, o.Time, se.learned, weight, se.minSD)
	}
	addJacobian(out, jacobian)
	if out.Detection.Starts() {
		se.rhythm.ForgetLevel(t.rhythm)
	}
}

const (
	minSDShare = 1e-3 // share of the warm-up's scale, or of the noise's: see Rhythm.Learn
	firstBound = 10.  // maximum distance from the warm-up's location, in scales, that the rhythm learns
)

// setMinSD sets the minimum standard deviations for the rhythm, for values that are not logarithms.
func (se *season) setMinSD(t *Track) {
	for j := range se.minSD {
		switch {
		case t.locationScale != nil:
			se.minSD[j] = minSDShare * t.locationScale[2*j+1]
		case se.noise[j] < math.Inf(1):
			se.minSD[j] = minSDShare * se.noise[j]
		default:
			se.minSD[j] = 0
		}
	}
}

// boundFirst bounds the values that the rhythm learns while a warm-up is replayed, because the rhythm does not know
// the spread of the values yet.
func (se *season) boundFirst(t *Track) {
	if len(t.warmUp) == 0 || t.locationScale == nil {
		return
	}
	for j := range se.learned {
		location, scale := 0., 1.
		switch ls := t.locationScale; {
		case se.counts || se.log:
			location = math.Log(ls[0])
		default:
			location, scale = ls[2*j], ls[2*j+1]
		}
		limit := firstBound * scale
		se.learned[j] = math.Max(location-limit, math.Min(se.learned[j], location+limit))
	}
}

// restorePrediction adds the season to the predicted mean and standard deviation of an observation.
func (se *season) restorePrediction(mean, sd []float64) {
	if se.counts {
		return // the bank's moments already include the exposure
	}
	se.restoreBounds(mean)
	for i, s := range se.mean {
		if se.log {
			sd[i] *= math.Exp(s)
		} else {
			sd[i] /= se.root
		}
	}
}

// restoreBounds adds the season to values on the scale of an observation, such as bounds.
func (se *season) restoreBounds(y []float64) {
	if se.counts {
		return
	}
	for i := range y {
		if se.log {
			y[i] *= math.Exp(se.mean[i])
			continue
		}
		y[i] = se.mean[i] + se.center[i] + (y[i]-se.center[i])/se.root
	}
}

// restoreEstimate adds the season to the moments of the likelihood's mean, and its uncertainty to their standard
// deviations.
func (se *season) restoreEstimate(m Moments) {
	if se.counts {
		return
	}
	for i, s := range se.mean {
		if se.log {
			m.Mean[i] *= math.Exp(s)
			m.SD[i] *= math.Exp(s)
			continue
		}
		m.Mean[i] += s
		m.SD[i] = math.Hypot(m.SD[i], math.Sqrt(se.variance)*se.noise[i])
	}
}
