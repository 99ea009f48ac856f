package sniff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/message"
	"hafvf/internal/series"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func write(t testing.TB, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	expect.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
	return path
}

// tableOf returns the lines of a file: a header and n records.
func tableOf(header string, n int, line func(i int) string) []string {
	lines := []string{header}
	for i := range n {
		lines = append(lines, line(i))
	}
	return lines
}

// inspect inspects a table with a config that has the given model.
func inspect(t *testing.T, model, path string) *Result {
	t.Helper()
	c := expect.Get(config.Parse("test.yaml", []byte("{model: "+model+", source: {csv: {path: "+path+"}}}"), nil))(t)
	res := expect.Get(Inspect(c))(t)
	return res
}

// TestInspect checks the text of a Result, with the suggestions that fix the config.
func TestInspect(t *testing.T) {
	path := write(t, "in.csv", tableOf("key,time,x\n", 100, func(i int) string {
		x := fmt.Sprint(i%4 - 1)
		switch {
		case i%20 == 0:
			x = "NA"
		case i%10 == 1:
			x = ""
		}
		minute := i
		if i == 50 {
			minute = 45
		}
		return fmt.Sprintf("k%d,%s,%s\n", i%2, start.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339), x)
	})...)
	l := inspect(t, "{family: normal}", path)
	// By hand: 5 of the 100 are "NA", the 10 with i%10 = 1 are empty; of the other 85, i%4 = 1 is zero and i%4 = 0 is
	// negative.
	zero, negative := 0, 0
	for i := range 100 {
		if i%20 != 0 && i%10 != 1 {
			switch i % 4 {
			case 0:
				negative++
			case 1:
				zero++
			}
		}
	}
	want := fmt.Sprintf(`data     %s, all 100 records
columns  key, time, x
keys     2: k1, k0
times    2026-01-02T03:05:05Z to 2026-01-02T04:43:05Z, median step of a key 2m
values   95 %% of the records parse, 10.5 %% are missing; -1 to 2, %s zero, %s negative
rejected 5 × the text "NA" where a number is due
         in.csv:2: k0,2026-01-02T03:04:05Z,NA
suggest  source.csv.missing: [NA]  # if these texts stand for missing values
suggest  lateness: 3m  # 1 record is late by up to 3m0s
`, path, message.Percent(zero, 85), message.Percent(negative, 85))
	expect.Same(t, want, l.String())
}

// TestInspectFindsFarTimes checks that far times are counted, that times in the future lead to max_ahead, and that far
// times do not lead to a lateness.
func TestInspectFindsFarTimes(t *testing.T) {
	for _, test := range []struct {
		name  string
		wrong map[int]time.Time
		want  string // no such line if empty
		mends bool
	}{
		{"none", nil, "", false},
		{"ahead", map[int]time.Time{40: start.AddDate(100, 0, 0), 60: start.AddDate(7000, 0, 0)}, "2 times lie far beyond the others, the first at in.csv:42\n", true},
		{"past", map[int]time.Time{99: start.Add(48 * time.Hour)}, "1 time lies far beyond the others, the first at in.csv:101\n", false},
		{"a gap", map[int]time.Time{99: start.Add(12 * time.Hour)}, "", false},
	} {
		path := write(t, "in.csv", tableOf("key,time,x\n", 100, func(i int) string {
			stamp, wrong := test.wrong[i]
			if !wrong {
				stamp = start.Add(time.Duration(i) * time.Minute)
			}
			return fmt.Sprintf("k,%s,1\n", stamp.Format(time.RFC3339))
		})...)
		text := inspect(t, "{family: normal}", path).String()
		if test.want == "" && strings.Contains(text, "far ") || !strings.Contains(text, test.want) || strings.Contains(text, "suggest  source.csv.max_ahead: 1h") != test.mends {
			t.Errorf("%s: %s", test.name, text)
		}
		if test.want != "" && strings.Contains(text, "suggest  lateness") {
			t.Errorf("%s: a wrong time is taken for lateness: %s", test.name, text)
		}
	}
}

