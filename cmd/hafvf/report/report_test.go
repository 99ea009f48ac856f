package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// pageOf returns the page of some files, and its text.
func pageOf(t testing.TB, period Since, paths ...string) (*Page, string) {
	t.Helper()
	c := expect.Get(Files(t.Context(), paths, period, time.UTC))(t)
	p := c.Page()
	var b bytes.Buffer
	expect.OK(t, p.Write(&b))
	return p, b.String()
}

func berlin(t testing.TB) *time.Location {
	t.Helper()
	return expect.Get(time.LoadLocation("Europe/Berlin"))(t)
}

// file writes lines to a new file.
func file(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.jsonl")
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// containsTexts fails for each text that the page lacks.
func containsTexts(t *testing.T, page string, texts ...string) {
	t.Helper()
	plain := plainText(page)
	for _, text := range texts {
		if !strings.Contains(plain, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

var markup = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)

func plainText(page string) string {
	return strings.Join(strings.Fields(html.UnescapeString(markup.ReplaceAllString(page, ""))), " ")
}

// A plainCount is a count of the same alerts without this package.
type plainCount struct {
	kinds     map[string]int64
	total     int64
	keys      map[string]bool // keys with alarms
	incidents map[string]bool
	single    int
}

func countPlainly(t testing.TB, path string, from time.Time) plainCount {
	t.Helper()
	f := expect.Get(os.Open(path))(t)
	defer f.Close()
	c := plainCount{map[string]int64{}, 0, map[string]bool{}, map[string]bool{}, 0}
	var records []map[string]any
	members := map[string]bool{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var r map[string]any
		expect.OK(t, json.Unmarshal(in.Bytes(), &r))
		recordTime := expect.Get(time.Parse(time.RFC3339, r["time"].(string)))(t)
		if recordTime.Before(from) {
			continue
		}
		records = append(records, r)
		if list, ok := r["members"].([]any); ok {
			for _, m := range list {
				m := m.(map[string]any)
				members[m["key"].(string)+m["time"].(string)] = true
			}
		}
	}
	for _, r := range records {
		kind := r["kind"].(string)
		c.kinds[kind]++
		c.total++
		switch kind {
		case "incident":
			c.incidents[r["id"].(string)] = true
		case "novelty", "change", "silent", "outlier":
			c.keys[r["key"].(string)] = true
			if r["incident"] == nil && !members[r["key"].(string)+r["time"].(string)] {
				c.single++
			}
		}
	}
	return c
}

func TestCountsMatchAlerts(t *testing.T) {
	expect.Long(t, "weeks of a fleet")
	path, estimates := fleet{keys: 300, weeks: 2, every: 6 * time.Hour, perWeek: 1.5, incidents: true}.write(t, t.TempDir())
	end := fleetStart.Add(14 * 24 * time.Hour)
	for name, period := range map[string]Since{"all": {}, "a week": {Last: 7 * 24 * time.Hour}, "a date": {From: end.Add(-36 * time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			from := period.From
			if period.Last > 0 {
				from = lastOf(t, path, estimates).Add(-period.Last)
			}
			want := countPlainly(t, path, from)
			p, page := pageOf(t, period, path, estimates)
			got := map[string]int64{}
			for _, c := range p.Counts {
				got[strings.TrimSuffix(c.Name, " records")] = c.N
				containsTexts(t, page, fmt.Sprintf("%s%s", c.Name, grouped(c.N)))
			}
			if fmt.Sprint(got) != fmt.Sprint(want.kinds) {
				t.Errorf("kinds %v, want %v", got, want.kinds)
			}
			alarms := want.kinds["novelty"] + want.kinds["change"] + want.kinds["silent"] + want.kinds["outlier"]
			if p.Alerts != want.total || p.Alarms != alarms || p.Alarmed != len(want.keys) || p.IncidentCount != len(want.incidents) || p.SingleCount != want.single {
				t.Errorf("%d alerts, %d alarms, %d keys, %d incidents, %d single; want %d, %d, %d, %d, %d",
					p.Alerts, p.Alarms, p.Alarmed, p.IncidentCount, p.SingleCount, want.total, alarms, len(want.keys), len(want.incidents), want.single)
			}
			if p.Keys != 300 {
				t.Errorf("%d keys known, want 300", p.Keys)
			}
			containsTexts(t, page, fmt.Sprintf("%d incidents, %s alarms on %d of 300 keys", p.IncidentCount, grouped(p.Alarms), p.Alarmed))
			rows := 0
			for _, g := range p.Map.Groups {
				rows += g.Alarms
			}
			if int64(rows) != p.Alarms || int64(len(p.Rows)+p.RowsLeft) != p.Alarms {
				t.Errorf("groups have %d alarms, the table %d and %d more; want %d", rows, len(p.Rows), p.RowsLeft, p.Alarms)
			}
		})
	}
}

// lastOf returns the last time in files.
func lastOf(t *testing.T, paths ...string) (last time.Time) {
	for _, path := range paths {
		text := expect.Get(os.ReadFile(path))(t)
		for line := range strings.Lines(string(text)) {
			var r struct{ Time time.Time }
			expect.OK(t, json.Unmarshal([]byte(line), &r))
			if r.Time.After(last) {
				last = r.Time
			}
		}
	}
	return last
}

// The order of the records does not change the page.
func TestOrderDoesNotMatter(t *testing.T) {
	path, _ := fleet{keys: 60, weeks: 2, perWeek: 2}.write(t, t.TempDir())
	text := expect.Get(os.ReadFile(path))(t)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	_, a := pageOf(t, Since{}, path)
	expect.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	_, b := pageOf(t, Since{}, path)
	if a != b {
		t.Error("the page depends on the order of the records")
	}
}

// hostile is a text that must not act as markup of the page.
const hostile = `</script><img src=x onerror="document.title='injected'">{{.}}` + "\u2028`${1}`<!--"

func TestTextOfRecordsIsEscaped(t *testing.T) {
	quoted, _ := json.Marshal(hostile)
	var lines []string
	for i := range 3 {
		timeText := fleetStart.Add(time.Duration(i) * time.Hour).Format(time.RFC3339)
		lines = append(lines,
			fmt.Sprintf(`{"key":%s,"time":%q,"kind":"novelty","id":%s,"score":9,"threshold":4,"size":8,"message":%s}`, quoted, timeText, quoted, quoted),
			fmt.Sprintf(`{"key":%s,"time":%q,"kind":"silent","id":%s,"start":%q,"message":%s}`, quoted, timeText, quoted, timeText, quoted),
			fmt.Sprintf(`{"key":%s,"time":%q,"kind":%s,"id":"x"}`, quoted, timeText, quoted),
			fmt.Sprintf(`{"key":%s,"time":%q,"kind":"incident","id":%s,"state":%s,"page":true,"start":%q,"group":%s,"keys":2,"members":[{"key":%s,"time":%q,"score":9,"size":8,"p":0.9}],"expected":0.1,"score":7,"message":%s}`, quoted, timeText, quoted, quoted, timeText, quoted, quoted, timeText, quoted),
			fmt.Sprintf(`{"key":%s,"time":%q,"id":%s,"n":1,"x":1,"predicted":{"mean":1,"sd":1},"detect":{"score":9,"alarm":"novelty","usual":{"mean":1,"sd":1}}}`, quoted, timeText, quoted),
		)
	}
	p, page := pageOf(t, Since{}, file(t, lines...))
	if p.Alarms != 6 || p.IncidentCount != 1 || p.SeriesKeys != 1 {
		t.Errorf("%d alarms, %d incidents, %d series", p.Alarms, p.IncidentCount, p.SeriesKeys)
	}
	if strings.Contains(page, "<img") || strings.Count(page, "<script") != 3 || strings.Count(page, "</script") != 3 || strings.Contains(page, "<!--") {
		t.Error("text of a record is markup of the page")
	}
	containsTexts(t, page, `<img src=x onerror="document.title='injected'">`)
	var data struct {
		Keys []struct {
			Key    string
			Alarms [][]float64
			Series struct{ T, X []float64 }
		}
	}
	expect.OK(t, json.Unmarshal([]byte(p.Data), &data))
	if len(data.Keys) != 1 || len(data.Keys[0].Alarms) != 6 || len(data.Keys[0].Series.T) != 3 || len(data.Keys[0].Series.X) != 3 {
		t.Errorf("data %+v", data)
	}
}

// The page loads nothing: it contains no URL.
func TestPageIsSelfContained(t *testing.T) {
	alerts, estimates := fleet{keys: 20, weeks: 1, every: time.Hour, perWeek: 3, incidents: true}.write(t, t.TempDir())
	_, page := pageOf(t, Since{}, alerts, estimates)
	for _, s := range []string{"http:", "https:", "src=", "@import", "url(", "<link"} {
		if strings.Contains(page, s) {
			t.Errorf("the page has %s", s)
		}
	}
	if !strings.Contains(page, "Copyright (c) 2022 Leon Sorokin") {
		t.Error("the licence of the chart is not on the page")
	}
}

func TestPageIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 60,000 alerts")
	}
	path := filepath.Join(t.TempDir(), "alerts.jsonl")
	f := expect.Get(os.Create(path))(t)
	out := bufio.NewWriter(f)
	const n = 60_000
	for i := range n {
		timeText := fleetStart.Add(time.Duration(i%50000) * time.Minute).Format(time.RFC3339)
		fmt.Fprintf(out, `{"key":"site-%d/pump-%d","time":%q,"kind":"novelty","id":"in.csv:%d","start":%q,"score":%d.5,"threshold":4.2,"x":1,"size":%d.25,"message":"%s"}`+"\n", i%300, i%30000, timeText, i, timeText, i%50, i%70, strings.Repeat("long ", 200))
	}
	expect.OK(t, out.Flush())
	f.Close()
	p, page := pageOf(t, Since{}, path)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if len(page) > 5e6 {
		t.Errorf("%d bytes", len(page))
	}
	t.Logf("%d bytes, %d MB from the system", len(page), m.Sys>>20)
	inGroups := p.Map.AlarmsLeft
	for _, g := range p.Map.Groups {
		inGroups += g.Alarms
	}
	if inGroups != n || p.Map.GroupsLeft == 0 {
		t.Errorf("groups have %d alarms, %d groups are left out", inGroups, p.Map.GroupsLeft)
	}
	if p.Alarms != n || len(p.Rows) != maxRows || p.RowsLeft != n-maxRows || p.Map.Shown != shownKeys || p.Map.Left != 30000-shownKeys {
		t.Errorf("%d alarms, %d rows and %d left, %d keys on the map and %d left", p.Alarms, len(p.Rows), p.RowsLeft, p.Map.Shown, p.Map.Left)
	}
	containsTexts(t, page, "29,000 more keys with alarms have no row.", fmt.Sprintf("%s more groups have no row, with %s alarms.", grouped(int64(p.Map.GroupsLeft)), grouped(int64(p.Map.AlarmsLeft))), "The 1,000 largest of 60,000 alarms, by size. 59,000 are not in the table.")
}

func alertLine(key, kind, id string, minute int, score float64) string {
	timeText := fleetStart.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339)
	return fmt.Sprintf(`{"key":%q,"time":%q,"kind":%q,"id":%q,"start":%q,"score":%g,"threshold":4,"size":3,"message":"%s: x"}`, key, timeText, kind, id, timeText, score, key)
}

