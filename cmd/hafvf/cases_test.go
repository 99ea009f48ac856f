package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// A useCase is an input from practice, after a public report, with the correct draft, check and runs, also with
// additions by a person. testdata/cases/README.md lists the sources.
type useCase struct {
	file   string
	code   int      // exit code of init
	stderr string   // part of standard error of init; empty means no output
	config []string // parts of the draft
	check  expectation
	runs   []runCase
}

// An expectation is the exit code of a command and parts of its output.
type expectation struct {
	code  int
	texts []string
}

// A runCase is a run of the draft with some settings, or of a separate config.
type runCase struct {
	set    []string
	config string
	expectation
	lacks  string                              // text that the output must not contain
	alarms []string                            // correct alerts, as kind, key and time
	chance int                                 // maximum number of additional novelties
	edges  []string                            // changes of sessions, as key and number of the first observation after the change
	near   int                                 // maximum distance from an edge, in observations
	check  func(*testing.T, []writtenEstimate) // check of the estimates
}

// A writtenEstimate has the fields of an estimate or a smoothed record that the tests read.
type writtenEstimate struct {
	Key, ID string
	Time    *time.Time
	N       int
	X       any
	Change  bool
	Detect  *struct{ Usual *struct{ Mean, SD float64 } }
}

// smooth returns a config that smooths. more are further keys of the config, and source is its source.
func smooth(more, source string) string {
	return "transform: smooth\n" + more + "\nsource: {" + source + "}\nsink: {jsonl: {path: estimates.jsonl}}\n"
}

const normal = "model: {family: normal, prior: auto}"

// numbered returns names with positions: format gets each number from start to end, exclusive, and " " and a position
// follow.
func numbered(format string, start, end int, positions ...int) (names []string) {
	for i := start; i < end; i++ {
		for _, position := range positions {
			names = append(names, fmt.Sprintf(format+" %d", i, position))
		}
	}
	return names
}

// valuesBetween returns a check that the values of a key, after the first skip values, are in a range, except those from a
// time until before another time, which must be below the range.
func valuesBetween(key string, low, high float64, start, end string, skip int) func(*testing.T, []writtenEstimate) {
	return func(t *testing.T, estimates []writtenEstimate) {
		t.Helper()
		estimates = slices.DeleteFunc(slices.Clone(estimates), func(e writtenEstimate) bool { return e.Key != key || e.X == nil })
		for _, e := range estimates[skip:] {
			timeText, x := e.Time.Format("2006-01-02T15:04"), e.X.(float64)
			if event := start <= timeText && timeText < end; x > high || event != (x < low) {
				t.Errorf("%s at %s: %g", key, timeText, x)
			}
		}
	}
}

// TestCases runs init, check and run on each input. Unless a comment says otherwise, the expectations were written
// before the program first read the input. The numbers of chance alarms are those of the build that first included
// the inputs.
func TestCases(t *testing.T) {
	expect.Long(t, "the inputs of practitioners")
	for _, p := range slices.Concat(counters(), tables(), clocks(), binaries(), shifts(), trialCases(), shapes()) {
		t.Run(p.file, func(t *testing.T) {
			t.Parallel()
			p.test(t)
		})
	}
}

func (p useCase) test(t *testing.T) {
	dir := e2e.Folder(t, nil)
	files := expect.Get(filepath.Glob("testdata/cases/*"))(t)
	for _, f := range files { // a run may read another input than the draft
		expect.OK(t, os.Symlink(expect.Get(filepath.Abs(f))(t), filepath.Join(dir, filepath.Base(f))))
	}
	if header, body, made := strings.Cut(p.file, " before "); made {
		text := header + "\n" + unpacked(t, filepath.Join(dir, body))
		p.file = "headed.csv"
		expect.OK(t, os.WriteFile(filepath.Join(dir, p.file), []byte(text), 0o666))
	}
	code, _, stderr := program.Run(t, dir, "", "init", p.file, "-o", "x.yaml")
	if code != p.code || !strings.Contains(stderr, p.stderr) || p.stderr == "" && stderr != "" {
		t.Errorf("init: exit %d, want %d: %s", code, p.code, stderr)
	}
	if len(p.config) > 0 {
		draft := string(expect.Get(os.ReadFile(filepath.Join(dir, "x.yaml")))(t))
		for _, part := range p.config {
			if !strings.Contains(draft, part) {
				t.Errorf("no %q in the draft:\n%s", part, draft)
			}
		}
		if sure := p.stderr == ""; strings.Contains(draft, "# Not sure") == sure {
			t.Errorf("sure is %v:\n%s", sure, draft)
		}
		code, stdout, stderr := program.Run(t, dir, "", "check", "x.yaml")
		p.check.compare(t, "check", code, stdout+stderr)
	}
	for _, r := range p.runs {
		r.test(t, dir)
	}
}

func (w expectation) compare(t *testing.T, what string, code int, output string) {
	t.Helper()
	if code != w.code {
		t.Errorf("%s: exit %d, want %d: %s", what, code, w.code, output)
	}
	for _, part := range w.texts {
		if !strings.Contains(output, part) {
			t.Errorf("%s: no %q in %s", what, part, output)
		}
	}
}

