package keyed

import (
	"errors"
	"fmt"
	"math"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/compact"
)

// A Track is the state of one key. AppendBinary encodes it, and Estimator.RestoreTrack decodes it. A field of the
// state needs code in append, decodeHead or decodeBody, in Estimator.carry, which converts it to other settings,
// and in guard, which restores it.
type Track struct {
	key    string
	stages *stages
	state  hafvf.State
	n      int64     // observations so far
	last   time.Time // time of the last observation that was not missing; zero without a time unit

	priorSet bool                  // the prior is set: there is no warm-up, or it is over
	warmUp   []numberedObservation // observations of the warm-up so far

	locationScale []float64 // of the warm-up, which sets the prior; nil until it first does

	rhythm hafvf.State // of the season; nil without a season

	// For detection: the number of steps of the bank so far, and the observations of the steps at which the current
	// excursions started.
	steps  int64
	starts []regimeStart
	alerts alerts

	decisions decisions
	spread    spread // of predictions, if the stages have spreads

	heartbeat *heartbeat // nil without Config.Silence

	unlearned int // consecutive observations that could not be learned

	marks []FalseMark // at the last observation
	rules keyRules    // not part of the state
}

// numberedObservation is an observation of a warm-up with its position.
type numberedObservation struct {
	n int64
	Observation
}

// A regimeStart is the observation of a step that a detection may report as the start of a regime.
type regimeStart struct {
	step int64
	n    int64
	time time.Time
}

// keyRules are the runtime settings of a key.
type keyRules struct {
	quiet quietTimes
	marks []FalseMark
}

func (est *Estimator) rulesOf(key string) keyRules {
	return keyRules{est.quiet.timesFor(key), est.marks[key]}
}

// NewTrack returns the track of a key before its first observation.
func (est *Estimator) NewTrack(key string) *Track {
	c := est.chains.ofKey(key)
	t := &Track{key: key, stages: c, priorSet: c.fitted == nil, rules: est.rulesOf(key)}
	if est.cfg.Silence != nil {
		t.heartbeat = &heartbeat{}
	}
	t.begin()
	return t
}

// reset makes t a track that has learned nothing. It keeps the number of observations and the heartbeat.
func (t *Track) reset() {
	*t = Track{key: t.key, stages: t.stages, n: t.n, priorSet: t.stages.fitted == nil, heartbeat: t.heartbeat, marks: t.marks, rules: t.rules}
	t.begin()
}

// begin sets the states to those before the first observation.
func (t *Track) begin() {
	t.state, t.spread = t.stages.bank.NewState(), newSpread()
	if se := t.stages.season; se != nil {
		t.rhythm = se.rhythm.NewState()
	}
}

// bind makes this estimator the owner of t. The previous owner must have the same configuration.
func (est *Estimator) bind(t *Track) {
	if c := est.chains.ofKey(t.key); t.stages != c {
		t.stages = c
		c.priorOf = nil // the bank may have an earlier prior of the track
	}
}

// elapsed returns the time since the last observation in units of unit. It returns 1 if unit is 0, or if one of the
// times is not known.
func (t *Track) elapsed(o Observation, unit time.Duration) float64 {
	if unit == 0 {
		return 1
	}
	last := t.last
	if len(complete(o.X)) > 0 {
		t.last = o.Time
	}
	if last.IsZero() || o.Time.IsZero() {
		return 1
	}
	return math.Max(0, o.Time.Sub(last).Seconds()/unit.Seconds())
}

// refit adds an observation to the warm-up, and sets the prior if the number of complete observations is a power of
// two or is the last of the warm-up. It reports whether it has set the prior: the caller must then replay the
// warm-up.
func (t *Track) refit(o Observation) bool {
	c := t.stages
	o.ID, o.Raw = "", ""
	absent := len(complete(o.X)) == 0
	// Missing observations of a key with nothing else must not fill its state.
	if !absent || len(t.warmUp) < 20*c.cfg.WarmUp {
		t.warmUp = append(t.warmUp, numberedObservation{t.n, o.Clone()})
	}
	if absent {
		return false
	}
	var xs [][]float64
	seen := 0
	for _, w := range t.warmUp {
		if step := complete(w.X); len(step) > 0 {
			seen++
			xs = append(xs, step...)
		}
	}
	if seen < c.cfg.WarmUp && seen&(seen-1) != 0 {
		return false
	}
	t.locationScale = c.fitted.LocationScale(xs)
	t.priorSet = seen == c.cfg.WarmUp
	return true
}

