package plot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/cmd/hafvf/chart"
	"hafvf/cmd/hafvf/output"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
)

func estimateLine(key string, n int, x string) string {
	return fmt.Sprintf(`{"key":%q,"time":"2026-01-01T00:%02d:00Z","n":%d,"x":%s,"predicted":{"mean":1,"sd":null},"log_predictive":-1,"weight":0.9,"memory":%d,"levels":[{"alpha":9,"beta":1},{"alpha":1,"beta":1}]}`+"\n", key, n%60, n, x, n)
}

func results(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	expect.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
	return path
}

func readEstimates(path string) (found []*estimates, omitted int, err error) {
	histories, omitted, err := readRecords(context.Background(), path, Choice{})
	for _, h := range histories {
		found = append(found, newEstimates(h, Usual))
	}
	return found, omitted, err
}

func TestPlotErrors(t *testing.T) {
	good := results(t, estimateLine("k", 1, "1"))
	out, other := filepath.Join(t.TempDir(), "o.svg"), filepath.Join(t.TempDir(), "other.csv")
	expect.OK(t, os.WriteFile(other, []byte("a,b\n1,2\n"), 0o666))
	for _, c := range []struct {
		name, results, out string
		keys               []string
		want               string
	}{
		{"missing", "/no/such.jsonl", out, nil, "no such file"},
		{"empty", results(t), out, nil, "no records"},
		{"not a record", results(t, estimateLine("k", 1, "1"), "{}\n"), out, nil, "line 2 is not a record of a run: it has no key"},
		{"table", results(t, "key,time,x\n"), out, nil, "JSON Lines"},
		{"smoothed behind", results(t, estimateLine("a", 1, "1"), smoothedLine("b", 0, 0, 1, 0, 1, "")), out, nil, "line 2 is a smoothed record and line 1 an estimate"},
		{"smoothed before", results(t, smoothedLine("b", 0, 0, 1, 0, 1, ""), estimateLine("a", 1, "1")), out, nil, "line 2 is an estimate and line 1 a smoothed record"},
		{"without an estimate", results(t, strings.Replace(smoothedLine("b", 0, 0, 1, 0, 1, ""), `"estimate"`, `"estimation"`, 1)), out, nil, "line 1 is not a record of a run: it has no estimate"},
		{"an alert", results(t, `{"key":"k","time":"2026-01-02T00:00:00Z","kind":"novelty","x":5,"predicted":{"mean":1,"sd":1},"usual":{"mean":1,"sd":1}}`+"\n"), out, nil, "it is an alert or an incident, which hafvf report shows"},
		{"cut off", results(t, estimateLine("k", 1, "1")[:40]+"\n"), out, nil, "line 1 is not a record of a run: it is not a JSON object"},
		{"a table of trials", results(t, `{"key":"k","trial":1,"time":"2026-01-01T00:00:00Z","x":1,"learning_rate":0.5,"segment":1}`+"\n"), out, nil, "it is a row of a table of hafvf trials"},
		{"rows of another kind", other, out, nil, "line 2 is not a record of a run: it has no key"},
		{"smoothed without times", results(t, smoothedLine("b", 0, 0, 1, 0, 1, ""), `{"key":"b","id":"b/1","session":{"start":1,"end":1,"n":1},"estimate":{}}`), out, nil, "line 2 is a smoothed record without times and line 1 a smoothed record"},
		{"key", good, out, []string{"q"}, `no key "q"; the nearest is "k"`},
		{"folder", good, "/no/such/o.svg", nil, "/no/such/o.svg cannot be written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect.Error(t, Results(context.Background(), c.results, c.out, Choice{Keys: c.keys, Odds: 10}), c.want)
		})
	}
	remaining, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(remaining) > 0 {
		t.Errorf("files %v, error %v left behind", remaining, err)
	}
}

