package keyed

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

var sunday = time.Date(2026, 3, 22, 0, 0, 0, 0, time.UTC)

// resultText returns the content of an estimate as text, without the number of the observation.
func resultText(e *Estimate) string {
	copied := *e
	copied.N = 0
	b, err := json.Marshal(copied)
	return fmt.Sprint(string(b), err, e.Silence, e.Detection.Age, e.Levels, e.Bank, e.Posterior)
}

// Observations in quiet times leave no trace: later estimates and alarms are, to the last bit, as without them.
func TestQuietRestoresState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		cfg := Recommended(rapid.SampledFrom([]string{"normal", "poisson", "bernoulli"}).Draw(t, "family"))
		cfg.Silence = &SilenceConfig{}
		cfg.Filter.WarmUp = min(cfg.Filter.WarmUp, 10)
		start := sunday.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "from")) * time.Minute)
		cfg.Quiet = []QuietTime{
			{Match: "a*", From: start, To: start.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)},
			{Match: "*", Weekly: &Weekly{Day: time.Sunday, Clock: 2 * time.Hour, Lasts: 40 * time.Minute, Zone: "Europe/Berlin"}},
			{Match: "b", From: sunday, To: sunday.Add(aWeek)},
		}
		est, err := NewEstimator(cfg)
		if err != nil {
			t.Fatal(err)
		}
		times := newQuietIndex(cfg.Quiet).timesFor("a1")
		withQuiet, withoutQuiet := expect.Get(est.Open("a1", nil))(t), expect.Get(est.Open("a1", nil))(t)
		for i := range 250 {
			x := float64(rng.IntN(2))
			quiet := !times.endAt(sunday.Add(time.Duration(i) * time.Minute)).IsZero()
			if quiet && cfg.Filter.Family != "bernoulli" {
				x = 1000
			}
			o := Value(sunday.Add(time.Duration(i)*time.Minute), fmt.Sprint(i), x)
			if rng.IntN(20) == 0 {
				o.X[0][0] = math.NaN()
			}
			estimates := func(k *KeyState) (list []Estimate) {
				for e, err := range k.Estimates(o) {
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, e)
				}
				return list
			}
			a := estimates(&withQuiet)
			if quiet {
				if len(a) != 1 || !a[0].Quiet || a[0].Alarm != nil || a[0].N != withQuiet.n {
					t.Fatalf("in a quiet time: %+v", a)
				}
				continue
			}
			b := estimates(&withoutQuiet)
			if len(a) != 1 || a[0].Quiet || resultText(&a[0]) != resultText(&b[0]) {
				t.Fatalf("at %v %s, without quiet times %s", o.Time, resultText(&a[0]), resultText(&b[0]))
			}
			if i%10 == 0 {
				withQuiet = expect.Get(est.Open("a1", expect.Get(withQuiet.AppendBinary(nil))(t)))(t)
			}
		}
		if withQuiet.n <= withoutQuiet.n {
			t.Fatal("no quiet time")
		}
	})
}

// Quiet times do not count towards a silence.
func TestQuietStopsSilence(t *testing.T) {
	minuteTime := func(minute float64) time.Time { return sunday.Add(time.Duration(minute * float64(time.Minute))) }
	quiet := newQuietIndex([]QuietTime{
		{Match: "*", From: minuteTime(10), To: minuteTime(20)}, {Match: "*", From: minuteTime(15), To: minuteTime(30)}, {Match: "*", From: minuteTime(40), To: minuteTime(41)},
	}).timesFor("k")
	for _, test := range []struct{ start, after, want float64 }{
		{0, 5, 5}, {0, 10, 10}, {0, 11, 31}, {0, 25, 46}, {12, 3, 33}, {30, 10, 40}, {30, 10.5, 41.5}, {50, 60, 110},
	} {
		got := quiet.deadline(minuteTime(test.start), func(start time.Time) time.Time { return start.Add(time.Duration(test.after * float64(time.Minute))) })
		if !got.Equal(minuteTime(test.want)) {
			t.Errorf("%g minutes since %g: %v, want %v", test.after, test.start, got, minuteTime(test.want))
		}
	}
	for _, after := range []time.Duration{0, 15 * time.Minute} { // a silence that is reported with the next value starts at the deadline
		cfg := Recommended("normal")
		cfg.Silence = &SilenceConfig{After: after}
		cfg.Quiet = []QuietTime{{Match: "*", From: minuteTime(1000), To: minuteTime(1060)}, {Match: "*", From: minuteTime(1090), To: minuteTime(1100)}}
		k := expect.Get(expect.Get(NewEstimator(cfg))(t).Open("k", nil))(t)
		var due time.Time
		for i := range 1202 {
			if i >= 990 && i < 1200 {
				continue
			}
			if i == 1200 {
				due = k.Deadline()
			}
			for e, err := range k.Estimates(Value(minuteTime(float64(i)), "", float64(i%7))) {
				if expect.OK(t, err); (e.Silence != nil) != (i == 1200) {
					t.Errorf("after %v: at minute %d silence %+v", after, i, e.Silence)
				} else if s := e.Silence; s != nil && (!s.Since.Equal(minuteTime(989)) || !s.Since.Add(s.Bound).Equal(due) || after > 0 && !due.Equal(minuteTime(1064))) {
					t.Errorf("after %v: silent since %v, with the limit %v, and the deadline was %v", after, s.Since, s.Bound, due)
				}
			}
		}
	}
	always := newQuietIndex([]QuietTime{{Match: "*", Weekly: &Weekly{Lasts: aWeek}}}).timesFor("k")
	if got := always.deadline(sunday, func(start time.Time) time.Time { return start.Add(time.Hour) }); !got.IsZero() {
		t.Errorf("silent at %v in an endless quiet time", got)
	}
}

