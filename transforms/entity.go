package transforms

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// An entity is what the filter keeps of one key: its track, and the observations
// that wait for their turn.
type entity struct {
	*Track
	clock    time.Time     // latest event time seen
	released time.Time     // event time of the last observation released
	waiting  []Observation // by time, ties in the order of arrival
}

// append encodes the entity.
func (e *entity) append(b []byte) []byte {
	b = appendTime(b, e.clock)
	b = appendTime(b, e.released)
	b = binary.AppendUvarint(b, uint64(len(e.waiting)))
	for _, o := range e.waiting {
		b = appendObservation(b, o)
	}
	return e.Track.append(b)
}

func (est *Estimator) decodeEntity(key string, b []byte) (e entity, err error) {
	r := &reader{b: b}
	e = entity{clock: r.time(), released: r.time()}
	for range r.count(1) {
		e.waiting = append(e.waiting, r.observation())
	}
	e.Track, err = est.decode(key, r)
	return e, err
}

// admit takes an observation up for release by event time: it says why not, or
// lets it wait.
func (e *entity) admit(o Observation) error {
	if o.Time.Before(e.released) {
		return fmt.Errorf("late: %s is before %s, which this key has already released", stamp(o.Time), stamp(e.released))
	}
	if o.Time.After(e.clock) {
		e.clock = o.Time
	}
	at, _ := slices.BinarySearchFunc(e.waiting, o.Time, func(w Observation, t time.Time) int {
		if w.Time.After(t) {
			return 1
		}
		return -1
	})
	e.waiting = slices.Insert(e.waiting, at, o)
	return nil
}

// due takes off the observations whose turn it is, given that nothing before
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
