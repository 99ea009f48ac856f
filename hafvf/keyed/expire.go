package keyed

import "time"

// Expiry is when the key of an encoded entity is forgotten if it does not speak, by
// Config.Expire: what comes later finds a key before its first observation. It is zero if the
// key is never forgotten. It reads the beginning of the entity alone.
func (est *Estimator) Expiry(state []byte) time.Time {
	e := read(state).head()
	e.est = est
	return e.Expiry()
}

// Expiry is Estimator.Expiry of the entity as it is.
func (e *Entity) Expiry() time.Time {
	cfg := &e.est.cfg
	if cfg.Expire == 0 || e.clock.IsZero() {
		return time.Time{}
	}
	at := e.clock.Add(cfg.Expire + e.est.Patience())
	if cfg.Aggregate != nil {
		at = at.Add(cfg.Aggregate.Every) // the last interval without events is over
	}
	return at
}

// lapses reports whether a key that was heard last at one time is forgotten by another.
func (e *Entity) lapses(last, at time.Time) bool {
	expire := e.est.cfg.Expire
	return expire > 0 && !last.IsZero() && at.Sub(last) > expire
}

// lapse has the key begin anew with what is open or waits, which is all from after it was
// forgotten. A silence is told before. What the key includes of its logs stays.
func (e *Entity) lapse() {
	if p := e.pulse; p != nil {
		deadline := e.est.listener.deadline(p, p.last)
		if !deadline.IsZero() && !e.lapses(p.last, deadline) && e.est.listener.tell(p, e.pays) {
			e.ended = append(e.ended, e.silent())
		}
	}
	e.Track = e.est.NewTrack(e.key)
	e.intervals.next, e.intervals.busy, e.intervals.cleared = time.Time{}, time.Time{}, time.Time{}
	e.lapsed = true
}

// silent is the silence of the key, which is told.
func (e *Entity) silent() Silent {
	return Silent{Silence: *e.pulse.told, N: e.n, Outputs: e.chain.bank.Model().Outputs()}
}
