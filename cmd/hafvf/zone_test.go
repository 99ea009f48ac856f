package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// Output for people is in the zone of the config, in which the clocks go back on 26 October. Output for programs is
// in UTC.
func TestZone(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	in.WriteString("key,time,x\n")
	begin, rise := time.Date(2025, 7, 31, 22, 0, 0, 0, time.UTC), time.Date(2025, 10, 26, 23, 0, 0, 0, time.UTC)
	for i := range 100 * 24 {
		recordTime, x := begin.Add(time.Duration(i)*time.Hour), float64(i*7%11)
		if !recordTime.Before(rise) {
			x += 90
		}
		fmt.Fprintf(&in, "m,%s,%g\n", recordTime.Format(time.RFC3339), x)
	}
	const source = "source: {csv: {path: in.csv}}\n"
	const days = "model: {family: normal, prior: auto}\naggregate: {every: 24h, value: mean, zone: Europe/Berlin}\n" + source
	dir := e2e.Folder(t, map[string]string{
		"in.csv":      in.String(),
		"days.yaml":   days + "detect: true\nsink: none\nalerts: {jsonl: {path: alerts.jsonl}}\n",
		"hours.yaml":  "model: {family: normal, prior: auto}\ndetect: {zone: Europe/Berlin}\nsink: none\n" + source,
		"smooth.yaml": days + "transform: smooth\nsession: {gap: 24h}\nsink: {jsonl: {path: smoothed.jsonl}}\n",
	})
	const utc = " --set aggregate.zone=UTC"
	for _, c := range []struct {
		args, out string // an output file; empty means standard output and error
		texts     []string
	}{
		{"run smooth.yaml", "", []string{"  2025-10-27T00:00:00+01:00  evidence"}},
		{"run smooth.yaml", "smoothed.jsonl", []string{`"time":"2025-10-26T23:00:00Z"`}},
		{"run days.yaml" + utc, "", []string{"  2025-10-27T00:00:00Z  by "}}, // the report that it is worse than on the day before
		{"run days.yaml", "", []string{"  2025-10-27T00:00:00+01:00  by "}},
		{"run days.yaml", "alerts.jsonl", []string{`"time":"2025-10-26T23:00:00Z"`}},

		{"backtest days.yaml", "", []string{", from 2025-08-01T00:00:00+02:00 to ", "\n  2025-10-27  1 ", " 2025-10-27: ", "\n  2025-10-27T00:00:00+01:00  novelty"}},
		{"backtest days.yaml" + utc, "", []string{", from 2025-07-31T00:00:00Z to ", "\n  2025-10-20  1 ", "\n  2025-10-26T00:00:00Z  novelty"}},
		{"backtest days.yaml --json", "", []string{`"first": "2025-07-31T22:00:00Z"`, `"monday": "2025-10-26T23:00:00Z"`}},

		{"trials days.yaml -o t.csv", "t.csv", []string{"\nm,87,2025-10-26T00:00:00+02:00,", "\nm,88,2025-10-27T00:00:00+01:00,"}},
		{"trials days.yaml -o t.csv" + utc, "t.csv", []string{"\nm,89,2025-10-27T00:00:00Z,"}},
		{"trials hours.yaml -o t.csv", "t.csv", []string{"\nm,2067,2025-10-26T02:00:00+02:00,", "\nm,2068,2025-10-26T02:00:00+01:00,"}},
		{"trials days.yaml -o t.parquet", "t.parquet", []string{"m 2025-10-26T23:00:00Z\n"}},

		{"sessions smoothed.jsonl -o s.csv", "s.csv", []string{"\nm,2025-07-31T22:00:00Z,2,2025-10-26T23:00:00Z,"}},
		{"sessions smoothed.jsonl -o s.csv --zone Europe/Berlin", "s.csv", []string{"\nm,2025-08-01T00:00:00+02:00,2,2025-10-27T00:00:00+01:00,"}},

		{"report days.yaml -o p.html", "p.html", []string{"(Europe/Berlin)</title>", "All times are in Europe/Berlin.", ">Time (Europe/Berlin)<", `<time datetime="2025-10-26T23:00:00Z" title="2025-10-26T23:00:00Z">2025-10-27T00:00:00+01:00</time>`}},
		{"report days.yaml -o p.html --zone Asia/Tokyo", "p.html", []string{"All times are in Asia/Tokyo.", ">2025-10-27T08:00:00+09:00</time>"}},
		{"report alerts.jsonl -o p.html", "p.html", []string{"(UTC)</title>", "All times are UTC.", ">Time (UTC)<", `<time datetime="2025-10-26T23:00:00Z" title="2025-10-26T23:00:00Z">2025-10-26T23:00:00Z</time>`}},
		{"report alerts.jsonl -o p.html --zone Europe/Berlin", "p.html", []string{"All times are in Europe/Berlin.", ">2025-10-27T00:00:00+01:00</time>"}},
	} {
		if strings.HasSuffix(c.out, ".jsonl") { // the previous case has written it
			c.args = "version"
		}
		stdout, stderr := program.Well(t, dir, strings.Fields(c.args)...)
		text := stdout + stderr
		switch out := filepath.Join(dir, c.out); filepath.Ext(c.out) {
		case ".parquet":
			_, rows := parquetTable(t, out)
			text = ""
			for _, r := range rows {
				text += r["key"] + " " + r["time"] + "\n"
			}
		case "":
		default:
			text = string(expect.Get(os.ReadFile(out))(t))
		}
		for _, want := range c.texts {
			if !strings.Contains(text, want) {
				t.Errorf("hafvf %s: no %q in %.500s", c.args, want, text)
			}
		}
	}
	for _, args := range []string{"sessions smoothed.jsonl -o s.csv", "report alerts.jsonl -o p.html"} {
		code, _, stderr := program.Run(t, dir, "", append(strings.Fields(args), "--zone", "Mars")...)
		if code != 2 || !strings.Contains(stderr, `--zone: "Mars" is not a time zone: use an IANA name`) {
			t.Errorf("hafvf %s --zone Mars: exit %d: %s", args, code, stderr)
		}
	}
}