func (r runCase) test(t *testing.T, dir string) {
	t.Helper()
	config := "x.yaml"
	if r.config != "" {
		config = "own.yaml"
		expect.OK(t, os.WriteFile(filepath.Join(dir, config), []byte(r.config), 0o666))
	}
	what := []string{config}
	for _, set := range r.set {
		what = append(what, "--set", set)
	}
	for _, old := range []string{"estimates.jsonl", "alerts.jsonl"} {
		os.Remove(filepath.Join(dir, old))
	}
	code, _, stderr := program.Run(t, dir, "", append([]string{"run"}, what...)...)
	// Rejected records are on standard error, one per line.
	var output strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, `{"reason"`) {
			output.WriteString(line)
		}
	}
	name := fmt.Sprint("run ", what)
	r.compare(t, name, code, output.String())
	if r.lacks != "" && strings.Contains(output.String(), r.lacks) {
		t.Errorf("%s: %q in %s", name, r.lacks, output.String())
	}
	var alarms []string
	chance := 0
	if file := filepath.Join(dir, "alerts.jsonl"); exists(file) {
		for _, a := range readAlerts(t, file) {
			timeText := a.ID
			if !a.Time.IsZero() {
				timeText = a.Time.Format("2006-01-02T15:04")
			}
			kind := a.Kind
			if a.isWorse() {
				kind = "worse"
			}
			switch alarm := kind + " " + a.Key + " " + timeText; {
			case kind != "novelty" && kind != "worse" || slices.Contains(r.alarms, alarm):
				alarms = append(alarms, alarm)
			case kind == "novelty":
				chance++
			}
		}
	}
	slices.Sort(alarms)
	expect.Same(t, slices.Sorted(slices.Values(r.alarms)), alarms, name)
	if chance > r.chance {
		t.Errorf("%s: %d alarms by chance, want at most %d", name, chance, r.chance)
	}
	r.compareEstimates(t, name, filepath.Join(dir, "estimates.jsonl"))
}

