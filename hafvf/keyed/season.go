package keyed

import (
	"math"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// A season takes the season out of the values of a chain's keys before the bank sees
// them, and puts it back into what the bank says of them. With the season's mean s and
// variance h at the time of an observation x, in units of the noise's, the bank learns
//
//	y = m + (x − s − m)·√ω,  ω = 1/(1+h)
//
// m the mean that the running regime predicts. While the season is unknown it thus
// sees little of what may be season, and later x − s. Where s + m is far from what the rhythm
// expects of x, ω is 1. All of s, m and ω depend on the past alone: for each of the vectors of
// length k
//
//	log p(x|past) = log p(y|past) + ½k·log ω
//
// Times that are exponential have a factor for a season: it is that of log x, and
//
//	y = x·e⁻ˢ,  log p(x|past) = log p(y|past) − s
//
// Counts have a factor too, which is their exposure: x ~ Poisson(λeˢ). Their season is
// that of log(x + ½).
type season struct {
	rhythm *usual.Rhythm
	first  int  // of the coordinates that have a season
	log    bool // the season is a factor
	counts bool // the season is the exposure of counts, in the rows of the bank

	// Of the last step:
	mean     []float64 // s
	root     float64   // √ω
	variance float64   // h
	center   []float64 // m
	expected []float64 // by the rhythm
	spread   []float64 // standard deviations of that
	noise    []float64 // standard deviation of y
	learned  []float64 // what the rhythm learns of a vector
	minSD    []float64 // least standard deviations of what the rhythm learns
	row      []float64 // of counts: the exposure, and no count
	copies   vectorCopies
}

// newSeason makes the season of a configuration that has one, and its bank.
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
		for j := range se.minSD { // of logarithms
			se.minSD[j] = minSDShare
		}
	}
	return se
}

// expose sets the exposure of counts to the season at the track's next observation.
func (se *season) expose(t *Track, o Observation) {
	if se.counts {
		se.rhythm.Predict(se.mean, t.rhythm, o.Time)
		se.row[0] = math.Exp(math.Max(-maxFactor, math.Min(se.mean[0], maxFactor)))
	}
}

// maxFactor bounds the logarithm of a season that is a factor.
const maxFactor = 50.

// remove returns the vectors of the track's next observation less their season, or counts behind their exposure.
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

// agreed is the number of standard deviations between what the bank and the rhythm expect up to
// which the bank's mean is taken for the center. Beyond twice of it there is none.
const maxAgreedSD = 4.

// trust makes the root one if bank and rhythm do not agree on what comes: the center says
// nothing of x then. An outlier that the bank still believes would otherwise come back to it
// with each of the values that follow.
func (se *season) trust(t *Track, o Observation) {
	se.rhythm.Expect(se.expected, se.spread, t.rhythm, o.Time)
	worst := 0.
	for j, s := range se.mean {
		sd := math.Max(se.spread[j], se.minSD[j])
		worst = math.Max(worst, math.Abs(s+se.center[j]-se.expected[j])/sd)
	}
	se.root += (1 - se.root) * math.Max(0, math.Min(worst/maxAgreedSD-1, 1))
}

// learn has the track's rhythm learn the observation that remove has had, by what the
// bank has made of it, and makes the outcome one of the observation's own values.
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
				continue // tells nothing of a factor
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
	minSDShare = 1e-3 // of the scale of the warm-up, or of the noise: see Rhythm.Learn
	firstBound = 10.  // scales from the location of the warm-up that the rhythm learns of it
)

// setLeast sets the least standard deviations of what the rhythm learns of values that are
// no logarithms.
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

// boundFirst bounds what the rhythm learns of a warm-up that is learned again, as long as it
// does not know yet how far the values lie from each other.
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

// predicted puts the season back into the moments of an observation.
func (se *season) restorePrediction(mean, sd []float64) {
	if se.counts {
		return // they are of that exposure
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

// bounds puts the season back into values that an observation may have.
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

// estimated puts the season back into the moments of the likelihood's mean. They have
// the season's uncertainty too.
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
