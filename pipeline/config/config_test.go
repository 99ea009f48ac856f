package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/connectors"
	"hafvf/connectors/webhook"
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// withLines returns a valid config with the given lines added. They begin at line 3.
func withLines(lines ...string) string {
	return "model: {family: normal}\nsource: {jsonl: {path: in.jsonl}}\n" + strings.Join(lines, "\n")
}

// modelled returns a config whose model begins at line 2 and has the given lines.
func modelled(lines ...string) string {
	return "source: {jsonl: {path: in.jsonl}}\nmodel:\n  " + strings.Join(lines, "\n  ")
}

func parse(t *testing.T, text string, set ...string) *Config {
	t.Helper()
	c := expect.Get(Parse("pump.yaml", []byte(text), set))(t)
	return c
}

func TestParseFillsInDefaults(t *testing.T) {
	got := parse(t, "model: {family: normal}\nsource: {csv: {path: in.csv}}\n")
	want := &Config{
		Settings: settings.Settings{
			Records:   settings.Brief,
			Walk:      true,
			Transform: "filter",
			Model: settings.Model{
				Scale:  hafvf.Linear,
				Family: "normal",
				Prior:  map[string]any{},
				Dim:    1,
			},
			Levels:         []hafvf.Beta{{Alpha: 0.9, Beta: 0.1}, {Alpha: 1, Beta: 1}},
			Top:            1,
			BankForgetting: 0.999,
			Zone:           "UTC",
			Order:          "event_time",
			Session:        settings.Session{Max: 10_000_000},
		},
		Source: Source{[]SourceKind{&Files{Encoding: "utf-8",
			Format:    "csv",
			Path:      "in.csv",
			Fields:    Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}, Layout: Long, Zone: "UTC", Decimal: '.'},
			Delimiter: ',',
		}}},
		Sink:   Sink{File: &File{Format: "jsonl", Path: "-"}},
		Runner: Runner{Name: "direct"},
	}
	expect.Same(t, want, got)
}

func TestParseDetect(t *testing.T) {
	const base = "model: {family: normal, prior: auto}\nsource: {jsonl: {path: in.jsonl}}\n"
	c := parse(t, base+"detect: true\n")
	if !reflect.DeepEqual(c.Bank, hafvf.DefaultBankFor("normal")) || c.Levels != nil || c.Model.WarmUp != 50 || !reflect.DeepEqual(c.Detect, &settings.Detect{Detect: hafvf.Detect{Commit: 0.95, MinLength: 5}, AlarmConfig: keyed.DefaultAlarms(), AlertConfig: keyed.AlertConfig{Direction: keyed.Both}}) {
		t.Errorf("%+v", c)
	}
	if c = parse(t, base+"detect: true\n", "detect.commit=0.9"); c.Detect == nil || c.Detect.Commit != .9 {
		t.Errorf("a key of what has all its defaults: %+v", c.Detect)
	}
	c = parse(t, base+"detect: {commit: 0.9, cooldown: 1h, min_change: 2}\nlevels: []\ntop: 0.98\nalerts: {csv: {path: a.csv}}\ntime_unit: 1m\n")
	if c.Bank != nil || c.Top != 0.98 || !reflect.DeepEqual(c.Detect, &settings.Detect{Detect: hafvf.Detect{Commit: 0.9, MinLength: 5}, AlarmConfig: keyed.DefaultAlarms(), AlertConfig: keyed.AlertConfig{Cooldown: time.Hour, MinChange: 2, Direction: keyed.Both}}) || c.Alerts[0].File.Path != "a.csv" || c.TimeUnit != time.Minute {
		t.Errorf("%+v", c)
	}
	c = parse(t, base+"detect: {budget: 500, rest: 0, season: [168h, 1h], zone: Europe/Berlin, ar: 0, min_abs: 1, min_rel: 0.1, direction: up}\n"+
		"bank: [{levels: [], top: .9}, {ar: 2, top: .9998}]\nalerts: {beliefs: [change], kinds: [change], kafka: {brokers: [b:1], topic: t}}\n")
	seasons := []usual.Season{{Period: 168 * time.Hour, Harmonics: 3}, {Period: time.Hour, Harmonics: 3}}
	if a := c.Detect.AlarmConfig; !reflect.DeepEqual(a, keyed.AlarmConfig{Budget: 500, BudgetTime: 168 * time.Hour, Rest: 0, Settling: usual.DefaultSettling, Seasons: seasons, Zone: "Europe/Berlin", Order: 0}) {
		t.Errorf("%+v", a)
	}
	for text, want := range map[string]keyed.AlarmConfig{"7h": {Rest: usual.AutoRest, RestTime: 7 * time.Hour}, "90m": {Rest: usual.AutoRest, RestTime: 90 * time.Minute}, "12": {Rest: 12}, "0s": {Rest: 0}} {
		if a := parse(t, base+"detect: {rest: "+text+"}\n").Detect.AlarmConfig; a.Rest != want.Rest || a.RestTime != want.RestTime {
			t.Errorf("rest %s: %d, %v", text, a.Rest, a.RestTime)
		}
	}
	if a := c.Detect.AlertConfig; !reflect.DeepEqual(a, keyed.AlertConfig{MinAbs: 1, MinRel: .1, Direction: keyed.Up, Beliefs: []hafvf.Kind{hafvf.Change}}) || !slices.Equal(c.Alerts[0].Kinds, []string{"change"}) {
		t.Errorf("%+v", a)
	}
	if !reflect.DeepEqual(c.Bank, []hafvf.Member{{Levels: []hafvf.Beta{}, Top: .9}, {Levels: []hafvf.Beta{}, Top: .9998, AR: 2}}) {
		t.Errorf("%+v", c.Bank)
	}
	for season, want := range map[string][]usual.Season{"[]": {}, "{24h: 2}": {{Period: 24 * time.Hour, Harmonics: 2}}, "[24h]": {{Period: 24 * time.Hour, Harmonics: 4}}} {
		if got := parse(t, base+"detect: {season: "+season+", budget: 24h}\n").Detect; !reflect.DeepEqual(got.Seasons, want) || got.BudgetTime != 24*time.Hour {
			t.Errorf("season %s: %+v", season, got)
		}
	}
	c = parse(t, base+"detect: false\nkeys: [{match: 'a*', model: {prior: {mu: 3}}}, {match: b, levels: [], top: 0.5}]\n")
	want := []settings.KeyRule{
		{Match: "a*", Prior: map[string]any{"mu": 3.0}, Levels: []hafvf.Beta{{Alpha: 0.9, Beta: 0.1}, {Alpha: 1, Beta: 1}}, Top: 1, Sets: []keyed.FilterPart{keyed.PriorPart}},
		{Match: "b", Prior: map[string]any{}, WarmUp: 50, Levels: []hafvf.Beta{}, Top: 0.5, Sets: []keyed.FilterPart{keyed.BankPart}},
	}
	if diff := cmp.Diff(want, c.Keys); diff != "" || c.Detect != nil {
		t.Errorf("(-want +got)\n%s", diff)
	}
	c = parse(t, "model: {family: ar, prior: {auto: true, order: 2}, warm_up: 9}\nsource: {jsonl: {path: a}}\n")
	if diff := cmp.Diff(map[string]any{"order": 2.0}, c.Model.Prior); diff != "" || c.Model.WarmUp != 9 {
		t.Errorf("%d, (-want +got)\n%s", c.Model.WarmUp, diff)
	}
	for _, bare := range []struct {
		model  string
		warmUp int
	}{{"family: ar", 50}, {"family: ar, warm_up: 9", 9}, {"family: ar, prior: {mean: 0}", 0}, {"family: normal", 0}} {
		c = parse(t, "model: {"+bare.model+"}\nsource: {jsonl: {path: a}}\n")
		if c.Model.WarmUp != bare.warmUp {
			t.Errorf("%s: warm-up of %d, want %d", bare.model, c.Model.WarmUp, bare.warmUp)
		}
	}
}

// The season, zone and holidays of a rule are its own or the model's. The zone of the alarms' season is the model's if
// it has none of its own. Config.Clock is the zone of the intervals, else of the alarms, the season or the source.
func TestClock(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"source: {csv: {path: a}}", "UTC"},
		{"source: {csv: {path: a, zone: Asia/Tokyo}}", "Asia/Tokyo"},
		{"source: {csv: {path: a, zone: Asia/Tokyo}}\ntransform: smooth\nsink: {jsonl: {path: b}}", "Asia/Tokyo"},
		{"source: {csv: {path: a, zone: Asia/Tokyo}}\ndetect: true", "Asia/Tokyo"},
		{"source: {csv: {path: a, zone: Asia/Tokyo}}\ndetect: {zone: Europe/Berlin}", "Europe/Berlin"},
		{"source: {csv: {path: a}}\ndetect: {zone: Europe/Berlin}\naggregate: {every: 24h, value: mean, zone: Asia/Tokyo}", "Asia/Tokyo"},
		{"source: {csv: {path: a, zone: Asia/Tokyo}}\ndetect: {zone: Europe/Berlin}\naggregate: {every: 24h, value: mean}", "UTC"},
	} {
		expect.Same(t, c.want, parse(t, "model: {family: normal}\n"+c.text+"\n").Clock().String(), c.text)
	}
	expect.Same(t, "Asia/Tokyo", parse(t, "model: {family: normal, season: [24h], zone: Asia/Tokyo}\nsource: {csv: {path: a, zone: Europe/Berlin}}\n").Clock().String())
}