// An interval is quiet if a part of it is. A counter restarts after it: a rise to the next interval is not counted.
func TestQuietIntervals(t *testing.T) {
	est := newEstimator(t, Config{
		Filter: hafvf.Config{Family: "normal"}, Aggregate: &AggregateConfig{Aggregation: Aggregation{Every: 5 * time.Minute, Value: Increase}},
		Quiet: []QuietTime{{Match: "*", From: sunday.Add(14 * time.Minute), To: sunday.Add(16 * time.Minute)}},
	})
	k := open(t, est, nil)
	var got []string
	for i := range 36 {
		x := float64(i)
		if i >= 20 {
			x += 1e6
		}
		for e, err := range k.Estimates(Value(sunday.Add(time.Duration(i)*time.Minute), "", x)) {
			expect.OK(t, err)
			got = append(got, fmt.Sprintf("%s %t %g", e.Time.Format("04"), e.Quiet, e.X[0][0]))
		}
	}
	expect.Same(t, []string{"00 false 4", "05 false 5", "10 true 5", "15 true 4", "20 false 4", "25 false 5", "30 false 5"}, got)
}

// Quiet times in any order, which may overlap and adjoin, contain the minutes that any of them contains.
func TestQuietMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const minutes = 3 * 7 * 24 * 60
		minuteTime := func(minute int) time.Time { return sunday.Add(time.Duration(minute) * time.Minute) }
		minute := rapid.IntRange(0, minutes-1)
		var list []QuietTime
		quiet := make([]bool, minutes)
		for range rapid.IntRange(0, 12).Draw(t, "spans") {
			first, n := minute.Draw(t, "from"), rapid.SampledFrom([]int{1, 60, 600}).Draw(t, "minutes")
			match := rapid.SampledFrom([]string{"*", "k", "other"}).Draw(t, "match")
			for i := 0; i < 3; i++ { // three that adjoin, latest first
				span := QuietTime{Match: match, From: minuteTime(first + (2-i)*n), To: minuteTime(first + (3-i)*n)}
				list = append(list, span)
				for j := first + (2-i)*n; j < min(first+(3-i)*n, minutes) && match != "other"; j++ {
					quiet[j] = true
				}
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "weeks") {
			w := Weekly{Day: time.Weekday(rapid.IntRange(0, 6).Draw(t, "day")), Clock: time.Duration(rapid.IntRange(0, 1439).Draw(t, "clock")) * time.Minute, Lasts: time.Duration(rapid.IntRange(1, 3000).Draw(t, "lasts")) * time.Minute}
			list = append(list, QuietTime{Match: "k*", Weekly: &w})
			first := int(w.Day)*1440 + int(w.Clock.Minutes())
			for start := first - 7*1440; start < minutes; start += 7 * 1440 {
				for j := max(start, 0); j < min(start+int(w.Lasts.Minutes()), minutes); j++ {
					quiet[j] = true
				}
			}
		}
		times := newQuietIndex(list).timesFor("k")
		m := minute.Draw(t, "at")
		end, wantEnd := times.endAt(minuteTime(m)), m
		for wantEnd < minutes && quiet[wantEnd] {
			wantEnd++
		}
		if wantEnd < minutes && (end.IsZero() != (wantEnd == m) || wantEnd > m && !end.Equal(minuteTime(wantEnd))) {
			t.Fatalf("minute %d is quiet until %v, want minute %d", m, end, wantEnd)
		}
		last := rapid.IntRange(m, minutes).Draw(t, "to")
		want := time.Duration(0)
		for _, q := range quiet[m:last] {
			if q {
				want += time.Minute
			}
		}
		if got := times.overlap(minuteTime(m), minuteTime(last)); got != want {
			t.Fatalf("quiet for %v from minute %d to %d, want %v", got, m, last, want)
		}
	})
}

