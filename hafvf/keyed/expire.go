package keyed

import "time"

// Expiry is when the key of an encoded entity is forgotten if it does not speak, by
// Config.Expire: what comes later finds a key before its first observation. It is zero if the
// key is never forgotten. It reads the beginning of the entity alone.
func (est *Estimator) Expiry(state []byte) time.Time {
	e := KeyState{est: est}
	e.head(coderOf(state))
	return e.Expiry()
}

// Expiry is Estimator.Expiry of the entity as it is.
//
// The key is forgotten if its log has passed that time when the next observation comes, or its own
// time has come so far: the records of the log decide, and no clock. A log may have been ahead of
// the key when it spoke last, as of keys that are written one after the other; the time counts from
// there, to Config.ExpiryPart. Whoever forgets the key earlier must know that the log has passed the
// time. Then nobody sees it: the key would begin anew with its next observation in any case.
func (e *KeyState) Expiry() time.Time {
	cfg := &e.est.cfg
	if cfg.Expire == 0 || e.clock.IsZero() {
		return time.Time{}
	}
	at := e.clock.Add(time.Duration(e.lead)*cfg.ExpiryPart() + cfg.Expire + e.est.MaxDelay())
	if cfg.Aggregate != nil {
		at = at.Add(cfg.Aggregate.Every) // the last interval without events is over
	}
	return at
}

// ExpiryPart is the part of Expire to which the time of a log is known: a sixteenth.
func (c *Config) ExpiryPart() time.Duration { return max(c.Expire/16, time.Millisecond) }

// leadOf is how far the log of an observation was ahead of the key when it came, in whole parts of
// Config.Expire.
func (e *KeyState) leadOf(o *Observation) int {
	if e.est.cfg.Expire == 0 || !o.LogTime.After(e.clock) {
		return 0
	}
	return int(o.LogTime.Sub(e.clock) / e.est.cfg.ExpiryPart())
}

// overdue reports whether the key was forgotten before an observation, by the time of its log.
// What waits is not forgotten.
func (e *KeyState) overdue(o *Observation) bool {
	if o.LogTime.IsZero() || len(e.waiting) > 0 || len(e.intervals.open) > 0 {
		return false
	}
	at := e.Expiry()
	return !at.IsZero() && o.LogTime.After(at)
}

// expire has the key begin anew before an observation of any time.
func (e *KeyState) expire() {
	e.expireTrack()
	e.clock, e.released, e.lateRun, e.lead = time.Time{}, time.Time{}, lateRun{}, 0
}

// expires reports whether a key with its last observation at one time is forgotten by another.
func (e *KeyState) expires(last, at time.Time) bool {
	expire := e.est.cfg.Expire
	return expire > 0 && !last.IsZero() && at.Sub(last) > expire
}

// expireTrack has the key begin anew with what is open or waits, which is all from after it was
// forgotten. A silence is told before. What the key includes of its logs stays.
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

// silent is the silence of the key, which is told.
func (e *KeyState) silent() SilenceEvent {
	return SilenceEvent{Silence: *e.heartbeat.reported, N: e.n, Outputs: e.stages.bank.Model().Outputs()}
}