func TestParseSeason(t *testing.T) {
	c := parse(t, `source: {jsonl: {path: a}}
model: {family: normal, season: [24h, 168h], zone: Europe/Berlin, holidays: [2026-12-25]}
detect: true
keys:
  - {match: a, levels: [], top: 1}
  - {match: b, model: {season: []}}
  - {match: c, model: {season: {12h: 2}, zone: UTC}}
  - {match: d, model: {holidays: []}}
`)
	holidays := []string{"2026-12-25"}
	want := []*usual.RhythmConfig{
		{Seasons: usual.DefaultSeasons(), Zone: "Europe/Berlin", Holidays: holidays},
		{Seasons: usual.DefaultSeasons(), Zone: "Europe/Berlin", Holidays: holidays},
		nil,
		{Seasons: []usual.Season{{Period: 12 * time.Hour, Harmonics: 2}}, Zone: "UTC", Holidays: holidays},
		{Seasons: usual.DefaultSeasons(), Zone: "Europe/Berlin", Holidays: []string{}},
	}
	got := []*usual.RhythmConfig{c.Model.Season}
	for _, k := range c.Keys {
		got = append(got, k.Season)
	}
	expect.Same(t, want, got)
	if c.Detect.Zone != "Europe/Berlin" {
		t.Errorf("zone of the alarms: %s", c.Detect.Zone)
	}
	c = parse(t, "source: {jsonl: {path: a}}\nmodel: {family: normal, season: [24h], zone: Europe/Berlin}\ndetect: {zone: UTC}\n")
	if c.Detect.Zone != "UTC" {
		t.Errorf("zone of the alarms: %s", c.Detect.Zone)
	}
	c = parse(t, "source: {jsonl: {path: a, zone: Asia/Tokyo}}\nmodel: {family: normal}\ndetect: true\n")
	if c.Detect.Zone != "Asia/Tokyo" {
		t.Errorf("zone of the alarms: %s", c.Detect.Zone)
	}
	c = parse(t, "source: {jsonl: {path: a}}\nmodel: {family: normal, zone: Asia/Tokyo}\nkeys: [{match: a, model: {season: [24h]}}]\n")
	if c.Model.Season != nil || c.Keys[0].Season.Zone != "Asia/Tokyo" {
		t.Errorf("%+v", c.Keys)
	}
}

func TestParseSmooth(t *testing.T) {
	const base = "transform: smooth\nmodel: {family: normal}\nsource: {jsonl: {path: in.jsonl}}\n"
	for _, top := range []string{"", "top: 1\n", "keys: [{match: a}, {match: b, top: 1}]\n"} {
		c := parse(t, base+top)
		if c.Levels != nil || c.Top != 0 {
			t.Errorf("levels %v, top %g", c.Levels, c.Top)
		}
		for _, k := range c.Keys {
			if k.Levels != nil || k.Top != 0 {
				t.Errorf("%s: levels %v, top %g", k.Match, k.Levels, k.Top)
			}
		}
	}
	c := parse(t, base+"keys: [{match: a, levels: [{alpha: 9, beta: 1}]}]\n")
	if k := c.Keys[0]; c.Levels != nil || len(k.Levels) != 1 || k.Top != 1 {
		t.Errorf("%+v", c)
	}
	if parse(t, base+"change: {walk: false}\n").Walk {
		t.Error("change.walk: false is not read")
	}
	c = parse(t, base+"levels: []\nsession: {gap: 5s, allowed_lateness: 1h, max: 3}\nchange: {odds: 2.5}\n")
	if c.Levels == nil || len(c.Levels) != 0 || c.Top != 1 || !reflect.DeepEqual(c.Session, settings.Session{Gap: 5 * time.Second, AllowedLateness: time.Hour, Max: 3}) || c.Odds != 2.5 {
		t.Errorf("%+v", c)
	}
}

func TestParseReadsEveryKey(t *testing.T) {
	want := &Config{
		Settings: settings.Settings{
			Records:   settings.Brief,
			Walk:      true,
			Transform: "filter",
			Model: settings.Model{
				Scale:  hafvf.Linear,
				Family: "mvnormal",
				Prior: map[string]any{
					"mu": []float64{1, 2}, "kappa": 0.5, "nu": 4.0, "scale": [][]float64{{2, 0.5}, {0.5, 1}},
				},
				Dim: 2,
			},
			Levels:         []hafvf.Beta{{Alpha: 9, Beta: 1}},
			Top:            0.75,
			BankForgetting: 0.999,
			Zone:           "UTC",
			Order:          "arrival",
			Lateness:       90 * time.Second,
			Session:        settings.Session{Max: 10_000_000},
		},
		Source: Source{[]SourceKind{&Files{Encoding: "utf-8",
			Format:    "csv",
			Path:      "data/*.csv",
			Fields:    Fields{Key: []string{"pump"}, Values: []string{"a", "b"}, Layout: Long, Zone: "UTC", Decimal: '.'},
			Delimiter: '\t',
		}}},
		Sink:       Sink{File: &File{Format: "csv", Path: "out.csv.gz"}},
		DeadLetter: &Sink{File: &File{Format: "jsonl", Path: "rejected.jsonl"}},
		Runner:     Runner{Name: "direct"},
	}
	got := parse(t, `
transform: filter
model:
  family: mvnormal
  prior: {mu: [1, 2], kappa: 0.5, nu: 4, scale: [[2, 0.5], [0.5, 1]]}
  dim: 2
levels:
  - {alpha: 9, beta: 1}
top: 0.75
order: arrival
lateness: 1m30s
source: {csv: {path: data/*.csv, key: pump, time: "", values: [a, b], delimiter: "\t"}}
sink: {csv: {path: out.csv.gz}}
dead_letter: {jsonl: {path: rejected.jsonl}}
runner: {name: prism}
`)
	expect.Same(t, want, got)
}

// A default applies only to an absent key.
func TestParseTakesEmptyAndZeroAsValues(t *testing.T) {
	c := parse(t, withLines("levels: []", "top: 0", "lateness: 0", "sink: {parquet: {}}"))
	if c.Levels == nil || len(c.Levels) != 0 || c.Top != 0 || c.Lateness != 0 {
		t.Errorf("levels %v, top %v, lateness %v", c.Levels, c.Top, c.Lateness)
	}
	expect.Same(t, Sink{File: &File{Format: "parquet", Path: "-"}}, c.Sink)
}

