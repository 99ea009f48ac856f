package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/connectors/promio"
	"hafvf/internal/testing/expect"
)

// An oracle answers query_range with series that are functions of time. Its values may be NaN. A series returns false
// if it has no point.
type oracle struct {
	series map[string]func(when time.Time) (float64, bool) // by labels, as JSON

	mu       sync.Mutex
	asked    int
	maxSteps int             // maximum steps of a query; 0: no limit
	codes    []int           // status codes of the next answers
	heard    func(asked int) // called with the number of each query; may be nil
	parts    int             // number of next answers that are partial
}

func (o *oracle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if o.heard != nil {
		o.heard(o.asked)
	}
	if len(o.codes) > 0 {
		code := o.codes[0]
		o.codes = o.codes[1:]
		http.Error(w, `{"status":"error","errorType":"x","error":"not today"}`, code)
		return
	}
	number := func(name string) float64 {
		v, err := strconv.ParseFloat(r.FormValue(name), 64)
		if err != nil {
			panic(err)
		}
		return v
	}
	begin, end, step := number("start"), number("end"), number("step")
	if o.maxSteps > 0 && (end-begin)/step+1 > float64(o.maxSteps) {
		http.Error(w, `{"status":"error","errorType":"execution","error":"too many samples"}`, http.StatusUnprocessableEntity)
		return
	}
	var series []string
	for labels, f := range o.series {
		var points []string
		for t := begin; t <= end; t += step {
			if v, ok := f(time.UnixMilli(int64(math.Round(t * 1000))).UTC()); ok {
				points = append(points, fmt.Sprintf(`[%.3f,"%v"]`, t, v))
			}
		}
		if points != nil {
			series = append(series, fmt.Sprintf(`{"metric":%s,"values":[%s]}`, labels, strings.Join(points, ",")))
		}
	}
	slices.Sort(series)
	w.Header().Set("Content-Type", "application/json")
	warnings := ""
	if o.parts > 0 {
		o.parts--
		series, warnings = nil, `"warnings":["a store is away"],`
	}
	fmt.Fprintf(w, `{"status":"success",`+warnings+`"data":{"resultType":"matrix","result":[%s]}}`, strings.Join(series, ","))
}

// serve starts the oracle.
func (o *oracle) serve(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(o)
	t.Cleanup(s.Close)
	return s.URL
}

// waves returns a series from begin on with gaps, NaN and infinite values.
func waves(begin time.Time, phase float64) func(time.Time) (float64, bool) {
	return func(when time.Time) (float64, bool) {
		minute := int64(when.Sub(begin) / time.Minute)
		switch {
		case minute%997 < 10:
			return 0, false
		case minute%101 == 0:
			return math.NaN(), true
		case minute%499 == 0:
			return math.Inf(1), true
		}
		return math.Round(1000*math.Sin(float64(minute)/50+phase)+float64(minute*7919%101)) / 100, true
	}
}

// threeWaves returns series from begin on. The third appears a day later.
func threeWaves(begin time.Time) map[string]func(time.Time) (float64, bool) {
	late := waves(begin, 2)
	return map[string]func(time.Time) (float64, bool){
		`{"__name__":"load","host":"a","job":"x\"y"}`: waves(begin, 0),
		`{"__name__":"load","host":"b","job":"x\"y"}`: waves(begin, 1),
		`{"__name__":"load","host":"late"}`: func(when time.Time) (float64, bool) {
			if when.Before(begin.Add(24 * time.Hour)) {
				return 0, false
			}
			return late(when)
		},
	}
}

const queryConfig = "model: {family: normal, prior: auto}\ndetect: true\n"

// The records of a query over the past equal the records of the same points in a file.
func TestQueryIsLikeFile(t *testing.T) {
	t.Parallel()
	begin := time.Now().Add(-30 * time.Hour).UTC().Truncate(time.Minute)
	o := &oracle{series: threeWaves(begin), maxSteps: 100, codes: []int{503, 429}}
	url := o.serve(t)
	s, got, rejected := runConfig(t, queryConfig+fmt.Sprintf("source: {prometheus: {url: %q, query: load, start: %s, bounded: true}}\n", url, begin.Format(time.RFC3339)))
	if s.Missing == 0 || len(rejected) == 0 {
		t.Fatalf("%d missing ones, %d rejected ones", s.Missing, len(rejected))
	}
	if o.asked < 10 {
		t.Errorf("%d queries, for more than one window", o.asked)
	}

	answer := httptest.NewRecorder()
	o.maxSteps = 0
	end := begin.Add(29 * time.Hour) // the run has read further
	o.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/?start=%d&end=%d&step=60", begin.Unix(), end.Unix()), nil))
	path := filepath.Join(t.TempDir(), "dump.json")
	expect.OK(t, os.WriteFile(path, append(answer.Body.Bytes(), '\n'), 0o600))
	_, want, refused := runConfig(t, queryConfig+"source: {jsonl: {path: "+path+", layout: series, key: metric, values: values}}\n")
	if diff := cmp.Diff(byPlace(t, want, end), byPlace(t, got, end)); diff != "" {
		t.Errorf("records (-file +query)\n%.2000s", diff)
	}
	if len(refused) != len(rejected) { // none in the last hour
		t.Errorf("%d rejected of the file, %d of the query", len(refused), len(rejected))
	}
}

