package keyed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/domain"
)

// taken are the ids of the observations that an entity has learned when it has taken all of
// them, of a log by their places, and those that came too late.
func taken(t *testing.T, cfg Config, all []Observation) (learned, late []string, e KeyState) {
	t.Helper()
	est := newEstimator(t, cfg)
	e = open(t, est, nil)
	var m Memory
	var out Estimate
	learn := func(o *Observation) {
		est.EstimateIn(&m, &out, e.Track, o)
		learned = append(learned, out.ID)
	}
	for i := range all {
		fatal(t, est.Checker("k")(&all[i]))
		now, err := e.take(&all[i])
		if behind := (*LateError)(nil); errors.As(err, &behind) {
			late = append(late, all[i].ID)
			at := all[i].Time
			want := fmt.Sprintf("late: %s is before %s, which this key has already released", stamp(at), stamp(behind.Released))
			if err.Error() != want || behind.Behind != e.clock.Sub(at) {
				t.Errorf("%v, %v behind %v; want %s", err, behind.Behind, e.clock, want)
			}
		}
		if now {
			learn(&all[i])
		}
		for _, o := range due(&e) {
			learn(&o)
		}
		// A state goes on as the entity itself.
		e = open(t, est, e.append(nil))
	}
	return learned, late, e
}

// learnNow learns an observation at once.
func learnNow(e *KeyState, out *Estimate, o *Observation) {
	e.est.EstimateIn(&Memory{}, out, e.Track, o)
}

// due are all observations that are due.
func due(e *KeyState) (all []Observation) {
	for o, ok := e.due(); ok; o, ok = e.due() {
		all = append(all, o)
	}
	return all
}

func TestEntityTakesInOrder(t *testing.T) {
	at := func(id string, second, seq int64) Observation {
		o := Value(time.Unix(second, 0).UTC(), id, float64(second))
		o.Seq, o.Log = seq, "log"
		return o
	}
	in := []Observation{
		at("a", 100, 1), at("c", 120, 2), at("b", 110, 3), at("b", 110, 3), // the last one is read again
		at("d", 131, 4), at("old", 105, 5), at("e", 145, 6),
	}
	filter := hafvf.Config{Family: "normal"}
	for name, c := range map[string]struct {
		cfg           Config
		learned, late []string
		first, last   int64 // that wait
	}{
		"arrival":  {Config{Filter: filter, Order: Arrival}, []string{"a", "c", "b", "d", "old", "e"}, nil, 0, 0},
		"no delay": {Config{Filter: filter}, []string{"a", "c", "d", "e"}, []string{"b", "old"}, 0, 0},
		"20 s":     {Config{Filter: filter, Lateness: 20 * time.Second}, []string{"a", "b", "c"}, []string{"old"}, 131, 145},
	} {
		learned, late, e := taken(t, c.cfg, slices.Clone(in))
		if !slices.Equal(learned, c.learned) || !slices.Equal(late, c.late) {
			t.Errorf("%s: learned %v, late %v; want %v, %v", name, learned, late, c.learned, c.late)
		}
		first, last := e.Waiting()
		if c.first == 0 {
			if !first.IsZero() || !last.IsZero() {
				t.Errorf("%s: %v to %v wait", name, first, last)
			}
			continue
		}
		if first.Unix() != c.first || last.Unix() != c.last || len(e.WaitingOffsets()) != 2 {
			t.Errorf("%s: %v to %v wait, want %d to %d; %v", name, first, last, c.first, c.last, e.WaitingOffsets())
		}
		e.Release(time.Unix(140, 0))
		if due := due(&e); len(due) != 1 || due[0].ID != "d" {
			t.Errorf("%s: %v is due", name, due)
		}
	}
}

