package transforms_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
	"hafvf/transforms"
)

func init() {
	register.Function3x0((&numberedFn{}).ProcessElement)
	dofn.Register(func(f *numberedFn) any { return f.ProcessElement })
}

// numberedFn makes an observation of the key with a number, and a tombstone for a negative number.
type numberedFn struct{}

func (*numberedFn) ProcessElement(ts beam.EventTime, key float64, emit func(beam.EventTime, string, keyed.Observation)) {
	o := keyed.Value(mtime.Time(ts).ToTime().UTC(), "", 1)
	if key < 0 {
		o = keyed.Observation{Shape: keyed.Forget}
	}
	emit(ts, fmt.Sprint(math.Abs(key)), o)
}

// A tally counts by the names of account.Counters.
type tally map[string]int64

func (n tally) count(name string, counted bool) {
	if counted {
		n[name]++
	}
}

// outputs counts the outputs of a node. An observation out of the domain is rejected, and raises an alarm or a
// muted one.
func (n tally) outputs(c *testCase) {
	outside := map[string]bool{}
	for _, r := range c.rejected {
		outside[r.ID] = strings.Contains(r.Reason, "below zero")
		n.count("rejected", !r.Reset)
		n.count("reset_keys", r.Reset)
		n.count("late", strings.HasPrefix(r.Reason, "late: "))
		n.count("late_idle", strings.HasSuffix(r.Reason, "as the watermark had passed it"))
		n.count("panics", r.Panic != nil)
		n.count("muted_alarms", outside[r.ID])
	}
	for _, estimates := range c.out {
		for _, e := range estimates {
			if e.Alarm != nil && !e.Alarm.IsWorse() {
				n.count(e.Alarm.Kind+"_alarms", true)
			}
			if outside[e.ID] {
				n["muted_alarms"]--
				continue
			}
			n.count("records", true)
			n.count("missing", e.Missing && !e.Quiet)
			n.count("quiet", e.Quiet)
			if d := e.Detection; d != nil {
				n.count("outliers", d.Kind == hafvf.Outlier)
				n.count("changes", d.Kind == hafvf.Change)
				n.count("muted_alarms", d.Muted)
				n.count("resting_alarms", d.Resting)
			}
		}
	}
	silences := map[string]bool{} // a silence may be reported again when it has ended
	for _, text := range c.texts {
		name, _, _ := strings.Cut(text, ",")
		silences[name] = true
	}
	n["silences"] += int64(len(silences))
	changes := map[string]int{} // by session
	for key, records := range c.smoothed {
		for _, s := range records {
			n.count("records", true)
			n.count("missing", s.Missing)
			n.count("changes", s.Change)
			session := fmt.Sprint(key, s.Session.Start)
			if changes[session] += 0; s.Change {
				changes[session]++
			}
		}
	}
	for _, found := range changes {
		n.count("sessions", true)
		n.count("unchanged", found == 0)
	}
	maps.DeleteFunc(n, func(_ string, n int64) bool { return n == 0 })
}

// eachMinute returns n observations of a key, one per minute.
func eachMinute(key string, n int, value func(i int) float64) (inputs []input) {
	for i := range n {
		inputs = append(inputs, input{key, keyed.Value(timeAt(60*i), fmt.Sprint(key, i), value(i))})
	}
	return inputs
}

