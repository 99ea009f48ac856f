package keyed

import "math"

// Evidence is the log evidence of a key's observations, in nats: the sum of their log predictives, as
// Estimate gives them, without the rest of the estimates. Missing observations have none. The
// evidence is −Inf where Estimate would not learn an observation. A filter with a warm-up or
// detection has no evidence in this sense.
func (est *Estimator) Evidence(key string, observations []Observation) (nats float64) {
	t := est.NewTrack(key)
	c := t.stages
	defer func() {
		if p := recover(); p != nil { // as of an observation that is not learned
			est.renew(c)
			nats = math.Inf(-1)
		}
	}()
	for i := range observations {
		t.n++
		o, jacobian := c.scale.to(observations[i])
		outcome, _ := c.learn(t, t.n, o, c.enter(t, o, est.cfg.TimeUnit), regime{})
		addJacobian(&outcome, jacobian)
		switch {
		case outcome.Missing:
		case notFinite(outcome.LogPredictive):
			return math.Inf(-1)
		default:
			nats += outcome.LogPredictive
		}
	}
	return nats
}