func TestParseReadsEscapesOfJSON(t *testing.T) {
	c := parse(t, `{"model": {"family": "normal"}, "source": {"jsonl": {"path": "a\/\\/\ud83d\ude00\u00e9\ud800\n\\u0041"}}}`)
	if got, want := c.Source.Files().Path, "a/\\/😀é\uFFFD\n\\u0041"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"disorder of a file", "model: {family: normal}\nsource: {csv: {path: a.csv, disorder: 5s}}\n", []string{
			`pump.yaml:2: source.csv.disorder: is for the path "-": a file needs none`,
		}},
		{"rules", "model: {family: normal}\nkeys:\n" + strings.Repeat("- {match: a, top: 1}\n", 10_001) + "source: {csv: {path: a.csv}}\n", []string{
			"pump.yaml:2: keys: has 10001 exceptions; hafvf supports 10000: let patterns such as pump-* match several keys",
		}},
		{"unknown key", "source: {jsonl: {path: a}}\nmodel:\n  famly: normal\n", []string{
			"pump.yaml:2: model.family: missing; one of " + strings.Join(expfam.Families(), ", ") + " is required",
			`pump.yaml:3: model.famly: unknown key; did you mean "family"?`,
		}},
		{"unknown key far from all", withLines("foobar: 1"), []string{
			`pump.yaml:3: foobar: unknown key; known here: transform, model, aggregate, levels, top, bank, bank_forgetting, detect, silence, incidents, keys, quiet, order, expire, lateness, time_unit, session, change, records, interval, state, source, sink, dead_letter, marks, alerts, runner`,
		}},
		{"a key beside its place", "source: {jsonl: {path: a}}\nmodel:\n  family: normal\n  levels: []\n", []string{
			`pump.yaml:4: model.levels: unknown key; levels belongs next to model, not inside it`,
		}},
		{"unknown key in a level", withLines("levels:", "  - {alpha: 1, bta: 1}"), []string{
			`pump.yaml:4: levels.0.bta: unknown key; did you mean "beta"?`,
			`pump.yaml:4: levels.0.beta: missing; it is required`,
		}},
		{"key that is no name", withLines(`"a.b\n": 1`), []string{
			`pump.yaml:3: "a.b\n": unknown key; known here: transform, model, aggregate, levels, top, bank, bank_forgetting, detect, silence, incidents, keys, quiet, order, expire, lateness, time_unit, session, change, records, interval, state, source, sink, dead_letter, marks, alerts, runner`,
		}},
		{"key that is a list", withLines("? [a, b]", ": 1"), []string{`pump.yaml:3: a key must be text, not a list`}},
		{"duplicate key", withLines("top: 1", "order: arrival", "top: 0.5"), []string{`pump.yaml:5: top: duplicate key; first used in line 3`}},

		{"missing", "top: 1", []string{
			`pump.yaml:1: source: missing; one of csv, jsonl, parquet, kafka, prometheus is required`,
			"pump.yaml:1: model.family: missing; one of " + strings.Join(expfam.Families(), ", ") + " is required",
		}},
		{"missing path", "model: {family: normal}\nsource:\n  csv: {}", []string{`pump.yaml:3: source.csv.path: missing; it is required`}},
		{"no connector", "model: {family: normal}\nsource: {}", []string{`pump.yaml:2: source: names no connector; one of csv, jsonl, parquet, kafka, prometheus is required`}},
		{"two connectors", "model: {family: normal}\nsource:\n  csv: {path: a}\n  jsonl: {path: b}", []string{`pump.yaml:4: source: names csv and jsonl; exactly one connector is allowed`}},

		{"text for a number", withLines(`top: "1"`), []string{`pump.yaml:3: top: must be a number, not the text "1"`}},
		{"null for a number", withLines("top: null"), []string{`pump.yaml:3: top: must be a number, not null`}},
		{"tag that lies", withLines("top: !!float abc"), []string{`pump.yaml:3: top: must be a number, not the number abc`}},
		{"out of the float range", withLines("top: 1e999"), []string{`pump.yaml:3: top: must be a number, not the text "1e999"`}},
		{"number for text", "model: {family: normal}\nsource: {csv: {path: a, key: 1}}", []string{`pump.yaml:2: source.csv.key: must be text, not the number 1; put it in quotes`}},
		{"text for a mapping", "model: normal\nsource: a.csv", []string{
			`pump.yaml:1: model: must be a mapping, not the text "normal"`,
			`pump.yaml:2: source: must be a mapping, not the text "a.csv"`,
		}},
		{"mapping for a list", withLines("levels: {alpha: 1, beta: 1}"), []string{`pump.yaml:3: levels: must be a list of {alpha, beta}, not a mapping`}},
		{"unknown layout", "model: {family: normal}\nsource: {csv: {path: a, layout: tall}}", []string{`pump.yaml:2: source.csv.layout: unknown value "tall"; known here: long, wide`}},
		{"a series of two lists", "model: {family: normal}\nsource: {jsonl: {path: a, layout: series, values: [a, b]}}", []string{`pump.yaml:2: source.jsonl.values: the layout series has one list of values`}},
		{"text for a list", "model: {family: normal}\nsource: {csv: {path: a, missing: x}}", []string{`pump.yaml:2: source.csv.missing: must be a list of texts, such as [NA, -, -999], not the text "x"`}},
		{"number for a duration", withLines("lateness: 5"), []string{`pump.yaml:3: lateness: must be a duration such as 30m or 0s, not the number 5`}},
		{"part of a millisecond", withLines("lateness: 1500us"), []string{`pump.yaml:3: lateness: must be of whole milliseconds, not 1500us`}},
		{"float for a whole number", modelled("family: mvnormal", "dim: 2.5"), []string{`pump.yaml:4: model.dim: must be a whole number, not the number 2.5`}},

		{"top above 1", withLines("top: 1.5"), []string{`pump.yaml:3: top: must be in [0, 1], not 1.5`}},
		{"top NaN", withLines("top: .nan"), []string{`pump.yaml:3: top: must be finite, not .nan`}},
		{"alpha 0", withLines("levels:", "  - {alpha: 1, beta: 1}", "  - alpha: 0", "    beta: -1"), []string{
			`pump.yaml:5: levels.1.alpha: must be greater than 0, not 0`,
			`pump.yaml:6: levels.1.beta: must be greater than 0, not -1`,
		}},
		{"empty path", "model: {family: normal}\nsource: {parquet: {path: ''}}", []string{`pump.yaml:2: source.parquet.path: must not be empty`}},
		{"empty key column", "model: {family: normal}\nsource: {parquet: {path: a, key: ''}}", []string{`pump.yaml:2: source.parquet.key: must not be empty; a source without keys has key: none`}},
		{"mapping of keys", "model: {family: normal}\nsource: {jsonl: {path: a, key: {a: b}}}", []string{`pump.yaml:2: source.jsonl.key: must be a name, a list of names, or none, not a mapping`}},
		{"no keys", "model: {family: normal}\nsource: {jsonl: {path: a, key: []}}", []string{`pump.yaml:2: source.jsonl.key: must name at least one of the names`}},
		{"form of times", "model: {family: normal}\nsource: {csv: {path: a, time_format: '%H:%M'}}",
			[]string{`pump.yaml:2: source.csv.time_format: "%H:%M" has no year and month, or parts of a day without the day: write a Go layout of the time 2006-01-02 15:04:05, or a strftime format such as %d/%m/%Y %H:%M`}},
		{"zone", "model: {family: normal}\nsource: {csv: {path: a, zone: Berlin}}", []string{`pump.yaml:2: source.csv.zone: "Berlin" is not a time zone: use an IANA name such as UTC or Europe/Berlin`}},
		{"decimal", "model: {family: normal}\nsource: {csv: {path: a, decimal: ;}}", []string{`pump.yaml:2: source.csv.decimal: must be "." or ",", not ";"`}},
		{"empty time column", "model: {family: normal}\nsource: {parquet: {path: a, time: ''}}", []string{`pump.yaml:2: source.parquet.time: an empty name means that there is no time, which needs order: arrival`}},
		{"times of a series", "model: {family: normal}\nsource: {jsonl: {path: a, layout: series, time: [a, b]}}", []string{`pump.yaml:2: source.jsonl.time: the layout series has one list of times`}},
		{"trials in two columns", "transform: smooth\nmodel: {family: normal}\nsource: {csv: {path: a, time_format: trial, time: [a, b]}}", []string{`pump.yaml:3: source.csv.time: numbers of trials are in one column, and it names several`}},
		{"ways of numbers", "model: {family: normal}\nsource: {csv: {path: a, thousands: ., unit: 1m, values_as: [a, b, c]}}", []string{
			`pump.yaml:2: source.csv.unit: must not start like a number, nor start or end with a blank, as "1m" does`,
			`pump.yaml:2: source.csv.values_as: must be two different values, the first of which is 0 and the second 1`,
			`pump.yaml:2: source.csv.thousands: '.' is decimal: it cannot be both`,
		}},
		{"values with units", "model: {family: binomial}\nsource: {kafka: {brokers: [b], topics: [t], values: [k, n], missing: [off], unit: m, thousands: ';', values_as: [off, on]}}", []string{
			`pump.yaml:2: source.kafka.thousands: must be ",", ".", "'" or " ", not ";"`,
			`pump.yaml:2: source.kafka.unit: is for numbers, but values_as lists the only values: leave out one of them`,
			`pump.yaml:2: source.kafka.thousands: is for numbers, but values_as lists the only values: leave out one of them`,
			`pump.yaml:2: source.kafka.values_as: makes 0 and 1, and binomial has other values`,
			`pump.yaml:2: source.kafka.values_as: "off" is a missing value`,
		}},
		{"unit of a pattern", "model: {family: bernoulli}\nsource: {jsonl: {path: a, layout: wide, unit: m}}", []string{
			`pump.yaml:2: source.jsonl.unit: needs names in values: a pattern there selects only columns of plain numbers`,
			`pump.yaml:2: source.jsonl.unit: is for measurements; bernoulli has choices`,
		}},
		{"no value column", "model: {family: normal}\nsource: {csv: {path: a, values: []}}", []string{`pump.yaml:2: source.csv.values: must name at least one of the columns`}},
		{"long delimiter", "model: {family: normal}\nsource: {csv: {path: a, delimiter: ';;'}}", []string{`pump.yaml:2: source.csv.delimiter: must be one character, and neither a quote nor a line break, not ";;"`}},
		{"quote as delimiter", "model: {family: normal}\nsource: {csv: {path: a, delimiter: '\"'}}", []string{`pump.yaml:2: source.csv.delimiter: must be one character, and neither a quote nor a line break, not "\""`}},
		{"unknown family", "model: {family: norml}\nsource: {jsonl: {path: a}}", []string{`pump.yaml:1: model.family: unknown value "norml"; did you mean "normal"?`}},
		{"unknown runner", withLines("runner: {name: spark}"), []string{`pump.yaml:3: runner.name: unknown value "spark"; known here: direct, prism, flink`}},
		{"smooth keys under filter", withLines("session: {gap: 1m}", "change: {odds: 2}"), []string{
			`pump.yaml:3: session: belongs to transform: smooth`,
			`pump.yaml:4: change: belongs to transform: smooth`,
		}},
		{"filter keys under smooth", withLines("transform: smooth", "lateness: 1m"), []string{`pump.yaml:4: lateness: is for transform: filter; sessions have session.allowed_lateness`}},
		{"times beside arrival", "transform: smooth\norder: arrival\nmodel: {family: normal, season: [24h]}\nsession: {gap: 1h, allowed_lateness: 1m}\nlateness: 1m\nsilence: true\naggregate: {every: 1m, value: mean}\nsource: {csv: {path: a}}", []string{
			`pump.yaml:3: model.season: needs times, and order: arrival has none: leave it out`,
			`pump.yaml:4: session.gap: needs times, and order: arrival has none: leave it out`,
			`pump.yaml:4: session.allowed_lateness: needs times, and order: arrival has none: leave it out`,
			`pump.yaml:5: lateness: needs times, and order: arrival has none: leave it out`,
			`pump.yaml:6: silence: needs times, and order: arrival has none: leave it out`,
			`pump.yaml:7: aggregate: intervals use the times of events: order must be event_time`,
		}},
		{"times beside trials", "transform: smooth\nmodel: {family: normal}\nsession: {gap: 1h, by: block}\nsource: {csv: {path: a, time: t, time_format: trial}}", []string{`pump.yaml:3: session.gap: needs times, and time_format: trial has none: leave it out`}},
		{"trials without a column", "transform: smooth\nmodel: {family: normal}\nsource: {csv: {path: a, time: '', time_format: trial}}", []string{`pump.yaml:3: source.csv.time: an empty name means that there are no numbers of trials: name their column, or use order: arrival instead of time_format: trial`}},
		{"trials of a filter", "model: {family: normal}\nsource: {csv: {path: a, time_format: trial}}", []string{`pump.yaml:2: source.csv.time_format: is for transform: smooth; the filter reads trials in their order: use order: arrival instead`}},
		{"arrival of an endless topic", "transform: smooth\norder: arrival\nmodel: {family: normal}\nsource: {kafka: {brokers: [a:1], topics: [t], group: g}}", []string{`pump.yaml:2: order: needs a source that ends, because a session without times is smoothed when all of it has been read: read files, or set bounded: true in the source`}},
		{"trials of an endless topic", "transform: smooth\nmodel: {family: normal}\nsource: {kafka: {brokers: [a:1], topics: [t], group: g, time_format: trial}}", []string{`pump.yaml:3: source.kafka.time_format: needs a source that ends, because a session without times is smoothed when all of it has been read: read files, or set bounded: true in the source`}},
		{"arrival of an endless query", "transform: smooth\norder: arrival\nsession: {by: [a]}\nmodel: {family: normal}\nsource: {prometheus: {url: 'http://a:1', query: up, step: 1m}}", []string{
			`pump.yaml:2: order: needs a source that ends, because a session without times is smoothed when all of it has been read: read files, or set bounded: true in the source`,
			`pump.yaml:3: session.by: names columns or fields of records, and the points of a query have none: leave it out`,
		}},
		{"sessions by a column with times", withLines("transform: smooth", "session: {by: [a]}"), []string{`pump.yaml:4: session.by: separates sessions without times: add order: arrival, or time_format: trial to the source; with times, session.gap ends a session`}},
		{"member on the last value first", withLines("bank: [{ar: 1, top: 1}]"), []string{`pump.yaml:3: bank.0.ar: the first member must have the family's own model: put a member without ar before it`}},
		{"member on too many last values", withLines("bank: [{levels: [], top: 1}, {ar: 9, top: 1}]"), []string{`pump.yaml:3: bank.1.ar: must be at most 8, not 9`}},
		{"member on the last value of counts", "model: {family: poisson}\nbank: [{levels: [], top: 1}, {ar: 1, top: 1}]\nsource: {jsonl: {path: a}}", []string{`pump.yaml:2: bank.1.ar: requires the family normal`}},
		{"alarms", withLines("detect: {budget: 0, rest: -1, season: 24h, zone: Local, ar: 17, direction: sideways, min_abs: -1, min_rel: x}"), []string{
			`pump.yaml:3: detect.budget: must be at least 1, not 0`,
			`pump.yaml:3: detect.rest: must be at least 0, not -1`,
			`pump.yaml:3: detect.season: must be a list of durations, or a mapping of durations to harmonics, not the text "24h"`,
			`pump.yaml:3: detect.zone: "Local" is not a time zone: use an IANA name such as UTC or Europe/Berlin`,
			`pump.yaml:3: detect.ar: must be at most 16, not 17`,
			`pump.yaml:3: detect.direction: unknown value "sideways"; known here: both, up, down`,
			`pump.yaml:3: detect.min_abs: must be at least 0, not -1`,
			`pump.yaml:3: detect.min_rel: must be a number, not the text "x"`,
		}},
		{"no duration as budget", withLines("detect: {budget: often}"), []string{`pump.yaml:3: detect.budget: must be a duration such as 168h, or a number of observations, not the text "often"`}},
		{"no duration as rest", withLines("detect: {rest: long}"), []string{`pump.yaml:3: detect.rest: must be a duration such as 7h, or a number of observations, not the text "long"`}},
		{"half a rest", withLines("detect: {rest: 1.5}"), []string{`pump.yaml:3: detect.rest: must be a whole number, not the number 1.5`}},
		{"rest below 0", withLines("detect: {rest: -1h}"), []string{`pump.yaml:3: detect.rest: must be at least 0, not -1h`}},
		{"budget below 0", withLines("detect: {budget: -1h}"), []string{`pump.yaml:3: detect.budget: must be above 0, not -1h`}},
		{"seasons", withLines("detect:", "  season:", "    24h: 0", "    1440m: 2", "    day: 1", "    168h: 49", "    0h: 1"), []string{
			`pump.yaml:5: detect.season.24h: must be at least 1, not 0`,
			`pump.yaml:7: detect.season.day: must be a duration such as 24h, not the text "day"`,
			`pump.yaml:8: detect.season.168h: must be at most 48 harmonics, not 49`,
			`pump.yaml:9: detect.season.0h: must be above 0, not 0h`,
		}},
		{"days of the month", withLines("detect: {monthly: [first, tenth]}"), []string{`pump.yaml:3: detect.monthly.1: unknown value "tenth"; known here: last-working-day, last, first`}},
		{"a day of the month twice", withLines("detect: {monthly: [last, first, last]}"), []string{`pump.yaml:3: detect.monthly: has last twice`}},
		{"season twice", withLines("detect: {season: [24h, 1440m]}"), []string{`pump.yaml:3: detect.season.1: duplicate period`}},
		{"season of categories", "source: {jsonl: {path: a}}\nmodel: {family: bernoulli, season: [24h]}", []string{`pump.yaml:2: model.season: values of bernoulli have no season: a season is added to a number, and these are categories`}},
		{"zone without a season", modelled("family: normal", "zone: UTC", "holidays: [2026-12-25]"), []string{
			`pump.yaml:4: model.zone: belongs to model.season, and there is none`,
			`pump.yaml:5: model.holidays: belongs to model.season, and there is none`,
		}},
		{"detection of a rule", withLines("detect: true", "keys:", "  - {match: a, detect: {direction: left, min_abs: -1, commit: 0.9}}", "  - {match: b, detect: true, alerts: never}"), []string{
			`pump.yaml:5: keys.0.detect.direction: unknown value "left"; known here: both, up, down`,
			`pump.yaml:5: keys.0.detect.min_abs: must be at least 0, not -1`,
			`pump.yaml:5: keys.0.detect.commit: unknown key; known here: cooldown, min_change, min_abs, min_rel, direction, budget, rest, settling, season, zone`,
			`pump.yaml:6: keys.1.detect: must be false, or a mapping, not true`,
			`pump.yaml:6: keys.1.alerts: must be true or false, not the text "never"`,
		}},
		{"detection of a rule without detection", withLines("keys:", "  - {match: a, detect: {min_abs: 1}}", "  - {match: b, alerts: false}", "  - {match: c, silence: false}"), []string{
			`pump.yaml:4: keys.0.detect: belongs to detect, which is not set`,
			`pump.yaml:5: keys.1.alerts: there are none without detect or silence`,
			`pump.yaml:6: keys.2.silence: belongs to silence, which is not set`,
		}},
		{"zone of a rule without a season", withLines("keys:", "  - match: a", "    model: {zone: UTC}"), []string{`pump.yaml:5: keys.0.model.zone: belongs to keys.0.model.season, and there is none`}},
		{"season's values", modelled("family: normal", "season: {24h: 0}", "zone: Mars", "holidays: [25.12.2026]"), []string{
			`pump.yaml:4: model.season.24h: must be at least 1, not 0`,
			`pump.yaml:5: model.zone: "Mars" is not a time zone: use an IANA name such as UTC or Europe/Berlin`,
			`pump.yaml:6: model.holidays.0: "25.12.2026" is not a date such as 2026-12-25`,
		}},
		{"season of sessions with levels", "transform: smooth\nlevels: []\n" + modelled("family: normal", "season: [24h]"), []string{`pump.yaml:6: model.season: is for sessions with segments, not with levels`}},
		{"season without times", "order: arrival\nmodel: {family: normal, season: [24h]}\nsource: {csv: {path: a, time: ''}}", []string{`pump.yaml:3: source.csv.time: an empty name means that there is no time, which a season needs`}},
		{"alerts", withLines("detect: true", "alerts: {jsonl: {path: a}, kinds: [novel], beliefs: [revision]}"), []string{
			`pump.yaml:4: alerts.kinds.0: unknown value "novel"; did you mean "novelty"?`,
			`pump.yaml:4: alerts.beliefs: a revision corrects a change: add change`,
		}},
		{"alerts to nowhere", withLines("detect: true", "alerts: {kinds: [novelty]}"), []string{`pump.yaml:4: alerts: names no connector; one of csv, jsonl, parquet, kafka, webhook, alertmanager, slack is required`}},
		{"session", withLines("transform: smooth", "session: {gap: 0s, max: 0, allowed_lateness: -1s, length: 3}", "change: {odds: 0}"), []string{
			`pump.yaml:4: session.gap: must be a number of milliseconds above zero, not 0s`,
			`pump.yaml:4: session.max: must be at least 1, not 0`,
			`pump.yaml:4: session.allowed_lateness: must not be negative, not -1s`,
			`pump.yaml:4: session.length: unknown key; known here: gap, allowed_lateness, max, by`,
			`pump.yaml:5: change.odds: must be greater than 0, not 0`,
		}},
		{"levels by design of counts", "transform: smooth\nmodel: {family: poisson}\nchange: {walk: false}\nsource: {csv: {path: a}}", []string{
			`pump.yaml:3: change.walk: false is for the family normal without levels: only its sessions have walks and lines`,
		}},
		{"levels by design with levels", withLines("transform: smooth", "levels: [{alpha: 9, beta: 1}]", "change: {walk: false}"), []string{
			`pump.yaml:5: change.walk: false is for the family normal without levels: only its sessions have walks and lines`,
		}},
		{"smooth without time", "transform: smooth\nmodel: {family: normal}\nsource: {csv: {path: a.csv, time: ''}}", []string{
			`pump.yaml:3: source.csv.time: an empty name means that there is no time, and sessions without times need order: arrival`,
		}},
		{"sink over source", "model: {family: normal}\nsource: {csv: {path: d/*.csv}}\nsink: {csv: {path: ./d/a.csv}}", []string{`pump.yaml:3: sink.csv.path: "d/a.csv" is also read, by source.csv.path`}},
		{"two writers of one file", withLines("sink: {jsonl: {path: out}}", "dead_letter: {jsonl: {path: ./out}}"), []string{`pump.yaml:4: dead_letter.jsonl.path: "out" is also written, by sink.jsonl.path`}},

		{"flink with files", withLines("runner: {name: flink, endpoint: a, parallelism: 3, max_parallelism: 2}", "dead_letter: {jsonl: {path: b}}"), []string{
			`pump.yaml:1: sink: missing; flink requires a topic, kafka, or none`,
			`pump.yaml:2: source: is a local file: flink reads and writes topics (kafka)`,
			`pump.yaml:3: runner.endpoint: "a" is not host:port`,
			`pump.yaml:3: runner.parallelism: is above max_parallelism, 2`,
			`pump.yaml:4: dead_letter: is a local file: flink reads and writes topics (kafka); without one, rejects go to the workers' standard error`,
		}},
		{"flink without an endpoint", "model: {family: normal}\nsource: {kafka: {embedded: true, topics: [a], changelog: c}}\nsink: {kafka: {topic: b}}\nrunner: {name: flink}", []string{
			`pump.yaml:2: source.kafka.embedded: is for the runner direct`,
			`pump.yaml:2: source.kafka.changelog: is for the runner direct: flink keeps the states in its checkpoints`,
			`pump.yaml:4: runner.endpoint: missing; flink requires it: host:port of Beam's job server`,
		}},
		{"flink's keys without flink", withLines("runner: {parallelism: 2, poll: 1s}"), []string{
			`pump.yaml:3: runner.parallelism: belongs to name: flink`,
			`pump.yaml:3: runner.poll: belongs to name: flink`,
		}},
		{"bank", withLines("bank: [{levels: [], top: 2}, {top: 1}, 3]", "bank_forgetting: 0"), []string{
			`pump.yaml:3: bank.0.top: must be in [0, 1], not 2`,
			`pump.yaml:3: bank.2: must be a mapping, not the number 3`,
			`pump.yaml:3: bank.1.levels: missing; it is required`,
			`pump.yaml:4: bank_forgetting: must be in (0, 1], not 0`,
		}},
		{"empty bank", withLines("bank: []"), []string{`pump.yaml:3: bank: must hold at least one filter {levels, top}`}},
		{"bank and levels", withLines("levels: []", "bank: [{levels: [], top: 1}]"), []string{`pump.yaml:4: bank: replaces levels: use one of the two`}},
		{"forgetting without bank", withLines("bank_forgetting: 0.9"), []string{`pump.yaml:3: bank_forgetting: there is no bank`}},
		{"detect", withLines("detect: {commit: 1, min_length: 0, cooldown: -1s, min_change: -1, odds: 3}"), []string{
			`pump.yaml:3: detect.commit: must be in (0, 1), not 1`,
			`pump.yaml:3: detect.min_length: must be at least 1, not 0`,
			`pump.yaml:3: detect.cooldown: must not be negative, not -1s`,
			`pump.yaml:3: detect.min_change: must be at least 0, not -1`,
			`pump.yaml:3: detect.odds: unknown key; known here: commit, min_length, cooldown, min_change, min_abs, min_rel, direction, budget, rest, settling, season, zone, holidays, monthly, ar`,
		}},
		{"detect text", withLines("detect: always"), []string{`pump.yaml:3: detect: must be true, false, or a mapping, not the text "always"`}},
		{"booleans that are none", withLines("detect: !!bool always", "silence: !!bool off-duty"), []string{
			`pump.yaml:3: detect: must be true, false, or a mapping, not always`,
			`pump.yaml:4: silence: must be true, false, or {after: 15m}, not off-duty`,
		}},
		{"top without levels under detect", withLines("detect: true", "top: 0.9"), []string{`pump.yaml:4: top: belongs to levels: with detect and without levels there is the default bank`}},
		{"alerts without detect", withLines("alerts: {jsonl: {path: a}}"), []string{`pump.yaml:3: alerts: there are none without detect or silence`}},
		{"digest without incidents", withLines("detect: true", "alerts: {jsonl: {path: a}, digest: 24h}"), []string{`pump.yaml:4: alerts.digest: lists alarms outside incidents: add incidents: true`}},
		{"digest of minutes", withLines("detect: true", "incidents: true", "alerts: [{jsonl: {path: a}, digest: 5m}]"), []string{`pump.yaml:5: alerts.0.digest: must be 1h to 744h, not 5m`}},
		{"incidents without alarms", withLines("incidents: true"), []string{`pump.yaml:3: incidents: there are none without detect or silence`}},
		{"incidents without times", withLines("detect: true", "order: arrival", "incidents: {separators: \"\"}"), []string{
			`pump.yaml:5: incidents.separators: must not be empty`, `pump.yaml:5: incidents: incidents need times: use order: event_time`}},
		{"groups by labels and prefixes", withLines("detect: true", "incidents: {by: [job, job], separators: /}"), []string{
			`pump.yaml:4: incidents.by: "job" is not a label name, or is listed twice`, `pump.yaml:4: incidents.separators: groups come either from by or from prefixes: leave out one of the two`}},
		{"incidents of sessions", withLines("transform: smooth", "incidents: {budget: 0s}"), []string{
			`pump.yaml:4: incidents.budget: must be a number of milliseconds above zero, not 0s`, `pump.yaml:4: incidents: belongs to transform: filter`}},
		{"time unit", withLines("time_unit: 0s"), []string{`pump.yaml:3: time_unit: must be a number of milliseconds above zero, not 0s`}},
		{"rules", withLines("keys: [{match: 'a*', levels: 3}, {top: 2}, {match: '[', bank: [{levels: [], top: 1}], top: 1}, {match: b, model: {family: ar, prior: {nu: 1}}}]"), []string{
			`pump.yaml:3: keys.0.levels: must be a list of {alpha, beta}, not the number 3`,
			`pump.yaml:3: keys.1.top: must be in [0, 1], not 2`,
			`pump.yaml:3: keys.1.match: missing; it is required`,
			`pump.yaml:3: keys.2.match: "[" is not a pattern: * stands for any text, ? for one character, [a-c] for one of them`,
			`pump.yaml:3: keys.3.model.family: unknown key; known here: prior, season, zone, holidays`,
			`pump.yaml:3: keys.2.bank: replaces top: use one of the two`,
			`pump.yaml:3: keys.3.model.prior.nu: unknown key; did you mean "mu"?`,
		}},
		{"auto", "model: {family: bernoulli, prior: auto}\nsource: {jsonl: {path: a}}", []string{
			`pump.yaml:1: model.prior: auto: bernoulli has no location or scale that data could set; leave out prior, or give its parameters`,
		}},
		{"auto and what it sets", "model: {family: normal, prior: {auto: true, mu: 3, kappa: 100}}\nsource: {jsonl: {path: a}}", []string{
			`pump.yaml:1: model.prior.kappa: auto sets it from the data: leave it out, or give all parameters without auto`,
			`pump.yaml:1: model.prior.mu: auto sets it from the data: leave it out, or give all parameters without auto`,
		}},
		{"warm-up of a given prior", "model: {family: normal, warm_up: 3}\nsource: {jsonl: {path: a}}", []string{
			`pump.yaml:1: model.warm_up: belongs to prior: auto`,
		}},
		{"top without levels", withLines("transform: smooth", "top: 0.9", "keys: [{match: a, top: 0.8}]"), []string{
			`pump.yaml:4: top: belongs to levels: without them sessions are smoothed in segments`,
			`pump.yaml:5: keys.0.top: belongs to levels: without them sessions are smoothed in segments`,
		}},
		{"online keys under smooth", withLines("transform: smooth", "detect: true", "bank: [{levels: [], top: 1}]", "time_unit: 1m", "alerts: {jsonl: {path: a}}"), []string{
			`pump.yaml:4: detect: belongs to transform: filter`,
			`pump.yaml:5: bank: belongs to transform: filter`,
			`pump.yaml:6: time_unit: belongs to transform: filter`,
			`pump.yaml:7: alerts: belongs to transform: filter`,
		}},

		{"empty", "", []string{`pump.yaml: the config is empty`}},
		{"only null", "---\n", []string{`pump.yaml: the config is empty`}},
		{"a list", "- a\n", []string{`pump.yaml:1: must be a mapping, not a list`}},
		{"text", "\n\nnormal\n", []string{`pump.yaml:3: must be a mapping, not the text "normal"`}},
		{"two documents", withLines("---", "top: 1"), []string{`pump.yaml:3: a second YAML document; a config has only one`}},
		{"not YAML", withLines("top: [1", "order: arrival"), []string{`pump.yaml:3: not YAML: did not find expected ',' or ']'`}},
		{"a tab for indentation", "model:\n\tfamily: normal\n", []string{`pump.yaml:2: not YAML: found character that cannot start any token`}},
		{"anchor", withLines("levels: &l []"), []string{`pump.yaml:3: anchors (&name) and aliases (*name) are not supported: write the value in each place; if it is text, put it in quotes`}},
		{"not UTF-8", withLines("order: \xff"), []string{`pump.yaml:3: not UTF-8`}},
		{"too large", strings.Repeat("#", 10<<20), []string{`pump.yaml: the config has 10485760 bytes; at most 1048576 are allowed`}},

		{"prior is text", modelled("family: normal", "prior: flat"), []string{`pump.yaml:4: model.prior: must be a mapping, not the text "flat"`}},
		{"prior of another family", modelled("family: poisson", "prior: {mu: 0, rate: 1}"), []string{`pump.yaml:4: model.prior.mu: unknown key; known here: rate, shape`}},
		{"prior key of a registered family misspelt", modelled("family: dirac", "prior: {flt: true}"), []string{`pump.yaml:4: model.prior.flt: unknown key; did you mean "flat"?`}},
		{"prior that a registered family refuses", modelled("family: dirac", "prior: {at: -1}"), []string{`pump.yaml:4: model.prior: dirac: no such point`}},
		{"prior not finite", modelled("family: normal", "prior:", "  mu: .inf", "  kappa: .nan"), []string{
			`pump.yaml:5: model.prior.mu: must be finite, not .inf`,
			`pump.yaml:6: model.prior.kappa: must be finite, not .nan`,
		}},
		{"prior out of its domain", modelled("family: normal", "prior:", "  kappa: 0", "  alpha: -1", "  beta: true"), []string{
			`pump.yaml:5: model.prior.kappa: must be greater than 0, not 0`,
			`pump.yaml:6: model.prior.alpha: must be greater than 0, not -1`,
			`pump.yaml:7: model.prior.beta: must be a finite number, not true`,
		}},
		{"prior beside a mistake that hides the columns", "model: {family: mvnormal, prior: {kappa: 0}}\nsource: {csv: {path: a, values: []}}", []string{
			`pump.yaml:1: model.prior.kappa: must be greater than 0, not 0`,
			`pump.yaml:2: source.csv.values: must name at least one of the columns`,
		}},
		{"vector for a number", modelled("family: normal", "prior: {mu: [0]}"), []string{`pump.yaml:4: model.prior.mu: must be a finite number, not a list of numbers`}},
		{"text for a vector", modelled("family: mvnormal", "prior: {mu: a, scale: b}"), []string{
			`pump.yaml:4: model.prior.mu: must be a number, a list, true or false, not the text "a"`,
			`pump.yaml:4: model.prior.scale: must be a number, a list, true or false, not the text "b"`,
		}},
		{"text in a vector", modelled("family: mvnormal", "prior:", "  mu:", "    - 1", "    - a"), []string{`pump.yaml:7: model.prior.mu.1: must be a number, not the text "a"`}},
		{"empty vector", modelled("family: mvnormal", "prior: {mu: [], scale: []}"), []string{
			`pump.yaml:4: model.prior.mu: must not be empty`,
			`pump.yaml:4: model.prior.scale: must not be empty`,
		}},
		{"categorical without alpha", modelled("family: categorical"), []string{`pump.yaml:2: model.prior.alpha: needs at least two categories: add dim: 3, or alpha: [1, 1, 1]`}},
		{"dim against alpha", modelled("family: categorical", "prior: {alpha: [1, 1]}", "dim: 3"), []string{`pump.yaml:5: model.dim: dim 3, but categorical with this prior makes it 2`}},
		{"categorical with alpha 0", modelled("family: categorical", "prior: {alpha: [1, 0]}"), []string{`pump.yaml:4: model.prior.alpha: entry 1 must be greater than 0, not 0`}},
		{"nothing fixes dim", modelled("family: mvnormal", "prior: {mu: 0}"), []string{`pump.yaml:4: model.prior.mu: the dimension is unknown: give mu as a list, or dim`}},
		{"dim 0", modelled("family: mvnormal", "dim: 0"), []string{`pump.yaml:4: model.dim: must be at least 1, not 0`}},
		{"NUL", "model: {family: normal}\nsource: {jsonl: {path: \"a\\0b\"}}", []string{`pump.yaml:2: source.jsonl.path: contains a NUL character, which names and files cannot have`}},
		{"many levels", modelled("family: normal") + "\nlevels: [" + strings.Repeat("{alpha: 1, beta: 1}, ", 65) + "]\n", []string{`pump.yaml:4: levels: has 65 levels; at most 64 are allowed`}},
		{"many filters", modelled("family: normal") + "\nbank: [" + strings.Repeat("{levels: [], top: .9}, ", 65) + "]\n", []string{`pump.yaml:4: bank: has 65 filters; at most 64 are allowed`}},
		{"many cycles", modelled("family: normal", "season: ["+cycles(17)+"]"), []string{`pump.yaml:4: model.season: has 17 cycles; at most 16 are allowed`}},
		{"many harmonics", modelled("family: normal") + "\ndetect: {season: {1h: 48, 2h: 48, 3h: 48, 4h: 48, 5h: 1}}\n", []string{`pump.yaml:4: detect.season: has 193 harmonics in all; at most 192 are allowed`}},
		{"many categories", modelled("family: categorical", "dim: 10001"), []string{`pump.yaml:2: model: has 10001 categories; at most 10000 are allowed, with detect 1000`}},
		{"many to detect", modelled("family: categorical", "dim: 1001") + "\ndetect: true\n", []string{`pump.yaml:2: model: has 1001 categories; at most 10000 are allowed, with detect 1000`}},
		{"dim too large", modelled("family: mvnormal", "dim: 1001"), []string{`pump.yaml:2: model.prior.scale: would have 1001 rows; at most 1000 are allowed`}},
		{"dim of a scalar family", modelled("family: normal", "dim: 2"), []string{`pump.yaml:4: model.dim: dim 2, but normal with this prior makes it 1`}},
		{"dim against the prior", modelled("family: mvnormal", "prior: {mu: [0, 0], scale: [[1]]}", "dim: 3"), []string{
			`pump.yaml:4: model.prior.scale: has 1 rows, want 2`,
		}},
		{"dim without the target", modelled("family: regression", "prior: {mean: [0, 0]}", "dim: 2"), []string{`pump.yaml:5: model.dim: dim 2, but regression with this prior makes it 3`}},
		{"dim against columns", "model: {family: mvnormal, dim: 3}\nsource: {csv: {path: a, values: [x, y]}}", []string{`pump.yaml:2: source.csv.values: names 2 columns; mvnormal takes 3`}},
		{"dim beyond all", modelled("family: categorical", "prior: {alpha: 1}", "dim: 9223372036854775807"), []string{`pump.yaml:5: model.dim: must be at most 1000000, not 9223372036854775807`}},
		{"regressors left open", modelled("family: regression"), []string{`pump.yaml:2: model.prior.mean: the number of regressors is unknown: give mean as a list, or dim (regressors and target)`}},
		{"number among rows", modelled("family: mvnormal", "prior:", "  scale:", "    - [1, 0]", "    - 1"), []string{`pump.yaml:7: model.prior.scale.1: must be a row of numbers, not the number 1`}},
		{"matrix not square", modelled("family: mvnormal", "prior: {scale: [[1, 0], [0]]}"), []string{`pump.yaml:4: model.prior.scale: row 1 has 1 entries, want 2`}},
		{"matrix of numbers", modelled("family: mvnormal", "prior: {scale: [1, 2]}"), []string{`pump.yaml:4: model.prior.scale: must be a number or a list of rows of numbers, all finite, not a list of numbers`}},
		{"matrix not symmetric", modelled("family: mvnormal", "prior: {scale: [[1, 0.1], [0.2, 1]]}"), []string{`pump.yaml:4: model.prior.scale: must be symmetric, but row 1 has 0.2 where row 0 has 0.1`}},
		{"matrix not positive definite", modelled("family: mvnormal", "prior: {scale: [[1, 2], [2, 1]]}"), []string{`pump.yaml:4: model.prior.scale: must be positive definite`}},
		{"nu too small", modelled("family: mvnormal", "prior: {mu: [0, 0, 0], nu: 2}"), []string{`pump.yaml:4: model.prior.nu: 2 is not above dim − 1 = 2`}},
		{"ar of order 0", modelled("family: ar", "prior: {order: 0}"), []string{`pump.yaml:4: model.prior.order: must be a whole number from 1 to 1048576, not 0`}},
		{"ar of a fractional order", modelled("family: ar", "prior: {order: 1.5}"), []string{`pump.yaml:4: model.prior.order: must be a whole number from 1 to 1048576, not 1.5`}},
		{"intercept 1", modelled("family: ar", "prior: {order: 1, intercept: 1}"), []string{`pump.yaml:4: model.prior.intercept: must be true or false, not 1`}},
		{"ar's mean without the intercept", modelled("family: ar", "prior: {order: 2, intercept: true, mean: [0, 0]}"), []string{`pump.yaml:4: model.prior.mean: has 2 entries, want 3`}},

		{"columns of a scalar family", "model: {family: normal}\nsource: {csv: {path: a, values: [x, y]}}", []string{`pump.yaml:2: source.csv.values: names 2 columns; normal takes 1`}},
		{"columns of regression", "model: {family: regression, prior: {mean: [0, 0]}}\nsource: {parquet: {path: a, values: [x, y]}}", []string{`pump.yaml:2: source.parquet.values: names 2 columns; regression takes 3`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse("pump.yaml", []byte(test.text), nil)
			if err == nil {
				t.Fatalf("accepted as %+v", c)
			}
			expect.Same(t, test.want, strings.Split(err.Error(), "\n"))
		})
	}
}