func TestPlotIsDeterministic(t *testing.T) {
	path := results(t, estimateLine("a", 1, "1"), estimateLine("b", 1, "null"), estimateLine("a", 2, "[2]"))
	var pictures [2][]byte
	for i := range pictures {
		out := filepath.Join(t.TempDir(), "o.svg")
		expect.OK(t, Results(context.Background(), path, out, Choice{Keys: []string{"b", "a"}, Odds: 10}))
		pictures[i] = expect.Get(os.ReadFile(out))(t)
	}
	if !bytes.Equal(pictures[0], pictures[1]) {
		t.Error("two pictures of one file differ")
	}
	if a, b := bytes.Index(pictures[0], []byte(">a<")), bytes.Index(pictures[0], []byte(">b<")); b < 0 || a < b {
		t.Errorf("key a at %d, key b at %d; wanted b before a", a, b)
	}
}

func TestPlotDrawsKeysAsText(t *testing.T) {
	out := filepath.Join(t.TempDir(), "o.svg")
	key := "a<b>&\"\n\x01" + strings.Repeat("long ", 100)
	line := strings.Replace(estimateLine("k", 1, "1"), `"k"`, strings.ReplaceAll(fmt.Sprintf("%q", key), `\x01`, `\u0001`), 1)
	expect.OK(t, Results(context.Background(), results(t, line), out, Choice{Odds: 10}))
	text := expect.Get(os.ReadFile(out))(t)
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(text), "a&lt;b&gt;&amp;&#34;") {
		t.Error("no title")
	}
}

func TestCheck(t *testing.T) {
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		results, out string
		choice       Choice
		want         string
	}{
		{"r", "o.png", Choice{Keys: make([]string, maxKeys)}, ""},
		{"r", "o.pdf", Choice{}, "an .svg or a .png file"},
		{"r", "o.svg", Choice{Keys: make([]string, maxKeys+1)}, "21 keys are too many"},
		{"r", "o.svg", Choice{Pattern: "[a"}, "is not a pattern"},
		{"r", "o.svg", Choice{Window: Window{From: day(2), To: day(1)}}, "--to is before --from"},
		{"r", "o.svg", Choice{Window: Window{From: day(2), Last: time.Hour}}, "use either --last or"},
		{"r", "o.svg", Choice{Window: Window{Last: -1}}, "--last must be above 0"},
		{"-", "o.svg", Choice{Window: Window{Last: time.Hour}}, "--last"},
		{"r", "o.svg", Choice{Window: Window{Alarm: -1}}, "--alarm must be 1"},
		{"r", "o.svg", Choice{Band: "none"}, "--band"},
	} {
		c.choice.Odds = 10
		if err := Check(c.results, c.out, c.choice); c.want == "" {
			expect.OK(t, err)
		} else {
			expect.Error(t, err, c.want)
		}
	}
}

// A second picture replaces the first, and one that cannot be made leaves it.
func TestPlotKeepsAPictureThatIsThere(t *testing.T) {
	out := filepath.Join(t.TempDir(), "o.svg")
	expect.OK(t, Results(context.Background(), results(t, estimateLine("k", 1, "1")), out, Choice{Odds: 10}))
	before := expect.Get(os.ReadFile(out))(t)
	if err := Results(context.Background(), results(t, "{}\n"), out, Choice{Odds: 10}); err == nil {
		t.Fatal("no error")
	}
	if after, err := os.ReadFile(out); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the picture changed: %v", err)
	}
}