// noveltyAt returns an alarm at a time, with the time in its message.
func noveltyAt(key string, t time.Time) string {
	return fmt.Sprintf(`{"key":%q,"time":%q,"kind":"novelty","id":%[2]q,"score":9,"size":3,"message":"at %[2]s"}`, key, t.Format(time.RFC3339))
}

// The days and hours of a page are those of its zone, before and after a clock change.
func TestPageInAZone(t *testing.T) {
	zone := berlin(t)
	var lines []string
	var times []time.Time
	for i := range 60 {
		for _, alarmTime := range []time.Time{time.Date(2025, 9, 20+i, 0, 15, 0, 0, zone), time.Date(2025, 9, 20+i, 23, 45, 0, 0, zone)} {
			lines, times = append(lines, noveltyAt("a", alarmTime.UTC())), append(times, alarmTime)
		}
	}
	path := file(t, lines...)
	c := expect.Get(Files(t.Context(), []string{path}, Since{}, zone))(t)
	g := c.grid()
	for i, alarmTime := range times {
		if column := g.column(c.wall(alarmTime).Unix()); column != i/2 {
			t.Errorf("%v is in cell %d", alarmTime, column)
		}
	}
	p := c.Page()
	expect.Same(t, "1 day from 2025-09-20", p.Map.Step+" from "+p.Map.Ticks[0].Label)
	if data := string(p.Data); !strings.Contains(data, `"zone":"Europe/Berlin","offsets":[[1758320100,7200],[1761440400,3600]]`) {
		t.Errorf("%.200s", data)
	}
	if advice := p.Noisy[0].Advice; !strings.Contains(advice, "occurred between 23:00 and 01:00 Europe/Berlin: ") {
		t.Error(advice)
	}
	u, page := pageOf(t, Since{}, path)
	if strings.Contains(string(u.Data), `"zone"`) || !strings.Contains(u.Noisy[0].Advice, "UTC: ") || strings.Contains(page, "+00:00") {
		t.Error("the page in UTC differs")
	}

	// The local time of the second alarm is before that of the first.
	clockChange := time.Date(2025, 10, 26, 1, 0, 0, 0, time.UTC)
	path = file(t, noveltyAt("a", clockChange.Add(-10*time.Minute)), noveltyAt("a", clockChange.Add(10*time.Minute)))
	if m := expect.Get(Files(t.Context(), []string{path}, Since{}, zone))(t).Page().Map; m.Columns != 41 || m.Step != "1m" || m.Fleet.Paths[0].Path != "M0 0h1v1h-1zM40 0h1v1h-1z" {
		t.Errorf("%d cells of %s, %v", m.Columns, m.Step, m.Fleet)
	}
}