func TestParseOverrides(t *testing.T) {
	base := withLines("levels:", "  - {alpha: 1, beta: 1}", "top: 1", "sink:")
	for _, test := range []struct {
		name string
		set  []string
		got  func(c *Config) any
		want any
	}{
		{"number", []string{"top=0.9"}, func(c *Config) any { return c.Top }, 0.9},
		{"the last wins", []string{"top=0.9", "top=0.8"}, func(c *Config) any { return c.Top }, 0.8},
		{"empty list", []string{"levels=[]"}, func(c *Config) any { return c.Levels }, []hafvf.Beta{}},
		{"entry", []string{"levels.0.alpha=9"}, func(c *Config) any { return c.Levels }, []hafvf.Beta{{Alpha: 9, Beta: 1}}},
		{"entry in brackets", []string{"levels[0].alpha=9"}, func(c *Config) any { return c.Levels }, []hafvf.Beta{{Alpha: 9, Beta: 1}}},
		{"whole entry", []string{"levels.0={alpha: 2, beta: 3}"}, func(c *Config) any { return c.Levels }, []hafvf.Beta{{Alpha: 2, Beta: 3}}},
		{"of an override", []string{"levels=[{alpha: 2, beta: 3}]", "levels.0.beta=4"}, func(c *Config) any { return c.Levels }, []hafvf.Beta{{Alpha: 2, Beta: 4}}},
		{"absent mapping", []string{"dead_letter.jsonl.path=out.jsonl"}, func(c *Config) any { return c.DeadLetter }, &Sink{File: &File{"jsonl", "out.jsonl"}}},
		{"mapping without a value", []string{"sink.csv.path=x.csv"}, func(c *Config) any { return c.Sink }, Sink{File: &File{"csv", "x.csv"}}},
		{"whole connector", []string{"source={csv: {path: a.csv}}", "source.csv.delimiter=,"}, func(c *Config) any { return c.Source.Files().Delimiter }, ','},
		{"missing", []string{"source={csv: {path: a, missing: [NA, null, -, \"\", -999]}}"}, func(c *Config) any { return c.Source.Files().Missing }, []string{"NA", "null", "-", "", "-999"}},
		{"keys", []string{"source={kafka: {brokers: [b], topics: [t], key: [a.b, c]}}"}, func(c *Config) any { return c.Source.Kafka().Key }, []string{"a.b", "c"}},
		{"no key", []string{"source={csv: {path: a, key: none}}"}, func(c *Config) any { return len(c.Source.Files().Key) }, 0},
		{"decimal", []string{"source={csv: {path: a, decimal: ','}}"}, func(c *Config) any { return c.Source.Files().Decimal }, ','},
		{"unit", []string{"source={kafka: {brokers: [b], topics: [t], unit: °C, decimal: ','}}"}, func(c *Config) any { return c.Source.Kafka().Unit + string(c.Source.Kafka().Decimal) }, "°C,"},
		{"choices", []string{"source={parquet: {path: a, values_as: [off, 1]}}"}, func(c *Config) any { return c.Source.Files().ValuesAs }, []string{"off", "1"}},
		{"thousands", []string{"source={jsonl: {path: a, thousands: \"\\u202f\"}}"}, func(c *Config) any { return c.Source.Files().Thousands }, ' '},
		{"times", []string{"source={jsonl: {path: a, time: [d, t]}}"}, func(c *Config) any { return c.Source.Files().Time }, []string{"d", "t"}},
		{"-", []string{"source.jsonl.path=-"}, func(c *Config) any { return c.Source.Files().Path }, "-"},
		{"pattern", []string{"source.jsonl.path=*.jsonl"}, func(c *Config) any { return c.Source.Files().Path }, "*.jsonl"},
		{"value with =", []string{"source.jsonl.path=day=1/a.jsonl"}, func(c *Config) any { return c.Source.Files().Path }, "day=1/a.jsonl"},
		{"prior", []string{"model.prior.mu=-3"}, func(c *Config) any { return c.Model.Prior["mu"] }, -3.0},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := test.set
			if test.name != "mapping without a value" {
				set = append([]string{"sink={jsonl: {}}"}, set...)
			}
			expect.Same(t, test.want, test.got(parse(t, base, set...)))
		})
	}

	if c := parse(t, "", "model.family=poisson", "source.jsonl.path=in.jsonl"); c.Model.Family != "poisson" {
		t.Errorf("without a file: %+v", c)
	}
}