// compareEstimates compares the estimates of a run with the correct changes.
func (r runCase) compareEstimates(t *testing.T, name, file string) {
	t.Helper()
	var estimates []writtenEstimate
	edges := map[string][]int{}
	for line := range strings.Lines(string(expect.Get(os.ReadFile(file))(t))) {
		var e writtenEstimate
		expect.OK(t, json.Unmarshal([]byte(line), &e))
		if estimates = append(estimates, e); e.Change {
			edges[e.Key] = append(edges[e.Key], e.N)
		}
	}
	if r.check != nil {
		r.check(t, estimates)
	}
	if r.edges == nil {
		return
	}
	wants := map[string][]int{}
	for _, edge := range r.edges {
		i := strings.LastIndexByte(edge, ' ')
		var n int
		expect.Get(fmt.Sscan(edge[i:], &n))(t)
		wants[edge[:i]] = append(wants[edge[:i]], n)
	}
	for key, want := range wants {
		got := edges[key]
		if len(got) != len(want) || slices.ContainsFunc(got, func(n int) bool {
			return !slices.ContainsFunc(want, func(m int) bool { return n-m <= r.near && m-n <= r.near })
		}) {
			t.Errorf("%s: changes of %s at %v, want %v", name, key, got, want)
		}
	}
	if len(edges) > len(wants) {
		t.Errorf("%s: unexpected changes: %v", name, edges)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// unpacked returns the text of a gzip file.
func unpacked(t *testing.T, file string) string {
	t.Helper()
	r := expect.Get(gzip.NewReader(bytes.NewReader(expect.Get(os.ReadFile(file))(t))))(t)
	return string(expect.Get(io.ReadAll(r))(t))
}

// counters are counters that wrap, restart, share a name, or change their unit.
func counters() []useCase {
	const event, start, end = "novelty ge-0 2026-03-07T12:30", "2026-03-07T12:30", "2026-03-07T15:30"
	return []useCase{
		{
			// The rates are correct except the first of ge-0, a wrap before any rise is known. With a modulus it is
			// correct too.
			file: "octets.csv.gz", config: []string{"aggregate: {every: 5m, value: increase}", "key: ifName "},
			check: expectation{texts: []string{"all 4032 records", "restarts 1 counter reset"}},
			runs: []runCase{
				{
					expectation: expectation{texts: []string{"2 keys, 1 alarm ", "4032 records (2 missing), 0 rejected", "counters were reset 1 time"}}, alarms: []string{event},
					check: valuesBetween("ge-0", 5.2e8, 1e9, start, end, 1), lacks: "model.scale",
				},
				{set: []string{"aggregate.modulus=4294967296"}, alarms: []string{event}, check: valuesBetween("ge-0", 5.2e8, 1e9, start, end, 0), lacks: "anew"},
				{set: []string{"aggregate.modulus=4294967296", "aggregate.per=1s"}, alarms: []string{event}, check: valuesBetween("ge-1", 3e7/300, 6.2e7/300, "", "", 0)},
			},
		},
		{
			file: "requests.csv.gz", code: 1, stderr: "web: more than 5 % of the values are falls that recover within three records: two counters may share the key",
			config: []string{"key: job "}, check: expectation{texts: []string{"remark   the values of 1 key rise", "remark   web: more than 5 %"}},
			runs: []runCase{{
				set: []string{"aggregate={every: 5m, value: increase, per: 1s}", "model.scale=linear"},
				expectation: expectation{texts: []string{
					"2 keys, 0 alarms", "800 records (0 missing), 0 rejected", "counters were reset 999 times",
					"warning: web falls at more than 5 % of its records, and recovers within three records: two counters may share the key",
				}},
				lacks: "api",
			}},
		},
		{
			// One alarm of plug-1 is correct; its increases are larger from then on. Three chance alarms are not correct,
			// one of them of another plug, and the usual band of plug-1 is as wide as its
			// increases vary only from the fifth day on.
			file: "energy.csv.gz", config: []string{"aggregate: {every: 1h, value: increase}", "key: device "},
			check: expectation{texts: []string{"all 5184 records", "keys     3: plug-0, plug-1, plug-2"}},
			runs: []runCase{{
				expectation: expectation{texts: []string{"3 keys, 4 alarms", "2592 records (0 missing), 0 rejected"}},
				alarms:      []string{"novelty plug-1 2026-01-29T09:00"}, chance: 3, check: larger,
			}},
		},
	}
}

// larger checks that the usual value of plug-1, if there is one, is about a thousandfold from the fifth day after the
// change of its unit.
func larger(t *testing.T, estimates []writtenEstimate) {
	for _, e := range estimates {
		if e.Key == "plug-1" && e.Time.Format("2006-01-02T15") >= "2026-02-03T10" {
			if u := e.Detect.Usual; u.SD != 0 && (u.Mean < 50 || u.Mean > 250 || u.SD < 20 || u.SD > 250) {
				t.Errorf("%v: usual is %g ± %g", e.Time, u.Mean, u.SD)
			}
		}
	}
}

// tables have headers in their midst, none, short lines, and other letters.
func tables() []useCase {
	const passed = "skipped: above a header, comments, or the header of another table"
	hall := []string{"key: device ", "time: time ", "values: [temp] "}
	const put = ", instead of the names of the columns: put a header line before it"
	return []useCase{
		{
			file: "same.csv.gz", config: hall, check: expectation{texts: []string{"all 1540 records", "100 % of the records parse"}},
			runs: []runCase{{expectation: expectation{texts: []string{"1540 records (0 missing), 0 rejected", "13 lines were " + passed}}, check: valuesBetween("hall", 15, 30, "", "", 0)}},
		},
		{
			file: "changed.csv.gz", config: hall, check: expectation{texts: []string{"all 1500 records", "100 % of the records parse"}},
			runs: []runCase{{expectation: expectation{texts: []string{"1500 records (0 missing), 0 rejected", "1 line was " + passed}}, check: valuesBetween("hall", 15, 30, "", "", 0)}},
		},
		{
			// The chance alarm is for a value 3.7 standard deviations below usual, which is in the column.
			file: "swapped.csv.gz", config: hall, check: expectation{texts: []string{"all 1500 records", "100 % of the records parse"}},
			runs: []runCase{{expectation: expectation{texts: []string{"1500 records (0 missing), 0 rejected", "1 line was " + passed}}, chance: 1, check: valuesBetween("hall", 15, 30, "", "", 0)}},
		},
		{
			file: "noheader.csv.gz", code: 1, stderr: "33.3 % of the records are rejected, such as noheader.csv.gz:1002: 5 fields where the header has 4",
			config: []string{"layout: wide ", "values: [temp, hum]"}, check: expectation{texts: []string{"rejected 1000 × 5 fields where the header has 4"}},
			runs: []runCase{{expectation: expectation{texts: []string{"2000 records (0 missing), 1000 rejected"}}, chance: 1, check: valuesBetween("temp", 15, 30, "", "", 0)}},
		},
		{
			file: "sensor.csv.gz", code: 1, stderr: "10.1 % of the records are rejected, such as sensor.csv.gz:14: 6 fields where the header has 8",
			config: []string{"layout: wide ", "delimiter: ;"}, check: expectation{texts: []string{"rejected 1106 × 6 fields where the header has 8"}},
			runs: []runCase{{ // 205 lines with 7 values each
				expectation: expectation{texts: []string{"7 keys, 0 alarms", "13965 records (0 missing), 1435 rejected", "1435 × 6 fields where the header has 8"}},
				check:       valuesBetween("temperature", 15, 35, "", "", 0),
			}},
		},
		{
			// 706 of 1440 lines have other numbers of fields, and no interpretation of them is correct.
			file: "day.csv.gz", code: 1, stderr: "49.0 % of the records are rejected, such as day.csv.gz:75: 8 fields where the header has 5",
			config: []string{"layout: wide "}, check: expectation{texts: []string{"51.0 % of the records parse"}},
			runs: []runCase{{expectation: expectation{texts: []string{"2936 records (0 missing), 2824 rejected"}}, chance: 6}},
		},
		{file: "meter.csv.gz", code: 1, stderr: "meter.csv.gz begins with the record 2026-05-18T00:00:00+0200, main, 00123.9011, 123.9011" + ", 123.9000, 0.000216, 0.0011, no error, …" + put},
		{
			file: "time,name,raw,value,pre,rate,delta,error,a,b,c before meter.csv.gz", config: []string{"key: name ", "time: time "},
			check: expectation{texts: []string{"all 1500 records"}},
			runs:  []runCase{{expectation: expectation{texts: []string{"1467 records (0 missing), 33 rejected", "33 × "}}, chance: 4}},
		},
		{file: "export.csv.gz", code: 1, stderr: "export.csv.gz begins with the record 2026-01-05T00:00:00Z, 50.0, 49, CH-1" + put},
		{
			file: "time,power,vpsz,channel before export.csv.gz", config: []string{"key: channel ", "time: time ", "values: [power]"},
			check: expectation{texts: []string{"all 3000 records", "keys     3: CH-1, CH-2, CH-3"}},
			runs:  []runCase{{expectation: expectation{texts: []string{"3000 records (0 missing), 0 rejected"}}, alarms: []string{"novelty CH-2 2026-01-08T03:05"}}},
		},
		{
			file: "export.jsonl.gz", config: []string{"layout: series ", "key: metric ", "time: timestamps ", "values: [values]"},
			check: expectation{texts: []string{"all 3000 records", `keys     3: power{aid="CH-1",vpsz="49"}, `}},
			runs: []runCase{{
				expectation: expectation{texts: []string{"3 keys, 1 alarm ", "3000 records (0 missing), 0 rejected"}},
				alarms:      []string{`novelty power{aid="CH-2",vpsz="49"} 2026-01-08T03:05`},
			}},
		},
		{
			file: "station.csv.gz", stderr: "remark   the file is not UTF-8, and read as windows-1252; see encoding\n",
			config: []string{"encoding: windows-1252 ", "delimiter: ;", "decimal: ','", "time_format: '%d/%m/%Y %H:%M' ", "Température °C]", "missing: ['---']"},
			check:  expectation{texts: []string{"100 % of the records parse, 0.1 % are missing", "Rain , Température °C\n"}},
			runs:   []runCase{{expectation: expectation{texts: []string{"9 keys, ", "13500 records (20 missing), 0 rejected"}}, chance: 14}},
		},
	}
}

// clocks are files whose clocks repeat or skip an hour or are 1,024 weeks behind, and keys with days off.
func clocks() []useCase {
	repeatedHour := func(t *testing.T, estimates []writtenEstimate) { // the repeated hour becomes two hours
		for i, key := range []string{"north", "south"} {
			var hours []string
			for _, e := range estimates {
				if timeText := e.Time.UTC().Format("2006-01-02 15:04"); e.Key == key && "2025-11-02 05" <= timeText && timeText < "2025-11-02 07" {
					hours = append(hours, timeText[11:])
				}
			}
			expect.Same(t, strings.Fields("05:05 05:20 05:35 05:50 06:05 06:20 06:35 06:50"), hours, i)
		}
	}
	const (
		newYork = "source.csv.zone=America/New_York"
		rain    = "rx-2 2019-04-07T01:59"
	)
	var daysOff []string // 49 silences: six days off of eight desks, and a gap of one desk
	for _, day := range [][2]string{{"04-18", "04-22"}, {"05-01", "05-02"}, {"05-29", "05-30"}, {"06-09", "06-10"}, {"10-03", "10-06"}, {"12-25", "12-29"}} {
		for desk := range 8 {
			daysOff = append(daysOff, fmt.Sprintf("silent desk-%d 2025-%sT00:24", desk, day[0]), fmt.Sprintf("recovered desk-%d 2025-%sT00:00", desk, day[1]))
		}
	}
	return []useCase{
		{
			file: "fall.csv.gz", stderr: "times without a zone go back by an hour at 2025-11-02 01:05 (fall.csv.gz:1258), like clocks at the end of summer time; see zone",
			config: []string{"key: meter ", "time: end "}, check: expectation{texts: []string{"remark   times without a zone go back by an hour"}},
			runs: []runCase{{set: []string{newYork}, expectation: expectation{texts: []string{"2 keys, 0 alarms", "3808 records (0 missing), 0 rejected"}}, check: repeatedHour}},
		},
		{
			// Skipped times use the offset before the change, so three records of the hour after them are late.
			// Correct would be that the other records are accepted.
			file: "spring.csv.gz", stderr: "the times have no zone and are read as UTC", config: []string{"key: meter ", "time: end "}, check: expectation{texts: []string{"all 1344 records"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"1344 records (0 missing), 0 rejected"}}, chance: 1},
				{
					set: []string{newYork}, expectation: expectation{texts: []string{
						"1341 records (0 missing), 3 rejected",
						"3 records were late by up to 45m0s, when the clock of the zone was set forward: a skipped time uses the offset before the change",
					}}, lacks: "lateness", chance: 1,
				},
			},
		},
		{
			file: "falls-back.csv.gz", code: 1,
			stderr: "18.3 % of the records are late, by up to 19.6 years, the first at falls-back.csv.gz:3171: times go back there; order: arrival uses the order of the source; see order",
			config: []string{"key: receiver ", "time: time "}, check: expectation{texts: []string{"all 5000 records", "18.3 % of the records are late"}},
			runs: []runCase{
				{
					expectation: expectation{texts: []string{"4084 records (0 missing), 916 rejected", "916 records were late by more than a year: times go back there; order: arrival uses the order of the records"}},
					lacks:       "max_ahead", chance: 2,
				},
				{set: []string{"silence=true"}, expectation: expectation{texts: []string{"916 rejected", "1 silence,"}}, alarms: []string{"silent " + rain}, chance: 2},
				{
					set: []string{"order=arrival"}, expectation: expectation{texts: []string{"5000 records (0 missing), 0 rejected"}},
					alarms: []string{"novelty rx-2 1999-08-26T23:30"}, chance: 3,
				},
			},
		},
		{
			file: "jumps-ahead.csv.gz", config: []string{"key: receiver ", "time: time "}, check: expectation{texts: []string{"times    1999-08-11T00:00:00Z to 2019-04-13T08:30:00Z"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"5000 records (0 missing), 0 rejected"}}, alarms: []string{"novelty rx-2 2019-04-11T23:30"}, chance: 3},
				{
					set: []string{"silence=true"}, expectation: expectation{texts: []string{"1 silence,"}},
					alarms: []string{"silent rx-2 1999-08-22T01:59", "recovered rx-2 2019-04-07T00:00", "novelty rx-2 2019-04-11T23:50"}, chance: 3,
				},
			},
		},
		{
			file: "revenue.csv.gz", config: []string{"key: desk ", "time: date ", "values: [revenue]"}, check: expectation{texts: []string{"all 2013 records"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"2013 records (0 missing), 0 rejected"}}, chance: 3},
				{
					set: []string{"silence=true"}, expectation: expectation{texts: []string{"49 silences"}}, chance: 1,
					alarms: append(daysOff, "silent desk-3 2025-08-12T00:24", "recovered desk-3 2025-08-15T00:00"),
				},
			},
		},
		{
			file: "metrics.csv.gz", config: []string{"key: metric ", "time: time "}, check: expectation{texts: []string{"all 4920 records"}},
			runs: []runCase{{
				set: []string{"silence=true"}, expectation: expectation{texts: []string{"4 silences", "4920 records (0 missing), 0 rejected"}}, chance: 6,
				alarms: []string{
					"silent a2 2026-05-04T12:04", "silent b4 2026-05-05T14:15", // ended keys
					"silent c1 2026-05-04T06:04", "recovered c1 2026-05-04T06:15", "silent a1 2026-05-04T12:10", "recovered a1 2026-05-04T12:10", // keys with growing steps
				},
			}},
		},
	}
}

