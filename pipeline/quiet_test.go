package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// Records of a quiet time are counted and raise no alarm. An aggregated interval is quiet if a part of it is, and a
// counter restarts after it.
func TestQuietTimes(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	begin, end := start.Add(1000*time.Minute), start.Add(1037*time.Minute)
	var complete []string
	counter := 0.
	for i := range 1500 {
		when := start.Add(time.Duration(i) * time.Minute)
		quiet := !when.Before(begin) && when.Before(end)
		for _, key := range []string{"db-1", "web-1"} {
			x := noise.NormFloat64()
			if quiet {
				x += 30
			}
			if counter += 10 + noise.Float64(); quiet && key == "db-1" {
				counter += 1e6
			}
			line := fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":%g,\"total\":%g}\n", key, when.Format(time.RFC3339), x, counter)
			complete = append(complete, line)
		}
	}
	quiet := fmt.Sprintf("keys: [{match: 'none-*', alerts: false}]\nquiet: [{match: 'mail-*', weekly: Sun 01:00/1h}, {match: 'db-*', from: %s, to: %s}]", begin.Format(time.RFC3339), end.Format(time.RFC3339))
	type record struct {
		Key, Kind string
		Time      time.Time
		Quiet     bool
		X         float64
	}
	read := func(lines []string) (out []record) {
		for _, line := range lines {
			if line == "" {
				continue
			}
			var r record
			expect.OK(t, json.Unmarshal([]byte(line), &r))
			out = append(out, r)
		}
		return out
	}
	text := func(in []string, settings string) (string, string) {
		alerts := filepath.Join(t.TempDir(), "alerts.jsonl")
		return fmt.Sprintf("model: {family: normal, prior: auto}\ndetect: true\nsilence: {after: 10m}\n%s\nalerts: {jsonl: {path: %s}}\nsource: {jsonl: {path: %s}}\n",
			settings, alerts, write(t, "in.jsonl", in...)), alerts
	}
	config, alerts := text(complete, quiet)
	s, _, _ := runConfig(t, config)
	if s.Records != 3000 || s.Quiet != 37 || !strings.Contains(s.String(), "3000 records (0 missing, 37 quiet)") {
		t.Errorf("%d records, %d quiet: %s", s.Records, s.Quiet, s)
	}
	expect.Same(t, []string{"none-*", "mail-*"}, s.Unmatched)
	for _, a := range read(readLines(t, alerts)) {
		if a.Key == "db-1" && !a.Time.Before(begin) {
			t.Errorf("an alert of a quiet time: %+v", a)
		}
	}
	config, _ = text(complete, quiet+"\naggregate: {every: 5m, value: increase, per: 1m}")
	config = strings.Replace(config, "source: {jsonl: {", "source: {jsonl: {values: [total], ", 1)
	_, estimates, _ := runConfig(t, config)
	n := 0
	for _, r := range read(estimates) {
		if r.Key != "db-1" {
			continue
		}
		begins := r.Time
		if r.Quiet != (begins.Before(end) && begins.Add(5*time.Minute).After(begin)) {
			t.Errorf("interval at %v: quiet %v", begins, r.Quiet)
		}
		if r.Quiet {
			n++
		} else if r.X > 100 {
			t.Errorf("interval at %v: an increase of %g", begins, r.X)
		}
	}
	if n < 8 {
		t.Errorf("%d quiet intervals", n)
	}
}
