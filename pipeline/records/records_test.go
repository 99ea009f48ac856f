package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
	"hafvf/internal/testing/expect"
)

var layouts = map[string]hafvf.Config{
	"scalar":          {Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 1, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1}},
	"without levels":  {Family: "poisson", Member: &hafvf.Member{Top: .9}},
	"vector":          {Family: "mvnormal", Dim: 2, Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 1, Beta: 1}}, Top: 1}},
	"probabilities":   {Family: "categorical", Prior: expfam.Params{"alpha": []float64{1, 1, 1}}, Member: &hafvf.Member{Top: 1}},
	"matrix":          {Family: "regression", Dim: 3, Member: &hafvf.Member{Top: 1}},
	"bank, detection": {Family: "normal", Bank: hafvf.DefaultBank(), Detect: &hafvf.Detect{}, WarmUp: 9},
}

func floats(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i) + .5
	}
	return v
}

// populated returns records of the layout with a value in every field.
func populated(l *Layout, outputs int, form Form) map[string][]byte {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := keyed.Moments{Mean: floats(outputs), SD: floats(outputs)}
	episode := &keyed.EpisodeReport{ID: "f:0", Since: start, Reports: 2, State: keyed.EpisodeWorse, UsualBefore: m, Worst: keyed.Worst{Time: start, Value: 3, Size: 4}}
	params := 0
	for _, p := range l.Params {
		params += p.Size()
	}
	e := keyed.Estimate{
		Time: start, ID: "f:1", N: 1, X: [][]float64{floats(2)}, Shape: keyed.Vector, Predicted: m, Estimate: m, Regime: m,
		Levels: floats(2 * l.Levels), Posterior: floats(params), WarmUp: l.WarmUp,
		Alarm:  &keyed.Alert{Kind: "change", Before: m, After: m, Usual: m},
		Belief: &keyed.Alert{Kind: "revision", Corrects: "f:0", Start: start, Before: m, After: m, Usual: m, Episode: episode, Level: keyed.LevelNew, NormalFrom: start},
	}
	e.Bank = slices.Repeat([]keyed.MemberStep{{}}, l.Bank)
	if l.Bank == 0 {
		e.Bank = nil
	}
	alerted := e
	alerted.Detection = &keyed.Detection{Kind: hafvf.Change, Start: start, StartN: 1, Usual: m, Episode: episode}
	if l.Detect {
		e.Detection = alerted.Detection
	}
	pass := keyed.Pass{Levels: floats(2 * l.Levels)}
	s := keyed.Smoothed{
		Time: start, ID: "k/1", N: 1, X: [][]float64{floats(2)}, Shape: keyed.Vector, Estimate: m, Posterior: floats(params),
		Forward: pass, Backward: pass, Session: keyed.Session{Start: keyed.Point{Time: start}, End: keyed.Point{Time: start}, N: 1, Drift: &keyed.Drift{Rate: 1, Lower: 1, Upper: 1}, Wanders: true, Kind: "walk", Against: 1}, Split: "max",
		Change: true, ChangeInterval: keyed.ChangeInterval{From: start, To: start, FromN: 1, ToN: 2, Probability: .5},
	}
	if l.Segments {
		s.Forward, s.Backward = keyed.Pass{}, keyed.Pass{}
		s.Segment = &keyed.Segment{Start: keyed.Point{Time: start}, N: 1, Estimate: m, Scatter: m.SD}
	}
	if l.Revises {
		s.Revision = 1
	}
	if l.Trials {
		trial := keyed.Point{Trial: 7}
		s.Time, s.Session.Start, s.Session.End, s.Segment.Start = time.Time{}, trial, trial, trial
	}
	return map[string][]byte{
		"estimate": l.AppendEstimate(nil, form, "k", &e), "alert": l.AppendAlert(nil, form, alerted.Alerts("k")[1], "", nil), "smoothed": l.AppendSmoothed(nil, form, "k", &s),
	}
}