// TestInspectSuggestsScale checks that a scale is suggested only for skewed values, and not if the config has one.
func TestInspectSuggestsScale(t *testing.T) {
	for name, c := range map[string]struct {
		model string
		x     func(z float64) float64
		want  string
	}{
		"amounts":    {"{family: normal}", func(z float64) float64 { return 30 * math.Exp(z) }, "suggest  model.scale: log  # "},
		"with zeros": {"{family: normal}", func(z float64) float64 { return max(0, math.Expm1(1+1.2*z)) }, "suggest  model.scale: log1p  # "},
		"set":        {"{family: normal, scale: log}", func(z float64) float64 { return 30 * math.Exp(z) }, ""},
		"symmetric":  {"{family: normal}", func(z float64) float64 { return 30 + 3*z }, ""},
		"heavy":      {"{family: normal}", func(z float64) float64 { return 50 + z*z*z }, ""},
		"negative":   {"{family: normal}", func(z float64) float64 { return math.Exp(z) - .5 }, ""},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		path := write(t, "in.csv", tableOf("key,time,x\n", 600, func(i int) string {
			// Keys at different levels do not make the values skewed.
			return fmt.Sprintf("k%d,%s,%g\n", i%2, start.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), c.x(rng.NormFloat64())*math.Pow(20, float64(i%2)))
		})...)
		text := inspect(t, c.model, path).String()
		if c.want == "" && strings.Contains(text, "model.scale") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestDraftOfEncodings checks that a file that is not UTF-8, in the header or below it, gets another encoding and a
// remark.
func TestDraftOfEncodings(t *testing.T) {
	for name, header := range map[string]string{"in the header": "time,Stra\xdfe,x\n", "below it": "time,key,x\n", "none": "time,key,x\n"} {
		lines := []string{header}
		for i := range 100 {
			key := "M\xfcnchen"
			if name == "none" {
				key = "München"
			}
			lines = append(lines, fmt.Sprintf("%s,%s,%d.5\n", start.Add(time.Duration(i/2)*time.Hour).Format(time.RFC3339), []string{key, "Bonn"}[i%2], i%9))
		}
		d := expect.Get(Draft(write(t, "in.csv", lines...)))(t)
		remarked := slices.ContainsFunc(d.Remarks, func(r Remark) bool {
			return r.Setting == "encoding" && r.Text == "the file is not UTF-8, and read as windows-1252"
		})
		if other := strings.Contains(string(d.Config), "    encoding: windows-1252 "); other != (name != "none") || remarked != other || !strings.Contains(string(d.Config), "München") {
			t.Errorf("%s: %v\n%s", name, d.Remarks, string(d.Config))
		}
	}
}

// TestHeadless checks that a first line that looks like a record is rejected as a header. A header of numbers above
// numbers may be valid.
func TestHeadless(t *testing.T) {
	for first, fails := range map[string]bool{
		"2026-01-05T00:00:00Z,CH-1,50.0\n": true, "time,101,102\n": false, "when,key,x\n": false, "2026-01-05,key,x\n": true,
	} {
		lines := []string{first}
		for i := range 100 {
			lines = append(lines, fmt.Sprintf("%s,%d,%d.5\n", start.Add(time.Duration(i)*time.Hour).Format(time.RFC3339), i%7, i%9))
		}
		_, err := Draft(write(t, "in.csv", lines...))
		if fails != (err != nil && strings.Contains(err.Error(), "put a header line before it")) || !fails && err != nil {
			t.Errorf("%s: %v", first, err)
		}
	}
	for first, fails := range map[string]bool{"a,1.5\n": true, "region,2019,2020\n": false, "a,2,2\n": true} {
		lines := []string{first}
		for i := range 100 {
			lines = append(lines, fmt.Sprintf("%c%s\n", 'a'+rune(i%3), strings.Repeat(fmt.Sprintf(",%d.5", i%9), strings.Count(first, ","))))
		}
		if _, err := Draft(write(t, "in.csv", lines...)); fails != (err != nil) {
			t.Errorf("%s: %v", first, err)
		}
	}
}

// TestSingleSessions checks that sessions are counted, and that Err fails if most have one record.
func TestSingleSessions(t *testing.T) {
	lines := []string{"key,time,x\n", "b,2026-01-05T00:00:00Z,1\n"}
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("a,%s,%d\n", start.Add(time.Duration(i)*time.Hour).Format(time.RFC3339), i%7))
	}
	path := write(t, "in.csv", lines...)
	result := inspect(t, "{family: normal}, transform: smooth", path)
	if text := result.String(); result.Err() != nil || !strings.Contains(text, "sessions 1 in these records, at gaps of 30h\n") {
		t.Errorf("%v, %s", result.Err(), text)
	}
	result = inspect(t, "{family: normal}, transform: smooth, session: {gap: 10m}", path)
	if text := result.String(); !strings.Contains(text, "sessions 40 in these records, at gaps of 10m\n") {
		t.Error(text)
	}
	expect.Error(t, result.Err(), "40 of 40 sessions have one record: session.gap is 10m, and the records of a key are 1h apart")
}