// binaries are one table in six forms of Parquet, and forms that are not supported.
func binaries() (cases []useCase) {
	pumps := []string{"novelty pump-1 2026-01-12T15:20", "novelty pump-2 2026-01-12T15:30"}
	for _, form := range []string{"ms", "us", "ns", "int96", "index", "dict-decimal"} {
		timeKey := "time: time "
		if form == "index" {
			timeKey = "time: __index_level_0__ "
		}
		cases = append(cases, useCase{
			file: form + ".parquet", config: []string{"key: key ", timeKey, "values: [x]"}, check: expectation{texts: []string{"all 1200 records", "keys     2: pump-1, pump-2"}},
			runs: []runCase{{expectation: expectation{texts: []string{"2 keys, 2 alarms", "found 2 changes and 4 outliers, 1200 records (0 missing), 0 rejected"}}, alarms: pumps}},
		})
	}
	const far, none = "far      1 time lies far beyond the others, the first at ", `the time "0001-01-01T00:00:00Z" stands for none`
	for _, file := range []string{"sentinel.parquet", "sentinel96.parquet"} {
		cases = append(cases, useCase{
			file: file, config: []string{"key: key ", "time: time ", "values: [x]"},
			check: expectation{texts: []string{far + file + ":301", "rejected 1 × " + none, "suggest  source.parquet.max_ahead: 1h"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"1195 records (0 missing), 5 rejected", "1 × " + none, "max_ahead of the source rejects such times"}}, alarms: pumps},
				{
					set: []string{"source.parquet.max_ahead=1h"}, alarms: pumps,
					expectation: expectation{texts: []string{"1198 records (0 missing), 2 rejected", "1 × the time 9999-12-31T23:59:59Z is over 292 years ahead of the clock", "1 × " + none}},
				},
			},
		})
	}
	return append(cases, useCase{
		file: "date-half.parquet", code: 1,
		stderr: `date-half.parquet: column "x" is of type FIXED_LEN_BYTE_ARRAY(2), which cannot be read: write plain numbers, decimals, texts, booleans, dates or timestamps`,
	})
}

