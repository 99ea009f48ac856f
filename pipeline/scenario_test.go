package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
)

// A scenario is a config with lines, one of which is invalid. Lines before the cut are older than lines after it. A run
// that ends at the cut is resumed; with cut 0 there is one run.
type scenario struct {
	name, config string
	lines        []string
	cut          int
	every        time.Duration // length of the intervals in which lines are counted; 0: not counted
	short        string        // the driver that runs with -short
}

func scenarios() []scenario {
	const week = 7 * 24 * time.Hour // fixed weekdays and hours of the lines
	begin := time.Now().UTC().Truncate(week).Add(-2 * week)
	arriving := observations(6_000, 20)
	slices.Reverse(arriving[500:2_500])
	const steps = 10*144 + 1 // up to the second observation of an incident
	events, sessions := manyEvents(begin, 3*time.Hour), observations(2_000, 10)
	const (
		detecting = "model: {family: normal, prior: auto}\ndetect: true\n"
		counting  = "model: {family: poisson, prior: auto}\naggregate: {every: 1m, value: count}\n"
		smooth    = "model: {family: normal}\ntransform: smooth\nsession: {gap: 40s}\n"
	)
	return []scenario{
		{"in order", "model: {family: normal}\n", outOfOrder(observations(20_000, 1_000), 9_000, 1), 9_000, 0, "file"},
		{"as they come", "model: {family: normal, prior: auto, warm_up: 80}\norder: arrival\ndetect: {budget: 200}\n",
			outOfOrder(arriving, 1_500, 1), 1_500, 0, "topic"},
		{"incidents of what is late", detecting + "lateness: 1h\nincidents: true\nrecords: brief\n",
			outOfOrder(fleetLines(begin), 30*steps, 90), 30 * steps, 0, ""},
		{"season and quiet times", "order: arrival\nmodel: {family: normal, season: {24h: 1}, zone: Europe/Berlin, holidays: [2026-01-07]}\n" +
			"detect: true\nkeys: [{match: b, model: {season: []}}]\n" +
			"quiet: [{match: a, from: 2026-01-06, to: 2026-01-11}, {match: '*', weekly: Sun 03:00/4h}]\n",
			outOfOrder(slices.Concat(spikes(0, 20, "a", "b"), spikes(1, 20, "a", "b")), 300, 1), 300, 0, "topic"},
		{"counts", counting + "detect: true\n",
			outOfOrder(events, len(events)/2, 30), len(events) / 2, time.Minute, "file"},
		{"sessions in segments", smooth, outOfOrder(sessions, 0, len(sessions)), 0, 0, "topic"},
		{"sessions with levels", smooth + "levels: [{alpha: 9, beta: 1}, {alpha: 1, beta: 1}]\n",
			outOfOrder(sessions, 0, len(sessions)), 0, 0, "file"},
		{"sessions of counts", counting + "transform: smooth\nsession: {gap: 30m}\n",
			outOfOrder(events, 0, len(events)), 0, time.Minute, "topic"},
	}
}

// outOfOrder returns the lines with an invalid one appended. It shuffles each chunk of the given size, separately on
// both sides of the cut.
func outOfOrder(lines []string, cut, part int) []string {
	rng := rand.New(rand.NewPCG(8, 9))
	lines = slices.Clone(lines)
	for _, side := range [][]string{lines[:cut], lines[cut:]} {
		for part := range slices.Chunk(side, part) {
			rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		}
	}
	return append(lines, "{\"key\":\"a\",\n")
}

// An outcome is the output of a run over a scenario's lines, and the IDs of these lines in it.
type outcome struct {
	graph                      *Graph
	ids, out, alerts, rejected []string
	records                    int64
}

