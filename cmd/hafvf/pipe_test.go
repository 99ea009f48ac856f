package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// pipeRecords returns hourly JSON Lines of keys in order of time, from 2024 on. All keys alarm at hour 300 and, on
// the other side, at hour 330. k0 also alarms alone at hour 270.
func pipeRecords(keys, hours int) (lines []string) {
	rng := rand.New(rand.NewPCG(84, 2))
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range hours {
		for k := range keys {
			x := 5 + rng.NormFloat64()
			switch {
			case i == 300 || i == 270 && k == 0:
				x += 40
			case i == 330:
				x -= 40
			}
			lines = append(lines, fmt.Sprintf("{\"key\":\"k%d\",\"time\":%d,\"x\":%.3f}\n", k, begin.Add(time.Duration(i)*time.Hour).Unix(), x))
		}
	}
	return lines
}

// sortedLines returns the sorted lines of a file.
func sortedLines(t *testing.T, dir, name string) []string {
	t.Helper()
	lines := slices.Collect(strings.Lines(string(expect.Get(os.ReadFile(filepath.Join(dir, name)))(t))))
	slices.Sort(lines)
	return lines
}

const pipeConfig = "model: {family: normal, prior: auto}\ndetect: {settling: 0s, budget: 48h}\nsource: {jsonl: {path: '-'%s}}\nsink: {jsonl: {path: out.jsonl}}\nalerts: {jsonl: {path: alerts.jsonl}%s}\ndead_letter: {jsonl: {path: dead.jsonl}}\n%s"

// pipeCase is a config that reads a pipe, and the order of its records.
type pipeCase struct {
	name, source, alerts, more string
	shuffle                    func(lines []string)
	disordered                 string // log entry about times that go back; empty if there are none
}

// inPairs swaps each record with the record one hour and one key later.
func inPairs(lines []string) {
	for i := 0; i+12 < len(lines); i += 24 {
		lines[i], lines[i+12] = lines[i+12], lines[i]
	}
}

// byKey sorts records by key, and keeps the order within each key.
func byKey(lines []string) {
	slices.SortStableFunc(lines, func(a, b string) int {
		key := func(line string) string { return line[:strings.Index(line, ",")] }
		return strings.Compare(key(a), key(b))
	})
}

// The alarms of a pipe are delivered when the watermark passes them, not at the end, and they equal the alarms of a
// file. If times go back by more than disorder, the alarms wait for the end, the log reports it once, and no further
// records are rejected.
func TestPipe(t *testing.T) {
	for i, c := range []pipeCase{
		{name: "incidents", more: "incidents: true\n"},
		{name: "digest and single", alerts: ", digest: 24h", more: "incidents: {single: 20}\n"},
		{name: "disorder", source: ", disorder: 2h", more: "incidents: true\nlateness: 2h\n", shuffle: inPairs},
		{name: "lateness", more: "incidents: true\nlateness: 1h\n"},
		{name: "intervals", more: "incidents: true\naggregate: {every: 1h, value: mean}\nsilence: true\n"},
		{name: "too little disorder", more: "incidents: true\nlateness: 2h\n", shuffle: inPairs, disordered: "by=1h disorder=0s setting=source.jsonl.disorder"},
		{name: "sorted by key", more: "incidents: true\nlateness: 1h\nsilence: true\n", shuffle: byKey, disordered: "by=499h disorder=0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if i > 0 {
				expect.Long(t, "other settings")
			}
			t.Parallel()
			lines := pipeRecords(12, 500)
			if c.shuffle != nil {
				c.shuffle(lines)
			}
			text := fmt.Sprintf(pipeConfig, c.source, c.alerts, c.more)
			asFile := strings.Replace(strings.Replace(text, "'-'", "stdin", 1), c.source, "", 1)
			want := e2e.Folder(t, map[string]string{"c.yaml": asFile, "stdin": strings.Join(lines, "")})
			_, stderr := program.Well(t, want, "run", "c.yaml")
			alarms := sortedLines(t, want, "alerts.jsonl")
			if len(alarms) < 20 || !strings.Contains(stderr, " 0 rejected") {
				t.Fatalf("%d alerts of a file\n%s", len(alarms), stderr)
			}

			dir := e2e.Folder(t, map[string]string{"c.yaml": text})
			d := program.Pipe(t, dir, "run", "c.yaml")
			d.Say(t, strings.Join(lines, ""))
			d.Eventually(t, "the records are written", func() bool {
				b, _ := os.ReadFile(filepath.Join(dir, "out.jsonl"))
				return strings.Count(string(b), "\n") >= len(lines)-12*4 // some records wait in the filter
			})
			if c.disordered == "" {
				d.Eventually(t, "the alarms are delivered", func() bool {
					b, _ := os.ReadFile(filepath.Join(dir, "alerts.jsonl"))
					return strings.Contains(string(b), "2024-01-13T12:00:00Z") && strings.Contains(string(b), "2024-01-14T18:00:00Z")
				})
			} else if b := expect.Get(os.ReadFile(filepath.Join(dir, "alerts.jsonl")))(t); strings.Contains(string(b), "incident") {
				t.Errorf("incidents before the end: %s", b)
			}
			d.CloseInput(t)
			d.Ends(t, 0)
			if n := strings.Count(d.Log(), "go back in time"); (n == 1) != (c.disordered != "") || !strings.Contains(d.Log(), c.disordered) {
				t.Errorf("%d warnings: %s", n, d.Log())
			}
			for _, name := range []string{"out.jsonl", "alerts.jsonl", "dead.jsonl"} {
				expect.Same(t, sortedLines(t, want, name), sortedLines(t, dir, name), name)
			}
		})
	}
}

// A pause of a pipe advances its watermark, as for a topic: an incident whose keys do not report again is delivered.
func TestPipePauses(t *testing.T) {
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{"c.yaml": fmt.Sprintf(pipeConfig, "", "", "incidents: true\n")})
	d := program.Pipe(t, dir, "run", "c.yaml")
	d.Say(t, strings.Join(pipeRecords(12, 301), "")) // the last hour alarms
	d.Eventually(t, "the incident is delivered", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "alerts.jsonl"))
		return strings.Contains(string(b), `"kind":"incident"`)
	})
	d.Stop(t)
}