// byPlace returns the records up to end, without their IDs, by key and time.
func byPlace(t *testing.T, lines []string, end time.Time) map[string]string {
	t.Helper()
	result := map[string]string{}
	for _, line := range lines {
		var r map[string]any
		expect.OK(t, json.Unmarshal([]byte(line), &r))
		delete(r, "id")
		when := expect.Get(time.Parse(time.RFC3339, r["time"].(string)))(t)
		if when.After(end) {
			continue
		}
		b := expect.Get(json.Marshal(r))(t)
		place := fmt.Sprint(r["key"], r["time"])
		if result[place] != "" {
			t.Errorf("%s comes twice", place)
		}
		result[place] = string(b)
	}
	return result
}

// watchQuery runs a config without an end until enough returns true. It then stops the run, or with crash aborts it.
func watchQuery(t *testing.T, text string, crash bool, enough func() bool) error {
	t.Helper()
	ctx, abort := context.WithCancel(t.Context())
	defer abort()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := Run{Graph: compose(t, text)}.Execute(ctx, stop)
		done <- err
	}()
	expect.Soon(t, "enough", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the run has ended: %v", err)
		default:
		}
		return enough()
	})
	if crash {
		abort()
	} else {
		close(stop)
	}
	return <-done
}

// A run without an end that is stopped resumes where it stopped: no record is lost or repeated. A crashed run resumes
// from its last stored states, and repeats equal records.
func TestQueryResumes(t *testing.T) {
	prev := saveEvery
	saveEvery = 50 * time.Millisecond
	t.Cleanup(func() { saveEvery = prev })
	begin := time.Now().Add(-40 * time.Hour).UTC().Truncate(time.Minute)
	end := begin.Add(2390 * time.Minute)                  // final, with a point in each series
	o := &oracle{series: threeWaves(begin), maxSteps: 20} // windows are short
	url := o.serve(t)
	dir := t.TempDir()
	out, state := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "states")
	text := queryConfig + fmt.Sprintf("source: {prometheus: {url: %q, query: load, start: %s}}\nstate: %s\n", url, begin.Format(time.RFC3339), state)
	sink := "sink: {jsonl: {path: " + out + "}}\ndead_letter: {jsonl: {path: " + filepath.Join(dir, "dead.jsonl") + "}}\n"
	lines := func() int {
		b, _ := os.ReadFile(out)
		return strings.Count(string(b), "\n")
	}
	expect.OK(t, watchQuery(t, text+sink, false, func() bool { return lines() > 300 }))
	stopped := lines()
	if err := watchQuery(t, text+sink, true, func() bool { return lines() > stopped+600 }); err == nil {
		t.Error("an aborted run has no error")
	}
	upTo := func() bool {
		b, _ := os.ReadFile(out)
		return strings.Count(string(b), end.Format(`"time":"`+time.RFC3339)) == 3
	}
	expect.OK(t, watchQuery(t, text+sink, false, upTo))
	_, want, _ := runConfig(t, strings.Replace(strings.Replace(text, "query: load", "query: load, bounded: true", 1), "state: "+state, "", 1))
	got := map[string]string{}
	for i, line := range readLines(t, out) {
		r := unmarshalled[struct{ ID string }](t, line)
		if first, twice := got[r.ID]; twice && first != line {
			t.Errorf("repeated with another content:\n%s\n%s", first, line)
		} else if twice && i < stopped {
			t.Errorf("repeated before the crash: %s", line)
		}
		got[r.ID] = line
	}
	for _, line := range want {
		type record struct {
			ID   string
			Time time.Time
		}
		r := unmarshalled[record](t, line)
		if got[r.ID] != line && !r.Time.After(end) {
			t.Fatalf("%s\ninstead of\n%s", got[r.ID], line)
		}
	}
}