// ofFile runs a scenario on a file that grows to the given lengths.
func (s scenario) ofFile(t *testing.T, lengths ...int) (o outcome) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	set := []string{"source={jsonl: {path: " + path("in.jsonl") + "}}"}
	sinks := map[string]*[]string{"sink": &o.out, "dead_letter": &o.rejected}
	if strings.Contains(s.config, "detect") {
		sinks["alerts"] = &o.alerts
	}
	for name := range sinks {
		set = append(set, name+"={jsonl: {path: "+path(name)+"}}")
	}
	if s.every > 0 && s.cut > 0 {
		set = append(set, "aggregate.wait=10m")
	}
	if len(lengths) > 1 {
		set = append(set, "state="+path("state"))
	}
	for i := range s.lines {
		o.ids = append(o.ids, fmt.Sprintf("in.jsonl:%d", i+1))
	}
	for _, n := range lengths {
		save(t, path("in.jsonl"), s.lines[:n]...)
		o.graph = compose(t, s.config, set...)
		o.records += expect.Get(Run{Graph: o.graph}.Execute(t.Context(), nil))(t).Records
		for name, lines := range sinks {
			*lines = append(*lines, readLines(t, path(name))...)
		}
	}
	return o
}

// ofTopic runs a scenario on a topic. disorder delays the watermark, so that at the cut all waiting observations are in
// the changelog; otherwise this would depend on the clock.
func (s scenario) ofTopic(t *testing.T) (o outcome) {
	b := fakeBus(t, 3, "out", "alerts", "rejected")
	text := s.config + strings.TrimPrefix(b.config("disorder: 600h", ""), "model: {family: normal}\n")
	if strings.Contains(s.config, "detect") {
		text += "alerts: {kafka: {topic: alerts}}\n"
	}
	put := func(lines []string) {
		batch := b.records(t, lines...)
		for i, r := range batch {
			if s.every > 0 { // events of a key come from any partition
				r.Key = fmt.Append(nil, i%7)
			}
		}
		b.Produce(t, batch...)
	}
	first, set := cmp.Or(s.cut, len(s.lines)), []string{"source.kafka.group=g"}
	if s.cut > 0 {
		set = append(set, "source.kafka.changelog=states")
	}
	put(s.lines[:first])
	r := launch(t, compose(t, text, set...))
	if s.cut > 0 {
		b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	} else { // sessions are committed when they end
		expect.Soon(t, "all is read", func() bool { return int(r.read.Load()) >= first })
	}
	o.records = r.halt(t).Records
	put(s.lines[first:])
	o.graph = compose(t, text, append(set, "source.kafka.bounded=true")...)
	o.records += expect.Get(Run{Graph: o.graph}.Execute(t.Context(), nil))(t).Records
	byOffset := map[string]string{}
	for _, r := range b.Consume(t, "in") {
		byOffset[string(r.Value)] = fmt.Sprintf("in-%d-%d", r.Partition, r.Offset)
	}
	for _, line := range s.lines {
		o.ids = append(o.ids, byOffset[line])
	}
	for _, r := range b.Consume(t, "out") {
		e := unmarshalled[struct{ Key, ID string }](t, string(r.Value))
		if string(r.Key) != e.Key || len(r.Headers) != 1 || r.Headers[0].Key != "id" || string(r.Headers[0].Value) != e.ID {
			t.Fatalf("key %s, headers %v of %s", r.Key, r.Headers, r.Value)
		}
	}
	o.out, o.alerts, o.rejected = b.values(t, "out"), b.values(t, "alerts"), b.values(t, "rejected")
	return o
}

// An input is an observation with its key.
type input struct {
	key string
	keyed.Observation
}

// observationOf reads a line of JSON.
func observationOf(t testing.TB, line, id string) input {
	t.Helper()
	type fields struct {
		Key  string
		Time time.Time
		X    float64
	}
	f := unmarshalled[fields](t, line)
	return input{f.Key, keyed.Value(f.Time, id, f.X)}
}

func byTime(a, b input) int { return a.Time.Compare(b.Time) }

// counts returns the number of events of each key in every interval: from its first interval to that of the last event
// of all keys or, with ownInterval, of the key.
func counts(events []input, every time.Duration, ownInterval bool) (counts []input) {
	type interval struct {
		key   string
		begin time.Time
	}
	n, first, last := map[interval]int64{}, map[string]time.Time{}, map[string]time.Time{}
	for _, o := range slices.SortedStableFunc(slices.Values(events), byTime) {
		begin := o.Time.Truncate(every)
		n[interval{o.key, begin}]++
		if _, ok := first[o.key]; !ok {
			first[o.key] = begin
		}
		last[o.key], last[""] = begin, begin
	}
	for key, begin := range first {
		until := last[""]
		if ownInterval {
			until = last[key]
		}
		for ; !begin.After(until); begin = begin.Add(every) {
			o := keyed.Value(begin, key+"/"+begin.Format(time.RFC3339), float64(n[interval{key, begin}]))
			o.Aggregated, o.Events = true, n[interval{key, begin}]
			counts = append(counts, input{key, o})
		}
	}
	return counts
}