func TestParseOverrideErrors(t *testing.T) {
	base := withLines("levels:", "  - {alpha: 1, beta: 1}", "top: 1")
	for _, test := range []struct {
		set  []string
		want []string
	}{
		{[]string{"top"}, []string{`--set top: an override is key=value, for example top=0.9`}},
		{[]string{"=1"}, []string{`--set =1: an override is key=value, for example top=0.9`}},
		{[]string{"model..family=ar"}, []string{`--set model..family=ar: model..family: a name in the path is empty`}},
		{[]string{"levels=[1"}, []string{`--set levels=[1: levels: not YAML: did not find expected ',' or ']'`}},
		{[]string{"top=\xff"}, []string{`--set "top=\xff": top: not UTF-8`}},
		{[]string{"levels.1.alpha=9"}, []string{`--set levels.1.alpha=9: levels.1.alpha: levels has 1 entries, and indexes begin at 0`}},
		{[]string{"levels.-1.alpha=9"}, []string{`--set levels.-1.alpha=9: levels.-1.alpha: levels has 1 entries, and indexes begin at 0`}},
		{[]string{"levels.alpha=9"}, []string{`--set levels.alpha=9: levels.alpha: levels is a list, which takes an index, not "alpha"`}},
		{[]string{"model.prior.mean.0=9"}, []string{`--set model.prior.mean.0=9: model.prior.mean.0: the config has no list model.prior.mean; set it as a whole`}},
		{[]string{"top.x=1"}, []string{`--set top.x=1: top.x: top is the number 1, and has no keys`}},

		{[]string{"famly=ar"}, []string{`--set famly=ar: famly: unknown key; known here: transform, model, aggregate, levels, top, bank, bank_forgetting, detect, silence, incidents, keys, quiet, order, expire, lateness, time_unit, session, change, records, interval, state, source, sink, dead_letter, marks, alerts, runner`}},
		{[]string{"top="}, []string{`--set top=: top: must be a number, not null`}},
		{[]string{"top=2", "levels.0.alpha=x"}, []string{
			`--set top=2: top: must be in [0, 1], not 2`,
			`--set levels.0.alpha=x: levels.0.alpha: must be a number, not the text "x"`,
		}},
		{[]string{"levels=[{alpha: 0, beta: 1}]"}, []string{`--set levels=[{alpha: 0, beta: 1}]: levels.0.alpha: must be greater than 0, not 0`}},
		{[]string{"source.csv.path=a.csv"}, []string{`--set source.csv.path=a.csv: source: names jsonl and csv; exactly one connector is allowed; to replace it as a whole: --set 'source={csv: {…}}'`}},
		{[]string{"session.gap=1m"}, []string{`--set session.gap=1m: session: belongs to transform: smooth`}},
		{[]string{"model.dim=2"}, []string{`--set model.dim=2: model.dim: dim 2, but normal with this prior makes it 1`}},
	} {
		t.Run(strings.Join(test.set, " "), func(t *testing.T) {
			_, err := Parse("pump.yaml", []byte(base), test.set)
			if err == nil {
				t.Fatal("accepted")
			}
			expect.Same(t, test.want, strings.Split(err.Error(), "\n"))
		})
	}
}