// sampled returns a series with a sample every minute from begin on, except in outages. Its value is constant after
// minute freezes, and it ends at minute ends. The server repeats each sample for five minutes.
func sampled(begin time.Time, phase float64, freezes, ends int64) func(time.Time) (float64, bool) {
	return func(when time.Time) (float64, bool) {
		minute := int64(when.Sub(begin) / time.Minute)
		last := minute
		for last >= ends || last >= 500 && last < 504 || last >= 900 && last < 920 {
			last--
		}
		age := when.Sub(begin.Add(time.Duration(last) * time.Minute))
		return math.Mod(math.Exp(float64(min(last, freezes)%1000)/50+phase)*100, 7), minute >= 0 && age <= 5*time.Minute
	}
}

// Values that the server repeats raise no alarm about equal values, with and without aggregation, for all windows. A
// series that freezes raises one.
func TestQueryLookback(t *testing.T) {
	t.Parallel()
	begin := time.Now().Add(-26 * time.Hour).UTC().Truncate(time.Minute)
	o := &oracle{maxSteps: 70, series: map[string]func(time.Time) (float64, bool){
		`{"host":"away"}`:    sampled(begin, 0, 1e6, 1e6),
		`{"host":"ends"}`:    sampled(begin, .3, 1e6, 1400),
		`{"host":"freezes"}`: sampled(begin, .7, 1200, 1e6),
	}}
	url := o.serve(t)
	for settings, want := range map[string][]string{
		"}}":                {"freezes"},
		", lookback: 1ms}}": {"away", "ends", "freezes"},
		", step: 20s}}\naggregate: {every: 1m, value: mean}":                {"freezes"},
		", step: 20s, lookback: 1ms}}\naggregate: {every: 1m, value: mean}": {"away", "ends", "freezes"},
	} {
		path := filepath.Join(t.TempDir(), "alerts.jsonl")
		runConfig(t, queryConfig+fmt.Sprintf("alerts: {jsonl: {path: %s}}\nsource: {prometheus: {url: %q, query: x, key: [host], start: %s, bounded: true%s\n", path, url, begin.Format(time.RFC3339), settings))
		var got []string
		for _, line := range readLines(t, path) {
			if a := unmarshalled[struct{ Key, Message string }](t, line); strings.Contains(a.Message, "which is rare for this key") && !slices.Contains(got, a.Key) {
				got = append(got, a.Key)
			}
		}
		slices.Sort(got)
		expect.Same(t, want, got, "keys with an alarm about equal values", settings)
	}
}

// Configured labels make the key. Two series with one key are one key; of two points at one time the second is
// rejected.
func TestQueryKeys(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	until := func(ago time.Duration) func(time.Time) (float64, bool) {
		return func(when time.Time) (float64, bool) { return 1, now.Sub(when) > ago }
	}
	o := &oracle{series: map[string]func(time.Time) (float64, bool){
		`{"host":"a","version":"1"}`: until(30 * time.Minute),
		`{"host":"a","version":"2"}`: func(when time.Time) (float64, bool) { return 2, now.Sub(when) < 33*time.Minute },
		`{"version":"2"}`:            until(0),
	}}
	s, _, rejected := runConfig(t, "model: {family: normal}\n"+fmt.Sprintf("source: {prometheus: {url: %q, query: x, start: %s, bounded: true, key: [host]}}\n", o.serve(t), now.Add(-time.Hour).UTC().Format(time.RFC3339)))
	if s.Keys != 1 || s.Late != 0 {
		t.Errorf("%d keys, %d late records", s.Keys, s.Late)
	}
	twice, empty := 0, 0
	for _, r := range rejected {
		switch {
		case strings.Contains(r, "two series have this key at this time") && strings.Contains(r, `version=\"2\"`):
			twice++
		case strings.Contains(r, "none of the labels host"):
			empty++
		default:
			t.Error(r)
		}
	}
	if twice != 2 || empty < 59 { // the clock advances
		t.Errorf("%d points of one time, and %d without a key", twice, empty)
	}
}

// An error answer of the server ends the run. The error does not contain secrets.
func TestQueryRefused(t *testing.T) {
	for want, o := range map[string]*oracle{
		"answers 400 Bad Request: not today":    {codes: []int{400}},
		"returns 3 series, and max_series is 2": {series: threeWaves(time.Now().Add(-30 * time.Hour))},
	} {
		text := fmt.Sprintf("source: {prometheus: {url: %q, query: load, bounded: true, start: -1h, max_series: 2, "+
			"headers: {Authorization: secret-token}}}\nsink: none\n", o.serve(t))
		_, err := Run{Graph: compose(t, queryConfig+text)}.Execute(t.Context(), nil)
		expect.Error(t, err, want)
		if err != nil && strings.Contains(err.Error(), "secret-token") {
			t.Error("the error tells a secret")
		}
	}
}

