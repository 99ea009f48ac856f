package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	godiff "github.com/google/go-cmp/cmp"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/streams"
)

// A dataSet is a file from practice, with a config that leads from it to alarms and a picture, and the known events
// in it. Without a config, the test uses the config that init writes.
type dataSet struct {
	name, file, config string
	seed               uint64
	text               func(noise *rand.Rand) string
	events             []dataEvent
}

// A dataEvent is an event of a key between two times. An alert of the key between these times must have a message
// that matches the pattern.
type dataEvent struct {
	what, key  string
	start, end time.Time
	message    string
}

// firstMonday is the start of the data sets.
var firstMonday = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func day(d float64) time.Time { return firstMonday.Add(time.Duration(d * 24 * float64(time.Hour))) }

var dataSets = []dataSet{
	{
		// A spreadsheet of pumps in European format.
		name: "spreadsheet", file: "druck.csv", text: spreadsheet, seed: 0,
		config: `model: {family: normal, prior: auto}
detect: true
source: {csv: {path: druck.csv, delimiter: ";", decimal: ",", key: [Halle, Pumpe], time: Zeit (ms), values: [Druck (bar)], missing: [n. v.]}}
sink: {jsonl: {path: out.jsonl}}
alerts: {jsonl: {path: alerts.jsonl}}
dead_letter: {jsonl: {path: rejected.jsonl}}
`,
		events: []dataEvent{
			{"a pressure rises for good", `Nord/Pumpe 2; "alt"`, day(12.5), day(12.55), `Druck \(bar\) is 7 % above usual at 2026-01-\d\d 12:\d0: 6\.9\d* bar, usual at this hour 6\.(49|5)`},
			{"a valve is shut for 100 minutes", "Süd/Pumpe 1", day(17), day(17.1), `Druck \(bar\) is 81 % below usual at 2026-01-\d\d 00:00: 0\.\d+ bar, usual at this hour 4\.(19|2)`},
		},
	},
	{
		// Thermometers with irregular steps.
		name: "sensors", file: "sensors.jsonl", text: sensors, seed: 1,
		config: `model: {family: normal, prior: auto, season: [24h]}
detect: true
silence: true
source: {jsonl: {path: sensors.jsonl, key: device.name, time: at, values: [data.temperature]}}
sink: {jsonl: {path: out.jsonl}}
alerts: {jsonl: {path: alerts.jsonl}}
`,
		events: []dataEvent{
			{"a sensor is away for seven hours", "attic", day(15.25), day(15.55), `silent since 2026-01-\d\d 05:57 \(`},
			{"a sensor is back", "attic", day(15.5), day(15.6), `back at 2026-01-\d\d 13:13, after 7 h 16 min of silence`},
			{"a sensor is stuck", "cellar", day(18), day(18.2), `data\.temperature frozen at 10\.9 since 2026-01-\d\d 00:09 \(1 h.*, \d+ equal values\), which is rare for this key, usual at this hour 11\.\d+ ± `},
			{"a sensor is swapped for another one's", "hall", day(16), day(16.1), `data\.temperature is 1\.[789]\d* \(\d\.?\d* sd\) below usual at 2026-01-\d\d 00:\d\d: 20\.2, usual at this hour (21\.9|22)`},
			{"and that one for it", "kitchen", day(16), day(16.3), `data\.temperature is 1\.[67]\d* \(\d\.?\d* sd\) above usual at 2026-01-\d\d 00:\d\d: 21\.9, usual at this hour 20\.\d`},
			{"a sensor turns to Fahrenheit", "office", day(19), day(19.1), `data\.temperature is 49\.\d* \(\d+ sd\) above usual at 2026-01-\d\d 00:\d\d: 70\.4, usual at this hour 21`},
		},
	},
	{
		// A spreadsheet with a column for each room.
		name: "rooms", file: "rooms.csv", text: rooms, seed: 5,
		events: []dataEvent{
			{"a window is left open", "Lab 3 (°C)", day(16.25), day(16.3), `Lab 3 \(°C\) is 5\.3 °C \(\d+ sd\) below usual at 2026-01-\d\d 06:00: 1[45].*, usual at this hour 20`},
			{"a freezer warms up", "Freezer (°C)", day(18), day(18.6), `usual at this hour -18`},
		},
	},
	{
		// Hourly requests and errors of pages.
		name: "errors", file: "pages.csv", text: pageErrors, seed: 8,
		events: []dataEvent{
			{"a release breaks a page", "/cart", day(40), day(41), `errors`},
		},
	},
	{
		// A log of logins, one line each.
		name: "events", file: "logins.csv", text: logins, seed: 9,
		events: []dataEvent{
			{"nothing comes for half an hour", "web", day(16).Add(16*time.Hour + 10*time.Minute), day(16).Add(16*time.Hour + 30*time.Minute), `web count is zero at 2026-01-\d\d 16:10, usual at this hour 25`},
			{"an attack", "app", day(19.1), day(19.12), `usual at this hour`},
		},
	},
}