func TestKeyErrorNamesItsPlace(t *testing.T) {
	_, err := Parse("pump.yaml", []byte(withLines("top: 2")), nil)
	var got *keytable.KeyError
	if !errors.As(err, &got) {
		t.Fatalf("%T", err)
	}
	if got.File != "pump.yaml" || got.Line != 3 || got.Key != "top" || got.Override != "" {
		t.Errorf("%+v", got)
	}
}

func TestParseReportsAnEndOfMistakes(t *testing.T) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("k%d: 1", i))
	}
	_, err := Parse("pump.yaml", []byte(withLines(lines...)), nil)
	got := strings.Split(err.Error(), "\n")
	if len(got) != 51 || got[50] != "pump.yaml: and 950 more mistakes" {
		t.Errorf("%d lines, the last is %q", len(got), got[len(got)-1])
	}
}

// Configs that would take long to parse are refused within the time of a test.
func TestParseIsBounded(t *testing.T) {
	expect.Long(t, "configs of a megabyte")
	bomb := "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	var many strings.Builder
	for i := range 80_000 {
		fmt.Fprintf(&many, "k%d: 1, ", i)
	}
	for name, text := range map[string]string{
		"aliases":         bomb,
		"many lists":      strings.Repeat("[", 900_000),
		"many maps":       strings.Repeat("{a: ", 200_000),
		"deep blocks":     strings.Repeat("- ", 400_000),
		"one key":         strings.Repeat("a", 900_000) + ": 1",
		"many keys":       strings.Repeat("a: 1\n", 200_000),
		"a wide prior":    modelled("family: categorical", "prior: {alpha: ["+strings.Repeat("0,", 400_000)+"1]}"),
		"a long prior":    modelled("family: normal", "prior: {mu: ["+strings.Repeat("0,", 400_000)+"1]}"),
		"a vast model":    modelled("family: mvnormal", "dim: 1000000"),
		"many parameters": modelled("family: normal", "prior: {"+many.String()+"}"),
		"a wide value":    withLines("levels: [" + strings.Repeat("1,", 400_000) + "1]"),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("pump.yaml", []byte(text), nil)
			if err == nil {
				t.Fatal("accepted")
			}
			if len(err.Error()) > 100_000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			t.Logf("%v: %.100s", time.Since(start), err)
		})
	}
}

