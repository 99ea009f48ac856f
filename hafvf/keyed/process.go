package keyed

import (
	"errors"
	"iter"
	"time"

	"hafvf/internal/clock"
)

// A Listener receives the results of KeyState.Process and KeyState.ProcessDue, in the order in which they occur. An
// observation or an estimate that it receives is valid until its method returns.
type Listener interface {
	// Estimated receives the estimate of an observation. If out.SkipReason is set, the observation was not learned.
	Estimated(o *Observation, out *Estimate)
	// Rejected receives an observation that cannot be used. err is a *LateError or a *TooManyWaitingError.
	Rejected(o *Observation, err error)
	// SilenceEnded receives a silence that ended and is in no estimate: events ended it, with Config.Aggregate, or
	// the key expired.
	SilenceEnded(s SilenceEvent)
	// Expired reports that Config.Expire has reset the key. Silences that ended before it come first.
	Expired()
	// Rewound reports that the key's time was wrong, and was set back from this time to the time of o: see
	// KeyState.Process.
	Rewound(from time.Time, o *Observation)
}

// Process learns an observation that Estimator.Checker accepts, or stores it until earlier ones of the key have
// arrived. After it, call ProcessDue until that returns false. An observation that the state already includes, as
// after a restart, has no effect. m is the memory of the estimates.
//
// With Config.Aggregate, observations are events, and ProcessDue learns the observations of intervals.
//
// A wrong time must not make a key late for ever. If the key has released a time more than a minute ahead of the
// clock, and five observations in a row are late, not ahead of the clock, and in order, then the released time was
// wrong, and the key is set back to the fifth. The late times must be nearer to the clock than the released time,
// unless that is more than an hour ahead. So a device whose clock is fast can send the values that it has buffered.
// If the released time is not ahead of the clock, a wrong time looks like a device that sends its last observation
// first, and the key is not set back.
func (e *KeyState) Process(m *Memory, l Listener, o *Observation) {
	learnNow, err := e.take(o)
	if err != nil {
		l.Rejected(o, err)
		return
	}
	e.reportEnded(l)
	if !e.rewoundFrom.IsZero() {
		l.Rewound(e.rewoundFrom, o)
	}
	if learnNow {
		e.learn(m, l, o)
	}
}

// ProcessDue learns the next observation that is due. It returns false if none is.
func (e *KeyState) ProcessDue(m *Memory, l Listener) bool {
	o, ok := e.due()
	e.reportEnded(l)
	if ok {
		m.due = o
		e.learn(m, l, &m.due)
	}
	return ok
}

func (e *KeyState) learn(m *Memory, l Listener, o *Observation) {
	e.est.EstimateIn(m, &m.out, e.Track, o)
	l.Estimated(o, &m.out)
}

func (e *KeyState) reportEnded(l Listener) {
	for _, s := range e.endedSilences {
		l.SilenceEnded(s)
	}
	e.endedSilences = nil
	if e.expired {
		e.expired = false
		l.Expired()
	}
}

// take returns true if the observation must be learned at once, and does not retain it. Otherwise it may be stored:
// due returns the waiting observations that can now be learned.
func (e *KeyState) take(o *Observation) (learnNow bool, err error) {
	e.rewoundFrom = time.Time{}
	switch {
	case e.repeats(o):
		return false, nil
	case e.est.cfg.Order == Arrival:
		return true, nil
	}
	if e.overdue(o) {
		e.expire()
	}
	learnNow, err = e.admit(o)
	if late := (*LateError)(nil); errors.As(err, &late) && e.isWrong(late) {
		e.rewind()
		learnNow, err = e.admit(o)
	}
	if err == nil {
		e.lead = e.leadOf(o)
	}
	e.horizon = clock.Later(e.clock.Add(-e.est.cfg.Lateness), e.est.horizon())
	return learnNow, err
}

// due removes and returns the next observation that is due. ok is false if there is none.
func (e *KeyState) due() (o Observation, ok bool) {
	if e.est.aggregator != nil {
		return e.close()
	}
	if len(e.waiting) == 0 || e.waiting[0].Time.After(e.horizon) {
		return o, false
	}
	o = e.waiting[0]
	e.waiting = e.waiting[1:]
	e.release(o.Time)
	return o, true
}

// Release makes observations due that are not after horizon: no earlier observation will arrive.
func (e *KeyState) Release(horizon time.Time) { e.horizon, e.intervals.until = horizon, horizon }

// End makes all observations due: no further observation will arrive. last is the time of the last event of all
// keys, or zero if it is unknown.
func (e *KeyState) End(last time.Time) {
	e.horizon = e.clock
	e.intervals.ended, e.intervals.last = true, last
}

// Estimates learns an observation of the key and yields the estimates that are then due, in the order of their
// times. Observations may come in any order within the lateness. An error is the reason why the observation cannot
// be used: the error of Estimator.Checker, a *LateError or a *TooManyWaitingError.
func (e *KeyState) Estimates(o Observation) iter.Seq2[Estimate, error] {
	return func(yield func(Estimate, error) bool) {
		l := yielder{yield: yield}
		if err := e.est.Checker(e.key)(&o); err != nil {
			l.Rejected(&o, err)
		} else {
			e.Process(&Memory{}, &l, &o)
		}
		for !l.stopped && e.ProcessDue(&Memory{}, &l) {
		}
	}
}

// Rest yields the estimates of the waiting observations, at the end of the input.
func (e *KeyState) Rest() iter.Seq[Estimate] {
	e.End(time.Time{})
	return func(yield func(Estimate) bool) {
		l := yielder{yield: func(out Estimate, _ error) bool { return yield(out) }}
		for !l.stopped && e.ProcessDue(&Memory{}, &l) {
		}
	}
}

// A yielder is the Listener of Estimates and Rest.
type yielder struct {
	yield   func(Estimate, error) bool
	stopped bool
}

func (y *yielder) Estimated(_ *Observation, out *Estimate) { y.stopped = !y.yield(*out, nil) }
func (y *yielder) Rejected(_ *Observation, err error)      { y.stopped = !y.yield(Estimate{}, err) }
func (*yielder) SilenceEnded(SilenceEvent)                 {}
func (*yielder) Expired()                                  {}
func (*yielder) Rewound(time.Time, *Observation)           {}