// append encodes the track, with the fingerprint of its configuration.
func (t *Track) append(c *coder) {
	t.form(c)
	c.Raw(t.stages.fingerprint[:])
	c.B = t.state.Append(c.B)
	if t.stages.season != nil {
		c.B = compact.AppendFloats(c.B, t.rhythm)
	}
	if d := t.stages.decider; d != nil {
		d.append(c, &t.decisions, t.locationScale)
	}
}

// form encodes or decodes the track before the fingerprint. decided reports whether decisions follow.
func (t *Track) form(c *coder) (decided bool) {
	decided, beats, marked := t.stages.decider != nil, t.heartbeat != nil, len(t.marks) > 0
	compact.Unsigned(&c.Codec, &t.n, &t.steps)
	compact.Unsigned(&c.Codec, &t.unlearned)
	c.near(&t.last)
	if c.Bits(&t.priorSet, &decided, &beats, &marked); marked {
		compact.List(&c.Codec, &t.marks, 2, func(m *FalseMark) { c.near(&m.From, &m.Since) })
	}
	c.Lists(&t.locationScale)
	compact.List(&c.Codec, &t.warmUp, 1, func(w *numberedObservation) {
		compact.Unsigned(&c.Codec, &w.n)
		observationForm(&c.Codec, &w.Observation)
	})
	compact.List(&c.Codec, &t.starts, 1, func(s *regimeStart) {
		ago := t.steps - s.step
		more := t.n - s.n - ago
		compact.Unsigned(&c.Codec, &ago)
		compact.Signed(&c.Codec, &more)
		c.near(&s.time)
		s.step, s.n = t.steps-ago, t.n-ago-more
	})
	if t.alerts.form(&c.Codec); beats {
		compact.Ref(&t.heartbeat).form(c)
	}
	return decided
}

// decodeHead decodes a track up to the state of the bank.
func (est *Estimator) decodeHead(key string, r *coder) (*Track, error) {
	c := est.chains.ofKey(key)
	t := &Track{key: key, stages: c, rules: est.rulesOf(key)}
	decided := t.form(r)
	if compact.Ref(&t.heartbeat); est.cfg.Silence == nil {
		t.heartbeat = nil
	}
	if t.spread = r.width; !t.spread.learned {
		t.spread = newSpread()
	} else if err := t.spread.valid(); err != nil {
		return nil, err
	}
	if r.Bad {
		return nil, compact.ErrCut
	}
	var written compact.Fingerprint
	r.Raw(written[:])
	if written != c.fingerprint {
		return nil, fmt.Errorf("%w: fingerprint %x, want %x", ErrOtherConfig, written, c.fingerprint)
	}
	if decided != (c.decider != nil) {
		return nil, errDecisions
	}
	return t, nil
}

// decodeBody decodes the rest, after decodeHead.
func (t *Track) decodeBody(r *coder) (err error) {
	c := t.stages
	if t.state, r.B, err = c.bank.ReadState(r.B); err != nil {
		return err
	}
	if c.season != nil {
		t.rhythm = r.Floats()
		if r.Bad {
			return compact.ErrCut
		}
		if err := c.season.rhythm.Valid(t.rhythm); err != nil {
			return err
		}
	}
	if c.decider == nil && len(r.B) > 0 {
		return compact.ErrCut
	}
	if c.fitted == nil && (!t.priorSet || t.locationScale != nil || t.warmUp != nil) {
		return errors.New("state is corrupt: a warm-up that the configuration does not have")
	}
	for _, w := range t.warmUp {
		if err := c.checks.Check(w.X); err != nil {
			return fmt.Errorf("state is corrupt: %w", err)
		}
	}
	if c.decider != nil {
		t.decisions, err = c.decider.decode(r, t.locationScale)
	}
	return err
}