// TestJSONOfTheLibrary checks that the JSON of an estimate and an alert in a user's program equals the program's
// records.
func TestJSONOfTheLibrary(t *testing.T) {
	for name, outputs := range map[string]int{"bank, detection": 1, "vector": 2} {
		l := expect.Get(NewLayout(layouts[name]))(t)
		m := keyed.Moments{Mean: floats(outputs), SD: floats(outputs)}
		m.SD[0] = math.Inf(1)
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		e := keyed.Estimate{
			Time: start, ID: "f:1", N: 2, X: [][]float64{floats(outputs)}, Shape: keyed.Shape(outputs - 1), Predicted: m, Estimate: m, Regime: m,
			LogPredictive: math.NaN(), ELBO: 2, Weight: .5, Memory: 7, WarmUp: l.WarmUp, Posterior: floats(9), Levels: floats(2 * l.Levels),
			Alarm: &keyed.Alert{Kind: "change", Start: start, Delay: 2, LogOdds: 3, Size: 4, Score: 5, Threshold: 6, Before: m, After: m, Usual: m, Message: "it has changed"},
		}
		if l.Detect {
			e.Detection = &keyed.Detection{Kind: hafvf.Change, Stay: .25, Outlier: .25, Change: .5, Start: start, StartN: 1, Age: 3, Usual: m, Score: 8, Threshold: math.NaN()}
		}
		a := e.Alerts("k")[0]
		for _, pair := range [][2][]byte{
			{expect.Get(json.Marshal(e))(t), l.AppendEstimate(nil, Object, "k", &e)},
			{expect.Get(json.Marshal(a))(t), l.AppendAlert(nil, Object, a, "", nil)},
		} {
			var got, want map[string]any
			expect.OK(t, errors.Join(json.Unmarshal(pair[0], &got), json.Unmarshal(pair[1], &want)))
			contains(t, got, want)
		}
	}
}

// contains checks that want has every field of got, with the same value.
func contains(t *testing.T, got, want map[string]any) {
	t.Helper()
	for name, v := range got {
		if inner, ok := v.(map[string]any); ok && want[name] != nil {
			contains(t, inner, want[name].(map[string]any))
			continue
		}
		expect.Same(t, want[name], v, name)
		if _, ok := want[name]; !ok {
			t.Errorf("a record has no %s", name)
		}
	}
}