func TestReadSeriesPredictedCoordinate(t *testing.T) {
	line := func(x, mean string) string {
		return fmt.Sprintf(`{"key":"k","time":null,"n":1,"x":%s,"predicted":{"mean":%s,"sd":null},"log_predictive":null}`+"\n", x, mean)
	}
	for _, c := range []struct {
		name, x, mean string
		want          []float64
	}{
		{"scalar", "3", "1", []float64{3}},
		{"missing", "null", "1", nil},
		{"several", "[[3],[null],[4]]", "1", []float64{3, 4}},
		{"vector", "[3,4]", "[1,2]", []float64{3}},
		{"target behind regressors", "[3,4]", "2", []float64{4}},
		{"share", "[3,4]", "0.5", []float64{.75}},
		{"category 0", "0", "[0.5,0.5]", []float64{1}},
		{"category 1", "[1]", "[0.5,0.5]", []float64{0}},
	} {
		found, _, err := readEstimates(results(t, line(c.x, c.mean)))
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, p := range found[0].data {
			got = append(got, p.Y)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReadSeries(t *testing.T) {
	found, omitted, err := readEstimates(results(t, estimateLine("k", 2, "5"), estimateLine("k", 1, "4")))
	if err != nil {
		t.Fatal(err)
	}
	const start = 1767225600 // 2026-01-01T00:00:00Z
	s := found[0]
	if omitted != 0 || !slices.Equal(s.data, []chart.Point{{X: start + 60, Y: 4}, {X: start + 120, Y: 5}}) || !slices.Equal(s.memory, []float64{1, 2}) ||
		!slices.Equal(s.weights[0], []float64{0.9, 0.9}) || !slices.Equal(s.weights[1], []float64{0.5, 0.5}) || !slices.Equal(s.surprise, []float64{1, 1}) {
		t.Errorf("%d left out; %+v", omitted, s)
	}

	var lines []string
	for i := range maxKeys + 3 {
		lines = append(lines, estimateLine(fmt.Sprintf("k%02d", 99-i), 1, "1"))
	}
	found, omitted, err = readEstimates(results(t, lines...))
	if err != nil || omitted != 3 || len(found) != maxKeys || found[0].key != "k77" || found[maxKeys-1].key != "k96" {
		t.Errorf("%d series, %d left out, error %v", len(found), omitted, err)
	}
}

// Keys with alarms come first, by decreasing size, even if they occur late in the file. The others follow by name.
func TestKeysRankByAlarm(t *testing.T) {
	line := func(key string, n int, x, estimate, pChange float64, kind, alarm string) string {
		return fmt.Sprintf(`{"key":%q,"time":"2026-01-01T00:%02d:00Z","n":%d,"x":%g,"predicted":{"mean":0,"sd":2},"estimate":{"mean":%g,"sd":1},`+
			`"weight":1,"memory":1,"detect":{"kind":%q,"p_outlier":0,"p_change":%g,"alarm":%s}}`+"\n", key, n, n, x, estimate, kind, pChange, alarm)
	}
	var lines []string
	for i := range maxKeys + 3 {
		lines = append(lines, line(fmt.Sprintf("k%02d", 99-i), 1, 1, 0, 0, "none", "null"))
	}
	lines = append(lines,
		line("novelty", 1, -12, 0, 0, "outlier", `"novelty"`), // 6 sd
		line("change", 1, 0, 0, 0, "none", "null"),
		line("change", 2, 20, 19, .9, "outlier", "null"),     // the estimate moves before the alarm
		line("change", 3, 20, 20, .97, "change", `"change"`), // 10 sd
		line("belief", 1, 900, 0, 0, "none", "null"),
		line("belief", 2, 900, 900, .97, "change", "null"),
	)
	for i := range 5 {
		lines = append(lines, line("k99", i+2, 1, 0, 0, "none", "null"))
	}
	path := results(t, lines...)
	found, omitted, err := readRecords(context.Background(), path, Choice{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, h := range found {
		keys = append(keys, h.key)
	}
	if omitted != 6 || !slices.Equal(keys[:4], []string{"change", "novelty", "belief", "k77"}) || keys[maxKeys-1] != "k93" {
		t.Errorf("%d left out of %v", omitted, keys)
	}
	if n := len(found[0].records); n != 3 {
		t.Errorf("the key that ranks first has %d records, want 3", n)
	}
	found, omitted, err = readRecords(context.Background(), path, Choice{Pattern: "k?9"})
	if err != nil || omitted != 0 || len(found) != 3 || found[0].key != "k79" || found[2].key != "k99" || len(found[2].records) != 6 {
		t.Errorf("keys of k?9: %d, %d left out, error %v", len(found), omitted, err)
	}
	if _, _, err := readRecords(context.Background(), path, Choice{Pattern: "noveltx*"}); err == nil || !strings.Contains(err.Error(), `no key that matches "noveltx*"; the nearest is "novelty"`) {
		t.Error(err)
	}
}

// smoothedLine returns a record of a session that starts at minute start. The record is k minutes after the start.
func smoothedLine(key string, start, k, n, revision int, mean float64, more string) string {
	timeText := func(minute int) string { return fmt.Sprintf("2026-01-01T00:%02d:00Z", minute) }
	return fmt.Sprintf(`{"key":%q,"time":%q,"id":"%s/%s/0","n":%d,"x":1,"estimate":{"mean":%g,"sd":null},"memory":3,"posterior":{},`+
		`"forward":{"weight":0.9,"memory":1,"levels":[]},"backward":{"weight":0.8,"memory":2,"levels":[]},`+
		`"session":{"start":%q,"end":%q,"n":%d},"revision":%d,"change_evidence":null,"change":false%s}`+"\n",
		key, timeText(start+k), key, timeText(start+k), k+1, mean, timeText(start), timeText(start+n-1), n, revision, more)
}

func readSmoothed(t *testing.T, lines ...string) *smoothed {
	t.Helper()
	found, _, err := readRecords(context.Background(), results(t, lines...), Choice{})
	if err != nil {
		t.Fatal(err)
	}
	return newSmoothed(found[0], 10)
}

func equalWithNaN(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || (math.IsNaN(x) && math.IsNaN(y)) })
}

func TestSmoothedLinesBreakBetweenSessions(t *testing.T) {
	s := readSmoothed(t,
		smoothedLine("k", 20, 0, 2, 0, 3, `,"split":"part 1 of 2"`),
		smoothedLine("k", 20, 1, 2, 0, 4, `,"split":"part 2 of 2"`),
		smoothedLine("k", 0, 1, 2, 0, 2, ""),
		smoothedLine("k", 0, 0, 2, 0, 1, ""))
	nan := math.NaN()
	if want := []float64{1, 2, nan, 3, nan, 4}; !equalWithNaN(s.mean, want) {
		t.Errorf("means %v, want %v", s.mean, want)
	}
	if want := []float64{3, 3, nan, 3, nan, 3}; !equalWithNaN(s.memory[2], want) {
		t.Errorf("memory %v, want %v", s.memory[2], want)
	}
	if !slices.IsSorted(s.x) || len(s.data) != 4 || s.note != "2 sessions, 1 cut into parts" {
		t.Errorf("at %v, %d observations, note %q", s.x, len(s.data), s.note)
	}
}

// Revision 1 starts one record earlier, and it comes first in the file.
func TestSmoothedKeepsTheHighestRevision(t *testing.T) {
	s := readSmoothed(t,
		smoothedLine("k", 9, 0, 3, 1, 10, ""),
		smoothedLine("k", 9, 1, 3, 1, 11, `,"change":true`),
		smoothedLine("k", 9, 2, 3, 1, 12, ""),
		smoothedLine("k", 10, 0, 2, 0, 1, `,"change":true`),
		smoothedLine("k", 10, 1, 2, 0, 2, `,"change":true`))
	if want := []float64{10, 11, 12}; !slices.Equal(s.mean, want) {
		t.Errorf("means %v, want %v", s.mean, want)
	}
	if want := []float64{s.x[1]}; !slices.Equal(s.changes, want) {
		t.Errorf("changes %v, want %v", s.changes, want)
	}
}

// shows checks that the picture of a file contains the texts in want and none in not.
func shows(t *testing.T, path string, c Choice, want, unwanted []string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "o.svg")
	expect.OK(t, Results(context.Background(), path, out, c))
	text := expect.Get(os.ReadFile(out))(t)
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			t.Errorf("%+v: no %q", c, w)
		}
	}
	for _, n := range unwanted {
		if strings.Contains(string(text), n) {
			t.Errorf("%+v: unwanted %q", c, n)
		}
	}
}

