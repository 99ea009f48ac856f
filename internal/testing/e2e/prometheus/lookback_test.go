//go:build unix

package prometheus_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"hafvf/connectors/promio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/series"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/promtest"
)

// TestLookback uses a real Prometheus that repeats the last samples of series while it was down, for 4 and for 20
// minutes, and of a series that has ended. The program raises no alarm for the equal values there. For a series
// that freezes it raises one, at most five minutes later than a loop over the unfiltered values, which also has
// alarms for the repeated values.
func TestLookback(t *testing.T) {
	t.Parallel()
	const web, frozen, ended, minutes = "web", "frozen", "ended", 2000
	end := time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Minute)
	begin := end.Add(-minutes * time.Minute)
	frozenAt := begin.Add(1700 * time.Minute)
	rng := rand.New(rand.NewPCG(11, 12))
	history := strings.Builder{}
	history.WriteString("# TYPE x gauge\n")
	for _, s := range []struct{ job, instance string }{{web, "a"}, {web, "b"}, {web, "c"}, {frozen, "d"}, {ended, "e"}} {
		value := 0.
		for minute := range minutes {
			timestamp := begin.Add(time.Duration(minute)*time.Minute + 7300*time.Millisecond)
			if x := 20 + rng.NormFloat64(); s.job != frozen || timestamp.Before(frozenAt) {
				value = x
			}
			if minute >= 1000 && minute < 1004 || minute >= 1400 && minute < 1420 || s.job == ended && minute >= 1800 {
				continue
			}
			fmt.Fprintf(&history, "x{job=%q,instance=%q} %v %d.3\n", s.job, s.instance, value, timestamp.Unix())
		}
	}
	history.WriteString("# EOF\n")
	server := promtest.PrometheusOf(t, "", history.String())
	ask := v1.NewAPI(expect.Get(api.NewClient(api.Config{Address: server.URL}))(t))

	for _, query := range []string{"x", "x*8", "sum by (job) (x)"} {
		dir := t.TempDir()
		config, alerts := filepath.Join(dir, "x.yaml"), filepath.Join(dir, "alerts.jsonl")
		expect.OK(t, os.WriteFile(config, fmt.Appendf(nil, `model: {family: normal, prior: auto}
detect: true
source: {prometheus: {url: %q, query: %q, start: %s, bounded: true}}
sink: none
alerts: {jsonl: {path: %s}}
`, server.URL, query, begin.Format(time.RFC3339), alerts), 0o600))
		if code, _, said := program.Run(t, dir, "", "run", config); code != 0 {
			t.Fatalf("%s: exit %d\n%s", query, code, said)
		}
		var reported []string
		for line := range strings.Lines(string(expect.Get(os.ReadFile(alerts))(t))) {
			var a struct {
				Key, Message string
				Time         time.Time
			}
			expect.OK(t, json.Unmarshal([]byte(line), &a))
			reported = append(reported, a.Time.Format(time.RFC3339)+" "+a.Message)
			if strings.Contains(a.Message, "which is rare for this key") && !strings.Contains(a.Key, frozen) {
				t.Errorf("%s: %s", query, reported[len(reported)-1])
			}
		}

		value, _, _, err := ask.QueryRange(t.Context(), query, v1.Range{Start: begin, End: end.Add(time.Hour), Step: time.Minute})
		expect.OK(t, err)
		// loop returns the alarms of a plain loop, the number of alarms for equal values of series that do not
		// freeze, and the time of the first alarm of the series that freezes.
		loop := func(lookback time.Duration) (reported []string, wrong int, first time.Time) {
			cfg := keyed.Recommended("normal")
			cfg.Lookback, cfg.Values = lookback, []string{"value"}
			cfg.Metric, _ = promio.Source{Query: query}.Measured()
			est := expect.Get(keyed.NewEstimator(cfg))(t)
			for _, stream := range value.(model.Matrix) {
				labels := map[string]string{}
				for name, value := range stream.Metric {
					labels[string(name)] = string(value)
				}
				track := est.NewTrack(series.Key(labels))
				for _, p := range stream.Values {
					timestamp := p.Timestamp.Time().UTC()
					e := est.Estimate(track, keyed.Value(timestamp, "", float64(p.Value)))
					if e.Alarm == nil {
						continue
					}
					reported = append(reported, timestamp.Format(time.RFC3339)+" "+e.Alarm.Message)
					freezes := string(stream.Metric["job"]) == frozen
					if strings.Contains(e.Alarm.Message, "which is rare for this key") && !freezes {
						wrong++
					}
					if freezes && first.IsZero() && timestamp.After(frozenAt) {
						first = timestamp
					}
				}
			}
			return reported, wrong, first
		}
		before, wrong, withoutLookback := loop(0)
		after, _, withLookback := loop(5 * time.Minute)
		if wrong == 0 {
			t.Errorf("%s: without a lookback no alarm is about values that the server repeats: %q", query, before)
		}
		// Without a lookback, repeated values may be so usual that the frozen ones raise no alarm.
		if withLookback.IsZero() || !withoutLookback.IsZero() && withLookback.Sub(withoutLookback) > 5*time.Minute {
			t.Errorf("%s: the series that freezes has an alarm at %v, without a lookback at %v", query, withLookback, withoutLookback)
		}
		slices.Sort(reported)
		slices.Sort(after)
		expect.Same(t, after, reported, query, ": alerts")
		t.Logf("%s: %d alarms instead of %d, of which %d are about repeated values; that of the frozen series comes at %v instead of %v", query, len(reported), len(before), wrong, withLookback.Format(time.TimeOnly), withoutLookback.Format(time.TimeOnly))
	}
}
