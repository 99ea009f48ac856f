package pipeline

import (
	"context"
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

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// A summary names the input that was not used, and the remedies.
func TestSummaryOfRejects(t *testing.T) {
	var lines []string
	add := func(minute int, key, x string) {
		lines = append(lines, fmt.Sprintf("%s,%s,%s\n", key, start.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339), x))
	}
	lines = append(lines, "key,time,x\n")
	for i := range 60 {
		add(i, "plant/a", fmt.Sprint(i%7))
	}
	add(55, "plant/a", "1")
	add(49, "plant/a", "2")
	add(60, "plant/a", "oops")
	add(61, "plant/a", "what")
	add(62, "plant/b", "1")
	lines = append(lines, "plant/a,2026\n")
	path := write(t, "in.csv", lines...)
	text := "{model: {family: normal, prior: auto}, keys: [{match: 'plant/*', top: 1, levels: []}, {match: 'pump-*', top: 1, levels: []}],\n" +
		"quiet: [{match: 'mail-*', weekly: Sun 01:00/1h}], source: {csv: {path: " + path + "}}}"
	s, estimates, rejected := runConfig(t, text)
	if s.Err() != nil || len(estimates) != 61 || len(rejected) != 5 {
		t.Errorf("%d estimates, %d rejected: %v", len(estimates), len(rejected), s.Err())
	}
	equal(t, 10*time.Minute, s.Behind)
	equal(t, []string{"plant/b"}, s.WarmUps)
	equal(t, []string{"pump-*", "mail-*"}, s.Unmatched)
	many := Summary{Unmatched: strings.Fields(strings.Repeat("pump-* ", 100_000))}
	if text := many.String(); !strings.HasSuffix(text, "warning: no key matches 99990 more patterns of keys or quiet\n") || strings.Count(text, "pump-*") != 10 {
		t.Errorf("%.1000s", text)
	}
	for _, want := range []string{
		"  2 × the text \"oops\" where a number is due\n      in.csv:64: plant/a,2026-01-02T04:04:05Z,oops\n",
		"  1 × 2 fields where the header has 3\n      in.csv:67: plant/a,2026\n",
		"  2 × late: ",
		"2 records were late by up to 10m0s: with lateness: 10m none is late\n",
		"fewer observations than warm_up (50), in which no alarm is raised: 1 key, plant/b\n",
		"warning: no key matches \"pump-*\" of keys or quiet\n",
	} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	// The proposed lateness is enough, and a minute less is not.
	for lateness, late := range map[string]int64{"10m": 0, "9m": 1} {
		s, _, _ := runConfig(t, strings.Replace(text, "{model", "{lateness: "+lateness+", model", 1))
		equal(t, late, s.Late)
	}
}

// A key without a valid record does not affect other keys: outputs and states are written, and the run fails. The next
// run reads the fixed records from a separate file: no record is lost or repeated.
func TestOneBadKey(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	var lines []string
	for i := range 90 {
		key, x := "bad", `"q"`
		if i%3 == 0 {
			key, x = "good", "1"
		}
		lines = append(lines, fmt.Sprintf(`{"key":%q,"time":%d,"x":%s}`+"\n", key, 1700000000+60*i, x))
	}
	save(t, path("in.jsonl"), lines...)
	run := func(in, out string) (Summary, string) {
		g := compose(t, "{model: {family: normal}, state: "+path("s.bin")+", source: {jsonl: {path: "+path(in)+"}}, sink: {jsonl: {path: "+path(out)+"}}, dead_letter: {jsonl: {path: "+path("dead.jsonl")+"}}}")
		s := expect.Get(Run{Graph: g}.Execute(t.Context(), nil))(t)
		return s, readFile(t, path(out))
	}
	count := func(out, key string) int { return strings.Count(out, `"key":"`+key+`"`) }
	s, out := run("in.jsonl", "out1.jsonl")
	expect.Error(t, s.Err(), "60 of 90 records were rejected, more than half")
	expect.Error(t, s.Err(), "pass them to it in a separate file")
	if count(out, "good") != 30 || len(s.Partial) > 0 {
		t.Errorf("%d estimates, beside the outputs %v", count(out, "good"), s.Partial)
	}
	var mended []string
	for _, line := range readLines(t, path("dead.jsonl")) {
		var reject struct{ Raw string }
		expect.OK(t, json.Unmarshal([]byte(line), &reject))
		mended = append(mended, strings.Replace(reject.Raw, `"q"`, "2", 1)+"\n")
	}
	save(t, path("mended.jsonl"), mended...)
	s, out = run("mended.jsonl", "out2.jsonl")
	if s.Err() != nil || count(out, "bad") != 60 || count(out, "good") != 0 {
		t.Errorf("mended: %d of bad, %d of good, %v", count(out, "bad"), count(out, "good"), s.Err())
	}
	save(t, path("in.jsonl"), append(lines, `{"key":"good","time":1800000000,"x":1}`+"\n")...)
	s, out = run("in.jsonl", "out3.jsonl")
	if s.Err() != nil || s.AlreadyRead != 90 || count(out, "bad") != 0 || count(out, "good") != 1 || !strings.Contains(out, `"n":31`) {
		t.Errorf("grown: %d passed over, %v\n%s", s.AlreadyRead, s.Err(), out)
	}
	// A run without a valid record leaves everything unchanged.
	before := readFile(t, path("s.bin"))
	save(t, path("in.jsonl"), append(lines, `{"key":"good","time":1800000000,"x":1}`+"\n", `{"key":"bad"}`+"\n")...)
	s, out = run("in.jsonl", "out3.jsonl")
	expect.Error(t, s.Err(), "no record could be used")
	if len(s.Partial) == 0 || readFile(t, path("s.bin")) != before || count(out, "good") != 1 {
		t.Errorf("nothing was used, and the outputs %v or the state changed", s.Partial)
	}
}

