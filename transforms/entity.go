package transforms

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"hafvf/internal/account"
)

// An entity is the node's state of one key: its track, and the observations that
// wait for earlier ones.
type entity struct {
	*Track
	clock    time.Time       // latest event time seen
	released time.Time       // event time of the last observation released
	waiting  []Observation   // by time, ties in the order of arrival
	seen     []account.Place // per log, the last one learned or waiting
}

// append encodes the entity.
func (e *entity) append(b []byte) []byte {
	b = appendTime(b, e.clock)
	b = appendTime(b, e.released)
	b = binary.AppendUvarint(b, uint64(len(e.waiting)))
	for _, o := range e.waiting {
		b = appendObservation(b, o)
	}
	b = binary.AppendUvarint(b, uint64(len(e.seen)))
	for _, p := range e.seen {
		b = appendString(b, p.Log)
		b = binary.AppendVarint(b, p.Seq)
	}
	return e.Track.append(b)
}

// wait returns the span of the observations that wait.
func (e *entity) wait() wait {
	if len(e.waiting) == 0 {
		return wait{}
	}
	return wait{e.waiting[0].Time, e.waiting[len(e.waiting)-1].Time}
}

// waiting returns the span of the observations that wait in an encoded entity, and
// whether there are any.
func waiting(b []byte) (w wait, any bool) {
	e := (&reader{b: b}).buffer()
	return e.wait(), len(e.waiting) > 0
}

// buffer reads the beginning of an encoded entity, up to what waits.
func (r *reader) buffer() entity {
	e := entity{clock: r.time(), released: r.time()}
	for range r.count(1) {
		e.waiting = append(e.waiting, r.observation())
	}
	return e
}

// CheckState says why b is not a state of the key that Filter or Track.AppendBinary
// wrote under the estimator's configuration. The error wraps hafvf.ErrOtherConfig
// where the state belongs to another configuration. Of each log that the state
// includes observations of it returns the last place.
func (est *Estimator) CheckState(key string, b []byte) (included []account.Place, err error) {
	e, err := est.decodeEntity(key, b)
	return e.seen, err
}

func (est *Estimator) decodeEntity(key string, b []byte) (e entity, err error) {
	r := &reader{b: b}
	e = r.buffer()
	for range r.count(2) {
		e.seen = append(e.seen, account.Place{Log: r.string(), Seq: r.varint()})
	}
	if e.Track, err = est.decode(key, r); err != nil {
		return e, err
	}
	for _, o := range e.waiting {
		if err := e.stream.check(&o); err != nil {
			return e, fmt.Errorf("state is corrupt: %w", err)
		}
	}
	return e, nil
}

// repeats reports whether the state includes the observation already, as happens
// after a restart, and notes that it does now.
func (e *entity) repeats(o *Observation) bool {
	if o.Log == "" {
		return false
	}
	for i := range e.seen {
		if p := &e.seen[i]; p.Log == o.Log {
			if o.Seq <= p.Seq {
				return true
			}
			p.Seq = o.Seq
			return false
		}
	}
	e.seen = append(e.seen, account.Place{Log: strings.Clone(o.Log), Seq: o.Seq})
	return false
}

// places returns the places of the waiting observations.
func (e *entity) places() (all []account.Place) {
	for _, o := range e.waiting {
		if o.Log != "" {
			all = append(all, account.Place{Log: strings.Clone(o.Log), Seq: o.Seq})
		}
	}
	return all
}

// admit adds an observation to those that wait, unless it is due at once, or says why it
// is late. It keeps nothing of an observation that is due.
func (e *entity) admit(o *Observation, lateness time.Duration) (due bool, err error) {
	if o.Time.Before(e.released) {
		return false, fmt.Errorf("late: %s is before %s, which this key has already released", stamp(o.Time), stamp(e.released))
	}
	if o.Time.After(e.clock) {
		e.clock = o.Time
	}
	if len(e.waiting) == 0 && !o.Time.After(e.clock.Add(-lateness)) {
		e.released = o.Time
		return true, nil
	}
	at, _ := slices.BinarySearchFunc(e.waiting, o.Time, func(w Observation, t time.Time) int {
		if w.Time.After(t) {
			return 1
		}
		return -1
	})
	e.waiting = slices.Insert(e.waiting, at, o.clone())
	return false, nil
}

// due removes and returns the observations that are due when nothing before
// horizon is to come.
func (e *entity) due(horizon time.Time) []Observation {
	n := 0
	for n < len(e.waiting) && !e.waiting[n].Time.After(horizon) {
		n++
	}
	out := e.waiting[:n:n]
	e.waiting = e.waiting[n:]
	if n > 0 {
		e.released = out[n-1].Time
	}
	return out
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
