package transforms

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"hafvf/hafvf"
)

// A Track is what an estimator keeps of one key.
type Track struct {
	stream *stream
	state  hafvf.State
	n      int64     // observations so far
	last   time.Time // of the last that was not missing, where time counts

	settled bool       // the prior is set: there is no warm-up, or it is over
	warmUp  []numbered // its observations so far
	gauge   []float64  // location and scale that it found, nil before the first

	// Of detection: the steps of the bank so far, and what is to be known of those
	// at which an excursion that is alive started.
	steps  int64
	starts []start
	alerts alerts
}

// numbered is an observation of a warm-up with its position.
type numbered struct {
	n int64
	Observation
}

// A start is a step of the bank that a detection may name as a regime's first.
type start struct {
	step int64
	n    int64
	time time.Time
}

// NewTrack returns what the estimator knows of a key before its first
// observation: nothing.
func (est *Estimator) NewTrack(key string) *Track {
	st := est.streams.of(key)
	return &Track{stream: st, state: st.bank.NewState(), settled: st.fitted == nil}
}

// warming reports whether the prior is still being set.
func (t *Track) warming() bool { return !t.settled }

// tune gives the bank the track's own prior.
func (st *stream) tune(t *Track) {
	if st.fitted != nil && t.gauge != nil && st.tuned != t {
		st.bank.Use(st.fitted.Fit(t.gauge))
		st.tuned = t
	}
}

// elapsed is how many units of time have passed since the last observation, 1
// where time does not count.
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

// complete are the vectors of a step that are not missing.
func complete(step [][]float64) (xs [][]float64) {
	for _, x := range step {
		if !slices.ContainsFunc(x, math.IsNaN) {
			xs = append(xs, x)
		}
	}
	return xs
}

// learn learns the n-th observation, and returns with the outcome where the
// regime starts that it names.
func (t *Track) learn(n int64, o Observation, elapsed float64) (out hafvf.Outcome, named start) {
	bank := t.stream.bank
	out = bank.UpdateAfter(t.state, elapsed, o.X...)
	t.steps++
	if !bank.Detects() {
		return out, named
	}
	t.starts = append(t.starts, start{t.steps, n, o.Time})
	if i := slices.IndexFunc(t.starts, func(s start) bool { return s.step == out.Detection.Start }); i >= 0 {
		named = t.starts[i]
	}
	var buf [16]int64
	alive := bank.ExcursionStarts(buf[:0], t.state)
	t.starts = slices.DeleteFunc(t.starts, func(s start) bool { return !slices.Contains(alive, s.step) })
	return out, named
}

// refit takes an observation into the warm-up, and sets the prior where their
// number is a power of two or the last. It reports whether it did: then the
// observations have to be learned again.
func (t *Track) refit(o Observation) bool {
	st := t.stream
	o.ID, o.Raw = "", ""
	absent := len(complete(o.X)) == 0
	// A key that shows nothing but gaps must not fill its state with them.
	if !absent || len(t.warmUp) < 20*st.cfg.WarmUp {
		t.warmUp = append(t.warmUp, numbered{t.n, o})
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
	if seen < st.cfg.WarmUp && seen&(seen-1) != 0 {
		return false
	}
	t.gauge = st.fitted.Gauge(xs)
	t.settled = seen == st.cfg.WarmUp
	return true
}

// replay learns the warm-up again, under the prior that it has set, and returns
// the last outcome.
func (t *Track) replay(unit time.Duration) (out hafvf.Outcome) {
	st := t.stream
	st.tuned = nil
	st.tune(t)
	t.state, t.steps, t.starts, t.last = st.bank.NewState(), 0, nil, time.Time{}
	for _, w := range t.warmUp {
		out, _ = t.learn(w.n, w.Observation, t.elapsed(w.Observation, unit))
	}
	if t.settled {
		t.warmUp = nil
	}
	return out
}

// append encodes the track, its state with the fingerprint of its configuration.
func (t *Track) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(t.n))
	b = binary.AppendUvarint(b, uint64(t.steps))
	b = appendTime(b, t.last)
	b = appendFlags(b, t.settled, false)
	b = appendFloats(b, t.gauge)
	b = binary.AppendUvarint(b, uint64(len(t.warmUp)))
	for _, w := range t.warmUp {
		b = binary.AppendUvarint(b, uint64(w.n))
		b = appendObservation(b, w.Observation)
	}
	b = binary.AppendUvarint(b, uint64(len(t.starts)))
	for _, s := range t.starts {
		b = binary.AppendUvarint(b, uint64(s.step))
		b = binary.AppendUvarint(b, uint64(s.n))
		b = appendTime(b, s.time)
	}
	b = t.alerts.append(b)
	return t.state.Append(b, t.stream.fingerprint)
}

// decode reads what append wrote of the key's track, the rest of r.
func (est *Estimator) decode(key string, r *reader) (*Track, error) {
	st := est.streams.of(key)
	t := &Track{stream: st, n: int64(r.uvarint()), steps: int64(r.uvarint()), last: r.time()}
	t.settled, _ = r.flags()
	t.gauge = r.floats()
	for range r.count(1) {
		t.warmUp = append(t.warmUp, numbered{int64(r.uvarint()), r.observation()})
	}
	for range r.count(1) {
		t.starts = append(t.starts, start{int64(r.uvarint()), int64(r.uvarint()), r.time()})
	}
	t.alerts.read(r)
	if r.bad {
		return nil, errCut
	}
	var err error
	t.state, err = st.bank.DecodeState(r.b, st.fingerprint)
	return t, err
}