// shifts are series with changes of level, spread or share.
func shifts() (cases []useCase) {
	climbs := []string{ // at runs 208 to 213, and worse during the climb
		"novelty bench-0 perf.csv.gz:1563", "novelty bench-1 perf.csv.gz:1758", "novelty bench-2 perf.csv.gz:1644", "novelty bench-3 perf.csv.gz:1712",
		"worse bench-0 perf.csv.gz:1637", "novelty bench-1 perf.csv.gz:2078", "worse bench-2 perf.csv.gz:1848", "worse bench-3 perf.csv.gz:1903",
	}
	scales := strings.Fields("one nano giga pico offset6 offset9 neg tera")
	var alarms, edges []string
	for _, key := range scales {
		alarms = append(alarms, "novelty "+key+" 2026-01-07T02:00", "novelty "+key+" 2026-01-07T23:40")
		edges = append(edges, key+" 301")
	}
	cases = []useCase{
		{
			// The changes that smooth finds are correct. The filter has too few observations for a change, and
			// reports none.
			file: "numbers.csv.gz", stderr: "no column of times was found", config: []string{"order: arrival ", "values: [sales]"},
			check: expectation{texts: []string{"all 20 records"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"1 key, 0 alarms", "20 records (0 missing), 0 rejected"}}},
				{config: smooth("order: arrival\n"+normal, `csv: {path: numbers.csv.gz, key: none, time: "", values: [sales]}`), edges: []string{"numbers 7", "numbers 14"}},
			},
		},
		{
			file: "trace.csv.gz", config: []string{"key: app ", "time: time ", "values: [ms]"}, check: expectation{texts: []string{"all 4800 records"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"16 keys, ", "4800 records (0 missing), 0 rejected"}}, alarms: everyTrace(), chance: 16},
				{
					config: smooth(normal, "csv: {path: trace.csv.gz, key: app, values: [ms]}"), expectation: expectation{texts: []string{"16 sessions, 24 changes"}},
					edges: append(numbered("app-%02d", 0, 8, 101, 201), numbered("app-%02d", 8, 16, 151)...), near: 10,
				},
			},
		},
		{
			// Each of the four climbing series alarms during its climb, from record 201 of 300. Two alarms are by
			// chance.
			file: "perf.csv.gz", stderr: "no column of times was found", config: []string{"order: arrival ", "key: test ", "values: [ms]"},
			check: expectation{texts: []string{"all 2400 records"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"8 keys, 7 alarms", "2400 records (0 missing), 0 rejected"}}, alarms: climbs, chance: 2},
				{
					config: smooth("order: arrival\n"+normal, `csv: {path: perf.csv.gz, key: test, time: "", values: [ms]}`),
					edges:  numbered("bench-%d", 0, 4, 205, 240), near: 15,
				},
			},
		},
		{
			// One failure of one request at night is not an alarm, and the four hours of eu are one alarm.
			file: "failures.csv.gz", config: []string{"family: binomial ", "key: app ", "values: [failed, requests]"}, check: expectation{texts: []string{"all 2520 records"}},
			runs: []runCase{{expectation: expectation{texts: []string{"3 keys, 1 alarm ", "2520 records (856 missing), 0 rejected"}}, alarms: []string{"novelty eu 2026-04-01T10:00"}}},
		},
		{
			file: "scales.csv.gz", config: []string{"key: key ", "time: time "}, check: expectation{texts: []string{"all 4000 records"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"8 keys, 16 alarms", "found 8 changes and 32 outliers, 4000 records (0 missing), 0 rejected"}}, alarms: alarms, check: similar},
				{config: smooth(normal, "csv: {path: scales.csv.gz}"), expectation: expectation{texts: []string{"8 sessions, 8 changes"}}, edges: edges},
			},
		},
	}
	for file, step := range map[string]string{"half-hourly": "30m", "31-minutes": "31m", "hourly": "1h", "daily": "24h"} {
		config := smooth(normal, "csv: {path: "+file+".csv.gz}")
		cases = append(cases, useCase{
			file: file + ".csv.gz", config: []string{"key: key ", "time: time "}, check: expectation{texts: []string{"all 400 records", "median step of a key " + step}},
			runs: []runCase{
				{config: config, expectation: expectation{texts: []string{"1 session, 1 change, 400 records", "30 median steps of the key and at least 30m; session.gap sets another gap"}}, edges: []string{"a 201"}},
				{
					config: config, set: []string{"session.gap=30m"}, edges: []string{},
					expectation: expectation{1, []string{"400 sessions, 0 changes", "400 of 400 sessions have one record: session.gap is 30m, and the records of a key are " + step + " apart"}},
				},
			},
		})
	}
	return cases
}