func TestPriors(t *testing.T) {
	for _, test := range []struct {
		model string // of a source whose records have their own number of values
		dim   int
		want  map[string]any
	}{
		{"family: bernoulli", 0, map[string]any{}},
		{"family: bernoulli, prior: {beta: 3}, dim: 1", 1, map[string]any{"beta": 3.0}},
		{"family: categorical, prior: {alpha: [1, 2, 3]}", 0, map[string]any{"alpha": []float64{1, 2, 3}}},
		{"family: categorical, prior: {alpha: [1, 2, 3]}, dim: 3", 3, map[string]any{"alpha": []float64{1, 2, 3}}},
		{"family: categorical, dim: 3", 3, map[string]any{}},
		{"family: categorical, prior: auto, dim: 3", 3, map[string]any{}},
		{"family: categorical, prior: {alpha: 0.5}, dim: 4", 4, map[string]any{"alpha": 0.5}},
		{"family: poisson, prior: {}", 0, map[string]any{}},
		{"family: exponential, prior: {shape: 2, rate: 0x10}", 0, map[string]any{"shape": 2.0, "rate": 16.0}},
		{"family: normal, prior: {mu: -1e3}", 0, map[string]any{"mu": -1000.0}},
		{"family: mvnormal, dim: 2", 2, map[string]any{}},
		{"family: mvnormal, prior: {mu: 5, nu: 2.5, scale: [[2, 1, 0], [1, 2, 0], [0, 0, 1]]}", 0,
			map[string]any{"mu": 5.0, "nu": 2.5, "scale": [][]float64{{2, 1, 0}, {1, 2, 0}, {0, 0, 1}}}},
		{"family: regression, prior: {mean: [1, 2], precision: 0.1}", 0, map[string]any{"mean": []float64{1, 2}, "precision": 0.1}},
		{"family: regression, prior: {mean: [1, 2]}, dim: 3", 3, map[string]any{"mean": []float64{1, 2}}},
		{"family: regression, dim: 2", 2, map[string]any{}},
		{"family: ar, prior: {order: 2}, dim: 1", 1, map[string]any{"order": 2.0}},
		{"family: ar, prior: {order: 1, intercept: true, mean: [0.5, 0]}", 0,
			map[string]any{"order": 1.0, "intercept": true, "mean": []float64{0.5, 0}}},
		{"family: dirac, prior: {at: 2, flat: true}", 0, map[string]any{"at": 2.0, "flat": true}},
	} {
		t.Run(test.model, func(t *testing.T) {
			c := parse(t, "source: {jsonl: {path: a}}\nmodel: {"+test.model+"}\n")
			expect.Same(t, test.want, c.Model.Prior)
			if c.Model.Dim != test.dim {
				t.Errorf("dim %d, want %d", c.Model.Dim, test.dim)
			}
			if _, err := expfam.New(c.Model.Family, c.Model.Prior, c.Model.Dim); err != nil {
				t.Errorf("the family takes it otherwise: %v", err)
			}
		})
	}
}

// A dirac is a family of this test. It stands for a user's family with errors that belong to no parameter.
func init() {
	expfam.Register("dirac", func(p expfam.Prior, _ int) (expfam.Model, error) {
		position := p.Float("at", 0)
		p.Bool("flat", false)
		if err := p.Done(); err != nil {
			return nil, err
		}
		if position < 0 {
			return nil, errors.New("no such point")
		}
		return expfam.New("normal", nil, 0)
	})
}

func TestColumnsFixDim(t *testing.T) {
	for _, test := range []struct {
		model, values string
		dim           int
	}{
		{"family: mvnormal", "x, y, z", 3},
		{"family: regression", "x, y, z", 3},
		{"family: mvnormal, prior: {mu: [0, 0, 0]}", "x, y, z", 3},
		{"family: categorical, prior: {alpha: [1, 1, 1]}", "x", 1},
		{"family: categorical, prior: {alpha: 1}, dim: 3", "x", 3},
		{"family: ar, prior: {order: 3}", "x", 1},
	} {
		c := parse(t, "model: {"+test.model+"}\nsource: {csv: {path: a, values: ["+test.values+"]}}")
		if c.Model.Dim != test.dim {
			t.Errorf("%s: dim %d, want %d", test.model, c.Model.Dim, test.dim)
		}
		if _, err := expfam.New(c.Model.Family, c.Model.Prior, c.Model.Dim); err != nil {
			t.Errorf("%s: the family takes it otherwise: %v", test.model, err)
		}
	}
}

// Parse never panics, and every error names the file or the override.
func FuzzParse(f *testing.F) {
	f.Add([]byte(withLines("top: 1")), "levels.0.alpha=9")
	f.Add([]byte("model: {family: ar, prior: {order: 2, mean: [1, &a 2], precision: [[1, 0], [0, *a]]}}\nsource: {csv: {path: a, delimiter: ;}}"), "top=-")
	f.Add([]byte(`{"model": {"family": "categorical"}, "source": {"kafka": {}}}`), "model.prior={alpha: 1}")
	f.Add([]byte("a: &a [*a]\n---\n"), "source.csv.path=*.csv")
	f.Add([]byte("0"), "\n=")
	f.Add([]byte("\"\\n\": [1]"), "\n.\n=")
	f.Fuzz(func(t *testing.T, text []byte, set string) {
		for _, set := range [][]string{nil, {set}} {
			c, err := Parse("f.yaml", text, set)
			if err == nil {
				if c.Model.Dim < 0 || c.Model.Prior == nil || c.Top < 0 || c.Top > 1 {
					t.Fatalf("accepted as %+v", c)
				}
				continue
			}
			joined, ok := err.(interface{ Unwrap() []error })
			if !ok {
				t.Fatalf("%T", err)
			}
			for _, err := range joined.Unwrap() {
				msg := err.Error()
				if !strings.HasPrefix(msg, "f.yaml:") && !strings.HasPrefix(msg, "--set ") || strings.Contains(msg, "\n") {
					t.Fatalf("%q", msg)
				}
			}
		}
	})
}