// What waits is kept without its text, up to a number for each key.
func TestManyWait(t *testing.T) {
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Lateness: 24 * time.Hour})
	e := open(t, est, nil)
	raw := strings.Repeat("a record as it came; ", 20)
	take := func(i int) error {
		o := Value(time.Unix(1_700_000_000+int64(i)/10, 0).UTC(), fmt.Sprint("sensors-3-", 5_000_000+i), float64(i))
		o.Log, o.Seq, o.Raw = "sensors-3", 5_000_000+int64(i), raw
		_, err := e.take(&o)
		return err
	}
	for i := range mostWaiting {
		if err := take(i); err != nil {
			t.Fatal(i, err)
		}
	}
	const each = 45 // bytes
	b, _ := e.AppendBinary(nil)
	if len(b) > each*mostWaiting {
		t.Errorf("%d bytes for each observation that waits", len(b)/mostWaiting)
	}
	again, err := est.Open("k", b)
	if err != nil || len(again.waiting) != mostWaiting || again.waiting[7].ID != "sensors-3-5000007" || again.waiting[7].Raw != "" {
		t.Errorf("%d wait after a restart, %v", len(again.waiting), err)
	}
	var full *TooManyWaitingError
	if err := take(mostWaiting); !errors.As(err, &full) || err.Error() != "too many wait: 100000 records of this key are within 24h0m0s of its latest one; set a smaller lateness, or more keys" {
		t.Errorf("one more: %v", err)
	}
	late := Value(time.Unix(1_700_000_000+24*3600, 0).UTC(), "", 1) // ten are due
	_, err = e.take(&late)
	if due := due(&e); err != nil || len(due) != 10 {
		t.Errorf("%d are due, %v", len(due), err)
	}
	if err := take(mostWaiting); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// Checker refuses what Check refuses, and what has no time where the order needs one.
func TestChecker(t *testing.T) {
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "bernoulli"}})
	dated := time.Unix(1, 0)
	for _, c := range []struct {
		key  string
		o    Observation
		want string
	}{
		{"k", Value(dated, "", 1), ""},
		{"", Value(dated, "", 1), "empty key"},
		{strings.Repeat("k", domain.MaxKey+1), Value(dated, "", 1), "the key has 65537 bytes; at most 65536 are allowed"},
		{"", Value(time.Time{}, "", 1), "no time; observations without one need order: arrival"},
		{"k", Value(time.Time{}, "", 1), "no time; observations without one need order: arrival"},
		{"k", Value(dated, "", 2), "x = 2 is neither 0 nor 1"},
	} {
		got := ""
		if err := est.Checker(c.key)(&c.o); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, %v: %q, want %q", c.key, c.o, got, c.want)
		}
	}
}

// A key that is silent is told once, at its deadline, and none where nobody asks.
func TestEntityTellsSilence(t *testing.T) {
	_, _, quiet := taken(t, Config{Filter: hafvf.Config{Family: "normal"}, Lateness: time.Minute}, []Observation{Value(time.Unix(1, 0), "", 1)})
	if s, silent := quiet.ReportSilence(time.Unix(1e9, 0)); silent || !quiet.Deadline().IsZero() {
		t.Errorf("%+v of a key that nobody asks for", s)
	}
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Lateness: time.Minute, Silence: &SilenceConfig{After: time.Hour}})
	e := open(t, est, nil)
	if at := e.Deadline(); !at.IsZero() {
		t.Errorf("a key that has not spoken is silent at %v", at)
	}
	spoke := time.Unix(100, 0).UTC()
	var out Estimate
	o := Value(spoke, "", 1)
	learnNow(&e, &out, &o)
	deadline := spoke.Add(time.Hour + time.Minute)
	if at := e.Deadline(); !at.Equal(deadline) {
		t.Errorf("deadline %v, want %v", at, deadline)
	}
	if s, silent := e.ReportSilence(deadline.Add(-1)); silent {
		t.Errorf("told before its deadline: %+v", s)
	}
	want := SilenceEvent{Silence{Since: spoke, Bound: time.Hour, Zone: "UTC", Reported: true}, 1, 1, time.Time{}}
	if s, silent := e.ReportSilence(deadline); !silent || s != want {
		t.Errorf("%+v, %t", s, silent)
	}
	if s, silent := e.ReportSilence(deadline.Add(time.Hour)); silent {
		t.Errorf("told again: %+v", s)
	}
}