// TestIncidents checks that alerts have the id of their incident, and that the row of an incident has further cells
// after the cells of an alert.
func TestIncidents(t *testing.T) {
	l := expect.Get(NewLayout(layouts["scalar"]))(t)
	l.Incidents = true
	columns := l.AlertColumns(tabular.Number)
	row := func(b []byte) map[string]string {
		cells := strings.Split(strings.TrimSuffix(string(b), "\n"), "\t")
		if len(cells) != len(columns) {
			t.Fatalf("%d cells for %d columns: %q", len(cells), len(columns), b)
		}
		values := map[string]string{}
		for i, c := range columns {
			if cells[i] != "" && cells[i] != "null" {
				values[c.Path] = cells[i]
			}
		}
		return values
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := &incidents.Event{
		ID: "a@1", State: incidents.Closed, Page: true, Time: start.Add(time.Hour), Start: start, End: start.Add(time.Minute), Group: "a", Keys: 7, NumMembers: 2,
		Members: []incidents.Member{{Key: "a/b", Time: start, Score: 4, Size: math.NaN(), P: .5}}, Expected: .25, Score: 9, Threshold: 3, Message: "two",
	}
	want := map[string]string{
		"key": `"a"`, "time": `"2026-01-02T04:04:05Z"`, "kind": `"incident"`, "id": `"a@1"`, "start": `"2026-01-02T03:04:05Z"`, "delay": "0", "score": "9", "threshold": "3", "message": `"two"`,
		"state": `"closed"`, "page": "true", "end": `"2026-01-02T03:05:05Z"`, "keys": "7", "alarmed": "2", "expected": "0.25",
	}
	expect.Same(t, want, row(l.AppendIncident(nil, Row, e, nil, nil)))
	object := `{"key":"a","time":"2026-01-02T04:04:05Z","kind":"incident","id":"a@1","state":"closed","page":true,"start":"2026-01-02T03:04:05Z","end":"2026-01-02T03:05:05Z","group":"a","keys":7,"alarmed":2,` +
		`"members":[{"key":"a/b","time":"2026-01-02T03:04:05Z","score":4,"size":null,"p":0.5,"episode":null,"usual_before":null,"worst":null}],"expected":0.25,"score":9,"threshold":3,"message":"two","labels":{"severity":"page"}}` + "\n"
	expect.Same(t, object, string(l.AppendIncident(nil, Object, e, e.Labels, map[string]string{"severity": "page"})))
	m := keyed.Moments{Mean: floats(1), SD: floats(1)}
	event := keyed.AlertEvent{Key: "a/b", Time: start, ID: "f:1", X: [][]float64{{1}}, Predicted: m, Alert: &keyed.Alert{Kind: "novelty", Before: m, After: m, Usual: m}}
	if got := row(l.AppendAlert(nil, Row, event, "a@1", nil)); got["incident"] != `"a@1"` || got["state"] != "" {
		t.Error(got)
	}
	for _, incident := range []string{"", "a@1"} {
		if got := string(l.AppendAlert(nil, Object, event, incident, nil)); strings.Contains(got, `,"incident":"a@1"}`) != (incident != "") || strings.Contains(got, `"incident"`) != (incident != "") {
			t.Error(got)
		}
	}
}

// TestEpisodes checks the fields of an episode in the records of an estimate, of the alert of its end and of a member of
// an incident. Records outside of episodes have null instead.
func TestEpisodes(t *testing.T) {
	l := expect.Get(NewLayout(layouts["bank, detection"]))(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	nan := math.NaN()
	m, none := keyed.Moments{Mean: floats(1), SD: floats(1)}, keyed.Moments{Mean: []float64{nan}, SD: []float64{nan}}
	episode := func(before keyed.Moments, w keyed.Worst) *keyed.EpisodeReport {
		return &keyed.EpisodeReport{ID: "f:3", Since: start, Reports: 2, State: keyed.EpisodeClosed, UsualBefore: before, Worst: w}
	}
	const id, since = `{"id":"f:3",`, `"since":"2026-01-02T03:04:05Z",`
	for _, c := range []struct {
		episode            *keyed.EpisodeReport
		brief, full, after string
	}{
		{nil, `"episode":null}}`, `"episode":null,"usual_before":null,"worst":null}}`, `"usual_before":null,"worst":null`},
		{
			episode(m, keyed.Worst{Time: start.Add(time.Second), Value: 9, Size: -4}), `"episode":` + id + `"state":"closed"}}}`,
			`"episode":` + id + since + `"reports":2,"state":"closed"},"usual_before":{"mean":0.5,"sd":0.5},"worst":{"value":9,"time":"2026-01-02T03:04:06Z","size":-4}}}`,
			`"usual_before":{"mean":0.5,"sd":0.5},"worst":{"value":9,"time":"2026-01-02T03:04:06Z","size":-4}`,
		},
		{
			episode(none, keyed.Worst{Value: nan, Size: nan}), `"episode":` + id + `"state":"closed"}}}`,
			`"episode":` + id + since + `"reports":2,"state":"closed"},"usual_before":{"mean":null,"sd":null},"worst":{"value":null,"time":null,"size":null}}}`,
			`"usual_before":{"mean":null,"sd":null},"worst":{"value":null,"time":null,"size":null}`,
		},
	} {
		e := keyed.Estimate{Predicted: m, Estimate: m, Regime: m, Levels: floats(4), Posterior: floats(4), Detection: &keyed.Detection{Usual: m, Episode: c.episode}}
		for brief, want := range map[bool]string{true: c.brief, false: c.full} {
			l.Brief = brief
			if got := string(l.AppendEstimate(nil, Object, "k", &e)); !strings.HasSuffix(got, `"alarm":null,`+want+"\n") {
				t.Errorf("brief %v: %s, want %s", brief, got, want)
			}
		}
		a := keyed.AlertEvent{Key: "k", Predicted: m, Alert: &keyed.Alert{Kind: "recovered", Before: m, After: m, Usual: m, Episode: c.episode}}
		begins := `"since":null,"level":null,`
		if c.episode != nil {
			a.Level, a.NormalFrom = keyed.LevelStill, start.Add(time.Hour)
			begins = `"since":"2026-01-02T04:04:05Z","level":"still",`
		}
		if got := string(l.AppendAlert(nil, Object, a, "", nil)); !strings.Contains(got, begins+c.after+`,"message"`) || !strings.Contains(got, strings.TrimSuffix(`"episode":`+id+since, `,`)) != (c.episode == nil) {
			t.Errorf("alert %s, want %s", got, begins+c.after)
		}
		member, memberEpisode := incidents.Member{Key: "k"}, "null"
		if ep := c.episode; ep != nil {
			member.Episode = &incidents.Episode{ID: ep.ID, UsualMean: ep.UsualBefore.Mean, UsualSD: ep.UsualBefore.SD, Worst: incidents.Worst{Time: ep.Worst.Time, Value: ep.Worst.Value, Size: ep.Worst.Size}}
			memberEpisode = `"f:3"`
		}
		incident := &incidents.Event{Members: []incidents.Member{member}}
		if got, want := string(l.AppendIncident(nil, Object, incident, nil, nil)), `"p":0,"episode":`+memberEpisode+","+c.after+"}]"; !strings.Contains(got, want) {
			t.Errorf("incident %s, want %s", got, want)
		}
	}
}

// TestSmoothed checks that each number of a smoothed estimate is in the right field.
func TestSmoothed(t *testing.T) {
	timeAt := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	moments := func(mean, sd float64) keyed.Moments { return keyed.Moments{Mean: []float64{mean}, SD: []float64{sd}} }
	s := keyed.Smoothed{
		Time: timeAt(1), ID: "k/1", N: 2, X: [][]float64{{3}}, Estimate: moments(4, 5), Memory: 6, Posterior: []float64{7, 8, 9, 10},
		Forward:  keyed.Pass{Weight: .11, Memory: 12, Levels: []float64{13, 14, 15, 16}},
		Backward: keyed.Pass{Weight: .17, Memory: 18, Levels: []float64{19, 20, 21, 22}},
		Session:  keyed.Session{Start: keyed.Point{Time: timeAt(23)}, End: keyed.Point{Time: timeAt(24)}, N: 25}, Revision: 26, ChangeEvidence: 27, Change: true,
		ChangeInterval: keyed.ChangeInterval{From: timeAt(28), To: timeAt(29), FromN: 30, ToN: 31, Probability: .32},
	}
	const passes = `"forward":{"weight":0.11,"memory":12,"levels":[{"alpha":13,"beta":14},{"alpha":15,"beta":16}]},` +
		`"backward":{"weight":0.17,"memory":18,"levels":[{"alpha":19,"beta":20},{"alpha":21,"beta":22}]},`
	const segment = `"outlier":0.33,"segment":{"start":"2026-01-02T03:34:00Z","n":35,"mean":36,"sd":37,"scatter":38},`
	want := func(middle, trend string) string {
		return `{"key":"k","time":"2026-01-02T03:01:00Z","id":"k/1","n":2,"x":3,"estimate":{"mean":4,"sd":5},"memory":6,` +
			`"posterior":{"mu":7,"kappa":8,"alpha":9,"beta":10},` + middle +
			`"session":{"start":"2026-01-02T03:23:00Z","end":"2026-01-02T03:24:00Z","n":25,"drift":` + trend + `},"revision":26,"changed":false,` +
			`"change_evidence":27,"change":true,"change_probability":0.32,` +
			`"change_interval":{"from":"2026-01-02T03:28:00Z","to":"2026-01-02T03:29:00Z","from_n":30,"to_n":31}}` + "\n"
	}
	l := expect.Get(NewLayout(layouts["scalar"]))(t)
	l.Passes, l.Segments = true, true
	const noKind = `,"kind":null,"against":null`
	expect.Same(t, want(passes, "null"+noKind), string(l.AppendSmoothed(nil, Object, "k", &s)))
	s.Outlier, s.Segment = .33, &keyed.Segment{Start: keyed.Point{Time: timeAt(34)}, N: 35, Estimate: moments(36, 37), Scatter: []float64{38}}
	for trend, session := range map[string]keyed.Session{
		"null" + noKind: {},
		`{"rate":40,"lower":41,"upper":42}` + noKind:     {Drift: &keyed.Drift{Rate: 40, Lower: 41, Upper: 42}},
		`null,"wanders":true,"kind":"walk","against":43`: {Wanders: true, Kind: "walk", Against: 43},
	} {
		session.Start, session.End, session.N = s.Session.Start, s.Session.End, s.Session.N
		s.Session = session
		expect.Same(t, want(segment, trend), string(l.AppendSmoothed(nil, Object, "k", &s)))
	}
}

// TestColumnsAreTheFields checks that a record with a value in every field has a value in every column, of the
// column's kind.
func TestColumnsAreTheFields(t *testing.T) {
	for name, cfg := range layouts {
		l := expect.Get(NewLayout(cfg))(t)
		bank := expect.Get(cfg.NewBank())(t)
		l.Segments, l.Passes, l.Revises = name == "vector" || name == "matrix", name != "vector" && name != "matrix", name != "scalar"
		columns := map[string][]tabular.Column{
			"estimate": l.EstimateColumns(tabular.String), "alert": l.AlertColumns(tabular.String), "smoothed": l.SmoothedColumns(tabular.String),
		}
		rows := populated(&l, bank.Model().Outputs(), Row)
		for kind, line := range populated(&l, bank.Model().Outputs(), Object) {
			got := map[string]tabular.Kind{}
			var record any
			if err := json.Unmarshal(line, &record); err != nil {
				t.Fatalf("%s, %s: %v in %s", name, kind, err, line)
			}
			leaves(got, "", record)
			want := map[string]tabular.Kind{}
			for _, c := range columns[kind] {
				want[c.Path] = c.Kind
			}
			expect.Same(t, want, got, name, ", ", kind)
			cells := strings.Split(strings.TrimSuffix(string(rows[kind]), "\n"), "\t")
			if len(cells) != len(columns[kind]) {
				t.Fatalf("%s, %s: %d cells for %d columns", name, kind, len(cells), len(columns[kind]))
			}
			for i, c := range columns[kind] {
				if want := fieldJSON(t, line, c.Path); cells[i] != want {
					t.Errorf("%s, %s: the cell %s is %s, and the field %s", name, kind, c.Path, cells[i], want)
				}
			}
		}
	}
}

// fieldJSON returns the JSON of a record's field.
func fieldJSON(t *testing.T, record []byte, path string) string {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if i, err := strconv.Atoi(name); err == nil {
			var list []json.RawMessage
			expect.OK(t, json.Unmarshal(record, &list))
			record = list[i]
		} else if err := json.Unmarshal(record, &object); err != nil {
			t.Fatal(err)
		} else {
			record = object[name]
		}
	}
	return string(record)
}

// TestRowsOfLessThanAll checks that a row has a cell for every column even if the record lacks optional fields.
func TestRowsOfLessThanAll(t *testing.T) {
	cfg := layouts["bank, detection"]
	l := expect.Get(NewLayout(cfg))(t)
	l.Levels, l.Segments, l.Passes, l.Revises = 3, true, true, true
	m := keyed.Moments{Mean: floats(1), SD: floats(1)}
	e := keyed.Estimate{Predicted: m, Estimate: m, Levels: floats(4), Posterior: floats(4)}
	s := keyed.Smoothed{Estimate: m, Posterior: floats(4)}
	for _, row := range []struct {
		line    []byte
		columns []tabular.Column
	}{
		{l.AppendEstimate(nil, Row, "k", &e), l.EstimateColumns(tabular.Number)},
		{l.AppendSmoothed(nil, Row, "k", &s), l.SmoothedColumns(tabular.Number)},
	} {
		if n := bytes.Count(row.line, []byte("\t")) + 1; n != len(row.columns) || bytes.Count(row.line, []byte("\n")) != 1 {
			t.Errorf("%d cells for %d columns: %s", n, len(row.columns), row.line)
		}
	}
}

// leaves adds the kinds of a record's values by path. A list of numbers counts as one value.
func leaves(kinds map[string]tabular.Kind, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			leaves(kinds, strings.TrimPrefix(path+"."+name, "."), below)
		}
	case []any:
		for i, below := range v {
			if _, ok := below.(map[string]any); !ok {
				kinds[path] = tabular.String
				return
			}
			leaves(kinds, fmt.Sprintf("%s.%d", path, i), below)
		}
	case string:
		kinds[path] = tabular.String
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			kinds[path] = tabular.Time
		}
	case bool:
		kinds[path] = tabular.Bool
	default:
		kinds[path] = tabular.Number
	}
}