// Records and rejected records are counted in observations, in each layout and for aggregated events.
func TestRejectedInOneUnit(t *testing.T) {
	const model = "model: {family: normal}\n"
	csv := []string{"time,a,b,c\n"}
	var wide, events []string
	for i := range 10 {
		stamp := fmt.Sprint(1700000000 + 60*i)
		csv = append(csv, stamp+",1,2,3\n")
		wide = append(wide, `{"time":`+stamp+`,"a":1,"b":2,"c":3}`+"\n")
		events = append(events, `{"key":"k","time":`+stamp+`,"x":1}`+"\n")
	}
	for range 11 {
		csv, wide = append(csv, "1700001000,1\n"), append(wide, "{\n")
	}
	for range 4 {
		events = append(events, "{\n")
	}
	for name, c := range map[string]struct {
		text     string
		rejected int64
		letters  int
		fails    bool
	}{
		"csv":     {model + "source: {csv: {path: " + write(t, "in.csv", csv...) + ", layout: wide, time: time}}\n", 33, 11, true},
		"named":   {model + "source: {jsonl: {path: " + write(t, "in.jsonl", wide...) + ", layout: wide, values: [a, b, c]}}\n", 33, 11, true},
		"pattern": {model + "source: {jsonl: {path: " + write(t, "in.jsonl", wide...) + ", layout: wide}}\n", 33, 11, true},
		"events":  {model + "aggregate: {every: 1h, value: mean}\nsource: {jsonl: {path: " + write(t, "in.jsonl", events...) + "}}\n", 4, 4, false},
	} {
		s, _, letters := runConfig(t, c.text)
		if s.Rejected != c.rejected || len(letters) != c.letters || (s.Err() != nil) != c.fails || s.Rejections[0].Count != c.rejected {
			t.Errorf("%s: %d rejected in %d letters, %+v: %v", name, s.Rejected, len(letters), s.Rejections, s.Err())
		}
	}
}

func TestMostlyRejected(t *testing.T) {
	for _, test := range []struct {
		lines string
		fails bool
	}{
		{"a,2026-01-01,1\na,2026-01-02,?\n", false},
		{"a,2026-01-01,1\na,2026-01-02,?\na,2026-01-03,!\n", true},
		{"a,2026-01-01,?\n", true},
		{"", false},
	} {
		s, _, _ := runConfig(t, "{model: {family: normal}, source: {csv: {path: "+write(t, "in.csv", "key,time,x\n", test.lines)+"}}}")
		if err := s.Err(); (err != nil) != test.fails || test.fails && !strings.Contains(err.Error(), `the text "?" where a number is due`) {
			t.Errorf("%q: %v", test.lines, err)
		}
		s.Stopped = true
		equal(t, nil, s.Err())
	}
}