// plain returns the output of a plain loop over a scenario: over each key, and then over all alarms together. Alerts
// have the format for receivers.
func (s scenario) plain(t *testing.T, g *Graph, ids []string) (out map[string][]string, alerts []string) {
	t.Helper()
	var inputs []input
	for i, line := range s.lines {
		if json.Valid([]byte(line)) {
			inputs = append(inputs, observationOf(t, line, ids[i]))
		}
	}
	smooth, sessions := g.transform.(smoothing)
	if s.every > 0 {
		inputs = counts(inputs, s.every, sessions)
	}
	if sessions {
		slices.SortStableFunc(inputs, byTime)
		return smoothLoop(t, smooth, inputs), nil
	}
	f := g.transform.(filtering)
	if f.cfg.Order != keyed.Arrival {
		slices.SortStableFunc(inputs, byTime)
	}
	loop := newLoop(t, f.cfg)
	loop.layout = f.layout
	fleet := expect.Get(incidents.New(incidents.Config{}))(t)
	type name struct{ key, id, kind string }
	reported := map[name]keyed.AlertEvent{}
	for _, o := range inputs {
		e := loop.estimate(o)
		if e.Pace != (keyed.Pace{}) {
			fleet.Register(o.key, e.Time, e.Pace.Step, e.Pace.Budget)
		}
		if a := e.Alarm; a != nil {
			alarm := incidents.Alarm{ID: e.ID, Key: o.key, Kind: a.Kind, Time: e.Time, Score: a.Score, Size: a.Size}
			alarm.Episode = &incidents.Episode{ID: a.Episode.ID, UsualMean: a.Episode.UsualBefore.Mean, UsualSD: a.Episode.UsualBefore.SD, Worst: incidents.Worst{Time: a.Episode.Worst.Time, Value: a.Episode.Worst.Value, Size: a.Episode.Worst.Size}}
			fleet.Add(alarm)
			reported[name{o.key, e.ID, a.Kind}] = keyed.AlertEvent{Key: o.key, Time: e.Time, ID: e.ID, N: e.N, X: e.X, Shape: e.Shape, Predicted: e.Predicted, Alert: a}
		}
	}
	alert := func(n name, incident string) {
		alerts = append(alerts, string(f.layout.AppendAlert(nil, records.Object, reported[n], incident, nil)))
		delete(reported, n)
	}
	if !g.groups {
		for n := range reported {
			alert(n, "")
		}
		return loop.out, alerts
	}
	step := fleet.Advance(slices.MaxFunc(inputs, byTime).Time)
	for _, a := range step.Assigned {
		if n := (name{a.Key, a.ID, a.Kind}); reported[n].Alert != nil { // later events belong to incidents that were found later
			alert(n, a.Incident)
		}
	}
	for i := range step.Events {
		e := &step.Events[i]
		if i+1 < len(step.Events) { // events at the same time are reported once
			next := &step.Events[i+1]
			if next.ID == e.ID && next.Time.Equal(e.Time) && next.State == incidents.Update {
				if next.Page = next.Page || e.Page; e.State == incidents.Opened {
					next.State = incidents.Opened
				}
				continue
			}
		}
		alerts = append(alerts, string(f.layout.AppendIncident(nil, records.Object, e, e.AlertLabels[0], nil)))
	}
	return loop.out, alerts
}