func rooms(noise *rand.Rand) string {
	var b strings.Builder
	names := []string{"Freezer (°C)"}
	for i := range 11 {
		names = append(names, fmt.Sprintf("Lab %d (°C)", i+1))
	}
	b.WriteString("Time," + strings.Join(names, ",") + ",Comment\n")
	for i := range 21 * 144 {
		t := firstMonday.Add(time.Duration(i) * 10 * time.Minute)
		b.WriteString(t.Format("2006-01-02 15:04"))
		for room := range names {
			x := 20 + .2*float64(room) + math.Sin(2*math.Pi*t.Sub(day(.3)).Hours()/24) + .3*noise.NormFloat64()
			switch {
			case room == 0 && t.Before(day(18)):
				x = -18 + .4*noise.NormFloat64()
			case room == 0:
				x = -18 + t.Sub(day(18)).Hours()/2 + .4*noise.NormFloat64()
			case room == 3 && !t.Before(day(16.25)) && t.Before(day(16.3)):
				x -= 5
			}
			if room == 5 && i%500 > 480 { // its logger fails at times
				b.WriteString(",")
				continue
			}
			fmt.Fprintf(&b, ",%.1f", x)
		}
		b.WriteString(",\n")
	}
	return b.String()
}

func pageErrors(noise *rand.Rand) string {
	var b strings.Builder
	b.WriteString("page,hour,requests,errors\n")
	for hour := range 56 * 24 {
		t := firstMonday.Add(time.Duration(hour) * time.Hour)
		for i, page := range []string{"/", "/cart", "/login", "/search", "/item", "/help"} {
			mean := 3000 * math.Exp(math.Sin(2*math.Pi*t.Sub(day(.25)).Hours()/24)) / float64(i+1)
			share := .01 * math.Exp(.3*noise.NormFloat64())
			if page == "/cart" && !t.Before(day(40)) && t.Before(day(41)) {
				share *= 3
			}
			n := streams.Poisson(noise, mean)
			fmt.Fprintf(&b, "%s,%s,%.0f,%.0f\n", page, t.Format(time.RFC3339), n, min(n, streams.Poisson(noise, share*n)))
		}
	}
	return b.String()
}

