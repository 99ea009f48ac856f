package keyed

import (
	"math"
	"time"

	"hafvf/hafvf"
)

// Learn learns the next observation of a track, as Estimate does, without computing an estimate. It returns the log
// predictive density in nats, and 0 for a missing observation. It returns −Inf for an observation that Estimate would
// not learn; the track is then invalid. Learn does not support filters with a warm-up or detection.
func (est *Estimator) Learn(t *Track, o Observation) (nats float64) {
	c := t.stages
	defer est.recoverTo(c, &nats)
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

// Predict writes the mean and standard deviation that the track predicts for its next observation, as Estimate does.
// The track does not change. If the prediction panics, the first mean is −Inf. Predict does not support families with
// regressors in their observations, warm-ups and detection.
func (est *Estimator) Predict(t *Track, when time.Time, dst Moments) {
	c := t.stages
	defer est.recoverTo(c, &dst.Mean[0])
	o := Observation{Time: when}
	elapsed := c.enter(t, o, est.cfg.TimeUnit)
	c.bank.PredictAll(&hafvf.Prediction{Mean: dst.Mean, SD: dst.SD}, t.state, elapsed, c.regressors(t.state, o))
	if c.season != nil {
		c.season.remove(t, o, elapsed)
		c.season.restorePrediction(dst.Mean, dst.SD)
	}
	c.scale.momentsToData(dst)
}

// recoverTo must be deferred. It recovers from a panic, rebuilds the stages, and sets v to −Inf.
func (est *Estimator) recoverTo(c *stages, v *float64) {
	if recover() != nil {
		est.rebuild(c)
		*v = math.Inf(-1)
	}
}
