package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// The page of a run's alerts equals the page of its config, and its counts match the alerts.
func TestReport(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	in.WriteString("key,time,x\n")
	for i := range 3000 {
		for _, key := range []string{"site/a", "site/b"} {
			x := 10 + float64(i*7%11)/10
			if key == "site/b" && i == 2500 {
				x = 90
			}
			fmt.Fprintf(&in, "%s,2026-01-%02dT%02d:%02d:00Z,%g\n", key, 1+i/288, i/12%24, i%12*5, x)
		}
	}
	dir := e2e.Folder(t, map[string]string{
		"in.csv": in.String(),
		"c.yaml": "model: {family: normal, prior: auto}\ndetect: true\nsource: {csv: {path: in.csv}}\nsink: {jsonl: {path: out.jsonl}}\nalerts: {jsonl: {path: alerts.jsonl}}\n",
	})
	program.Well(t, dir, "run", "c.yaml")
	text := expect.Get(os.ReadFile(filepath.Join(dir, "alerts.jsonl")))(t)
	alarms := 0
	for line := range strings.Lines(string(text)) {
		if !json.Valid([]byte(line)) {
			t.Fatal(line)
		}
		alarms++
	}
	if alarms == 0 {
		t.Fatal("the run raised no alarm")
	}
	for _, c := range []struct {
		args  string
		alarm int
		text  string
	}{
		{"report alerts.jsonl out.jsonl -o page.html", alarms, "Not known: alerts and estimates do not contain what budgets and rests suppressed."},
		{"report out.jsonl alerts.jsonl -o page.html", alarms, `<dt>keys known</dt><dd><data value="2">2</data>`},
		{"report -o page.html c.yaml", alarms, "muted, because the key had spent its budget"},
		{"report -o page.html c.yaml --set detect.min_change=1e9", 0, "There are no alerts in this period"},
		{"report alerts.jsonl -o page.html --since 2027-01-01", 0, "There are no alerts in this period"},
		{"report c.yaml -o page.html --since 1m", 0, "There are no alerts in this period"},
	} {
		program.Well(t, dir, strings.Fields(c.args)...)
		page := expect.Get(os.ReadFile(filepath.Join(dir, "page.html")))(t)
		for _, text := range []string{fmt.Sprintf(`<data value="%d">%d</data> alarm`, c.alarm, c.alarm), c.text} {
			if !strings.Contains(string(page), text) {
				t.Errorf("hafvf %s: the page lacks %q", c.args, text)
			}
		}
	}
}

// The page of a config has the incidents that its run writes to the alerts.
func TestReportOfIncidents(t *testing.T) {
	expect.Long(t, "ten days of a fleet")
	t.Parallel()
	noise := rand.New(rand.NewPCG(1, 2))
	var in strings.Builder
	in.WriteString("key,time,x\n")
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for n := range 10 * 144 {
		for k := range 40 {
			x := 50 + noise.NormFloat64()
			if k < 20 && k%3 > 0 && n >= 1000 && n < 1030 {
				x += 14
			}
			fmt.Fprintf(&in, "s%d/h%d:cpu,%s,%.3f\n", k/20, k, start.Add(time.Duration(n)*10*time.Minute).Format(time.RFC3339), x)
		}
	}
	dir := e2e.Folder(t, map[string]string{
		"in.csv": in.String(),
		"c.yaml": "model: {family: normal, prior: auto}\ndetect: true\nincidents: true\nsource: {csv: {path: in.csv}}\nsink: none\nalerts: {jsonl: {path: alerts.jsonl}}\n",
	})
	program.Well(t, dir, "run", "c.yaml")
	text := expect.Get(os.ReadFile(filepath.Join(dir, "alerts.jsonl")))(t)
	// An alarm that was reported before its incident was found does not name the incident, but the incident has it as
	// a member.
	type member struct{ Key, Time string }
	messages, members := map[string]string{}, map[member]bool{}
	alarms, outside := 0, map[member]int{}
	for line := range strings.Lines(string(text)) {
		var a struct {
			ID, Kind, State, Message, Incident, Key, Time string
			Members                                       []member
		}
		expect.OK(t, json.Unmarshal([]byte(line), &a))
		switch {
		case a.Kind == "incident" && a.State == "closed":
			messages[a.ID] = a.Message
			for _, m := range a.Members {
				members[m] = true
			}
		case a.Kind != "incident":
			alarms++
			if a.Incident == "" {
				outside[member{a.Key, a.Time}]++
			}
		}
	}
	single := 0
	for m, n := range outside {
		if !members[m] {
			single += n
		}
	}
	if len(messages) == 0 || single == alarms {
		t.Fatalf("%d incidents; %d of %d alarms are outside", len(messages), single, alarms)
	}
	for _, args := range []string{"report alerts.jsonl -o page.html", "report c.yaml -o page.html"} {
		program.Well(t, dir, strings.Fields(args)...)
		text := expect.Get(os.ReadFile(filepath.Join(dir, "page.html")))(t)
		page := html.UnescapeString(string(text))
		for _, want := range append(slices.Collect(maps.Values(messages)),
			fmt.Sprintf(`<h1><data value="%d">`, len(messages)), fmt.Sprintf(`<data value="%d">%d</data> alarms on`, alarms, alarms), fmt.Sprintf(`<data value="%d">%d</data> alarms are in no incident`, single, single)) {
			if !strings.Contains(page, want) {
				t.Errorf("hafvf %s: the page lacks %q", args, want)
			}
		}
	}
}