func logins(noise *rand.Rand) string {
	var b strings.Builder
	b.WriteString("time,client,user,result\n")
	for minute := range 21 * 24 * 60 {
		t := firstMonday.Add(time.Duration(minute) * time.Minute)
		type login struct {
			when   time.Time
			client string
		}
		var logged []login
		for _, client := range []string{"web", "app"} {
			rate := 4 * math.Exp(.5*math.Sin(2*math.Pi*t.Sub(day(.25)).Hours()/24))
			switch elapsed := t.Sub(day(16)); {
			case client == "web" && elapsed >= 16*time.Hour+10*time.Minute && elapsed < 16*time.Hour+40*time.Minute:
				rate = 0
			case client == "app" && !t.Before(day(19.1)) && t.Before(day(19.12)):
				rate *= 5
			}
			for range int(streams.Poisson(noise, rate)) {
				logged = append(logged, login{t.Add(time.Duration(noise.Int64N(int64(time.Minute)))), client})
			}
		}
		slices.SortFunc(logged, func(a, b login) int { return a.when.Compare(b.when) })
		for _, l := range logged {
			fmt.Fprintf(&b, "%s,%s,u%05d,%s\n", l.when.Format("2006-01-02T15:04:05.000Z"), l.client, noise.IntN(60000), []string{"ok", "ok", "ok", "wrong password"}[noise.IntN(4)])
		}
	}
	return b.String()
}

func spreadsheet(noise *rand.Rand) string {
	var b strings.Builder
	b.WriteString("\ufeffHalle;Pumpe;\"Zeit (ms)\";\"Druck (bar)\";Bemerkung\r\n")
	for i := range 21 * 144 {
		t := firstMonday.Add(time.Duration(i) * 10 * time.Minute)
		for _, pump := range []struct {
			hall, name  string
			level, step float64
		}{{"Nord", `"Pumpe 2; ""alt"""`, 6.5, 0.4}, {"Nord", "Pumpe 1", 5.1, 0}, {"Süd", "Pumpe 1", 4.2, 0}} {
			x := pump.level + 0.1*noise.NormFloat64()
			if t.After(day(12.5)) {
				x += pump.step
			}
			if pump.hall == "Süd" && !t.Before(day(17)) && t.Before(day(17).Add(100*time.Minute)) {
				x = 0.8 + 0.1*noise.NormFloat64()
			}
			value, note := strings.Replace(fmt.Sprintf("%.3f", x), ".", ",", 1), ""
			switch {
			case i%700 == 650:
				value = "n. v."
			case i == 1000:
				value, note = "Fehler", `"Sensor ""Druck"" defekt; gemeldet"`
			}
			fmt.Fprintf(&b, "%s;%s;%d;%s;%s\r\n", pump.hall, pump.name, t.UnixMilli(), value, note)
		}
	}
	return b.String()
}

func sensors(noise *rand.Rand) string {
	type sensor struct {
		name  string
		level float64
		next  time.Time
		stuck float64
	}
	thermometers := []*sensor{{name: "attic", level: 18}, {name: "cellar", level: 11}, {name: "hall", level: 22}, {name: "kitchen", level: 20}, {name: "office", level: 21}}
	var b strings.Builder
	for minute := range 21 * 24 * 60 {
		t := firstMonday.Add(time.Duration(minute) * time.Minute)
		for _, s := range thermometers {
			if t.Before(s.next) {
				continue
			}
			spoke := t.Add(time.Duration(noise.IntN(60)) * time.Second)
			s.next = t.Add(time.Duration(1+min(60, 10*noise.ExpFloat64())) * time.Minute)
			if s.name == "attic" && !t.Before(day(15.25)) && t.Before(day(15.55)) {
				continue
			}
			level := s.level
			if !t.Before(day(16)) {
				switch s.name {
				case "hall":
					level = 20
				case "kitchen":
					level = 22
				}
			}
			x := level + 1.5*math.Sin(2*math.Pi*t.Sub(firstMonday).Hours()/24) + 0.3*noise.NormFloat64()
			switch {
			case s.name == "office" && !t.Before(day(19)):
				x = 32 + 1.8*x
			case s.name == "cellar" && !t.Before(day(18)):
				if s.stuck == 0 {
					s.stuck = x
				}
				x = s.stuck
			}
			fmt.Fprintf(&b, "{\"device\": {\"name\": %q, \"battery\": %d}, \"at\": %q, \"data\": {\"temperature\": %.1f}}\n", s.name, 40+noise.IntN(60), spoke.Format("2006-01-02T15:04:05-0700"), x)
		}
	}
	return b.String()
}