// everyTrace returns the alarms of the traces whose level rises.
func everyTrace() (alarms []string) {
	for i := range 8 {
		alarms = append(alarms, fmt.Sprintf("novelty app-%02d 2026-01-05T03:20", i))
	}
	return alarms
}

// similar checks that the usual values of a series in several units are equal up to the unit.
func similar(t *testing.T, estimates []writtenEstimate) {
	units := map[string]float64{"one": 1, "nano": 1e-9, "giga": 1e9, "pico": 1e-15, "tera": 1e15}
	for _, e := range estimates {
		if unit := units[e.Key]; unit > 0 && e.N == 300 {
			if e.Detect == nil || e.Detect.Usual == nil {
				t.Errorf("%s: no usual value", e.Key)
			} else if u := e.Detect.Usual; u.Mean < 9.5*unit || u.Mean > 11*unit || u.SD < .8*unit || u.SD > 1.2*unit {
				t.Errorf("%s: %g ± %g", e.Key, u.Mean, u.SD)
			}
		}
	}
}

// trialCases are experiments with missed trials, two arms, or lists.
func trialCases() []useCase {
	missed := func(t *testing.T, estimates []writtenEstimate) {
		n := 0
		for _, e := range estimates {
			if e.X == nil {
				n++
			}
		}
		if len(estimates) != 2400 || n != 598 {
			t.Errorf("%d rows, %d of them missed", len(estimates), n)
		}
	}
	arms := numbered("%d/1", 1, 11, 66)
	arms = append(arms, numbered("%d/2", 1, 11, 38)...)
	return []useCase{
		{
			// init uses the stimulus as value, and lists the others.
			file: "mice.csv.gz", stderr: "no column of times was found", config: []string{"key: mouse ", "order: arrival ", "# or action, correct"},
			check: expectation{texts: []string{"all 2400 records"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"6 keys, 0 alarms"}}},
				{ // the edge of m5 is found at 116, 35 before the true edge
					config: smooth("order: arrival\nmodel: {family: bernoulli}", "csv: {path: mice.csv.gz, key: mouse, values: [correct]}"), check: missed,
					expectation: expectation{texts: []string{"6 sessions, 6 changes, 2400 records (598 missing)"}}, edges: numbered("m%d", 0, 6, 151), near: 35,
				},
			},
		},
		{
			file: "bandit.csv.gz", stderr: "no column of times was found", config: []string{"key: subjID ", "values: [outcome] "}, check: expectation{texts: []string{"keys     10: 1, 2, 3"}},
			runs: []runCase{
				{expectation: expectation{texts: []string{"10 keys, ", "2000 records (0 missing), 0 rejected"}}},
				{
					config:      smooth("order: arrival\nmodel: {family: bernoulli}", "csv: {path: bandit.csv.gz, key: [subjID, choice], values: [outcome], values_as: [-1, 1]}"),
					expectation: expectation{texts: []string{"20 sessions, 20 changes, 2000 records (0 missing), 0 rejected"}}, edges: arms, near: 14,
				},
			},
		},
		{
			file: "participants.jsonl.gz", code: 1, stderr: `its columns are lists without times, which layout: series of the source reads under order: arrival, with key: participant, time: "" and values: [rts]`,
			runs: []runCase{{
				config:      smooth("order: arrival\nmodel: {family: bernoulli}", `jsonl: {path: participants.jsonl.gz, layout: series, key: participant, time: "", values: [correct]}`),
				expectation: expectation{texts: []string{"20 sessions, 40 changes, 3600 records (0 missing), 0 rejected"}}, edges: numbered("p%d", 0, 20, 61, 121), near: 3,
			}},
		},
		{file: "strings.jsonl.gz", code: 1, stderr: "1, 1, 1, 1, 1…\", which is not read: zcat strings.jsonl.gz | jq -c '(.correct | strings) |= fromjson' > records.jsonl makes fields of it"},
	}
}

