package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hafvf/connectors/kafkaio"
	"hafvf/internal/jsontext"
	"hafvf/internal/testing/expect"
)

// A record with a time ahead of the clock is rejected with the reason, and affects no other record: in a topic by
// default, in a file if the config sets max_ahead, with both transforms.
func TestTimesAhead(t *testing.T) {
	stamp := func(minute int) string { return start.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339) }
	var lines []string
	for i := range 40 {
		if i == 10 {
			lines = append(lines, `{"key":"k","time":"2126-01-02T00:00:00Z","x":1}`)
		}
		lines = append(lines, fmt.Sprintf(`{"key":"k","time":%q,"x":1}`, stamp(i)))
	}
	path := write(t, "in.jsonl", strings.Join(lines, "\n")+"\n")
	for _, transform := range []string{"filter", "smooth"} {
		settings := "transform: " + transform + "\n"
		if transform == "filter" {
			settings += "lateness: 5m\n"
		}
		s, estimates, rejected := runConfig(t, "model: {family: normal}\nsource: {jsonl: {path: "+path+", max_ahead: 1h}}\n"+settings)
		if len(estimates) != 40 || s.Rejected != 1 || s.Late != 0 || !strings.Contains(rejected[0], " ahead of the clock: max_ahead of the source allows 1h") {
			t.Errorf("%s of a file: %d estimates, rejected %q, %d late", transform, len(estimates), rejected, s.Late)
		}
		b := fakeBus(t, 1)
		b.put(t, lines...)
		s = expect.Get(Run{Graph: compose(t, b.config("bounded: true", settings)), Log: quiet}.Execute(t.Context(), nil))(t)
		rejected = b.values(t, "rejected")
		if len(b.values(t, "out")) != 40 || s.Rejected != 1 || s.Late != 0 || !strings.Contains(rejected[0], `"id":"in-0-10"`) || !strings.Contains(rejected[0], " ahead of the clock: max_ahead") {
			t.Errorf("%s of a topic: %d estimates, rejected %q, %d late", transform, len(b.values(t, "out")), rejected, s.Late)
		}
	}
}

// Records that arrive later than their times, with pauses in which the partition is idle, are not late within the
// lateness, and active keys are not reported as silent. A restart resumes the lag. One time ahead of the clock does not
// affect other keys.
func TestKafkaLag(t *testing.T) {
	expect.Waits(t, "clocks")
	for _, delay := range []time.Duration{40 * time.Second, 10 * time.Minute} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			b := fakeBus(t, 2, "out", "rejected", "alerts")
			text := b.config("group: g, changelog: states", "lateness: 30s\nsilence: {after: 2m}\nalerts: {kafka: {topic: alerts}}\n")
			line := func(key string, lag time.Duration) string {
				return fmt.Sprintf(`{"key":%q,"time":%q,"x":1}`, key, time.Now().Add(-delay-lag).UTC().Format(time.RFC3339Nano))
			}
			var sum Summary
			for range 2 {
				r := launch(t, compose(t, text))
				time.Sleep(3 * idlePartition / 2) // a start without records
				// A wrong time that is not rejected is the latest of the partition.
				b.put(t, line("a", 0), line("b", 0), line("c", 0), line("ahead", -delay-30*time.Minute))
				time.Sleep(2 * idlePartition)
				b.put(t, line("a", 10*time.Second), line("b", 20*time.Second))
				b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
				s := r.halt(t)
				sum.Counts.Add(s.Counts)
			}
			if sum.Late != 0 || sum.Silences != 0 {
				t.Errorf("%d late, %d silences", sum.Late, sum.Silences)
			}
		})
	}
}

// idlePartition is how long a partition has no new record before it counts as idle.
const idlePartition = time.Second