// A panic in a source ends the run with an error. The stack is in the log at level debug.
func TestSourcePanics(t *testing.T) {
	text := "model: {family: normal}\nsource: {prometheus: {url: 'http://localhost:1', query: load, bounded: true, start: -1h, key: [host]}}\nsink: none\n"
	g := compose(t, text)
	broken := g.source.(querySource)
	broken.Step = 0 // no valid config has it
	g.source = broken
	var log strings.Builder
	_, err := Run{Graph: g, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}.Execute(t.Context(), nil)
	expect.Error(t, err, "panicked, a bug in hafvf: runtime error: integer divide by zero; please report it")
	if strings.Contains(err.Error(), "goroutine") || !strings.Contains(log.String(), "level=DEBUG") || !strings.Contains(log.String(), "goroutine ") {
		t.Errorf("%v\n%s", err, &log)
	}
}

// Partial answers are requested again until they are complete, or counted with partial: take. Trials request three
// times.
func TestQueryPartial(t *testing.T) {
	expect.Waits(t, "clocks")
	o := &oracle{series: map[string]func(time.Time) (float64, bool){`{"host":"a"}`: func(time.Time) (float64, bool) { return 1, true }}}
	text := fmt.Sprintf("model: {family: normal, prior: auto}\ndetect: true\nsource: {prometheus: {url: %q, query: load, bounded: true, start: -1h%%s}}\n", o.serve(t))
	o.parts = 2
	if s, got, _ := runConfig(t, fmt.Sprintf(text, "")); len(got) < 59 || s.Partials != 2 || !strings.Contains(s.String(), "warning: the server of the source returned 2 partial answers") {
		t.Errorf("%d records, %d partial answers", len(got), s.Partials)
	}
	o.parts = 1
	if s, got, _ := runConfig(t, fmt.Sprintf(text, ", partial: take")); len(got) > 55 || s.Partials != 1 {
		t.Errorf("taken: %d records, %d partial answers", len(got), s.Partials)
	}
	o.parts, o.asked = 1000, 0
	m := NewMetrics()
	_, err := Run{Graph: compose(t, fmt.Sprintf(text, "")).Trial(), Metrics: m}.Execute(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "answers in part: a store is away") || o.asked != 3 {
		t.Errorf("after %d queries: %v", o.asked, err)
	}
	if values, err := gather(m); err != nil || values["hafvf_partial_answers_total"] != 3 || values["hafvf_points_dropped_total"] != 0 {
		t.Errorf("%v partial answers, %v", values["hafvf_partial_answers_total"], err)
	}
}

// A run that is killed before it has stored states starts where the previous run started, and writes the same records
// again.
func TestQueryBeginsOnce(t *testing.T) {
	expect.Waits(t, "clocks")
	o := &oracle{series: map[string]func(time.Time) (float64, bool){`{"host":"a"}`: waves(time.Time{}, 0)}}
	dir := t.TempDir()
	out := filepath.Join(dir, "out.jsonl")
	text := queryConfig + fmt.Sprintf("source: {prometheus: {url: %q, query: load, start: -3m, step: 1s, delay: 1s}}\nstate: %s\nsink: {jsonl: {path: %s}}\ndead_letter: {jsonl: {path: %s}}\n",
		o.serve(t), filepath.Join(dir, "states"), out, filepath.Join(dir, "dead.jsonl"))
	got := map[string]string{}
	twice := 0
	for _, aborted := range []bool{true, true, false} {
		if err := watchQuery(t, text, aborted, func() bool {
			b, _ := os.ReadFile(out)
			return strings.Count(string(b), "\n") > 150
		}); (err != nil) != aborted {
			t.Fatal(err)
		}
		for _, line := range readLines(t, out) {
			var r struct{ ID string }
			if line = strings.TrimSpace(line); json.Unmarshal([]byte(line), &r) != nil {
				continue // the last line of a killed run
			}
			if prev, known := got[r.ID]; known && prev != line {
				t.Fatalf("%s\nand then %s", prev, line)
			} else if known {
				twice++
			}
			got[r.ID] = line
		}
		if aborted {
			expect.OK(t, os.Remove(out))
			time.Sleep(1500 * time.Millisecond) // the present advances
		}
	}
	if twice < 300 {
		t.Errorf("%d records were repeated", twice)
	}
}

func TestPositionsOfSources(t *testing.T) {
	if p, err := promio.ParsePosition([]byte{1, 2, 3}); err != nil || !p.Begin.IsZero() {
		t.Errorf("marks of files are the position %v: %v", p.Begin, err)
	}
	if _, err := promio.ParsePosition([]byte("prometheus\n")); err == nil {
		t.Error("a position without a time is none")
	}
}