// TestRulesOfKeys checks that the keys of each exception are counted, and that a remark names the keys for which a
// later exception also applies.
func TestRulesOfKeys(t *testing.T) {
	lines := []string{"key,time,x\n"}
	for i, key := range []string{"ab", "ab", "a", "\"up{job=\"\"web\"\"}\"", "b"} {
		lines = append(lines, fmt.Sprintf("%s,2026-01-05T00:%02d:00Z,%d\n", key, i, i))
	}
	text := inspect(t, "{family: normal}, keys: [{match: 'a*', top: 0.5}, {match: '*b', model: {prior: {mu: 3}}}, {match: {job: 'w*'}, top: 0.2}, {match: none, levels: []}]", write(t, "m.csv", lines...)).String()
	for _, want := range []string{
		`rule     keys.0 "a*" matches 2 keys, ab, a`, `rule     keys.1 "*b" matches 2 keys, ab, b`, `rule     keys.2 {job="w*"} matches 1 key, up{job="web"}`, `rule     keys.3 "none" matches none of these keys`,
		"remark   model.prior of ab: set by a later exception than the first that matches. Each field uses the first exception that sets it; earlier versions used the first match for all fields; see keys",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestLabelsThatGroup checks that suggested group labels vary without identifying series. An unknown label in
// incidents.by causes a remark.
func TestLabelsThatGroup(t *testing.T) {
	lines := []string{"key,time,x\n"}
	for i := range 48 {
		lines = append(lines, fmt.Sprintf("\"up{env=\"\"x\"\",zone=\"\"z%d\"\",job=\"\"j%d\"\",rack=\"\"r%d\"\",shard=\"\"s%d\"\",instance=\"\"i%d:80\"\"}\",2026-01-05T00:%02d:00Z,%d\n", i%4, i%3, i%6, i%12, i%24, i/24, i))
	}
	path := write(t, "m.csv", lines...)
	result := inspect(t, "{family: normal}, detect: true, incidents: {by: [job, pod]}", path)
	expect.Same(t, []string{"job", "zone", "rack", "shard"}, series.Groups(result.Keys))
	if want := `remark   no key has the label "pod"; their labels are env, instance, job, rack, shard, zone; see incidents.by`; !strings.Contains(result.String(), want) {
		t.Errorf("%s", result)
	}
}

// TestRoundedRemark checks that rounding of whole numbers is reported once.
func TestRoundedRemark(t *testing.T) {
	path := write(t, "in.csv", "key,time,x\na,2026-01-01,9007199254740993\na,2026-01-02,9007199254740995\n")
	const want = "remark   whole numbers beyond 2^53 are rounded: 9007199254740993 is read as 9007199254740992\n"
	if text := inspect(t, "{family: normal}", path).String(); strings.Count(text, "2^53") != 1 || !strings.Contains(text, want) {
		t.Error(text)
	}
}

// TestTimesLeftOut checks that times that do not exist are counted, and do not lead to a lateness.
func TestTimesLeftOut(t *testing.T) {
	lines := []string{"time,x\n"}
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("%s,%d.5\n", time.Date(2026, 3, 28, 0, 5+15*i, 0, 0, time.UTC).Format("2006-01-02 15:04"), i%9))
	}
	path := write(t, "in.csv", lines...)
	for zone, want := range map[string]bool{"Europe/Berlin": true, "America/New_York": false} {
		c := expect.Get(config.Parse("test.yaml", []byte("model: {family: normal}\nsource: {csv: {path: "+path+", key: none, zone: "+zone+"}}\n"), nil))(t)
		text := expect.Get(Inspect(c))(t).String()
		if strings.Contains(text, "remark   4 times do not exist in the zone because its clock is set forward, the first at in.csv:106: they use the offset before the change; see zone\n") != want || strings.Contains(text, "lateness") {
			t.Errorf("%s: %s", zone, text)
		}
	}
}