// The page of a config that smooths equals the page of its records, in the zone of the config. Summary, table and
// page describe the session that drifts.
func TestReportOfSessions(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	var in strings.Builder
	in.WriteString("key,time,x\n")
	start := time.Date(2026, 1, 4, 23, 0, 0, 0, time.UTC)
	for day := range 80 {
		fmt.Fprintf(&in, "M09,%[1]s,%.2[2]f\nM10,%[1]s,%.2[3]f\n", start.AddDate(0, 0, day).Format(time.RFC3339), 500+5*rng.NormFloat64()+float64(day/40*90), 512+float64(day)*128/79+5*rng.NormFloat64())
	}
	config := "transform: smooth\nmodel: {family: normal, prior: auto}\nsession: {gap: 240h}\naggregate: {every: 24h, value: mean, zone: Europe/Berlin}\nsource: {csv: {path: in.csv}}\n"
	dir := e2e.Folder(t, map[string]string{"in.csv": in.String(), "c.yaml": config + "sink: {csv: {path: out.csv}}\n"})
	_, summary := program.Well(t, dir, "run", "c.yaml")
	_, drifts, _ := strings.Cut(summary, "M10                      ")
	drifts, _, _ = strings.Cut(drifts, "\n")
	if !regexp.MustCompile(`^drifts from 51\d to 6[34]\d \(\+2\d(\.\d)? %\) since 5 Jan$`).MatchString(drifts) {
		t.Error(summary)
	}
	pages := map[string]string{}
	for _, args := range []string{"report c.yaml -o c.html", "report out.csv -o out.html --zone Europe/Berlin"} {
		program.Well(t, dir, strings.Fields(args)...)
		name := strings.Fields(args)[3]
		page := string(expect.Get(os.ReadFile(filepath.Join(dir, name)))(t))
		pages[name] = strings.NewReplacer("c.yaml", "", "out.csv", "").Replace(page)
		for _, want := range []string{drifts, "2026-02-14T00:00:00+01:00", "2 sessions of 2 keys, 1 change"} {
			if text := regexp.MustCompile(`</?data[^>]*>`).ReplaceAllString(html.UnescapeString(page), ""); !strings.Contains(text, want) {
				t.Errorf("hafvf %s: the page lacks %q", args, want)
			}
		}
	}
	expect.Same(t, pages["out.html"], pages["c.html"])
	program.Well(t, dir, "sessions", "out.csv", "-o", "table.csv")
	rows := expect.Get(csv.NewReader(strings.NewReader(string(expect.Get(os.ReadFile(filepath.Join(dir, "table.csv")))(t)))).ReadAll())(t)
	for _, row := range rows[1:] {
		if drifts := row[len(row)-3] != ""; drifts != (row[0] == "M10") {
			t.Errorf("%q", row)
		}
	}
	program.Well(t, dir, "report", "c.yaml", "-o", "c.html", "--since", "30d")
	if page := html.UnescapeString(string(expect.Get(os.ReadFile(filepath.Join(dir, "c.html")))(t))); !strings.Contains(page, "since 5 Jan") {
		t.Error("the page of part of a session lacks the start of its drift")
	}
}