func TestNotesOnTheInput(t *testing.T) {
	estimate := func(key string, minute int) string {
		return fmt.Sprintf(`{"key":%q,"time":%q,"id":"a:1","n":1,"x":1,"predicted":{"mean":null,"sd":null},"detect":{"alarm":null}}`, key, fleetStart.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339))
	}
	smoothedOrPlain := strings.Replace(estimate("plain", 1), `,"detect":{"alarm":null}`, "", 1)
	for _, c := range []struct {
		name   string
		files  [][]string
		period Since
		texts  []string
	}{
		{"nothing", [][]string{{}}, Since{}, []string{"0 incidents, 0 alarms on 0 keys", "There are no alerts in this period", "in.jsonl is empty", "No record has a time"}},
		{"no alerts", [][]string{{estimate("a", 1)}}, Since{}, []string{"0 alarms on 0 of 1 key", "There are no alerts"}},
		{"no detection", [][]string{{smoothedOrPlain}}, Since{}, []string{"0 alarms on 0 of 1 key"}},
		{"no incidents", [][]string{{alertLine("a", "novelty", "1", 1, 5)}}, Since{}, []string{"The alerts have no incidents", "incidents: true", "1 alarm is in no incident"}},
		{"delivered twice", [][]string{{alertLine("a", "novelty", "1", 1, 5), alertLine("a", "novelty", "1", 1, 5)}}, Since{}, []string{"2 alarms on 1 key", "1 alert occurs twice. It is counted twice."}},
		{"two configs", [][]string{{alertLine("a", "novelty", "1", 1, 5)}, {alertLine("a", "novelty", "1", 1, 6), alertLine("a", "change", "1", 1, 6)}}, Since{}, []string{"3 alarms on 1 key", "the alerts of two configs"}},
		{"without a time", [][]string{{`{"key":"a","time":null,"kind":"novelty","id":"1"}`, alertLine("b", "novelty", "1", 1, 5)}}, Since{}, []string{"2 alarms on 2 keys", "1 alert has no time"}},
		{"all without a time", [][]string{{`{"key":"a","kind":"novelty","id":"1","x":[1,2],"usual":{"mean":[1,2],"sd":[1,1]},"size":3}`}}, Since{}, []string{"1 alarm on 1 key"}},
		{"estimates lack a key", [][]string{{alertLine("a", "novelty", "1", 1, 5), alertLine("b", "novelty", "1", 1, 5)}, {estimate("a", 1)}}, Since{}, []string{"The estimates lack 1 key that has alarms", "1 key with alarms has none"}},
		{"since", [][]string{{alertLine("a", "novelty", "1", 1, 5), alertLine("a", "novelty", "1", 100, 5)}}, Since{Last: time.Hour}, []string{"1 alarm on 1 key", "1 record is before the period"}},
		{"silent", [][]string{{alertLine("a", "silent", "1", 1, 5), alertLine("b", "silent", "1", 1, 5), alertLine("b", "recovered", "1", 9, 5), alertLine("a", "recovered", "1", 0, 5)}}, Since{}, []string{"1 key is silent", "1 key fell silent and has not reported since", "2 alarms on 2 keys"}},
		{"spoke again", [][]string{{alertLine("b", "silent", "1", 1, 5), alertLine("b", "recovered", "1", 9, 5)}}, Since{}, []string{"None is silent at the end. 1 silence is over."}},
		{"a kind to come", [][]string{{alertLine("b", "digest", "1", 1, 5)}}, Since{}, []string{"0 alarms on 0 keys", "digest1"}},
		{"merged", [][]string{{
			`{"key":"s","time":"2026-01-05T00:10:00Z","kind":"incident","id":"i","state":"merged","page":true,"group":"s","keys":3,"score":5}`,
			`{"key":"s","time":"2026-01-05T00:09:00Z","kind":"incident","id":"i","state":"opened","page":true,"group":"s","keys":3,"score":5}`,
			`{"key":"","time":"2026-01-05T00:11:00Z","kind":"incident","id":"j","state":"opened","page":true,"group":"","keys":3,"score":5}`,
		}}, Since{}, []string{"1 incident, 0 alarms", "1 incident is a page, 1 is open", "3 keys of all keys alarmed", "1 other was merged"}},
		{"records of one time", [][]string{{
			`{"key":"s","time":"2026-01-05T00:10:00Z","kind":"incident","id":"i","state":"closed","page":true,"start":"2026-01-05T00:10:00Z","end":"2026-01-05T00:10:00Z","group":"s","keys":20,"alarmed":9,"members":[{"key":"s/a","time":"2026-01-05T00:10:00Z","score":9,"size":2,"p":0.9}],"score":5}`,
			`{"key":"s","time":"2026-01-05T00:10:00Z","kind":"incident","id":"i","state":"update","page":true,"start":"2026-01-05T00:10:00Z","group":"s","keys":20,"alarmed":7,"score":5}`,
			`{"key":"s","time":"2026-01-05T00:10:00Z","kind":"incident","id":"i","state":"opened","page":true,"start":"2026-01-05T00:10:00Z","group":"s","keys":20,"alarmed":3,"score":5}`,
		}}, Since{}, []string{"1 incident, 0 alarms", "0 are open", "9 keys of s alarmed", "9 of 20 keys", "1 member of 9", "incident records3"}},
		{"times far apart", [][]string{{strings.Replace(alertLine("a", "novelty", "1", 1, 5), "2026", "0001", 2), strings.Replace(alertLine("a", "novelty", "1", 1, 5), "2026", "9999", 2)}}, Since{}, []string{"2 alarms on 1 key"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var paths []string
			for _, lines := range c.files {
				paths = append(paths, file(t, lines...))
			}
			_, page := pageOf(t, c.period, paths...)
			containsTexts(t, page, c.texts...)
		})
	}
}