func TestPlotDrawsSmoothedSessions(t *testing.T) {
	const segment = `,"segment":{"start":"2026-01-01T00:00:00Z","n":1,"mean":1,"sd":null}`
	lines := []string{smoothedLine("a", 0, 0, 2, 0, 1, ""), smoothedLine("a", 0, 1, 2, 0, 2, ""), smoothedLine("b", 0, 0, 1, 0, 1, segment)}
	for _, c := range []struct {
		keys []string
		want []string
	}{
		{[]string{"a"}, []string{"95 % (± 1.96 sd)", "E[w] backward", "memory (observations) forward", "evidence needed for a change"}},
		{[]string{"b"}, []string{"mean of the segment"}},
		{nil, []string{">a<", ">b<", "evidence needed for a change", ">change<"}},
	} {
		shows(t, results(t, lines...), Choice{Keys: c.keys, Odds: 100}, c.want, nil)
	}
}

// detectLine returns the record of observation n: its value and its minute are n.
func detectLine(key string, n int, kind string, start int, more string) string {
	begin, delay := "null", "null"
	if start > 0 {
		begin = fmt.Sprintf(`"2026-01-01T00:%02d:00Z"`, start)
	}
	alarm := "null"
	if kind == "change" {
		alarm = `"change"`
	}
	if kind == "change" || kind == "revision" {
		delay = fmt.Sprint(n - start)
	}
	return strings.TrimSuffix(estimateLine(key, n, fmt.Sprint(n)), "}\n") + fmt.Sprintf(`,"estimate":{"mean":5,"sd":1,"regime":{"mean":%d,"sd":1}},`+
		`"bank":[{"weight":1},{"weight":0.5}],"detect":{"kind":%q,"p_stay":0.5,"p_outlier":0.2,"p_change":0.3,"start":%s,"start_n":%d,"delay":%s,"age":1,"alarm":%s}%s}`+"\n",
		100+n, kind, begin, start, delay, alarm, more)
}