func TestReportExitCodes(t *testing.T) {
	t.Parallel()
	const alert = `{"key":"a","time":"2026-01-01T00:00:00Z","kind":"novelty","id":"in.csv:2","score":9,"size":8}` + "\n"
	dir := e2e.Folder(t, map[string]string{
		"in.csv":       goodCSV,
		"alerts.jsonl": alert,
		"alerts.json":  alert,
		"empty.jsonl":  "",
		"text.jsonl":   "hello\n",
		"notes.txt":    "hello\n",
		"ok.yaml":      goodYAML,
		"detect.yaml":  goodYAML + "detect: true\n",
		"bad.yaml":     "model: {famly: normal}\n",
		"topics.yaml":  "model: {family: normal}\ndetect: true\nsource: {kafka: {brokers: [b], topics: [in], group: g}}\n",
	})
	for link, target := range map[string]string{"link.html": "alerts.jsonl", "source.html": "in.csv"} {
		expect.OK(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	exits(t, dir, alert, "report", []exit{
		{"", "alerts.jsonl -o a.html", 0, "0 incidents, 1 alarm of 1 key: a.html, 0.1 MB"},
		{"", "alerts.json -o a.html", 0, "1 alarm"},
		{"", "- -o a.html", 0, "1 alarm"},
		{"", "empty.jsonl -o a.html", 0, "0 alarms"},
		{"", "alerts.jsonl -o a.html --since 7d", 0, "1 alarm"},
		{"", "", 2, "requires at least 1 arg"},
		{"", "alerts.jsonl", 2, "report needs -o FILE.html"},
		{"", "alerts.jsonl -o alerts.jsonl", 2, "alerts.jsonl is an input"},
		{"", "alerts.jsonl -o ./link.html", 2, "link.html is an input"},
		{"", "detect.yaml -o source.html", 2, "source.html is an input"},
		{"", "detect.yaml -o detect.yaml", 2, "detect.yaml is an input"},
		{"", "alerts.jsonl -o .", 2, ". is a folder"},
		{"", "alerts.jsonl -o week.txt", 2, "a page must be an .html file"},
		{"", "alerts.jsonl -o a.html --since soon", 2, `--since: "soon" is neither a time span`},
		{"", "- -o a.html --since 7d", 2, "standard input can be read once"},
		{"", "alerts.jsonl detect.yaml -o a.html", 2, "give one config, or only files"},
		{"", "alerts.jsonl -o a.html --set top=1", 2, "--set is for a config"},
		{"", "ok.yaml -o a.html", 2, "there are no alarms without detect"},
		{"", "bad.yaml -o a.html", 2, `did you mean "family"?`},
		{"", "topics.yaml -o a.html", 2, "not over Kafka"},
		{"", "none.yaml -o a.html", 2, "none.yaml"},
		{"", "none.jsonl -o a.html", 1, "none.jsonl"},
		{"", "text.jsonl -o a.html", 1, "text.jsonl, line 1 is not a record of a run"},
		{"", "notes.txt -o a.html", 1, "notes.txt, line 1 is not a record of a run"},
		{"", "in.csv -o a.html", 1, "in.csv, line 2 is not a record of a run: it has neither"},
		{"", "alerts.jsonl -o none/a.html", 1, "none/a.html cannot be written"},
	})
	if text, err := os.ReadFile(filepath.Join(dir, "alerts.jsonl")); err != nil || string(text) != alert {
		t.Errorf("the alerts are %q, %v", text, err)
	}
}
