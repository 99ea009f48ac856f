package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// gapRecords returns n records at equal steps from 2024 on, a gap of some years, and 40 more records. Every key has
// one extreme value before the gap and one after it.
func gapRecords(keys int, step time.Duration, n, years int) string {
	rng := rand.New(rand.NewPCG(84, 1))
	var b bytes.Buffer
	first := time.Date(2024, 1, 1, 3, 0, 0, 0, time.UTC)
	for i := range n + 40 {
		t := first.Add(time.Duration(i) * step)
		if i >= n {
			t = t.AddDate(years, 0, 0)
		}
		for k := range keys {
			x := 5 + rng.NormFloat64()
			if i == n-20 || i == n+20 || t.Hour() == 4 && t.Minute() < 10 && step < 15*time.Minute {
				x += 30
			}
			fmt.Fprintf(&b, "{\"key\":\"k%d\",\"time\":%q,\"x\":%.3f}\n", k, t.Format(time.RFC3339), x)
		}
	}
	return b.String()
}

// No loop over time is unbounded: a gap of 8,000 years takes as many steps as one of 20 years, in each statement of
// the program. Run times would not show this on a busy machine, so the program is built with statement counters.
func TestLongGaps(t *testing.T) {
	if !*e2e.Long {
		t.Skip("-long builds the program with counters of statements, half a minute of CPU time")
	}
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "hafvf")
	output, err := exec.Command("go", "build", "-cover", "-covermode=count", "-coverpkg=hafvf/hafvf/...,hafvf/internal/...,hafvf/transforms,hafvf/pipeline/...,hafvf/cmd/hafvf/...", "-o", binary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	const hour, day = time.Hour, 24 * time.Hour
	run := []string{"run c.yaml"}
	for _, c := range []struct {
		name     string
		settings string
		keys     int
		step     time.Duration
		n        int
		commands []string
	}{
		{"silence", "detect: true\nsilence: true\n", 2, hour, 500, run},
		{"visits", "detect: true\nsilence: true\n", 2, day, 100, run},
		{"quiet times", "detect: true\nsilence: true\nquiet: [{match: '*', weekly: 'Sun 02:00/2h', zone: Europe/Berlin}, {match: '*', weekly: 'Mon 02:00/168h'}, {match: '*', from: 9990-01-01, to: 9990-02-01}]\n", 2, hour, 500, run},
		{"season and plan", "detect: {zone: Europe/Berlin, holidays: [2024-01-06]}\nmodel: {family: normal, prior: auto, season: [24h, 168h], zone: Europe/Berlin}\n", 2, 15 * time.Minute, 3000, run},
		{"spikes", "detect: true\n", 2, 5 * time.Minute, 4000, run},
		{"aggregation", "detect: true\naggregate: {every: 1h, value: mean}\n", 1, hour, 300, run},
		{"aggregation and silence", "detect: true\nsilence: true\naggregate: {every: 1h, value: mean}\n", 1, 20 * time.Minute, 1000, run},
		{"sessions", "transform: smooth\nsession: {gap: 100h}\n", 2, hour, 300, []string{"run c.yaml", "sessions out.jsonl -o s.csv"}},
		{"aggregated sessions", "transform: smooth\naggregate: {every: 1h, value: mean}\n", 1, hour, 300, run},
		{"digests", "detect: true\nincidents: {single: 3}\nalerts: {jsonl: {path: alerts.jsonl}, digest: 24h}\n", 25, hour, 300, run},
		{"page and plot", "detect: true\nsilence: true\nrecords: full\nalerts: {jsonl: {path: alerts.jsonl}}\n", 2, hour, 300, []string{"run c.yaml", "report alerts.jsonl out.jsonl -o r.html", "plot out.jsonl -o p.svg"}},
		{"backtest", "detect: true\n", 2, hour, 300, []string{"backtest c.yaml -o b.html"}},
		{"init and check", "detect: true\n", 2, hour, 300, []string{"init in.jsonl", "check c.yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.settings + "source: {jsonl: {path: in.jsonl}}\nsink: {jsonl: {path: out.jsonl}}\n"
			if !strings.Contains(text, "model:") {
				text += "model: {family: normal, prior: auto}\n"
			}
			counts := func(years int) map[string]int {
				dir := e2e.Folder(t, map[string]string{"c.yaml": text, "in.jsonl": gapRecords(c.keys, c.step, c.n, years)})
				for _, command := range c.commands {
					cmd := exec.CommandContext(t.Context(), binary, strings.Fields(command)...)
					cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOCOVERDIR="+dir)
					if output, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != 1 {
						t.Fatalf("%s: %v\n%s", command, err, output)
					}
				}
				return statementCounts(t, dir)
			}
			few, many := counts(20), counts(7900)
			for _, block := range slices.Sorted(maps.Keys(many)) {
				if many[block] > 2*few[block]+5000 {
					t.Errorf("%s runs %d times with a gap of 7,900 years, %d times with 20 years", block, many[block], few[block])
				}
			}
		})
	}
}

// statementCounts returns the number of executions of each block of statements, by file and lines.
func statementCounts(t *testing.T, dir string) map[string]int {
	t.Helper()
	profile := filepath.Join(dir, "profile")
	output, err := exec.Command("go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	counts := map[string]int{}
	for lines := bufio.NewScanner(bytes.NewReader(expect.Get(os.ReadFile(profile))(t))); lines.Scan(); {
		if block, rest, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(block, "mode:") {
			_, count, _ := strings.Cut(rest, " ")
			counts[block] += expect.Get(strconv.Atoi(count))(t)
		}
	}
	if len(counts) < 10_000 {
		t.Fatalf("%d blocks of statements", len(counts))
	}
	return counts
}