func TestParseWebhook(t *testing.T) {
	t.Setenv("HAFVF_TEST_HEADER", "hidden\nhidden")
	const base = "model: {family: normal}\ndetect: true\nsource: {jsonl: {path: a}}\n"
	c := parse(t, base+"alerts: {webhook: {url: \"https://alerts.example/in\", headers: {Authorization: {file: token}, x-team: ops}, batch: 5, timeout: 3s}, kinds: [change]}\n")
	want := &webhook.Sink{
		Form: "webhook", URL: secret.Text{Text: "https://alerts.example/in"}, Batch: 5, Timeout: 3 * time.Second,
		Headers: map[string]secret.Text{"Authorization": {Secret: secret.Secret{File: "token"}}, "x-team": {Text: "ops"}},
	}
	if r := c.Alerts[0]; !reflect.DeepEqual(r.Webhook, want) || !reflect.DeepEqual(r.Kinds, []string{"change"}) {
		t.Errorf("%+v, %v", r.Webhook, r.Kinds)
	}
	for text, reason := range map[string]string{
		"alerts: {webhook: {url: \"smtp://hidden\"}}\n":                                    `alerts.webhook.url: must be http://… or https://… with a host`,
		"alerts: {webhook: {url: \"http://a\", headers: {\"X-Token \": a}}}\n":             `alerts.webhook.headers.X-Token : "X-Token " is not a valid header name`,
		"alerts: {webhook: {url: \"http://a\", headers: {A: \"hidden\\nhidden\"}}}\n":      `alerts.webhook.headers.A: the text cannot be sent as a header: character 7 `,
		"alerts: {webhook: {url: \"http://a\", headers: {A: {env: HAFVF_TEST_HEADER}}}}\n": `alerts.webhook.headers.A.env: the text cannot be sent as a header: character 7 `,
		"alerts: {webhook: {url: \"http://a\", headers: {Authorization: [hidden]}}}\n":     `alerts.webhook.headers.Authorization: must be text, not a list`,
		"alerts: {alertmanager: {url: \"smtp://hidden\"}}\n":                               `alerts.alertmanager.url: must be http://… or https://… with a host`,
		"alerts: {alertmanager: {url: \"http://a\"}, webhook: {url: \"http://a\"}}\n":      `names alertmanager and webhook; exactly one connector is allowed`,
		"alerts: {slack: {url: \"smtp://hidden\"}}\n":                                      `alerts.slack.url: must be http://… or https://… with a host`,
		"alerts: {slack: {url: [hidden]}}\n":                                               `alerts.slack.url: must be text`,
		"alerts: {slack: {url: \"http://a\", batch: 2}}\n":                                 `alerts.slack.batch: unknown key`,
		"alerts: {slack: {url: \"http://hidden\"}, labels: {a: b}}\n":                      `alerts.labels: Slack messages do not show labels`,
		"alerts: {webhook: {}}\n":                                                          `alerts.webhook.url: missing; it is required`,
		"sink: {webhook: {url: \"http://hidden\"}}\n":                                      `sink.webhook: unknown key`,
	} {
		_, err := Parse("c.yaml", []byte(base+text), nil)
		if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A config may have several receivers, each with its own alerts.
func TestParseReceivers(t *testing.T) {
	const base = "model: {family: normal}\ndetect: true\nsource: {jsonl: {path: a}}\n"
	c := parse(t, base+`alerts:
  - {jsonl: {path: all}, beliefs: [outlier, change]}
  - {alertmanager: {url: "http://a"}, kinds: [change], keys: "pump-*", labels: {severity: page}, max_age: 1h, beliefs: [change]}
`)
	want := []Receiver{
		{Sink: Sink{File: &File{Format: "jsonl", Path: "all"}}, Path: "alerts.0", Choice: Choice{Kinds: AlarmKinds(), Beliefs: []string{"outlier", "change"}}},
		{Sink: Sink{Webhook: &webhook.Sink{URL: secret.Text{Text: "http://a"}, Batch: 100, Timeout: 10 * time.Second, Form: "alertmanager"}}, Path: "alerts.1",
			Choice: Choice{Kinds: []string{"change"}, Beliefs: []string{"change"}, Keys: "pump-*", Labels: map[string]string{"severity": "page"}}, MaxAge: time.Hour},
	}
	expect.Same(t, want, c.Alerts)
	expect.Same(t, []hafvf.Kind{hafvf.Outlier, hafvf.Change}, c.Detect.Beliefs, "beliefs")
	for text, want := range map[string]bool{"": false, ", kinds: [novelty, recovered]": true, ", kinds: [novelty]": false} {
		for _, form := range []string{"alerts: {alertmanager: {url: \"http://a\"}%s}\n", "alerts: [{alertmanager: {url: \"http://a\"}%s}]\n"} {
			if r := parse(t, base+fmt.Sprintf(form, text)).Alerts[0]; r.SendResolved != want || r.Webhook.SendResolved != want {
				t.Errorf("%s: the receiver gets ends: %v, %v", text, r.SendResolved, r.Webhook.SendResolved)
			}
		}
	}
	for text, want := range map[string][3]any{ // kinds, kinds for few keys, digest
		`{webhook: {url: "http://a"}}`:                   {pagerKinds(), AlarmKinds(), pagerDigest},
		`{webhook: {url: "http://a"}, digest: 12h}`:      {pagerKinds(), AlarmKinds(), 12 * time.Hour},
		`{webhook: {url: "http://a"}, kinds: [novelty]}`: {[]string{"novelty"}, []string(nil), time.Duration(0)},
		`{jsonl: {path: b}}`:                             {AlarmKinds(), []string(nil), time.Duration(0)},
	} {
		r := parse(t, base+"incidents: true\nalerts: "+text+"\n").Alerts[0]
		expect.Same(t, want, [3]any{r.Kinds, r.SmallFleetKinds, r.Digest}, text)
		expect.Same(t, want[1] != nil && want[2] == pagerDigest, r.NoSmallFleetDigest, text)
	}
	topic := "model: {family: normal}\ndetect: true\nsource: {kafka: {brokers: [a:1], topics: [t], group: g}}\nalerts: {webhook: {url: \"http://a\"}%s}\n"
	for setting, age := range map[string]time.Duration{"": 24 * time.Hour, ", max_age: none": 0, ", max_age: 5m": 5 * time.Minute} {
		if c := parse(t, fmt.Sprintf(topic, setting)); c.Alerts[0].MaxAge != age {
			t.Errorf("%s: %v", setting, c.Alerts[0].MaxAge)
		}
	}
	for text, reason := range map[string]string{
		"alerts: [{jsonl: {path: b}}, {jsonl: {path: b}}]\n":     `alerts.1.jsonl.path: "b" is also written, by alerts.0.jsonl.path`,
		"alerts: [{jsonl: {path: b}}, {kinds: [change]}]\n":      `alerts.1: names no connector`,
		"alerts: [{csv: {path: b}, labels: {severity: page}}]\n": `alerts.0.labels: a table has no columns for labels`,
		"alerts: {jsonl: {path: b}, labels: {kind: page}}\n":     `alerts.labels.kind: every alert has this label`,
		"alerts: {jsonl: {path: b}, labels: {a-b: page}}\n":      `alerts.labels.a-b: is not a label name`,
		"alerts: [{jsonl: {path: b}, beliefs: [revision]}]\n":    `alerts.0.beliefs: a revision corrects a change: add change`,
		"alerts: {jsonl: {path: b}, max_age: 0s}\n":              `alerts.max_age: must be`,
		"alerts: [{jsonl: {path: b}}, {jsonl: {path: a}}]\n":     `alerts.1.jsonl.path: "a" is also read`,
	} {
		_, err := Parse("c.yaml", []byte(base+text), nil)
		expect.Error(t, err, reason, text)
	}
}

// A file format is a row of connectors.Formats: sources and sinks use its name.
func TestFormatIsARow(t *testing.T) {
	formats := connectors.Formats
	t.Cleanup(func() { connectors.Formats = formats })
	connectors.Formats = append(slices.Clip(formats), connectors.Format{Name: "table", Columns: true})
	c := parse(t, "model: {family: normal}\nsource: {table: {path: in, values: a}}\nsink: {table: {path: out}}\n")
	if c.Source.Files().Format != "table" || c.Sink.File.Format != "table" || !strings.Contains(Reference(), "source.table.path") {
		t.Errorf("%+v, %+v", c.Source.Files(), c.Sink.File)
	}
}

// cycles returns n periods of a season, as a list without brackets.
func cycles(n int) string {
	var periods []string
	for i := range n {
		periods = append(periods, fmt.Sprintf("%dh", i+1))
	}
	return strings.Join(periods, ", ")
}

// The silence of a rule is its own.
func TestParseSilenceOfRules(t *testing.T) {
	c := parse(t, "source: {jsonl: {path: a}}\nmodel: {family: normal}\nsilence: true\nkeys: [{match: a, silence: false}, {match: b, silence: {after: 25h}}, {match: c, silence: true}]\n")
	want := []keyed.AlertRule{
		{Match: "a", Silence: &keyed.SilenceConfig{Disabled: true}},
		{Match: "b", Silence: &keyed.SilenceConfig{After: 25 * time.Hour}},
		{Match: "c", Silence: &keyed.SilenceConfig{}},
	}
	if diff := cmp.Diff(want, c.Filter().AlertRules); diff != "" || len(c.Filter().Keys) > 0 {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A rule without settings of the filter leaves the filter to a later rule.
func TestParseRules(t *testing.T) {
	c := parse(t, "source: {jsonl: {path: a}}\nmodel: {family: normal}\ndetect: true\nkeys: [{match: 'a*', detect: false}, {match: a, detect: {min_abs: 3, direction: up}, alerts: false}, {match: 'a*', top: 0.5, levels: []}]\n")
	f := c.Filter()
	want := []keyed.AlertRule{{Match: "a*", Disabled: new(true)}, {Match: "a", Disabled: new(false), MinAbs: new(3.0), Direction: new(keyed.Up)}}
	if diff := cmp.Diff(want, f.AlertRules); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(f.Keys) != 1 || f.Keys[0].Match != "a*" || c.Keys[1].Alerts == nil || *c.Keys[1].Alerts {
		t.Errorf("%+v, %+v", f.Keys, c.Keys)
	}
}