func TestFilesRejectsOtherInput(t *testing.T) {
	for name, c := range map[string]struct{ line, message string }{
		"text":       {"hello", "line 1 is not a record of a run: it is not a JSON object"},
		"a list":     {"[1]", "line 1 is not a record of a run: it is a number"},
		"an object":  {`{"key":"a","value":1}`, "it has neither kind, prediction nor session"},
		"no key":     {`{"kind":"novelty"}`, "it has no key"},
		"a number":   {`{"key":7,"kind":"novelty"}`, "key is a number"},
		"a cut line": {`{"key":"a","time":"2026-01-05T00:00:00Z","kind":"nov`, "it is "},
		"wrong time": {`{"key":"a","time":"yesterday","kind":"novelty"}`, `the time "yesterday" is not RFC 3339`},
		"smoothed":   {`{"key":"a","time":"2026-01-05T00:00:00Z","id":"a/1","session":{"start":"2026-01-05T00:00:00Z"}}`, "it has no estimate"},
		"incident":   {`{"key":"a","time":"2026-01-05T00:00:00Z","kind":"incident","members":7}`, "members is a number"},
	} {
		_, err := Files(t.Context(), []string{file(t, c.line)}, Since{}, time.UTC)
		expect.Error(t, err, c.message, name)
	}
	if _, err := Files(t.Context(), []string{file(t, `{"key":"a"`, "oops")}, Since{}, time.UTC); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a line that is cut off before another one: %v", err)
	}
	if _, err := Files(t.Context(), []string{file(t, alertLine("a", "novelty", "1", 1, 5), "oops", alertLine("a", "novelty", "2", 2, 5))}, Since{}, time.UTC); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken line in the middle: %v", err)
	}
	_, page := pageOf(t, Since{}, file(t, alertLine("a", "novelty", "1", 1, 5), `{"key":"a","time":"2026-01-05T00:0`))
	containsTexts(t, page, "The last line of in.jsonl is cut off and ignored", "1 alarm on 1 key")
}