// TestUnreadValues checks that values that are in no column are an error with a way to convert them, not a draft that
// counts records. One infinite number does not exclude its column.
func TestUnreadValues(t *testing.T) {
	repeated := func(line string) (lines []string) {
		for i := range 60 {
			lines = append(lines, strings.NewReplacer("TIME", start.Add(time.Duration(i)*time.Hour).Format(time.RFC3339), "N", fmt.Sprint(i%7), "ID", fmt.Sprint("p", i)).Replace(line)+"\n")
		}
		return lines
	}
	fields := func(value string) string {
		var pairs []string
		for i := range 60 {
			pairs = append(pairs, fmt.Sprintf(`"%d":`+value, i, i))
		}
		return strings.Join(pairs, ",")
	}
	for name, c := range map[string]struct {
		file  string
		lines []string
		want  string
	}{
		"lists of objects":    {"in.jsonl", repeated(`{"time":"TIME","dev":"a","r":[{"v":N},{"v":2}]}`), "in.jsonl: .r holds lists of objects, which are not read: jq -c '. as $r | .r[] | $r + . | del(.r)' in.jsonl > records.jsonl writes a record for each"},
		"no word":             {"in.jsonl", repeated(`{"time":"TIME","dev":"a","my-r":[{"v":N},{"v":2}]}`), `jq -c '. as $r | ."my-r"[] | $r + . | del(."my-r")' in.jsonl > records.jsonl`},
		"over lines":          {"in.json", []string{"{\n", " \"results\": [{\"x\": 1}]\n", "}\n"}, "in.json: no line is a JSON object: if objects span several lines, jq -c '.' in.json > records.jsonl writes one per line"},
		"wrapped":             {"in.json", []string{`{"count":2,"data":{"records":[{"time":"2026-01-01T00:00:00Z","x":1}]}}`}, "in.json: .data.records holds lists of objects, which are not read: jq -c '.data.records[]' in.json > records.jsonl"},
		"lists of numbers":    {"in.jsonl", repeated(`{"time":"TIME","v":[N,2]}`), ".v holds lists, which are not read as values: jq -c '. as $r | .v[] | $r + {x: .} | del(.v)' in.jsonl"},
		"lists in most rows":  {"in.jsonl", append(repeated(`{"time":"TIME","v":[N,2]}`), `{"time":"2026-02-01T00:00:00Z","v":3}`), "jq -c '. as $r | (.v | arrays // [.])[] | $r + {x: .} | del(.v)' in.jsonl"},
		"lists in few rows":   {"in.jsonl", append(repeated(`{"time":"TIME","v":"text"}`), `{"time":"2026-02-01T00:00:00Z","v":[3]}`), ""},
		"lists of columns":    {"in.json", []string{`{"latitude":52.5,"hourly":{"time":["2026-01-01T00:00:00Z","2026-01-01T01:00:00Z"],"temp":[1.5,2]}}`}, "its columns are lists, which layout: series of the source reads, with time: hourly.time and values: [hourly.temp]"},
		"lists of trials":     {"in.jsonl", repeated(`{"subject":"ID","rt":[N,512.5]}`), `under order: arrival, with key: subject, time: "" and values: [rt]`},
		"lists of rows":       {"in.json", []string{`{"columns":["time","x"],"index":[0,1],"data":[["2026-01-01T00:00:00Z",1],["2026-01-01T01:00:00Z",2]]}`}, "in.json: .data holds lists of lists, which are not read: jq -c '.data[] | {time: .[0], x: .[1]}' in.json > records.jsonl"},
		"columns of objects":  {"in.json", []string{`{"time":{`, fields(`"2026-01-01T00:%02d:00Z"`), `},"x":{`, fields("%d"), `}}`}, "in.json: it holds one record of 120 fields, time.0, time.1, "},
		"JSON in a text":      {"records.jsonl", repeated(`{"time":"TIME","p":"{\"x\":N}"}`), `column "p" holds JSON in a text, such as "{\"x\":0}", which is not read: jq -c '(.p | strings) |= fromjson' records.jsonl > rows.jsonl makes fields of it`},
		"JSON in a cell":      {"in.csv", append([]string{"time,payload\n"}, repeated(`TIME,"{""x"":N}"`)...), `column "payload" holds JSON in a text, such as "{\"x\":0}"`},
		"durations":           {"in.csv", append([]string{"date,user,duration\n"}, repeated("TIME,ID,00:0N:30\n")...), `column "duration" holds durations, such as "00:00:30", which are not read: write numbers, such as seconds`},
		"one infinite number": {"in.jsonl", append(repeated(`{"time":"TIME","load":N.5}`), `{"time":"2026-02-01T00:00:00Z","load":Infinity}`), ""},
		"events":              {"in.csv", append([]string{"time,user\n"}, repeated(`TIME,ID`)...), ""},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		expect.OK(t, os.WriteFile(path, []byte(strings.Join(c.lines, "")), 0o600))
		_, err := Draft(path)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNumbersThatAreKeys checks when whole numbers are a key: if times or trials start again in each block of them,
// if each time has all of them, or if each file has one. A block number within a key is neither key nor value.
func TestNumbersThatAreKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	x := func() float64 { return 20 + rng.NormFloat64() }
	hour := func(i int) string { return start.Add(time.Duration(i) * time.Hour).Format(time.RFC3339) }
	var blocks, panel, trials, one []string
	files := map[string][]string{}
	for n := range 4 {
		for i := range 60 {
			blocks = append(blocks, fmt.Sprintf("%s,%d,%.2f\n", hour(i), n+3, x()))
			panel = append(panel, fmt.Sprintf("%s,%d,%.2f\n", hour(n*15+i/4), i%4+1, x()))
			trials = append(trials, fmt.Sprintf("%d,%d,%d,%.0f\n", n+1, i/20+1, i%20+1, 30*x()))
			one = append(one, fmt.Sprintf("%d,%d,%.0f\n", n+1, i+1, 30*x()))
			name := fmt.Sprint("f", n, ".csv")
			files[name] = append(files[name], fmt.Sprintf("%s,%d,%.2f\n", hour(i), n+7, x()))
		}
	}
	var clocks []string // times of two devices, one after the other, that differ in their seconds
	for n := range 120 {
		when := start.Add(time.Duration(n%60)*time.Minute + time.Duration(n/60*27)*time.Second).Format(time.RFC3339)
		clocks = append(clocks, fmt.Sprintf("%s,d%d,temp,%.2f\n", when, n/60, x()), fmt.Sprintf("%s,d%d,hum,%.2f\n", when, n/60, 2*x()))
	}
	for name, c := range map[string]struct {
		header string
		lines  []string
		want   []string
	}{
		"blocks of texts":   {"time,device,kind,value\n", clocks, []string{"key: [device, kind] "}},
		"blocks of times":   {"time,q,v\n", blocks, []string{"key: q ", "values: [v]"}},
		"a panel":           {"time,q,v\n", panel, []string{"key: q ", "values: [v]"}},
		"blocks of trials":  {"q,block,trial,RT\n", trials, []string{"key: q ", "values: [RT]"}},
		"sub":               {"sub,block,trial,RT\n", trials, []string{"key: sub ", "values: [RT]"}},
		"blocks of one key": {"block,trial,RT\n", one, []string{"key: none", "values: [RT]"}},
	} {
		config := string(expect.Get(Draft(write(t, "in.csv", append([]string{c.header}, c.lines...)...)))(t).Config)
		for _, want := range c.want {
			if !strings.Contains(config, want) {
				t.Errorf("%s: no %q in\n%s", name, want, config)
			}
		}
	}
	dir := t.TempDir()
	for name, lines := range files {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("time,q,v\n"+strings.Join(lines, "")), 0o600))
	}
	if config := string(expect.Get(Draft(filepath.Join(dir, "*.csv")))(t).Config); !strings.Contains(config, "key: q ") || !strings.Contains(config, "*.csv") {
		t.Error(config)
	}
}

