package keyed

import "time"

// Expiry returns the time at which Config.Expire resets the key of an encoded KeyState if it has no further
// observation. It returns the zero time if the key never expires. It decodes only the start of the state.
func (est *Estimator) Expiry(state []byte) time.Time {
	e := KeyState{est: est}
	e.head(coderOf(state))
	return e.Expiry()
}

// Expiry returns the time at which Config.Expire resets the key, as Estimator.Expiry does for an encoded state.
//
// The key expires if the next observation, or its log at that point, is after this time. The times of records decide,
// not a clock. If the log was ahead of the key at the key's last observation, as in logs that are written key by key,
// Expire counts from the time of the log, rounded down to a multiple of Config.ExpiryPart. A caller may drop the state
// earlier if the log has passed this time: the next observation would reset the key in any case.
func (e *KeyState) Expiry() time.Time {
	cfg := &e.est.cfg
	if cfg.Expire == 0 || e.clock.IsZero() {
		return time.Time{}
	}
	expiry := e.clock.Add(time.Duration(e.lead)*cfg.ExpiryPart() + cfg.Expire + e.est.MaxDelay())
	if cfg.Aggregate != nil {
		expiry = expiry.Add(cfg.Aggregate.Every) // the end of the last interval without events
	}
	return expiry
}

// ExpiryPart returns the resolution of the time of a log in states: a sixteenth of Expire, at least a millisecond.
func (c *Config) ExpiryPart() time.Duration { return max(c.Expire/16, time.Millisecond) }

// leadOf returns how far the log was ahead of the key at an observation, in whole multiples of Config.ExpiryPart.
func (e *KeyState) leadOf(o *Observation) int {
	if e.est.cfg.Expire == 0 || !o.LogTime.After(e.clock) {
		return 0
	}
	return int(o.LogTime.Sub(e.clock) / e.est.cfg.ExpiryPart())
}

// overdue reports whether the key has expired before an observation, by the time of its log. A key with waiting
// observations or open intervals does not expire.
func (e *KeyState) overdue(o *Observation) bool {
	if o.LogTime.IsZero() || len(e.waiting) > 0 || len(e.intervals.open) > 0 {
		return false
	}
	expiry := e.Expiry()
	return !expiry.IsZero() && o.LogTime.After(expiry)
}

// expire resets the key, so that it accepts an observation of any time.
func (e *KeyState) expire() {
	e.expireTrack()
	e.clock, e.released, e.lateRun, e.lead = time.Time{}, time.Time{}, lateRun{}, 0
}

// expires reports whether a key whose last observation is at last has expired at time t.
func (e *KeyState) expires(last, t time.Time) bool {
	expire := e.est.cfg.Expire
	return expire > 0 && !last.IsZero() && t.Sub(last) > expire
}

// expireTrack resets the track. Open intervals and waiting observations remain: they are later than the expiry. A
// silence before the expiry is added to endedSilences. The included offsets of the logs remain.
func (e *KeyState) expireTrack() {
	if p := e.heartbeat; p != nil {
		deadline := e.stages.silences.deadline(p, &e.rules.quiet, p.last)
		if !deadline.IsZero() && !e.expires(p.last, deadline) && e.stages.silences.report(p, &e.rules.quiet, e.pays) {
			e.endedSilences = append(e.endedSilences, e.silent())
		}
	}
	e.Track = e.est.NewTrack(e.key)
	e.intervals.next, e.intervals.busy, e.intervals.cleared, e.intervals.counter = time.Time{}, time.Time{}, time.Time{}, counter{}
	e.expired = true
}

func (e *KeyState) silent() SilenceEvent {
	return SilenceEvent{Silence: *e.heartbeat.reported, N: e.n, Outputs: e.stages.bank.Model().Outputs()}
}