// sessionLines returns smoothed records of two keys with two sessions each. The first session has a change.
func sessionLines() []string {
	record := func(key string, minute, n, revision int, mean float64, more string) string {
		timeText := fleetStart.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339)
		start := fleetStart.Add(time.Duration(minute-n+1) * time.Minute).Format(time.RFC3339)
		return fmt.Sprintf(`{"key":%q,"time":%q,"id":"%s/%s/0","n":%d,"x":%g,"estimate":{"mean":%g,"sd":0.5},"memory":9,"session":{"start":%q,"n":4},"revision":%d%s}`,
			key, timeText, key, timeText, n, mean, mean, start, revision, more)
	}
	segment := func(mean float64) string {
		return fmt.Sprintf(`,"change_evidence":-3,"outlier":0.1,"segment":{"n":2,"mean":%g,"sd":1}`, mean)
	}
	found := fmt.Sprintf(`,"change":true,"change_evidence":12.5,"change_probability":0.9,"change_interval":{"from":%q,"to":%q},"outlier":0.7,"segment":{"n":2,"mean":8,"sd":1}`,
		fleetStart.Format(time.RFC3339), fleetStart.Add(2*time.Minute).Format(time.RFC3339))
	lines := []string{record("b", 2, 3, 0, 5, segment(5))}
	for _, key := range []string{"a", "b"} {
		lines = append(lines, record(key, 0, 1, 1, 5, segment(5)), record(key, 1, 2, 1, 5, segment(5)), record(key, 2, 3, 1, 8, found), record(key, 3, 4, 1, 8, segment(8)), record(key, 600, 1, 0, 8, segment(8)))
	}
	return lines
}

