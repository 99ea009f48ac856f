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

// takeAll passes the observations to a KeyState. It returns the IDs of the learned and of the late ones. After each
// observation, the KeyState is encoded and decoded.
func takeAll(t *testing.T, cfg Config, observations []Observation) (learned, late []string, e KeyState) {
	t.Helper()
	est := newEstimator(t, cfg)
	e = open(t, est, nil)
	var m Memory
	var out Estimate
	learn := func(o *Observation) {
		est.EstimateIn(&m, &out, e.Track, o)
		learned = append(learned, out.ID)
	}
	for i := range observations {
		fatal(t, est.Checker("k")(&observations[i]))
		now, err := e.take(&observations[i])
		if lateErr := (*LateError)(nil); errors.As(err, &lateErr) {
			late = append(late, observations[i].ID)
			observed := observations[i].Time
			want := fmt.Sprintf("late: %s is before %s, which this key has already released", stamp(observed), stamp(lateErr.Released))
			if err.Error() != want || lateErr.Behind != e.clock.Sub(observed) {
				t.Errorf("%v, %v behind %v; want %s", err, lateErr.Behind, e.clock, want)
			}
		}
		if now {
			learn(&observations[i])
		}
		for _, o := range due(&e) {
			learn(&o)
		}
		// The decoded state continues like the KeyState itself.
		e = open(t, est, e.append(nil))
	}
	return learned, late, e
}

// learnNow learns an observation at once.
func learnNow(e *KeyState, out *Estimate, o *Observation) {
	e.est.EstimateIn(&Memory{}, out, e.Track, o)
}

// due returns all observations that are due.
func due(e *KeyState) (observations []Observation) {
	for o, ok := e.due(); ok; o, ok = e.due() {
		observations = append(observations, o)
	}
	return observations
}

func TestKeyStateOrdersObservations(t *testing.T) {
	observation := func(id string, second, seq int64) Observation {
		o := Value(time.Unix(second, 0).UTC(), id, float64(second))
		o.Seq, o.Log = seq, "log"
		return o
	}
	in := []Observation{
		observation("a", 100, 1), observation("c", 120, 2), observation("b", 110, 3), observation("b", 110, 3), // the last one is a repeat
		observation("d", 131, 4), observation("old", 105, 5), observation("e", 145, 6),
	}
	filter := hafvf.Config{Family: "normal"}
	for name, c := range map[string]struct {
		cfg           Config
		learned, late []string
		first, last   int64 // times of the waiting observations
	}{
		"arrival":  {Config{Filter: filter, Order: Arrival}, []string{"a", "c", "b", "d", "old", "e"}, nil, 0, 0},
		"no delay": {Config{Filter: filter}, []string{"a", "c", "d", "e"}, []string{"b", "old"}, 0, 0},
		"20 s":     {Config{Filter: filter, Lateness: 20 * time.Second}, []string{"a", "b", "c"}, []string{"old"}, 131, 145},
	} {
		learned, late, e := takeAll(t, c.cfg, slices.Clone(in))
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

// A state stores waiting observations without Raw, up to a maximum number per key.
func TestKeyStateLimitsWaiting(t *testing.T) {
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Lateness: 24 * time.Hour})
	e := open(t, est, nil)
	raw := strings.Repeat("a record as it came; ", 20)
	take := func(i int) error {
		o := Value(time.Unix(1_700_000_000+int64(i)/10, 0).UTC(), fmt.Sprint("sensors-3-", 5_000_000+i), float64(i))
		o.Log, o.Seq, o.Raw = "sensors-3", 5_000_000+int64(i), raw
		_, err := e.take(&o)
		return err
	}
	for i := range maxWaiting {
		if err := take(i); err != nil {
			t.Fatal(i, err)
		}
	}
	const maxBytes = 45 // per observation
	b, _ := e.AppendBinary(nil)
	if len(b) > maxBytes*maxWaiting {
		t.Errorf("%d bytes for each observation that waits", len(b)/maxWaiting)
	}
	restored, err := est.Open("k", b)
	if err != nil || len(restored.waiting) != maxWaiting || restored.waiting[7].ID != "sensors-3-5000007" || restored.waiting[7].Raw != "" {
		t.Errorf("%d observations wait after a restart, %v", len(restored.waiting), err)
	}
	var full *TooManyWaitingError
	if err := take(maxWaiting); !errors.As(err, &full) || err.Error() != "too many records wait: 100000 of this key are within 24h0m0s of its latest one: set a smaller lateness, or use finer keys" {
		t.Errorf("one more: %v", err)
	}
	late := Value(time.Unix(1_700_000_000+24*3600, 0).UTC(), "", 1) // ten are due
	_, err = e.take(&late)
	if due := due(&e); err != nil || len(due) != 10 {
		t.Errorf("%d are due, %v", len(due), err)
	}
	if err := take(maxWaiting); err != nil {
		t.Errorf("after some were learned: %v", err)
	}
}