// The summary names keys with too many outliers, because the family does not fit.
func TestSummaryOfMisfits(t *testing.T) {
	lines, rng := []string{"key,time,x\n"}, rand.New(rand.NewPCG(1, 8))
	for i := range 1000 {
		stamp := start.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
		x := rng.NormFloat64()
		lines = append(lines, fmt.Sprintf("good,%s,%g\n", stamp, x))
		if i%11 == 3 {
			x *= 100
		}
		lines = append(lines, fmt.Sprintf("bad,%s,%g\n", stamp, x))
	}
	s, _, _ := runConfig(t, "{model: {family: normal, prior: auto}, detect: true, source: {csv: {path: "+write(t, "in.csv", lines...)+"}}}")
	if len(s.PoorFits) != 1 || s.PoorFits[0].Key != "bad" || s.PoorFits[0].Share < poorFitShare ||
		!strings.Contains(s.String(), " % of the records of bad are outliers: the family does not fit; try model.season\n") {
		t.Errorf("%+v\n%s", s.PoorFits, s)
	}
}

// The advice for such a family has settings that the values allow and the config lacks.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		model string
		fit   PoorFit
		want  string
	}{
		{"{family: normal}", PoorFit{Positive: true}, "; try model.scale: log, or model.season"},
		{"{family: normal}", PoorFit{}, "; try model.scale: log1p, or model.season"},
		{"{family: normal}", PoorFit{Negative: true}, "; try model.season"},
		{"{family: normal}", PoorFit{Whole: true}, "; try model.family: poisson, or model.scale: log1p, or model.season"},
		{"{family: normal, scale: log}", PoorFit{Positive: true}, "; try model.season"},
		{"{family: normal, scale: log, season: [24h]}", PoorFit{Positive: true}, ""},
		{"{family: poisson}", PoorFit{Whole: true}, "; try model.season"},
		{"{family: poisson, season: [24h]}", PoorFit{Whole: true}, ""},
	} {
		cfg := expect.Get(config.Parse("test.yaml", []byte("{model: "+c.model+", detect: true, source: {csv: {path: a.csv}}}"), nil))(t)
		equal(t, c.want, adviceOf(cfg).suggestion(c.fit))
	}
}