// shapes are JSON files that are not tables.
func shapes() []useCase {
	series := func(file, timeField, value string) []runCase {
		return []runCase{{
			config:      normal + "\ndetect: true\nsource: {jsonl: {path: " + file + ", layout: series, key: none, time: " + timeField + ", values: [" + value + "]}}\nsink: {jsonl: {path: estimates.jsonl}}\n",
			expectation: expectation{texts: []string{"1 key, ", "400 records (0 missing), 0 rejected"}},
		}}
	}
	const each = " > records.jsonl writes a record for each"
	return []useCase{
		{
			file: "inf.jsonl.gz", config: []string{"key: dev ", "values: [load]"}, check: expectation{texts: []string{"all 800 records", "rejected 1 × the number is infinite"}},
			runs: []runCase{{expectation: expectation{texts: []string{"2 keys, 0 alarms", "799 records (0 missing), 1 rejected", "1 × the number is infinite\n      inf.jsonl.gz:501: "}}}},
		},
		{file: "cols.json.gz", code: 1, stderr: "its columns are lists, which layout: series of the source reads, with time: time and values: [temp]", runs: series("cols.json.gz", "time", "temp")},
		{
			file: "hourly.json.gz", code: 1, stderr: "its columns are lists, which layout: series of the source reads, with time: hourly.time and values: [hourly.temperature_2m]",
			runs: series("hourly.json.gz", "hourly.time", "hourly.temperature_2m"),
		},
		{file: "cw.json.gz", code: 1, stderr: ".Datapoints holds lists of objects, which are not read: zcat cw.json.gz | jq -c '.Datapoints[]'" + each},
		{file: "wrapped2.json.gz", code: 1, stderr: ".records holds lists of objects, which are not read: zcat wrapped2.json.gz | jq -c '.records[]'" + each},
		{file: "readings.jsonl.gz", code: 1, stderr: ".readings holds lists of objects, which are not read: zcat readings.jsonl.gz | jq -c '. as $r | .readings[] | $r + . | del(.readings)'" + each},
		{file: "list.jsonl.gz", code: 1, stderr: ".values holds lists, which are not read as values: zcat list.jsonl.gz | jq -c '. as $r | .values[] | $r + {x: .} | del(.values)'" + each},
		{file: "cell.csv.gz", code: 1, stderr: `cell.csv.gz: column "payload" holds JSON in a text, such as "{\"temp\":21.0}", which is not read: write its fields as columns, or as fields of JSON Lines`},
	}
}