// TestReference checks that the reference has every path of a record, with a sentence.
func TestReference(t *testing.T) {
	l := expect.Get(NewLayout(layouts["bank, detection"]))(t)
	l.Revises = true
	records := populated(&l, 1, Object)
	l.Segments = true
	segmented := populated(&l, 1, Object)["smoothed"]
	for _, k := range Kinds() {
		known := map[string]bool{}
		for _, f := range k.Fields {
			if f.Takes == "" || !strings.HasSuffix(f.Doc, ".") || known[f.Path] {
				t.Errorf("%s: %+v", k.Name, f)
			}
			known[f.Path] = true
		}
		lines := map[string][][]byte{
			"Estimate": {records["estimate"]}, "Alert": {records["alert"]}, "Smoothed estimate": {records["smoothed"], segmented},
			"Reject": {AppendReject(nil, SourcePlace{ID: "t-1-2", Log: "t-1", Seq: 2}, "raw", "reason")},
		}[k.Name]
		got := map[string]tabular.Kind{}
		for _, line := range lines {
			var record any
			expect.OK(t, json.Unmarshal(line, &record))
			leaves(got, "", record)
		}
		for path := range got {
			var names []string
			for part := range strings.SplitSeq(path, ".") {
				if strings.Trim(part, "0123456789") == "" {
					names[len(names)-1] += "[]"
					continue
				}
				names = append(names, part)
			}
			if names[0] == "posterior" {
				names = names[:1]
			}
			if !known[strings.Join(names, ".")] {
				t.Errorf("%s: %s is not in the reference", k.Name, path)
			}
		}
	}
}

// TestNumbers checks when numbers have an exponent, as in the JSON of other programs.
func TestNumbers(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 1e-6: "0.000001", -9e-7: "-9e-07", 1e20: "100000000000000000000", 1e21: "1e+21", math.Inf(1): "null"} {
		expect.Same(t, want, string(appendNumber(nil, f)))
	}
}