// CheckOf rejects all that Check rejects, and observations without a time if the order needs it.
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

// The silence of a key is reported once, at its deadline, and only with Config.Silence.
func TestReportSilence(t *testing.T) {
	_, _, quiet := takeAll(t, Config{Filter: hafvf.Config{Family: "normal"}, Lateness: time.Minute}, []Observation{Value(time.Unix(1, 0), "", 1)})
	if s, silent := quiet.ReportSilence(time.Unix(1e9, 0)); silent || !quiet.Deadline().IsZero() {
		t.Errorf("%+v without Config.Silence", s)
	}
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Lateness: time.Minute, Silence: &SilenceConfig{After: time.Hour}})
	e := open(t, est, nil)
	if deadline := e.Deadline(); !deadline.IsZero() {
		t.Errorf("a key without observations is silent at %v", deadline)
	}
	observed := time.Unix(100, 0).UTC()
	var out Estimate
	o := Value(observed, "", 1)
	learnNow(&e, &out, &o)
	deadline := observed.Add(time.Hour + time.Minute)
	if got := e.Deadline(); !got.Equal(deadline) {
		t.Errorf("deadline %v, want %v", got, deadline)
	}
	if s, silent := e.ReportSilence(deadline.Add(-1)); silent {
		t.Errorf("reported before its deadline: %+v", s)
	}
	want := SilenceEvent{Silence{Since: observed, Bound: time.Hour, Zone: "UTC", Reported: true}, 1, 1, time.Time{}}
	if s, silent := e.ReportSilence(deadline); !silent || s != want {
		t.Errorf("%+v, %t", s, silent)
	}
	if s, silent := e.ReportSilence(deadline.Add(time.Hour)); silent {
		t.Errorf("reported again: %+v", s)
	}
}

// A wrong time ahead of the clock costs a key four records: the fifth late one in a row, in order, sets the key
// back. The state has their number. A device that sends buffered values in order does not set the key back, even
// with a fast clock; nor do observations out of order.
func TestRewind(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	series := func(start time.Time, n int) (times []time.Time) {
		for i := range n {
			times = append(times, start.Add(time.Duration(i)*time.Second))
		}
		return times
	}
	day := 24 * time.Hour
	for _, test := range []struct {
		name          string
		times         []time.Time
		late, rewound int
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
		late, rewound := 0, 0
		for _, eventTime := range test.times {
			o := Value(eventTime, "", 1)
			_, err := e.take(&o)
			if lateErr := (*LateError)(nil); errors.As(err, &lateErr) {
				if late++; lateErr.Ahead != strings.Contains(err.Error(), "ahead of the clock: the key resumes at the 5th such record in a row") {
					t.Errorf("%s: %v", test.name, err)
				}
			} else {
				var m Memory
				var out Estimate
				est.EstimateIn(&m, &out, e.Track, &o)
			}
			if wrong := e.rewoundFrom; !wrong.IsZero() {
				if rewound++; !wrong.After(now) {
					t.Errorf("%s: set back from %v", test.name, wrong)
				}
			}
			e = open(t, est, e.append(nil))
		}
		if late != test.late || rewound != test.rewound {
			t.Errorf("%s: %d late, set back %d times; want %d and %d", test.name, late, rewound, test.late, test.rewound)
		}
		if last := test.times[len(test.times)-1]; test.rewound > 0 && (!e.clock.Equal(last) || !e.heartbeat.last.Equal(last)) {
			t.Errorf("%s: the key is at %v, its rhythm at %v", test.name, e.clock, e.heartbeat.last)
		}
	}
}