// In a file without max_ahead, a time in the next century costs its key four records, also if it is in the state of a
// previous run. Other keys lose none.
func TestFileRewindsKey(t *testing.T) {
	lines := func(first int) (result []string) {
		for i := first; i < first+20; i++ {
			when := start.Add(time.Duration(i) * time.Minute)
			for _, key := range []string{"a", "b"} {
				result = append(result, fmt.Sprintf("%s,%s,1\n", key, when.Format(time.RFC3339)))
			}
		}
		return result
	}
	header, wrong := "key,time,x\n", "a,2126-01-02T00:00:00Z,1\n"
	run := func(state string, files ...string) (s Summary, rejected []string) {
		t.Helper()
		path := write(t, "in.csv", files...)
		s, _, rejected = runConfig(t, "model: {family: normal}\nsource: {csv: {path: "+path+"}}\nstate: "+state+"\n")
		return s, rejected
	}
	const want = "1 key had a time ahead of the clock, which was discarded"
	s, rejected := run(filepath.Join(t.TempDir(), "states"), header, strings.Join(lines(0), ""), wrong, strings.Join(lines(20), ""))
	if s.Late != 4 || s.Rewound != 1 || s.Records != 77 || !strings.Contains(rejected[0], "which this key has already released ahead of the clock: the key resumes at the 5th such record in a row") || !strings.Contains(s.String(), want) {
		t.Errorf("%d late, %d turned back, of %d: %q\n%s", s.Late, s.Rewound, s.Records, rejected, s)
	}
	state := filepath.Join(t.TempDir(), "states")
	if s, _ := run(state, header, strings.Join(lines(0), ""), wrong); s.Late != 0 || s.Rewound != 0 {
		t.Errorf("%d late, %d turned back", s.Late, s.Rewound)
	}
	if s, _ := run(state, header, strings.Join(lines(20), "")); s.Late != 4 || s.Rewound != 1 {
		t.Errorf("on the state of a run before: %d late, %d turned back", s.Late, s.Rewound)
	}
}

// A key that goes back is logged once, with both times, by a run and by a worker without a run.
func TestRewindLog(t *testing.T) {
	var lines strings.Builder
	lines.WriteString("key,time,x\n")
	for i, stamp := range []string{"2126-01-02T00:00:00Z", "2026-01-02T00:00:00Z"} {
		for range 1 + 9*i {
			fmt.Fprintf(&lines, "a,%s,1\n", stamp)
		}
	}
	const want = ` level=WARN msg="key went back from a time ahead of the clock: its next records were late in a row" key=a from=2126-01-02T00:00:00.000Z to=2026-01-02T00:00:00.000Z`
	checkLog := func(name, log string) {
		t.Helper()
		if strings.Count(log, "went back") != 1 || !strings.Contains(log, want) {
			t.Errorf("%s: no %q once in\n%s", name, want, log)
		}
	}
	var log bytes.Buffer
	text := "model: {family: normal}\nsource: {csv: {path: " + write(t, "in.csv", lines.String()) + "}}\nsink: none\n"
	expect.OK(t, execute(t, text, slog.New(slog.NewTextHandler(&log, nil))))
	checkLog("a run", log.String())

	log.Reset()
	ctx, release, err := ServeWorker(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), nil)
	expect.OK(t, err)
	defer release()
	ahead := time.Date(2126, 1, 2, 0, 0, 0, 0, time.UTC)
	newEncoder(ctx, jsontext.Of(encoding{})).Rewound("a", ahead, ahead.AddDate(-100, 0, 0))
	checkLog("a worker", log.String())
}

// If many keys go back at once, the log names a few per minute, and counts the others.
func TestManyTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var turns rewindLog
		for minute, want := range []string{"key=k9", "key=k0 from=1970-01-01T00:00:00.000Z to=1970-01-01T00:00:00.000Z others=990\n"} {
			for i := range 1000 {
				turns.log(slog.New(slog.NewTextHandler(&log, nil)), fmt.Sprint("k", i), time.Unix(0, 0).UTC(), time.Unix(0, 0).UTC())
			}
			if n := strings.Count(log.String(), "\n"); n != maxRewindsLogged*(minute+1) || !strings.Contains(log.String(), want) {
				t.Errorf("%d lines in minute %d, without %q:\n%s", n, minute, want, log.String())
			}
			time.Sleep(time.Minute)
		}
	})
}