// TestFarTimes checks that one far time does not lead to another key, and that times that fall back are reported in
// years.
func TestFarTimes(t *testing.T) {
	lines := func(timeAt func(i int) time.Time) *Result {
		lines := []string{"key,time,x\n"}
		for i := range 600 {
			lines = append(lines, fmt.Sprintf("k,%s,%d.5\n", timeAt(i).Format(time.RFC3339), i%9))
		}
		return inspect(t, "{family: normal}", write(t, "in.csv", lines...))
	}
	minute := func(i int) time.Time { return start.Add(time.Duration(i) * time.Minute) }
	far := lines(func(i int) time.Time {
		if i == 300 {
			return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
		}
		return minute(i)
	})
	if len(far.Remarks) > 0 || far.Far != 1 || !strings.Contains(far.String(), "max_ahead") {
		t.Errorf("%v, %s", far.Remarks, far)
	}
	back := lines(func(i int) time.Time {
		if i >= 400 {
			return minute(i).AddDate(-20, 0, 0)
		}
		return minute(i)
	})
	want := "33.3 % of the records are late, by up to 20 years, the first at in.csv:402: times go back there; order: arrival uses the order of the source; see order"
	if len(back.Remarks) != 1 || back.Remarks[0].String() != want || strings.Contains(back.String(), "max_ahead") {
		t.Errorf("%v, %s", back.Remarks, back)
	}
}

// TestRemarksOfCounters checks that restarts are counted, and that a key shared by two counters causes a remark. A
// meter that resets daily does not.
func TestRemarksOfCounters(t *testing.T) {
	values := func(x func(i int) int) string {
		lines := []string{"key,time,x\n"}
		for i := range 400 {
			lines = append(lines, fmt.Sprintf("k,%s,%d\n", start.Add(time.Duration(i)*15*time.Minute).Format(time.RFC3339), x(i)))
		}
		return inspect(t, "{family: normal}, aggregate: {every: 1h, value: increase}", write(t, "in.csv", lines...)).String()
	}
	const shared, restarts = "two counters may share the key", "\nrestarts "
	for name, c := range map[string]struct {
		x               func(i int) int
		restarts, mixed bool
	}{
		"two counters": {func(i int) int { return i%2*1000 + i }, true, true},
		"a meter":      {func(i int) int { return i % 96 }, true, false},
		"a counter":    {func(i int) int { return i }, false, false},
		"a wrap":       {func(i int) int { return i * (1 << 29) % (1 << 32) }, false, false},
	} {
		if text := values(c.x); strings.Contains(text, restarts) != c.restarts || strings.Contains(text, shared) != c.mixed || !c.mixed && strings.Contains(text, "remark") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