// smoothLoop cuts each key's observations at gaps, and smooths the sessions.
func smoothLoop(t *testing.T, s smoothing, inputs []input) map[string][]string {
	s.cfg.Aggregate = nil // the inputs are intervals
	sm := expect.Get(keyed.NewSmoother(s.cfg.SmoothConfig))(t)
	session, out := map[string][]keyed.Observation{}, map[string][]string{}
	smooth := func(key string) {
		sm.Smooth(key, session[key], 0, func(r keyed.Smoothed) {
			out[key] = append(out[key], strings.TrimSuffix(string(s.layout.AppendSmoothed(nil, records.Object, key, &r)), "\n"))
		})
		session[key] = nil
	}
	for _, o := range inputs {
		if open := session[o.key]; len(open) > 0 && o.Time.Sub(open[len(open)-1].Time) >= s.cfg.Gap {
			smooth(o.key)
		}
		session[o.key] = append(session[o.key], o.Observation)
	}
	for key := range session {
		smooth(key)
	}
	return out
}

// Records and alerts of files and topics, in one run and in two, equal those of a plain loop, byte for byte.
func TestRunEqualsPlainLoop(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		for driver, run := range map[string]func(t *testing.T) outcome{
			"file":    func(t *testing.T) outcome { return s.ofFile(t, len(s.lines)) },
			"growing": func(t *testing.T) outcome { return s.ofFile(t, s.cut, s.cut+90, len(s.lines)) }, // few keys at first
			"topic":   s.ofTopic,
		} {
			if driver == "growing" && s.cut == 0 { // sessions have no state
				continue
			}
			t.Run(s.name+"/"+driver, func(t *testing.T) {
				if driver != s.short {
					expect.Long(t, "the other drivers of a scenario")
				}
				t.Parallel()
				got := run(t)
				want, alerts := s.plain(t, got.graph, got.ids)
				out := byKey(t, got.out)
				for key := range want {
					if s.every > 0 && s.cut > 0 { // intervals close to the end may stay open, or be incomplete
						want[key] = want[key][:len(want[key])-11]
						out[key] = out[key][:min(len(out[key]), len(want[key]))]
					}
					if _, ok := got.graph.transform.(smoothing); ok { // sessions have no fixed order
						slices.Sort(want[key])
						slices.Sort(out[key])
					}
				}
				equal(t, int64(len(got.out)), got.records)
				equal(t, want, out)
				equal(t, trimmed(alerts), trimmed(got.alerts))
				if rejected := trimmed(got.rejected); len(rejected) != 1 {
					t.Errorf("%d rejected: %.500q", len(rejected), rejected)
				}
			})
		}
	}
}

// For aggregated means whose last intervals are empty, bounded and unbounded runs have equal records for each common
// ID.
func TestBoundedEqualsEndless(t *testing.T) {
	t.Parallel()
	begin := time.Now().UTC().Truncate(time.Hour).Add(-7 * 24 * time.Hour)
	lines := manyEvents(begin, 3*time.Hour)
	for _, key := range []string{"a", "b", "c"} {
		lines = append(lines, fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":null}\n", key, begin.Add(3*time.Hour+20*time.Minute).Format(time.RFC3339)))
	}
	const means = "model: {family: normal, prior: auto}\ndetect: true\naggregate: {every: 1m, value: mean}\n"
	_, bounded, _ := runConfig(t, means+"source: {jsonl: {path: "+write(t, "in.jsonl", lines...)+"}}\n")

	b := fakeBus(t, 1, "out", "rejected")
	r := launch(t, compose(t, means+strings.TrimPrefix(b.config("group: g, changelog: states", ""), "model: {family: normal}\n")))
	b.put(t, append(lines, fmt.Sprintf("{\"key\":\"a\",\"time\":%q,\"x\":1}\n", begin.Add(24*time.Hour).Format(time.RFC3339)))...) // ends the previous intervals
	b.await(t, "out", len(bounded), r)
	r.halt(t)
	ofID := map[string]string{}
	for _, line := range b.values(t, "out") {
		ofID[unmarshalled[struct{ ID string }](t, line).ID] = line
	}
	both := 0
	for _, line := range bounded {
		if first, ok := ofID[unmarshalled[struct{ ID string }](t, line).ID]; ok {
			both++
			equal(t, first, strings.TrimSuffix(line, "\n")+"\n")
		}
		if strings.Contains(line, `"usual":{"mean":null`) != strings.Contains(line, `"score":null`) {
			t.Errorf("score and usual: %s", line)
		}
	}
	if both < len(bounded)-3 || both < 500 {
		t.Errorf("%d ids of %d are in both runs", both, len(bounded))
	}
}
