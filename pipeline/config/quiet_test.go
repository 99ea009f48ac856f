package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/settings"
)

func parseQuiet(quiet, extra string) (*Config, error) {
	return Parse("a.yaml", []byte("{model: {family: normal}, quiet: ["+quiet+"], source: {csv: {path: a.csv}}"+extra+"}"), nil)
}

func TestQuiet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance.jsonl")
	expect.OK(t, os.WriteFile(file, []byte("\ufeff{\"match\": \"db-*\", \"from\": \"2026-03-01\", \"to\": \"2026-03-02T01:00:00+01:00\"}\n\n"), 0o666))
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		quiet string
		want  keyed.QuietTime
	}{
		{"{match: 'db-*', from: 2026-03-01T00:00:00Z, to: 2026-03-02}", keyed.QuietTime{Match: "db-*", From: day, To: day.Add(24 * time.Hour)}},
		{"{match: a, from: '2026-03-01 01:00', to: '2026-03-01 02:30', zone: Europe/Berlin}", keyed.QuietTime{Match: "a", From: day, To: day.Add(90 * time.Minute)}},
		{"{file: " + file + "}", keyed.QuietTime{Match: "db-*", From: day, To: day.Add(24 * time.Hour)}},
	} {
		c := expect.Get(parseQuiet(test.quiet, ""))(t)
		if !slices.Equal(c.Filter().Quiet, []keyed.QuietTime{test.want}) {
			t.Errorf("%s: %+v", test.quiet, c.Quiet)
		}
	}
	c := expect.Get(parseQuiet("{match: a, weekly: Sat 22:05/26h, zone: Europe/Berlin}", ""))(t)
	if want := (keyed.Weekly{Day: time.Saturday, Clock: 22*time.Hour + 5*time.Minute, Lasts: 26 * time.Hour, Zone: "Europe/Berlin"}); *c.Quiet[0].Weekly != want {
		t.Errorf("weekly %+v", c.Quiet[0].Weekly)
	}
}

func TestQuietErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "maintenance.jsonl")
	for _, test := range []struct{ quiet, extra, want string }{
		{"{match: a}", "", "quiet.0.from: missing; it is required"},
		{"{match: a, from: 2026-03-01}", "", "quiet.0.to: missing; it is required"},
		{"{from: 2026-03-01, to: 2026-03-02}", "", "quiet.0.match: missing; it is required"},
		{"{match: a, from: 2026-03-02, to: 2026-03-02}", "", "quiet.0.to: is not after from"},
		{"{match: a, from: yesterday, to: 2026-03-02}", "", `quiet.0.from: "yesterday" is not a time such as`},
		{"{match: '[', from: 2026-03-01, to: 2026-03-02}", "", "quiet.0.match"},
		{"{match: a, weekly: Sunday 02:00/2h}", "", "quiet.0.weekly: is not a day, a time and a duration, such as Sun 02:00/2h"},
		{"{match: a, weekly: Sun 24:00/2h}", "", "quiet.0.weekly: is not a day"},
		{"{match: a, weekly: Sun 02:00/169h}", "", "quiet.0.weekly: the duration must be above 0 and at most 168h"},
		{"{match: a, weekly: Sun 02:00/0s}", "", "quiet.0.weekly: the duration must be above 0"},
		{"{match: a, weekly: Sun 02:00/2h, zone: Mars}", "", "quiet.0.zone"},
		{"{match: a, weekly: Sun 02:00/2h, from: 2026-03-01}", "", "quiet.0.from: is not allowed with weekly"},
		{"{match: a, file: a.jsonl}", "", "quiet.0.match: is not allowed with file"},
		{"{file: nowhere.jsonl}", "", "quiet.0.file: stat nowhere.jsonl"},
		{"{match: a, from: 2026-03-01, to: 2026-03-02}", ", transform: smooth", "quiet: belongs to transform: filter"},
		{"{file: " + file + "}", "", ":2: to is not after from"},
	} {
		expect.OK(t, os.WriteFile(file, []byte("{\"match\": \"a\", \"from\": \"2026-03-01\", \"to\": \"2026-03-02\"}\n{\"match\": \"a\", \"from\": \"2026-03-01\", \"to\": \"2026-03-01\"}\n"), 0o666))
		if _, err := parseQuiet(test.quiet, test.extra); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.quiet, err, test.want)
		}
	}
	for line, want := range map[string]string{
		`{"match": "a", "from": "2026-03-01"}`:                        ":1: to missing",
		`{"match": "a", "from": "2026-03-01", "until": "2026-03-02"}`: `unknown field "until"`,
		`{"match": "a", "from": "2026-03-01", "to": "2026-03-02"} x`:  "more than one JSON object",
		`{"match": "a"`: ":1: unexpected EOF",
	} {
		expect.OK(t, os.WriteFile(file, []byte(line), 0o666))
		if _, err := parseQuiet("{file: "+file+"}", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// A line of a file may match labels, and is stored as written.
func TestQuietLabels(t *testing.T) {
	const line = `{"match": {"job": "auth-*", "env": "te\"st"}, "from": "2026-03-01", "to": "2026-03-02"}`
	times, bad := settings.ParseQuiet([]byte(line))
	if len(bad) > 0 || len(times) != 1 || times[0].Match != domain.LabelPattern(map[string]string{"job": "auth-*", "env": `te"st`}) {
		t.Fatalf("%v, %v", times, bad)
	}
	reparsed, bad := settings.ParseQuiet(settings.AppendQuiet(nil, times))
	if len(bad) > 0 || !slices.Equal(reparsed, times) {
		t.Errorf("%v, %v", reparsed, bad)
	}
}