// A page of smoothed sessions has a row for each key, a table of changes and a series, also with alerts of other
// keys. It uses the latest revision.
func TestPageOfSessions(t *testing.T) {
	for _, alerts := range [][]string{nil, {file(t, alertLine("c", "novelty", "1", 1, 5))}} {
		p, page := pageOf(t, Since{}, append(alerts, file(t, sessionLines()...))...)
		s := p.Sessions
		if s.Count != 4 || s.Keys != 2 || s.Found != 2 || s.Outliers != 2 || len(s.Map.Groups[0].Rows) != 2 || p.Estimates != 0 {
			t.Errorf("%+v, %d estimates", s, p.Estimates)
		}
		containsTexts(t, page, "4 sessions of 2 keys, 2 changes", "5.0 → 8.0212.590 %2026-01-05T00:00:00Z to 2026-01-05T00:02:00Z")
		if alone := alerts == nil; strings.Contains(page, `id="incidents"`) == alone {
			t.Errorf("the page has incidents, or lacks them; alerts %v", alerts)
		}
		var data struct {
			Keys []struct {
				Series            struct{ T, X, Um, Pm, Ps, Score, From []float64 }
				Changes, Outliers [][]any
			}
		}
		expect.OK(t, json.Unmarshal([]byte(p.Data), &data))
		k := data.Keys[s.Map.Groups[0].Rows[1].ID]
		if got := fmt.Sprint(k.Series.X, k.Series.Um, k.Series.Score, k.Changes[0][3], len(k.Outliers)); got != "[5 5 8 8 8] [5 5 8 8 8] [-3 -3 12.5 -3 -3]5.0 → 8.0 for 2 observations; probability 90 %, evidence 12.5 nats1" {
			t.Error(got)
		}
	}
}