// Alarms that a key's budget suppresses are in the summary and in the metrics.
func TestSummaryOfMutedAlarms(t *testing.T) {
	lines, rng := []string{"key,time,x\n"}, rand.New(rand.NewPCG(3, 5))
	for i := range 6000 {
		x := rng.NormFloat64()
		if i%600 >= 590 {
			x += 4
		}
		lines = append(lines, fmt.Sprintf("a,%s,%g\n", start.Add(time.Duration(i)*5*time.Minute).Format(time.RFC3339), x))
	}
	g := compose(t, "{model: {family: normal, prior: auto}, detect: {budget: 1000000}, sink: none, source: {csv: {path: "+write(t, "in.csv", lines...)+"}}}")
	muted := 0
	m := NewMetrics()
	s, err := Run{Graph: g, Metrics: m, Observer: &Observer{Estimate: func(_ string, e *keyed.Estimate, _ []keyed.AlertEvent) {
		if e.Detection.Muted {
			muted++
		}
	}}}.Execute(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if muted < 2 || s.Muted != int64(muted) || !strings.Contains(s.String(), fmt.Sprintf("), %d muted (largest score ", muted)) {
		t.Errorf("%d muted, %d in the summary: %s", muted, s.Muted, s)
	}
	equal(t, float64(muted), expect.Get(gather(m))(t)["hafvf_alarms_muted_total"])
}

// Times in a summary use its zone. The offset distinguishes hours that occur twice.
func TestSummaryInAZone(t *testing.T) {
	first := time.Date(2025, 10, 26, 0, 30, 0, 0, time.UTC)
	s := Summary{
		Largest:   []LargestAlarm{{Key: "a", Time: first, Size: 2}, {Key: "b", Time: first.Add(time.Hour), Size: 1}},
		Incidents: []incidents.Event{{Start: first, Page: true, Message: "2 keys."}},
	}
	for _, c := range []struct {
		zone *time.Location
		want []string
	}{
		{expect.Get(time.LoadLocation("Europe/Berlin"))(t), []string{" 2025-10-26T02:30:00+02:00  forgot 2\n", " 2025-10-26T02:30:00+01:00  forgot 1\n", "  2025-10-26T02:30:00+02:00  score 0.0: 2 keys.\n"}},
		{time.UTC, []string{" 2025-10-26T00:30:00Z  forgot 2\n", " 2025-10-26T01:30:00Z  forgot 1\n", "  2025-10-26T00:30:00Z  score 0.0: 2 keys.\n"}},
		{nil, []string{" 2025-10-26T00:30:00Z  forgot 2\n"}},
	} {
		s.clock = c.zone
		for _, want := range c.want {
			if !strings.Contains(s.String(), want) {
				t.Errorf("%v: no %q in\n%s", c.zone, want, s)
			}
		}
	}
}

// The summary reports records that were deleted before they were read.
func TestSummaryOfDeletedRecords(t *testing.T) {
	s := Summary{Stopped: true, Deleted: map[string]int64{"in": 1200}}
	if text := s.String(); strings.Contains(text, "nothing read was lost") || !strings.Contains(text, "; up to 1200 records of topic in were deleted before they were read") {
		t.Error(text)
	}
}

// A summary is correct for unusual data: times far ahead, alarms without a size, keys that a terminal cannot show, and
// a run without records.
func TestSummaryOfOddData(t *testing.T) {
	s := Summary{Largest: []LargestAlarm{{Key: "k\x1b[2J", ID: "id", Size: math.NaN(), About: "novelty"}, {Key: "plain", ID: "id", Size: 2}}, WarmUps: []string{"a\nb"}}
	s.Late, s.LateFar, s.ahead, s.detects, s.warmUp = 3, 3, true, true, 50
	text := s.String()
	for _, want := range []string{
		"3 records were late by more than a year: check for times ahead of the clock: max_ahead of the source rejects them\n",
		`  "k\x1b[2J"               id  novelty` + "\n",
		"  plain                    id  by 2\n",
		`1 key, "a\nb"` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b") || strings.Contains(text, "NaN") {
		t.Error(text)
	}
	path := write(t, "in.csv", "key,time,x\n")
	s, _, _ = runConfig(t, "{model: {family: normal}, keys: [{match: 'pump-*', top: 1, levels: []}], source: {csv: {path: "+path+"}}}")
	if strings.Contains(s.String(), "no key matches") {
		t.Errorf("of nothing read it says\n%s", s)
	}
}

// A file whose times are days of a spreadsheet is refused, unless the config declares them. Times in 1970 are read as
// usual.
func TestSpreadsheetTimes(t *testing.T) {
	for _, test := range []struct {
		name  string
		lines []string
		ok    bool
	}{
		{"in.csv", []string{"key,time,x\n", "a,,1\n", "a,46000.5,1\n", "a,46000.75,2\n"}, false},
		{"in.jsonl", []string{`{"key":"a","time":46000.5,"x":1}` + "\n", `{"key":"a","time":"46001","x":1}` + "\n"}, false},
		{"in.csv", []string{"key,time,x\n", "a,0,1\n", "a,60,1\n", "a,46000,2\n"}, true},
		{"in.csv", []string{"key,time,x\n", "a,46000,1\n", "a,2026-01-02,2\n"}, true},
		{"in.csv", []string{"key,time,x\n"}, true},
	} {
		path := write(t, test.name, test.lines...)
		format := strings.TrimPrefix(filepath.Ext(path), ".")
		run := func(settings string) error {
			_, err := Run{Graph: compose(t, "model: {family: normal}\nsource: {"+format+": {path: "+path+settings+"}}\nsink: none\n")}.Execute(context.Background(), nil)
			return err
		}
		if err := run(""); (err == nil) != test.ok || err != nil && !strings.Contains(err.Error(), "such as 46000.5: set time_format: spreadsheet in the source if they are, or time_format: unix") {
			t.Errorf("%q: %v", test.lines, err)
		}
		for _, format := range []string{"unix", "spreadsheet"} {
			if err := run(", time_format: " + format); err != nil {
				t.Errorf("%q as %s: %v", test.lines, format, err)
			}
		}
	}
}

// This also holds for days in a later file of a pattern. On standard input and in a topic, such records are rejected
// one by one.
func TestSpreadsheetTimesElsewhere(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.csv": "key,time,x\na,2026-01-02,1\n", "b.csv": "key,time,x\na,46000.5,1\n"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	_, err := Run{Graph: compose(t, "model: {family: normal}\nsource: {csv: {path: '"+filepath.Join(dir, "*.csv")+"'}}\nsink: none\n")}.Execute(t.Context(), nil)
	if want := "the times of \"" + filepath.Join(dir, "b.csv") + "\" seem to be days"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}

	const want = "the time 46000.5 seems to be days of a spreadsheet: set time_format: spreadsheet in the source if it is, or time_format: unix"
	days := []string{`{"key":"a","time":46000.5,"x":1}`, `{"key":"a","time":"46000.5","x":1}`}
	lines := []string{`{"key":"a","time":"1970-01-01T12:46:40Z","x":1}`, `{"key":"a","time":"2026-01-02","x":1}`}
	for _, test := range []struct {
		settings string
		lines    []string
		rejects  int
	}{{"", slices.Concat(days, lines), 2}, {", time_format: unix", days, 0}, {", time_format: spreadsheet", days, 0}} {
		in := expect.Get(os.Open(write(t, "in.jsonl", strings.Join(test.lines, "\n")+"\n")))(t)
		stdin := os.Stdin
		os.Stdin = in
		_, estimates, rejected := runConfig(t, "model: {family: normal}\nsource: {jsonl: {path: '-'"+test.settings+"}}\n")
		os.Stdin = stdin
		in.Close()
		b := fakeBus(t, 1)
		b.put(t, test.lines...)
		expect.Get(Run{Graph: compose(t, b.config("bounded: true"+test.settings, "")), Log: quiet}.Execute(t.Context(), nil))(t)
		for where, got := range map[string][2][]string{"standard input": {estimates, rejected}, "topic": {b.values(t, "out"), b.values(t, "rejected")}} {
			dead := strings.Join(got[1], "")
			if len(got[0]) != len(test.lines)-test.rejects || strings.Count(dead, `"reason":`) != test.rejects || strings.Count(dead, want) != test.rejects {
				t.Errorf("%s%s: %d estimates, rejected %s", where, test.settings, len(got[0]), dead)
			}
		}
	}
}