// A wrong time ahead of the clock costs a key four records: the fifth that is late in a row, in
// order, turns it back. The state knows how many there were. A device that sends what it has
// buffered, also in order and also with a fast clock, turns nothing back; nor does disorder.
func TestTurnBack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	series := func(from time.Time, n int) (all []time.Time) {
		for i := range n {
			all = append(all, from.Add(time.Duration(i)*time.Second))
		}
		return all
	}
	day := 24 * time.Hour
	for _, test := range []struct {
		name         string
		times        []time.Time
		late, turned int
	}{
		{"a century ahead", slices.Concat(series(now.Add(-time.Hour), 10), series(now.Add(36500*day), 1), series(now.Add(-time.Minute), 30)), 4, 1},
		{"an old file", slices.Concat(series(now.Add(-4000*day), 10), series(now.Add(2000*day), 1), series(now.Add(-3999*day), 30)), 4, 1},
		{"a clock that was ahead for a while", slices.Concat(series(now.Add(30*time.Minute), 20), series(now.Add(-time.Minute), 30)), 4, 1},
		{"twice", slices.Concat(series(now.Add(2*day), 1), series(now, 10), series(now.Add(3*day), 1), series(now.Add(10*time.Second), 10)), 8, 2},
		{"a buffer", slices.Concat(series(now.Add(-time.Second), 1), series(now.Add(-day), 1000), series(now, 10)), 1000, 0},
		{"a buffer of a fast clock", slices.Concat(series(now.Add(10*time.Minute), 1), series(now.Add(-day), 1000), series(now.Add(11*time.Minute), 10)), 1000, 0},
		{"disorder of a fast clock", slices.Concat(series(now.Add(10*time.Minute), 1), series(now.Add(9*time.Minute), 10)), 10, 0},
		{"disorder of clocks that differ", slices.Concat(series(now.Add(40*time.Second), 1), series(now.Add(-10*time.Second), 10)), 10, 0},
		{"a buffer in between", slices.Concat(series(now.Add(-day), 10), series(now, 1), series(now.Add(-day/2), 1000)), 1000, 0},
		{"four", slices.Concat(series(now.Add(2*day), 1), series(now, 4), series(now.Add(2*day), 1), series(now, 4)), 8, 0},
		{"not in order", slices.Concat(series(now.Add(2*day), 1), series(now, 3), series(now.Add(-time.Minute), 3)), 6, 0},
	} {
		est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Silence: &SilenceConfig{}})
		est.now = func() time.Time { return now }
		e := open(t, est, nil)
		late, turned := 0, 0
		for _, at := range test.times {
			o := Value(at, "", 1)
			_, err := e.take(&o)
			if of := (*LateError)(nil); errors.As(err, &of) {
				if late++; of.Ahead != strings.Contains(err.Error(), "ahead of the clock: the key goes on from the 5th such record in a row") {
					t.Errorf("%s: %v", test.name, err)
				}
			} else {
				var m Memory
				var out Estimate
				est.EstimateIn(&m, &out, e.Track, &o)
			}
			if from := e.rewoundFrom; !from.IsZero() {
				if turned++; !from.After(now) {
					t.Errorf("%s: back from %v", test.name, from)
				}
			}
			e = open(t, est, e.append(nil))
		}
		if late != test.late || turned != test.turned {
			t.Errorf("%s: %d late, turned back %d times; want %d and %d", test.name, late, turned, test.late, test.turned)
		}
		if last := test.times[len(test.times)-1]; test.turned > 0 && (!e.clock.Equal(last) || !e.heartbeat.last.Equal(last)) {
			t.Errorf("%s: the key is at %v, its rhythm at %v", test.name, e.clock, e.heartbeat.last)
		}
	}
}
