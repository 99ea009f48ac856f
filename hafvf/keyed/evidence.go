package keyed

import (
	"math"
	"time"

	"hafvf/hafvf"
)

// Learn has a track learn its next observation, as Estimate does without the rest of the estimate. It
// returns the log predictive, in nats: 0 of a missing observation, and −Inf of one that Estimate would not
// learn, after which the track is of no use. A filter with a warm-up or detection has no log predictive in
// this sense.
func (est *Estimator) Learn(t *Track, o Observation) (nats float64) {
	c := t.stages
	defer est.renewed(c, &nats)
	t.n++
	scaled, jacobian := c.scale.toScale(o)
	outcome, _ := c.learn(t, t.n, scaled, c.enter(t, scaled, est.cfg.TimeUnit), regime{})
	addJacobian(&outcome, jacobian)
	switch {
	case outcome.Missing:
		return 0
	case notFinite(outcome.LogPredictive):
		return math.Inf(-1)
	}
	return outcome.LogPredictive
}

// Predict fills in what a track predicts of its next observation if that comes at a time, as Estimate
// does. The track stays as it is. It is not for a family with regressors in its observations, a warm-up or
// detection.
func (est *Estimator) Predict(t *Track, at time.Time, to Moments) {
	c := t.stages
	defer est.renewed(c, &to.Mean[0])
	o := Observation{Time: at}
	elapsed := c.enter(t, o, est.cfg.TimeUnit)
	c.bank.PredictAll(&hafvf.Prediction{Mean: to.Mean, SD: to.SD}, t.state, elapsed, c.regressors(t.state, o))
	if c.season != nil {
		c.season.remove(t, o, elapsed)
		c.season.restorePrediction(to.Mean, to.SD)
	}
	c.scale.momentsToData(to)
}

// renewed renews a chain after a panic, and puts −Inf in the place of what was asked for.
func (est *Estimator) renewed(c *stages, v *float64) {
	if recover() != nil {
		est.renew(c)
		*v = math.Inf(-1)
	}
}