// The summary counts keys with changes that it does not list.
func TestSummaryOfManyChanges(t *testing.T) {
	for _, c := range []struct {
		keys int
		want string
	}{{10, ""}, {11, "  and 1 more key; hafvf sessions makes a table of all\n"}, {13, "  and 3 more keys; hafvf sessions makes a table of all\n"}} {
		lines := []string{"key,time,x\n"}
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 80 {
			for key := range c.keys + 2 {
				x := rng.NormFloat64()
				if i >= 40 && key >= 2 { // the first two keys do not change
					x += 6
				}
				lines = append(lines, fmt.Sprintf("k%02d,%s,%.4f\n", key, start.Add(time.Duration(i)*time.Second).Format(time.RFC3339), x))
			}
		}
		s, _, _ := runConfig(t, "{transform: smooth, model: {family: normal, prior: auto}, session: {gap: 1h}, source: {csv: {path: "+write(t, "in.csv", lines...)+"}}}")
		if text := s.String(); s.LargestAlarms != c.keys || !strings.HasSuffix(text, c.want) || c.want == "" && strings.Contains(text, "more key") {
			t.Errorf("%d keys with changes, %d counted:\n%s", c.keys, s.LargestAlarms, text)
		}
	}
}

// The summary describes a change of scatter by the standard deviations of the values.
func TestSummaryOfScatter(t *testing.T) {
	lines := []string{"key,time,x\n"}
	rng := rand.New(rand.NewPCG(3, 1))
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("k,%s,%.4f\n", start.Add(time.Duration(i)*time.Second).Format(time.RFC3339), rng.NormFloat64()*float64(1+3*(i/50))))
	}
	s, _, _ := runConfig(t, "{transform: smooth, model: {family: normal, prior: auto}, session: {gap: 1h}, source: {csv: {path: "+write(t, "in.csv", lines...)+"}}}")
	if text := s.String(); !regexp.MustCompile(`evidence \S+, scatter [01]\.\d+ → [34]\.\d+ for \d+ observations\n`).MatchString(text) {
		t.Error(text)
	}
}