// Adjoining quiet times are merged when they are indexed, so their number does not matter later. Without that, this
// test takes hours.
func TestQuietMergeMany(t *testing.T) {
	const n = 50_000
	var list []QuietTime
	for i := range n { // latest first
		start := sunday.Add(time.Duration(n-i) * time.Minute)
		list = append(list, QuietTime{Match: "*", From: start, To: start.Add(time.Minute)})
	}
	first, end := sunday.Add(time.Minute), sunday.Add((n+1)*time.Minute)
	quiet := newQuietIndex(list).timesFor("k")
	for i := range n {
		now := first.Add(time.Duration(i) * time.Minute)
		if got := quiet.endAt(now); !got.Equal(end) {
			t.Fatalf("at minute %d: until %v, want %v", i, got, end)
		}
		if got := quiet.deadline(now, func(start time.Time) time.Time { return start.Add(time.Hour) }); !got.Equal(end.Add(time.Hour)) {
			t.Fatalf("at minute %d: deadline %v", i, got)
		}
	}
}

// A weekly time starts at the local time of its zone, and lasts for an elapsed time.
func TestQuietWeekly(t *testing.T) {
	for _, test := range []struct{ day, clock, begins, ends string }{
		{"2026-03-22", "2h30m", "2026-03-22T01:30:00Z", "2026-03-22T03:30:00Z"},
		{"2026-03-29", "2h30m", "2026-03-29T01:30:00Z", "2026-03-29T03:30:00Z"}, // skipped: the offset before applies
		{"2026-03-29", "1h30m", "2026-03-29T00:30:00Z", "2026-03-29T02:30:00Z"},
		{"2026-03-29", "3h30m", "2026-03-29T01:30:00Z", "2026-03-29T03:30:00Z"},
		{"2026-10-25", "2h30m", "2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z"}, // occurs twice: the first
		{"2026-10-25", "3h30m", "2026-10-25T02:30:00Z", "2026-10-25T04:30:00Z"},
	} {
		day := expect.Get(time.Parse(time.DateOnly, test.day))(t)
		clock := expect.Get(time.ParseDuration(test.clock))(t)
		quiet := newQuietIndex([]QuietTime{{Match: "*", Weekly: &Weekly{Day: day.Weekday(), Clock: clock, Lasts: 2 * time.Hour, Zone: "Europe/Berlin"}}}).timesFor("k")
		begins := quiet.nextStart(day.Add(-12 * time.Hour))
		if ends := quiet.endAt(begins); begins.UTC().Format(time.RFC3339) != test.begins || ends.UTC().Format(time.RFC3339) != test.ends {
			t.Errorf("%s at %s: from %v to %v, want %s to %s", test.day, test.clock, begins.UTC(), ends.UTC(), test.begins, test.ends)
		}
		if !quiet.endAt(begins.Add(-time.Nanosecond)).IsZero() {
			t.Errorf("%s: quiet before the start", test.day)
		}
	}
}

// A quiet time of thousands of years lasts for the maximum of a Duration.
func TestQuietOverlapMaximum(t *testing.T) {
	start, end := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	always := newQuietIndex([]QuietTime{{Match: "*", Weekly: &Weekly{Day: time.Sunday, Lasts: 7 * 24 * time.Hour}}, {Match: "*", From: start, To: start.AddDate(250, 0, 0)}}).timesFor("k")
	expect.Same(t, time.Duration(math.MaxInt64), always.overlap(start, end))
}

// QuietOverlap estimates how many observations of a state are in an added quiet time, but not in the present ones. New
// quiet times apply to keys that are opened later.
func TestQuietOverlap(t *testing.T) {
	alarms := DefaultAlarms()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	est := expect.Get(NewEstimator(Config{
		Filter: hafvf.Config{Family: "normal", Detect: &hafvf.Detect{}}, Order: EventTime, Alarms: &alarms,
		Quiet: []QuietTime{{Match: "a*", From: start.Add(50 * time.Minute), To: start.Add(60 * time.Minute)}},
	}))(t)
	var state []byte
	for i := range 500 {
		e := expect.Get(est.Open("a", state))(t)
		o := Value(start.Add(time.Duration(i)*time.Minute), "", float64(i*7919%11))
		expect.Get(e.take(&o))(t)
		learnNow(&e, new(Estimate), &o)
		state, _ = e.AppendBinary(nil)
	}
	for _, test := range []struct {
		match      string
		first, end int
		want       int64
	}{
		{"a", 40, 70, 20}, {"a", 52, 58, 0}, {"a", -100, 0, 0}, {"a", 490, 9000, 10}, {"a", -9000, 9000, 490}, {"a", 600, 9000, 0}, {"b", 40, 70, 0},
	} {
		added := []QuietTime{{Match: test.match, From: start.Add(time.Duration(test.first) * time.Minute), To: start.Add(time.Duration(test.end) * time.Minute)}}
		if n := expect.Get(est.QuietOverlap("a", state, added))(t); n < test.want-1 || n > test.want+1 || test.want == 0 && n > 0 {
			t.Errorf("%+v: %d", test, n)
		}
	}
	est.SetQuiet([]QuietTime{{Match: "a", From: start, To: start.AddDate(1, 0, 0)}})
	e, out := expect.Get(est.Open("a", state))(t), Estimate{}
	o := Value(start.Add(500*time.Minute), "", 1)
	expect.Get(e.take(&o))(t)
	if learnNow(&e, &out, &o); !out.Quiet {
		t.Error("SetQuiet has no effect")
	}
}