// The counts of a node equal a count of its outputs, in the account of the run and in Beam's metrics. more has the
// counts that the outputs do not show.
func TestCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 68))
	unusual := slices.Concat(eachMinute("outside", 2000, func(i int) float64 {
		if i >= 100 && i%100 == 0 {
			return -5
		}
		return float64(i % 7)
	}), eachMinute("outliers", 4000, func(i int) float64 {
		switch {
		case i%500 == 7:
			return math.NaN()
		case i > 300 && rng.IntN(100) == 0:
			return 80
		}
		return float64(rng.IntN(7) + i/700%2*30)
	}), eachMinute("changes", 3000, func(i int) float64 { return float64(20 + rng.IntN(7) + i/1000%2*5) }),
		eachMinute("unknown", 1, func(int) float64 { return -5 }))
	broken, _ := brittleStream(100)
	now := time.Now()
	ahead := []input{{"k", keyed.Value(now.Add(48*time.Hour), "", 1)}}
	for i := range 10 {
		ahead = append(ahead, input{"k", keyed.Value(now.Add(time.Duration(i)*time.Second), "", 1)})
	}
	ahead = append(ahead, input{"k", keyed.Value(now.AddDate(-2, 0, 0), "", 1)})
	reset := []input{
		{"expires", keyed.Value(timeAt(0), "", 1)}, {"expires", keyed.Value(timeAt(9000), "", 1)},
		{"forgotten", keyed.Value(timeAt(0), "", 1)}, {"forgotten", keyed.Observation{Shape: keyed.Forget}}, {"forgotten", keyed.Value(timeAt(0), "", 1)},
	}
	live := []any{
		event{0, 1}, event{0, 2}, event{100, 1}, mark(200), event{210, 1}, mark(230),
		event{205, 1}, event{150, 1}, // late, the first within the lateness
		event{231, -1}, event{231, -7}, // tombstones, the second for an unknown key
		event{232, 3}, mark(5000), event{5001, 3},
	}
	settings := keyed.Config{Filter: twoLevels, Lateness: 10 * time.Second, Silence: &keyed.SilenceConfig{After: 30 * time.Second}, Expire: time.Hour}
	aggregated := settings
	aggregated.Aggregate = &keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: 10 * time.Second, Value: keyed.Mean}}
	counted := keyed.Config{Filter: twoLevels, Aggregate: &keyed.AggregateConfig{Aggregation: keyed.Aggregation{Every: time.Minute, Value: keyed.Increase}}}
	noise := func(int) float64 { return rng.NormFloat64() }
	walk := 0.
	smoothed := slices.Concat(eachMinute("no change", 40, noise), eachMinute("change", 40, func(i int) float64 { return noise(i) + float64(i/20*9) }),
		eachMinute("drift", 300, func(i int) float64 { walk += noise(i) / 10; return walk + noise(i) }), eachMinute("panic", 20, func(i int) float64 { return float64(i * 100) }),
		eachMinute("missing", 20, func(i int) float64 { return math.Log(float64(i - 1)) }), eachMinute("", 1, noise))
	quiet := keyed.Config{Filter: twoLevels, Quiet: []keyed.QuietTime{{Match: "q*", From: timeAt(600), To: timeAt(1200)}}}
	smoothing := segments.SmoothConfig
	smoothing.Filter.Family, smoothing.Gap = "brittle", time.Hour

	seen := tally{"skipped_lines": 1, "not_converged": 1} // connectors count skipped_lines, TestNotConvergedIsCounted counts not_converged
	tests := map[string]struct {
		cfg    keyed.Config
		smooth *keyed.SmoothConfig
		in     []input
		live   []any
		more   tally
	}{
		"detection": {cfg: keyed.Recommended("poisson"), in: unusual, more: tally{"keys": 3, "muted_alarms": -1}}, // without the unknown key
		"categories": {cfg: keyed.Recommended("bernoulli"), in: eachMinute("shares", 3000, func(i int) float64 {
			if rng.Float64() < .1+.8*float64(i/1000%2) {
				return 1
			}
			return 0
		}), more: tally{"keys": 1}},
		"panics":      {cfg: keyed.Config{Filter: hafvf.Config{Family: "brittle"}}, in: broken, more: tally{"keys": 2, "reset_keys": 1}}, // the third panic in a row resets the key
		"turned back": {cfg: keyed.Config{Filter: twoLevels, Order: keyed.EventTime}, in: ahead, more: tally{"keys": 1, "turned_back": 1, "late_far": 1}},
		"anew":        {cfg: keyed.Config{Filter: twoLevels, Order: keyed.EventTime, Expire: time.Hour}, in: reset, more: tally{"keys": 3, "expired_keys": 1, "forgotten_keys": 1}},
		"live":        {cfg: settings, live: live, more: tally{"keys": 4, "forgotten_keys": 1, "expired_keys": 3}}, // one of them twice
		"aggregated":  {cfg: aggregated, live: live, more: tally{"keys": 4, "forgotten_keys": 1, "expired_keys": 3}},
		"restarts":    {cfg: counted, in: eachMinute("meter", 40, func(i int) float64 { return float64(i % 20) }), more: tally{"keys": 1, "restarts": 1}},
		"quiet":       {cfg: quiet, in: eachMinute("quiet", 40, noise), more: tally{"keys": 1}},
		"smooth":      {smooth: &smoothing, in: smoothed, more: tally{"sessions": 1, "unchanged": 1, "drifting": 1}}, // the session of "panic" has no records
	}
	ran := 0
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			run := account.Open(account.StateKeeper{Restore: func(key string) ([]byte, error) {
				if key == "good" {
					return nil, errors.New("unreadable")
				}
				return nil, nil
			}})
			defer run.Close()
			output := &testCase{in: c.in, out: map[string][]keyed.Estimate{}, smoothed: map[string][]keyed.Smoothed{}}
			cases.Store(t.Name(), output)
			p, s := beam.NewPipelineWithRoot()
			collect := func(rejected beam.PCollection, cols ...beam.PCollection) {
				beam.ParDo(s, &collectOneFn{Case: t.Name()}, rejected)
				for _, col := range cols {
					beam.ParDo(s, &collectFn{Case: t.Name()}, col)
				}
			}
			col := beam.ParDo(s, &emitFn{t.Name()}, beam.Impulse(s))
			if c.live != nil {
				col = beam.ParDo(s, &numberedFn{}, streamOf(t, s, c.live...))
			}
			if c.smooth != nil {
				smoothed, rejected := transforms.SmoothPairs(s, transforms.SmoothConfig{SmoothConfig: *c.smooth}, col)
				collect(rejected, smoothed)
			} else {
				out := transforms.FilterIn(s, c.cfg, transforms.Host{InProcess: true, Live: c.live != nil}, col)
				collect(out.Rejected, out.Estimates)
				beam.ParDo(s, &collectOneFn{Case: t.Name()}, out.Alarms)
			}
			result := expect.Get(direct.Execute(run.In(t.Context()), p))(t)

			want, books, metrics := c.more, tally{}, tally{}
			want.outputs(output)
			counts, _ := run.Counts()
			for _, counter := range account.Counters {
				if n := *counter.Of(&counts); n != 0 {
					books[counter.Name] = n
				}
			}
			for _, m := range result.Metrics().AllMetrics().Counters() {
				metrics[m.Key.Name] += m.Committed
			}
			expect.Same(t, want, books, "the account")
			expect.Same(t, want, metrics, "the metrics")
			for name := range want {
				seen[name]++
			}
			ran++
		})
	}
	for _, counter := range account.Counters {
		if seen[counter.Name] == 0 && ran == len(tests) {
			t.Errorf("no test counts %s", counter.Name)
		}
	}
}