// The summary lists sessions without a change that drift or wander. If there are many, it has a remedy.
func TestSummaryOfDrift(t *testing.T) {
	for swinging, want := range map[int]string{
		5: "of 10 sessions without a change 5 drift or wander; if they have levels by design, set change: {walk: false}\n  k0                       wanders\n  k1 ",
		2: "of 10 sessions without a change 2 drift or wander\n  k0                       wanders\n  k1                       wanders\n",
		0: "",
	} {
		lines := []string{"key,time,x\n"}
		rng := rand.New(rand.NewPCG(2, 1))
		for i := range 300 {
			for key := range 10 {
				p := .5
				if key < swinging {
					p += .4 * math.Sin(float64(i)/20)
				}
				lines = append(lines, fmt.Sprintf("k%d,%s,%g\n", key, start.Add(time.Duration(i)*time.Second).Format(time.RFC3339), math.Floor(p+rng.Float64())))
			}
		}
		s, _, _ := runConfig(t, "{transform: smooth, model: {family: bernoulli}, change: {odds: 1000}, source: {csv: {path: "+write(t, "in.csv", lines...)+"}}}")
		if text := s.String(); s.Unchanged != 10 || s.Drifting != int64(swinging) || !strings.Contains(text, want) || want == "" && strings.Contains(text, "drift") {
			t.Errorf("%d of %d, %d swing:\n%s", s.Drifting, s.Unchanged, swinging, text)
		}
	}
	drift := func(rate, within float64, days int, positive bool) keyed.Session {
		return keyed.Session{Start: keyed.Point{Time: start}, End: keyed.Point{Time: start.AddDate(0, 0, days)}, Drift: &keyed.Drift{Rate: rate, Lower: rate - within, Upper: rate + within, From: 512, To: 512 + rate*float64(days), Positive: positive}}
	}
	sessions := []Moving{{"w", keyed.Session{Wanders: true}}, {"less", drift(-2, 1, 1, false)}, {"M10", drift(1.6, .1, 80, true)}, {"long", drift(.1, .01, 800, true)}, {"v", keyed.Session{Wanders: true}}, {"x", keyed.Session{Wanders: true}}}
	f := &runFindings{}
	for _, m := range sessions {
		f.addTally(&tally{moving: []Moving{m}})
	}
	s := Summary{clock: time.FixedZone("", 3600)}
	s.Unchanged, s.Drifting = 100, 7
	f.summarise(&s)
	want := `of 100 sessions without a change 7 drift or wander
  M10                      drifts from 512 to 640 (+25 %) since 2 Jan
  long                     drifts from 512 to 592 (+15.6 %) since 2 Jan 2026
  less                     drifts from 512 to 510 since 2026-01-02 04:04:05
  v                        wanders
  w                        wanders
  and 2 more sessions
`
	if text := s.String(); !strings.HasSuffix(text, want) {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

// The summary counts keys with alarms or changes up to maxCountedKeys, independent of other keys.
func TestSummaryCountsBreakingKeysToABound(t *testing.T) {
	f := &runFindings{}
	for i := range maxCountedKeys + 5 {
		f.addTally(&tally{keys: map[string]keyCounts{fmt.Sprint("quiet", i): {Values: Values{Records: 1}}}})
	}
	for range 2 {
		for i := range 30 {
			f.addTally(&tally{keys: map[string]keyCounts{fmt.Sprint("loud", i): {Values: Values{Records: 1}, alarmed: true}}})
		}
	}
	equal(t, 30, len(f.alarmedKeys))
	equal(t, false, f.uncounted)
	for i := range maxCountedKeys - 29 {
		f.addTally(&tally{keys: map[string]keyCounts{fmt.Sprint("smoothed", i): {alarmed: true}}})
	}
	equal(t, maxCountedKeys, len(f.alarmedKeys))
	s := Summary{Largest: []LargestAlarm{{Key: "a", Size: 1}}, LargestAlarms: len(f.alarmedKeys), uncounted: f.uncounted}
	if text := s.String(); !strings.HasSuffix(text, "\n  and over 99999 more keys\n") {
		t.Error(text)
	}
}

// Resets of counters are counted, and a key that two counters share is named.
func TestFallsOfCounters(t *testing.T) {
	t.Parallel()
	lines := []string{}
	for i := range 100 {
		stamp := start.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
		lines = append(lines, fmt.Sprintf(`{"key":"mixed","time":%q,"x":%d}`+"\n", stamp, i%2*1000+i), fmt.Sprintf(`{"key":"meter","time":%q,"x":%d}`+"\n", stamp, i%50))
	}
	g := compose(t, "model: {family: normal, prior: auto}\naggregate: {every: 5m, value: increase}\nsource: {jsonl: {path: "+write(t, "in.jsonl", lines...)+"}}\nsink: none\n")
	s := expect.Get(Run{Graph: g}.Execute(t.Context(), nil))(t)
	for _, want := range []string{"\ncounters were reset 50 times: a fall to less than half is a reset, not a wrap\n", "\nwarning: mixed falls at more than 5 % of its records, and recovers within three records: two counters may share the key\n"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("%s", s)
		}
	}
	expect.Same(t, []string{"mixed"}, s.MixedCounters)
}

// Records that are late because a clock was set forward get no advice to wait for them; other late records do.
func TestLateForTimesLeftOut(t *testing.T) {
	t.Parallel()
	const lateness, forward = "with lateness: 30m none is late", "when the clock of the zone was set forward: a skipped time uses the offset before the change"
	for zone, want := range map[string][2]string{"Europe/Berlin": {forward, lateness}, "America/New_York": {lateness, forward}} {
		in := "time,x\n"
		for _, stamp := range []string{"01:30", "02:30", "03:00", "03:30", "04:00"} { // in Berlin 02:30 is 03:30
			in += "2026-03-29 " + stamp + ",1\n"
		}
		if zone == "America/New_York" {
			in += "2026-03-29 03:30,1\n"
		}
		for setting, aggregate := range map[string]string{"lateness": "", "aggregate.wait": "aggregate: {every: 1m, value: mean}\n"} {
			g := compose(t, "model: {family: normal}\n"+aggregate+"source: {csv: {path: "+write(t, "in.csv", in)+", key: none, zone: "+zone+"}}\nsink: none\n")
			text := strings.Replace(expect.Get(Run{Graph: g}.Execute(t.Context(), nil))(t).String(), setting, "lateness", 1)
			if !strings.Contains(text, "1 record was late by up to 30m0s") || !strings.Contains(text, want[0]) || strings.Contains(text, want[1]) {
				t.Errorf("%s, %s: %s", zone, setting, text)
			}
		}
	}
}

// Records that are late by more than a year are counted separately. The remedy depends on whether a time is ahead of
// the clock.
func TestFarLate(t *testing.T) {
	t.Parallel()
	linesAt := func(times ...time.Time) string {
		var lines []string
		for _, linesAt := range times {
			lines = append(lines, fmt.Sprintf(`{"key":"a","time":%q,"x":1}`+"\n", linesAt.Format(time.RFC3339)))
		}
		g := compose(t, "model: {family: normal}\nsource: {jsonl: {path: "+write(t, "in.jsonl", lines...)+"}}\nsink: none\n")
		return expect.Get(Run{Graph: g}.Execute(t.Context(), nil))(t).String()
	}
	minute := func(i int) time.Time { return start.Add(time.Duration(i) * time.Minute) }
	const near, back, ahead = "1 record was late by up to 3m0s: with lateness: 3m none is late\n", "were late by more than a year: times go back there; order: arrival uses the order of the records\n", "check for times ahead of the clock: max_ahead of the source rejects them\n"
	for name, c := range map[string]struct {
		text string
		want []string
		not  string
	}{
		"near and far": {linesAt(minute(0), minute(5), minute(2), minute(6).AddDate(-20, 0, 0), minute(7).AddDate(-20, 0, 0), minute(8)), []string{near, "2 records " + back}, "max_ahead"},
		"ahead":        {linesAt(minute(0), minute(0).AddDate(300, 0, 0), minute(2), minute(3)), []string{"2 records were late by more than a year", ahead}, "fall back"},
		"near":         {linesAt(minute(0), minute(5), minute(2)), []string{near}, "year"},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.text, want) || strings.Contains(c.text, c.not) {
				t.Errorf("%s: no %q, or %q, in\n%s", name, want, c.not, c.text)
			}
		}
	}
}

// The log of a run reports rounded whole numbers once, for all records and decoders.
func TestRoundedNumbersAreLogged(t *testing.T) {
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf("{\"key\":\"k%d\",\"time\":%d,\"x\":%d}\n", i%3, 1750000000+60*i, 1<<53+i))
	}
	log := &aLog{}
	text := "model: {family: normal, prior: auto}\nsource: {jsonl: {path: " + write(t, "in.jsonl", lines...) + "}}\nsink: none\n"
	expect.Get(Run{Graph: compose(t, text), Log: log.logger()}.Execute(t.Context(), nil))(t)
	if strings.Count(log.b.String(), "2^53") != 1 || !log.contains("first=90071992547")() {
		t.Errorf("%s", &log.b)
	}
}