func minutes(n ...float64) []float64 {
	const start = 1767225600 // 2026-01-01T00:00:00Z
	for i := range n {
		n[i] = start + 60*n[i]
	}
	return n
}

func readDetected(t *testing.T, lines ...string) *estimates {
	t.Helper()
	found, _, err := readEstimates(results(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// The change found at 6 starts at 4. At 9 it is revised to start at 7: the outlier at 5 was a first observation of
// the regime before the revision, and is an outlier again after it.
func TestDetectedChangesAndOutliers(t *testing.T) {
	lines := []string{
		detectLine("k", 1, "none", 0, `,"warm_up":true`),
		detectLine("k", 2, "none", 2, `,"warm_up":true`),
		detectLine("k", 3, "outlier", 2, ""),
		detectLine("k", 4, "none", 4, ""),
		detectLine("k", 5, "outlier", 4, ""),
		detectLine("k", 6, "change", 4, ""),
	}
	s := readDetected(t, lines...)
	nan := math.NaN()
	if want := []float64{101, 102, 103, nan, nan, 106}; !equalWithNaN(s.regime, want) {
		t.Errorf("regime %v, want %v", s.regime, want)
	}
	x := minutes(2, 3, 4, 6)
	if want := []chart.Point{{X: x[1], Y: 3}}; !slices.Equal(s.outliers, want) {
		t.Errorf("outliers %v, want %v", s.outliers, want)
	}
	if want := []found{{x[2], x[3], 2}}; !slices.Equal(s.changes, want) {
		t.Errorf("changes %v, want %v", s.changes, want)
	}
	if s.warmUpEnd != x[0] || s.note != "1 alarm, 1 change, 1 outlier" || !slices.Equal(s.alarms, x[3:]) || s.outlier[0] != .2 || s.change[0] != .3 {
		t.Errorf("warm-up until %v, note %q, alarms %v, probabilities %v and %v", s.warmUpEnd, s.note, s.alarms, s.outlier, s.change)
	}

	s = readDetected(t, append(lines,
		detectLine("k", 7, "none", 7, ""),
		detectLine("k", 8, "outlier", 7, ""),
		detectLine("k", 9, "revision", 7, ""),
		detectLine("k", 10, "outlier", 0, ""))...)
	if want := []float64{101, 102, 103, nan, nan, nan, nan, nan, 109, 110}; !equalWithNaN(s.regime, want) {
		t.Errorf("regime %v, want %v", s.regime, want)
	}
	x = minutes(3, 5, 7, 9, 10)
	if want := []chart.Point{{X: x[0], Y: 3}, {X: x[1], Y: 5}, {X: x[4], Y: 10}}; !slices.Equal(s.outliers, want) {
		t.Errorf("outliers %v, want %v", s.outliers, want)
	}
	if want := []found{{x[2], x[3], 2}}; !slices.Equal(s.changes, want) {
		t.Errorf("changes %v, want %v", s.changes, want)
	}

	// Without times the position is n. Part of a stream may begin with a revision.
	timeless := func(line string) string {
		return strings.NewReplacer(`"time":"2026-01-01T00:09:00Z"`, `"time":null`, `"start":"2026-01-01T00:07:00Z"`, `"start":null`).Replace(line)
	}
	s = readDetected(t, timeless(detectLine("k", 9, "revision", 7, "")))
	if want := []found{{7, 9, 2}}; !slices.Equal(s.changes, want) || !math.IsInf(s.warmUpEnd, -1) {
		t.Errorf("changes %v, want %v; warm-up until %g", s.changes, want, s.warmUpEnd)
	}
}

func TestPlotDrawsDetection(t *testing.T) {
	lines := func(key string) []string {
		return []string{
			detectLine(key, 1, "none", 0, `,"warm_up":true`),
			detectLine(key, 20, "outlier", 0, ""),
			detectLine(key, 40, "change", 34, ""),
			detectLine(key, 50, "none", 0, ""),
		}
	}
	both := []string{">alarm<", ">outlier<", ">estimate in the regime<", ">change, at the start of the new regime<", ">regimes<", ">warm-up: no alarms<", ">p_outlier<", ">p_change<"}
	for _, c := range []struct {
		name     string
		lines    []string
		want     []string
		unwanted []string
	}{
		{"one key", lines("a"), append(both, ">+6<", ">E[w] of the heaviest filter<", ">memory (observations) of the heaviest filter<", ">surprise (nats)<", ">1 alarm, 1 change, 1 outlier<"), []string{">predicted<"}},
		{"two keys", append(lines("a"), lines("b")...), append(both, ">a<", ">b<"), []string{"E[w]", ">+6<"}},
		{"no warm-up", lines("a")[1:], both[:5], both[5:6]},
		{"no detection", []string{estimateLine("a", 1, "1"), estimateLine("a", 2, "1")}, []string{">predicted<", ">predicted ± 2 sd<", ">E[w]<"}, append(both, "heaviest", "outliers")},
	} {
		out := filepath.Join(t.TempDir(), "o.svg")
		expect.OK(t, Results(context.Background(), results(t, c.lines...), out, Choice{Odds: 10}))
		text := expect.Get(os.ReadFile(out))(t)
		for _, want := range c.want {
			if strings.Count(string(text), want) != 1 {
				t.Errorf("%s: %q occurs %d times, want once", c.name, want, strings.Count(string(text), want))
			}
		}
		for _, unwanted := range c.unwanted {
			if strings.Contains(string(text), unwanted) {
				t.Errorf("%s: unwanted %q", c.name, unwanted)
			}
		}
	}
}

// Brief records have no start of a regime: a change is drawn where it was found, without the range of the search.
func TestPlotBriefRecords(t *testing.T) {
	brief := func(n int, kind string) string {
		return fmt.Sprintf(`{"key":"k","time":"2026-01-01T00:%02d:00Z","n":%d,"x":1,"predicted":{"mean":1,"sd":null},"estimate":{"mean":1,"sd":1},"lower":-1,"upper":3,"log_predictive":-1,"weight":0.9,"memory":9,"detect":{"kind":%q,"p_outlier":0,"p_change":0,"score":0,"alarm":null}}`+"\n", n, n, kind)
	}
	path := results(t, brief(1, "none"), brief(2, "none"), brief(9, "change"))
	found, _, err := readEstimates(path)
	if err != nil {
		t.Fatal(err)
	}
	if e := found[0]; len(e.changes) != 1 || e.changes[0].start != e.x[2] || e.low[2] != -1 || e.high[2] != 3 {
		t.Errorf("%+v", e)
	}
	shows(t, path, Choice{Odds: 10}, []string{"change, where it was found", "predicted, lower to upper", ">out.jsonl<", ">x<"}, []string{"until it is found", "+0"})
	shows(t, path, Choice{Odds: 10, Title: "pump 1"}, []string{">pump 1<", ">k<"}, []string{">out.jsonl<"})
}

// Every field that a picture reads is a field that runs write.
func TestPlotFieldsAreWrittenByRuns(t *testing.T) {
	written := map[string]bool{}
	for _, k := range records.Kinds() {
		for _, f := range k.Fields {
			written[strings.ToLower(f.Path)] = true
		}
	}
	n := 0
	var check func(prefix string, r reflect.Type)
	check = func(prefix string, r reflect.Type) {
		for i := range r.NumField() {
			f := r.Field(i)
			name := strings.ToLower(cmp.Or(strings.Split(f.Tag.Get("json"), ",")[0], f.Name))
			switch {
			case name == "-", name == "output": // only the commands on a page have output
				continue
			case f.Anonymous:
				check(prefix, f.Type)
				continue
			}
			path, fieldType := prefix+name, f.Type
			if !written[path] {
				t.Errorf("no record has the field %s", path)
			}
			n++
			if fieldType.Kind() == reflect.Slice {
				path, fieldType = path+"[]", fieldType.Elem()
			}
			if fieldType.Kind() == reflect.Pointer {
				fieldType = fieldType.Elem()
			}
			if fieldType.Kind() == reflect.Struct && fieldType != reflect.TypeFor[time.Time]() && fieldType != reflect.TypeFor[output.Point]() {
				check(path+".", fieldType)
			}
		}
	}
	check("", reflect.TypeFor[output.Record]())
	check("", reflect.TypeFor[output.Alert]())
	if n < 30 {
		t.Errorf("only %d fields were compared", n)
	}
}

// Rates have an axis of their own range, on which a small rate is not flat, and a band within [0, 1].
func TestRates(t *testing.T) {
	var lines []string
	for i := range 50 {
		x := 0
		if i%25 == 24 {
			x = 1
		}
		lines = append(lines, fmt.Sprintf(`{"key":"k","time":"2026-01-01T00:%02d:00Z","n":%d,"x":%d,"predicted":{"mean":0.04,"sd":0.2},"estimate":{"mean":0.04,"sd":0.03},"weight":1,"memory":1}`+"\n", i, i+1, x))
	}
	found, _, err := readEstimates(results(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	s := found[0]
	p := s.dataPanel()
	if !s.rates || p.Min > 0 || p.Min < -.02 || p.Max < .1 || p.Max > .12 {
		t.Errorf("rates %t, axis from %g to %g", s.rates, p.Min, p.Max)
	}
	for i := range s.low {
		if s.low[i] != 0 || math.Abs(s.high[i]-.1) > 1e-12 {
			t.Fatalf("band from %g to %g, want 0 to 0.1", s.low[i], s.high[i])
		}
	}
	arrows, ok := p.Layers[len(p.Layers)-1].(chart.Arrows)
	if !ok || arrows.Name != "observed 1" || len(arrows.Points) != 2 {
		t.Errorf("%+v", p.Layers[len(p.Layers)-1])
	}
}

// A window omits records before and after it. --alarm draws the records around an alarm.
func TestWindow(t *testing.T) {
	line := func(key string, n int, x float64) string {
		alarm := "null"
		if x > 13 {
			alarm = `"novelty"`
		}
		return fmt.Sprintf(`{"key":%q,"time":"2026-01-%02dT%02d:00:00Z","n":%d,"x":%g,"predicted":{"mean":10,"sd":5},"estimate":{"mean":10,"sd":1},"detect":{"kind":"none","p_outlier":0,"p_change":0,"usual":{"mean":10,"sd":1},"score":2.5,"threshold":3.5,"alarm":%s}}`+"\n", key, 1+n/24, n%24, n, x, alarm)
	}
	var lines []string
	for n := range 480 {
		a, b := 10., 10.
		switch n {
		case 100:
			a = 15
		case 300:
			b = 20
		case 400:
			a = 17
		}
		lines = append(lines, line("a", n, a))
		if n < 350 || n > 370 {
			lines = append(lines, line("b", n, b))
		}
	}
	path := results(t, lines...)
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name        string
		window      Window
		keys        []string // in the order of the picture
		first, last int64    // n of the first key
	}{
		{"all", Window{}, []string{"b", "a"}, 0, 479},
		{"from", Window{From: day(15)}, []string{"a", "b"}, 336, 479},
		{"from and to", Window{From: day(3), To: day(4)}, []string{"a", "b"}, 48, 72},
	} {
		found, _, err := readRecords(context.Background(), path, Choice{Window: c.window})
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, h := range found {
			keys = append(keys, h.key)
		}
		got := found[0].records
		if !slices.Equal(keys, c.keys) || got[0].N != c.first || got[len(got)-1].N != c.last {
			t.Errorf("%s: keys %v from %d to %d, want %v from %d to %d", c.name, keys, got[0].N, got[len(got)-1].N, c.keys, c.first, c.last)
		}
	}
	found, _, err := readRecords(context.Background(), path, Choice{})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]struct {
		key         string
		first, last int64
	}{1: {"b", 150, 471}, 2: {"a", 250, 479}, 3: {"a", 0, 250}} {
		alarmed := expect.Get(largest(found, n))(t)
		got := alarmed[0].records
		if len(alarmed) != 1 || alarmed[0].key != want.key || got[0].N != want.first || got[len(got)-1].N != want.last {
			t.Errorf("alarm %d: key %s from %d to %d, want %+v", n, alarmed[0].key, got[0].N, got[len(got)-1].N, want)
		}
	}
	if _, err := largest(found, 4); err == nil || !strings.Contains(err.Error(), "3 alarms") {
		t.Errorf("alarm 4: %v", err)
	}
	for _, c := range []struct {
		choice         Choice
		want, unwanted []string
	}{
		{Choice{Keys: []string{"b"}}, []string{"threshold of an alarm", "usual ± 2 sd", "no observations", "surprise"}, []string{"predicted ± 2 sd"}},
		{Choice{Keys: []string{"a"}, Band: Predicted}, []string{"predicted ± 2 sd"}, []string{"no observations", "usual ±"}},
		{Choice{Window: Window{Last: 48 * time.Hour}}, []string{"19 Jan", ">a<", ">b<", "score"}, []string{"17 Jan", "p_change"}},
		{Choice{Window: Window{Alarm: 1}}, []string{">b<"}, []string{">a<"}},
	} {
		c.choice.Odds = 10
		shows(t, path, c.choice, c.want, c.unwanted)
	}
	expect.Error(t, Results(context.Background(), path, filepath.Join(t.TempDir(), "o.svg"), Choice{Window: Window{From: day(30)}, Odds: 10}), "no records from 2026-01-30T00:00:00Z")
}