// The page describes a change of scatter by the standard deviations of the values.
func TestChangeOfScatter(t *testing.T) {
	text := strings.Join(sessionLines(), "\n")
	text = strings.NewReplacer(`"mean":5,"sd":1`, `"mean":5,"sd":1,"scatter":0.97`, `"mean":8,"sd":1`, `"mean":5.5,"sd":1,"scatter":3.9`).Replace(text)
	p, page := pageOf(t, Since{}, file(t, text))
	containsTexts(t, page, "scatter 0.97 → 3.9212.590 %")
	if !strings.Contains(string(p.Data), `"scatter 0.97 → 3.9 for 2 observations; probability`) {
		t.Error(string(p.Data))
	}
}

// A key is silent since the start of its latest silence, in any order of the alerts.
func TestSilentSince(t *testing.T) {
	silence := func(start, reported int) string {
		timeText := func(minute int) string {
			return fleetStart.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339)
		}
		return fmt.Sprintf(`{"key":"a","time":%q,"kind":"silent","id":"%d","start":%q}`, timeText(reported), reported, timeText(start))
	}
	for _, order := range [][]string{{silence(1, 5), silence(40, 50)}, {silence(40, 50), silence(1, 5)}} {
		p, _ := pageOf(t, Since{}, file(t, order...))
		expect.Same(t, []Silent{{Key: "a", Since: fleetStart.Add(40 * time.Minute), Alerted: fleetStart.Add(50 * time.Minute), Silences: 2}}, p.Silent)
	}
}

// A grid has at most maxColumns columns.
func TestGridOf(t *testing.T) {
	for minutes, want := range map[int]string{maxColumns: "1m0s", maxColumns + 1: "5m0s", 24 * 60: "15m0s"} {
		g := gridOf(fleetStart, fleetStart.Add(time.Duration(minutes-1)*time.Minute))
		expect.Same(t, want, g.step.String(), minutes, " minutes")
		expect.Same(t, g.columns-1, g.column(fleetStart.Add(time.Duration(minutes-1)*time.Minute).Unix()), minutes, " minutes")
	}
}

