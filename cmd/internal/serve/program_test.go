package serve

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/testdata"
)

func TestMain(m *testing.M) {
	beam.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// A row is a row of a file with the columns key, time and x.
type row struct {
	key, id string
	time    int64
	x       float64
}

func rowsOf(t *testing.T, path string) (rows []row) {
	b := expect.Get(os.ReadFile(path))(t)
	for i, r := range expect.Get(csv.NewReader(bytes.NewReader(b)).ReadAll())(t)[1:] {
		t0 := expect.Get(time.Parse(time.RFC3339, r[1]))(t)
		x := expect.Get(strconv.ParseFloat(r[2], 64))(t)
		rows = append(rows, row{r[0], fmt.Sprintf("%s:%d", filepath.Base(path), i+2), t0.UnixNano(), x})
	}
	return rows
}

// run returns the lines that the program writes.
func run(t *testing.T, text, source string) (records, alerts []string) {
	dir := t.TempDir()
	out, alarms := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "alerts.jsonl")
	set := []string{"source={csv: {path: " + source + "}}", "sink={jsonl: {path: " + out + "}}"}
	if strings.Contains(text, "detect") {
		set = append(set, "alerts={jsonl: {path: "+alarms+"}}")
	}
	c := expect.Get(config.Parse("config.yaml", []byte(text), set))(t)
	g := expect.Get(pipeline.Compose(c))(t)
	expect.Get(pipeline.Run{Graph: g}.Execute(context.Background(), nil))(t)
	b, _ := os.ReadFile(alarms)
	return lines(string(expect.Get(os.ReadFile(out))(t))), lines(string(b))
}

func lines(text string) []string { return slices.Sorted(strings.Lines(text)) }

// If a caller sends the rows in batches of any size and sends the states back, the records and alerts equal those
// of the program, byte for byte.
func TestOutputEqualsProgram(t *testing.T) {
	const tweets = "model: {family: poisson, prior: auto}\n"
	for i, c := range []struct {
		file string
		csv  []byte
		text string
	}{
		{"cloud.csv", testdata.CloudCSV, string(testdata.CloudYAML)},
		{"tweets.csv", testdata.TweetsCSV, "model: {family: poisson, prior: {shape: 1, rate: 0.02}}"},
		{"cloud.csv", testdata.CloudCSV, "{model: {family: normal, prior: auto}, detect: {direction: up}, silence: true, records: full, interval: 0.9, lateness: 30m, keys: [{match: '*_5*', alerts: false}]}"},
		{"tweets.csv", testdata.TweetsCSV, tweets + "detect: true\nsilence: true\naggregate: {every: 1h, value: sum}"},
		{"tweets.csv", testdata.TweetsCSV, tweets + "detect: true\nexpire: 24h\nquiet: [{match: A*, weekly: Sun 02:00/9h}]"},
	} {
		if testing.Short() && i > 0 {
			break
		}
		path := filepath.Join(t.TempDir(), c.file)
		expect.OK(t, os.WriteFile(path, c.csv, 0o600))
		records, alerts := run(t, c.text, path)
		gotRecords, gotAlerts := served(t, c.text, rowsOf(t, path), rand.New(rand.NewPCG(uint64(i), 1)))
		if !slices.Equal(gotRecords, records) || !slices.Equal(gotAlerts, alerts) {
			t.Errorf("%s\n%d records, want %d; %d alerts, want %d", c.text, len(gotRecords), len(records), len(gotAlerts), len(alerts))
			reportFirstDifference(t, records, gotRecords)
			reportFirstDifference(t, alerts, gotAlerts)
		}
		if len(records) == 0 || strings.Contains(c.text, "detect") && len(alerts) == 0 {
			t.Errorf("%s: %d records and %d alerts", c.text, len(records), len(alerts))
		}
	}
}

func reportFirstDifference(t *testing.T, want, got []string) {
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Errorf("line %d of %d, %d\nwant %sgot  %s", i, len(want), len(got), strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""), strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""))
			return
		}
	}
}

// served returns the lines for the rows in batches. Sometimes a new server continues, as after a crash.
func served(t *testing.T, text string, rows []row, rng *rand.Rand) (records, alerts []string) {
	c := newClient(t)
	d := c.model(Settings{Text: text})
	states := map[string][]byte{}
	latest := int64(none)
	var keys []string
	for len(rows) > 0 {
		n := min(len(rows), 1+rng.IntN(1+rng.IntN(4000)))
		r := request{flags: withRecords | withAlerts | withIDs | withStates, length: 1, horizon: none, now: none}
		index := map[string]int{}
		for _, o := range rows[:n] {
			i, found := index[o.key]
			if !found {
				i = len(r.keys)
				index[o.key] = i
				r.keys = append(r.keys, keyRequest{key: o.key, state: states[o.key]})
				if _, known := states[o.key]; !known {
					keys = append(keys, o.key)
				}
			}
			k := &r.keys[i]
			k.times, k.values, k.ids = append(k.times, o.time), append(k.values, o.x), append(k.ids, o.id)
			latest = max(latest, o.time)
		}
		if rng.IntN(4) == 0 {
			c = newClient(t)
			d = c.model(Settings{Text: text})
		}
		a := c.batch(d, r)
		for i, k := range r.keys {
			states[k.key] = a.states[i]
		}
		records, alerts = append(records, lines(a.records)...), append(alerts, lines(a.alerts)...)
		rows = rows[n:]
	}
	r := request{flags: withRecords | withAlerts | withStates, length: 1, horizon: end, now: latest}
	for _, key := range keys {
		r.keys = append(r.keys, keyRequest{key: key, state: states[key]})
	}
	a := c.batch(d, r)
	records, alerts = append(records, lines(a.records)...), append(alerts, lines(a.alerts)...)
	slices.Sort(records)
	slices.Sort(alerts)
	return records, alerts
}