// Data sets of new users lead from init, or from a short config, to a check of the data, alarms and a picture. Alerts
// report the known events. The golden files contain the output of the program, without speeds.
func TestDataSets(t *testing.T) {
	for _, d := range dataSets {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			if d.name != "errors" {
				expect.Long(t, "the larger sets")
			}
			if n := strings.Count(d.config, "\n"); n > 10 {
				t.Errorf("the config has %d lines", n)
			}
			dir := e2e.Folder(t, map[string]string{d.file: d.text(rand.New(rand.NewPCG(18, d.seed))), "c.yaml": d.config})
			var output strings.Builder
			hafvf := func(args string) (stdout string) {
				stdout, stderr := program.Well(t, dir, strings.Fields(args)...)
				fmt.Fprintf(&output, "$ hafvf %s\n%s%s", args, stdout, stderr)
				return stdout
			}
			draft, out := hafvf("init "+d.file), "out.jsonl"
			expect.OK(t, os.WriteFile(filepath.Join(dir, "init.yaml"), []byte(draft), 0o666))
			// A season is only a suggestion, since the first records do not show whether the values have one.
			if checked := hafvf("check init.yaml"); warnings.MatchString(strings.ReplaceAll(checked, "suggest  model.season:", "season")) {
				t.Errorf("check warns about the config of init:\n%s%s", draft, checked)
			}
			if d.config == "" {
				out = "estimates.jsonl"
				hafvf("run init.yaml")
				hafvf("backtest init.yaml")
			} else {
				hafvf("check c.yaml")
				hafvf("run c.yaml")
			}
			hafvf("plot " + out + " -o out.svg")
			if picture, err := os.ReadFile(filepath.Join(dir, "out.svg")); err != nil || !strings.Contains(string(picture), "</svg>") {
				t.Errorf("%v: no picture", err)
			}
			alerts := readAlerts(t, filepath.Join(dir, "alerts.jsonl"))
			output.WriteString("$ cat alerts.jsonl   # the messages\n")
			for _, a := range alerts {
				fmt.Fprintf(&output, "%s %s %s\n", a.Time.Format(time.RFC3339), a.Kind, a.Message)
			}
			for _, e := range d.events {
				warned := false
				for _, a := range alerts {
					warned = warned || a.Key == e.key && !a.Time.Before(e.start) && !a.Time.After(e.end) && regexp.MustCompile(e.message).MatchString(a.Message)
				}
				if !warned {
					t.Errorf("%s (%s, from %v) has no alert", e.what, e.key, e.start)
				}
			}
			compareGolden(t, filepath.Join("testdata", d.name+".txt"), clockTimes.ReplaceAllString(output.String(), "(time)"))
		})
	}
}

// warnings matches the lines of check that report a problem.
var warnings = regexp.MustCompile(`(?m)^(rejected|far|counters|suggest) `)

// clockTimes matches durations and records per second.
var clockTimes = regexp.MustCompile(`[0-9.]+ s\b|[0-9]+ records/s|[0-9]+ records per second`)

// compareGolden compares a text with the golden file. With -update it writes the file instead.
func compareGolden(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		expect.OK(t, os.WriteFile(golden, []byte(got), 0o666))
	}
	want := expect.Get(os.ReadFile(golden))(t)
	if diff := godiff.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// readAlerts returns the alerts in a file, sorted by time and key.
func readAlerts(t *testing.T, file string) (alerts []alertRecord) {
	t.Helper()
	text := expect.Get(os.ReadFile(file))(t)
	for line := range strings.Lines(string(text)) {
		var a alertRecord
		expect.OK(t, json.Unmarshal([]byte(line), &a))
		alerts = append(alerts, a)
	}
	slices.SortStableFunc(alerts, func(a, b alertRecord) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Key, b.Key)) })
	return alerts
}