// The page describes sessions that drift or wander in words. A drift is the line through the level of the segment.
func TestPageOfDrift(t *testing.T) {
	var lines []string
	for day := range 81 {
		for key, session := range map[string]string{"a": `"drift":{"rate":1.6,"lower":1.5,"upper":1.7}`, "b": `"drift":null,"wanders":true`, "c": `"drift":null`} {
			timeText := fleetStart.AddDate(0, 0, day).Format(time.RFC3339)
			lines = append(lines, fmt.Sprintf(`{"key":%q,"time":%q,"id":"%s/%s/0","n":%d,"x":576,"estimate":{"mean":576,"sd":1},"memory":9,"outlier":0,"segment":{"n":81,"mean":576,"sd":1},"session":{"start":%q,"n":81,%s},"revision":0}`,
				key, timeText, key, timeText, day+1, fleetStart.Format(time.RFC3339), session))
		}
	}
	p, page := pageOf(t, Since{}, file(t, lines...))
	if p.Sessions.Moved != 2 {
		t.Errorf("%+v", p.Sessions.Moving)
	}
	containsTexts(t, page, "a drifts from 512 to 640 (+25 %) since 5 Jan", "b wanders", "3 sessions of 3 keys, 0 changes")
}

// A series keeps its extremes and its alarms, and has a gap where observations are missing.
func TestSeriesKeepsExtremes(t *testing.T) {
	var s series
	observed := fleetStart
	for i := range 20000 {
		observed = observed.Add(time.Minute)
		if i == 7000 {
			observed = observed.Add(24 * time.Hour)
		}
		e := Estimate{Time: observed, X: float64(i % 10), Score: 1}
		switch i {
		case 5003:
			e.X = 1000
		case 12001:
			e.X = -1000
		case 15000:
			e.Alarm = true
			e.X = 4.5
		case 17000:
			e.Score = 99
		}
		s.add(&e, maxKeyPoints)
	}
	var out struct {
		Seen        int
		T, X, Score []float64
		Gaps        []int
	}
	expect.OK(t, json.Unmarshal(s.append(nil, 300), &out))
	if n := len(out.T); n < 150 || n > 450 || len(out.X) != n || out.Seen != 20000 || len(out.Gaps) != 1 {
		t.Errorf("%d points of %d, %d gaps", n, out.Seen, len(out.Gaps))
	}
	for _, want := range []float64{1000, -1000, 4.5} {
		found := false
		for _, x := range out.X {
			found = found || x == want
		}
		if !found {
			t.Errorf("%g is missing", want)
		}
	}
	found := false
	for _, x := range out.Score {
		found = found || x == 99
	}
	if !found {
		t.Error("the largest score is missing")
	}
}

// A series is thinned as soon as it has the limit of points.
func TestSeriesLimit(t *testing.T) {
	var s series
	for i := range 100 {
		s.add(&Estimate{Time: time.Unix(int64(i), 0)}, 100)
	}
	if n := len(s.points); n > 60 || s.seen != 100 {
		t.Errorf("%d points of %d", n, s.seen)
	}
}

// The table of alarms has at most 1000 rows.
func TestPageRows(t *testing.T) {
	var lines strings.Builder
	for i := range 1001 {
		at := fleetStart.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
		fmt.Fprintf(&lines, `{"key":"k","time":%q,"kind":"novelty","id":"in.csv:%d","start":%[1]q,"score":9,"size":8}`+"\n", at, i)
	}
	path := filepath.Join(t.TempDir(), "alerts.jsonl")
	expect.OK(t, os.WriteFile(path, []byte(lines.String()), 0o666))
	p, _ := pageOf(t, Since{}, path)
	expect.Same(t, [2]int{1000, 1}, [2]int{len(p.Rows), p.RowsLeft})
}