// The six forms of one table give equal estimates, except for their IDs.
func TestCasesOfParquet(t *testing.T) {
	expect.Long(t, "the inputs of practitioners")
	dir := expect.Get(filepath.Abs("testdata/cases"))(t)
	var first string
	for _, form := range []string{"ms", "us", "ns", "int96", "index", "dict-decimal"} {
		timeField := "time"
		if form == "index" {
			timeField = "__index_level_0__"
		}
		config := fmt.Sprintf("%s\ndetect: true\nsource: {parquet: {path: %s, key: key, time: %s, values: [x]}}\n", normal, filepath.Join(dir, form+".parquet"), timeField)
		code, stdout, stderr := program.Run(t, t.TempDir(), config, "run", "-")
		if code != 0 {
			t.Fatal(stderr)
		}
		got := strings.ReplaceAll(stdout, form+".parquet:", "")
		if first = cmp.Or(first, got); got != first || strings.Count(got, "\n") != 1200 {
			t.Errorf("%s differs", form)
		}
	}
}

// Responses like those of real Prometheus servers: at most 11,000 points per series, infinite and missing values, a
// series of histograms, a warning, and a pod that replaces another. The event is in the last two hours. See
// hastic/hastic-server#866, ryotarai/prometheus-query#1, prometheus/prometheus#1968, #2253, #10310.
func TestCaseOfPrometheus(t *testing.T) {
	expect.Long(t, "the inputs of practitioners")
	t.Parallel()
	minute := time.Now().Unix() / 60
	var refused atomic.Int64
	value := func(pod string, i int64) string { // value i minutes after minute
		x := 40 + 10*math.Sin(2*math.Pi*float64(i%1440)/1440) + rand.New(rand.NewPCG(uint64(i), uint64(len(pod)))).NormFloat64()
		switch {
		case pod == "web-a" && i > -120:
			x += 15
		case pod == "web-a" && i%500 == -250:
			return "+Inf"
		case pod == "web-a" && i%500 == -251:
			return "NaN"
		}
		return fmt.Sprintf("%.3f", x)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var start, end, step float64
		fmt.Sscan(r.FormValue("start"), &start)
		fmt.Sscan(r.FormValue("end"), &end)
		fmt.Sscan(strings.TrimSuffix(r.FormValue("step"), "s"), &step)
		if (end-start)/step > 11000 {
			refused.Add(1)
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"status": "error", "errorType": "bad_data", "error": "exceeded maximum resolution of 11,000 points per timeseries"}`)
			return
		}
		var result []map[string]any
		for _, pod := range []struct {
			name       string
			start, end int64
		}{{"web-a", -30000, 1e6}, {"web-b-1", -30000, -4320}, {"web-b-22", -4318, 1e6}, {"histogram", -2000, -1500}} {
			var points [][2]any
			for t := start; t <= end; t += step {
				if i := int64(t)/60 - minute; i < pod.start || i >= pod.end {
					continue
				} else if pod.name == "histogram" {
					points = append(points, [2]any{t, map[string]any{"count": "10", "sum": "3", "buckets": [][4]any{{0, "0.1", "0.2", "10"}}}})
				} else {
					points = append(points, [2]any{t, value(pod.name, i)})
				}
			}
			values := "values"
			if pod.name == "histogram" {
				values = "histograms"
			}
			if points != nil {
				result = append(result, map[string]any{"metric": map[string]string{"__name__": "latency_ms", "pod": pod.name}, values: points})
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"status": "success", "warnings": []string{"PromQL info: metric might not be a counter"}, "data": map[string]any{"resultType": "matrix", "result": result}})
	}))
	defer server.Close()
	dir := e2e.Folder(t, nil)
	if _, stderr := program.Well(t, dir, "init", server.URL, "--query", "latency_ms", "-o", "x.yaml"); stderr != "" {
		t.Error(stderr)
	}
	stdout, _ := program.Well(t, dir, "check", "x.yaml")
	report, stderr := program.Well(t, dir, "backtest", "x.yaml")
	for _, want := range []string{
		"keys     3: ", "500 × a histogram is not a number: use histogram_quantile", "40 × the number is infinite", "(40 missing)",
		time.Unix(60*(minute-119), 0).UTC().Format("2006-01-02T15:04:05Z") + `  novelty  latency_ms{pod="web-a"}`, `silent  latency_ms{pod="web-b-1"} silent since`,
		"PromQL info: metric might not be a counter",
	} {
		if !strings.Contains(stdout+report+stderr, want) {
			t.Errorf("no %q in %s%s%s", want, stdout, report, stderr)
		}
	}
	if n := refused.Load(); n > 0 {
		t.Errorf("%d queries asked for more points than the server returns", n)
	}
	if !regexp.MustCompile("alerts: [12] novelt(y|ies), 0 change, 1 silent\n").MatchString(report) { // one is by chance, at some hours of the day
		t.Error(report)
	}
}