// The summary has the lag of a topic's records, and names the key that prevents late ones.
func TestSummaryOfLag(t *testing.T) {
	var s Summary
	s.Late, s.LateIdle, s.Behind = 7, 5, 90*time.Second
	s.Lag = kafkaio.EventLag{Usual: 10*time.Minute + 300*time.Millisecond, Max: 12*time.Minute + time.Second}
	want := "99 % of the records arrived within 10m0s of their times, all of them within 12m1s\n" +
		"2 records were late by up to 1m30s: with lateness: 2m none is late\n" +
		"5 records were within the lateness of the key, but after the watermark: with source.kafka.disorder: 13m the watermark waits\n"
	if text := s.String(); !strings.HasSuffix(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

// Records that the watermark of a partition has overtaken are counted, and the lag is measured.
func TestKafkaLateBehindTheWatermark(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 1, "out", "rejected")
	line := func(when time.Time) string {
		return fmt.Sprintf(`{"key":"a","time":%q,"x":1}`, when.UTC().Format(time.RFC3339Nano))
	}
	metrics := NewMetrics()
	r := &running{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.sum, r.err = Run{Graph: compose(t, b.config("group: g", "lateness: 2s\n")), Log: quiet, Metrics: metrics}.Execute(context.Background(), r.stop)
	}()
	now := time.Now()
	b.put(t, line(now.Add(-time.Second)))
	b.await(t, "out", 1, r) // once the watermark has passed it, because no other record arrives
	b.put(t, line(now.Add(-2*time.Second)))
	b.await(t, "rejected", 1, r)
	gathered := expect.Get(gather(metrics))(t)
	s := r.halt(t)
	if s.Late != 1 || s.LateIdle != 1 || s.Lag.Usual < 2*time.Second || !strings.Contains(s.String(), "with source.kafka.disorder: ") {
		t.Errorf("%d late, %d of them behind the watermark, lag %+v:\n%s", s.Late, s.LateIdle, s.Lag, s)
	}
	if lag := gathered["hafvf_event_lag_seconds"]; lag < 1 || lag > s.Lag.Usual.Seconds() {
		t.Errorf("the metric of the lag is %v", lag)
	}
	if text := strings.Join(b.values(t, "rejected"), ""); !strings.Contains(text, "which this key has already released, as the watermark had passed it") {
		t.Error(text)
	}
}

// gather returns the metrics with at most one label, by name.
func gather(m *Metrics) (map[string]float64, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	values := map[string]float64{}
	for _, f := range families {
		values[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
	}
	return values, err
}

// With order: arrival, a time in the next century does not erase the season of its key.
func TestSeasonOutlivesAWrongTime(t *testing.T) {
	var lines []string
	rng := rand.New(rand.NewPCG(3, 4))
	value := func(hour int) float64 { return 10*math.Sin(2*math.Pi*float64(hour)/24) + .1*rng.NormFloat64() }
	const before, after = 10 * 24, 2 * 24
	for i := range before + after {
		when := start.Add(time.Duration(i) * time.Hour)
		lines = append(lines, fmt.Sprintf("k,%s,%g\n", when.Format(time.RFC3339), value(i)))
	}
	// distance returns the mean distance of predictions from the values after the wrong time.
	distance := func(lines []string) (sum float64) {
		path := write(t, "in.csv", append([]string{"key,time,x\n"}, lines...)...)
		_, estimates, _ := runConfig(t, "order: arrival\nmodel: {family: normal, prior: auto, season: [24h]}\nsource: {csv: {path: "+path+"}}\n")
		type record struct {
			X         float64
			Predicted struct{ Mean float64 }
		}
		for _, e := range parse[record](t, estimates[len(estimates)-after:]) {
			sum += math.Abs(e.X-e.Predicted.Mean) / after
		}
		return sum
	}
	clean, wrong := distance(lines), distance(slices.Insert(slices.Clone(lines), before, "k,2126-01-02T00:00:00Z,0\n"))
	// Without the season the distance would be above 1: the values change by 1.7 an hour.
	if clean > .3 || wrong > .5 {
		t.Errorf("predictions are off by %.2f, without the wrong time by %.2f", wrong, clean)
	}
}
