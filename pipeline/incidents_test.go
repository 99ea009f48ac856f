package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
)

// fleetLines are the observations of 30 keys in six racks, one in ten minutes over twelve days from
// a time on, as JSON: of a rack that goes high on the eighth day, and of all keys on the tenth.
func fleetLines(from time.Time) (lines []string) {
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range 12 * 144 {
		at := from.Add(time.Duration(i) * 10 * time.Minute)
		for k := range 30 {
			key := fmt.Sprintf("s%d/r%d:m%d", k/15, k/5%3, k%5)
			x := rng.NormFloat64()
			switch {
			case k/5 == 1 && i >= 8*144 && i < 8*144+6, i >= 10*144 && i < 10*144+4 && k%3 > 0:
				x += 9
			}
			lines = append(lines, fmt.Sprintf(`{"key":%q,"time":%q,"x":%.4f}`+"\n", key, at.Format(time.RFC3339), x))
		}
	}
	return lines
}

const fleetConfig = "model: {family: normal, prior: auto}\ndetect: true\nsilence: true\nincidents: true\n"

// plainFleet is a plain loop over the observations of a graph: each key by itself, and then all
// alarms together. It returns the alerts as a receiver gets them, and how many alarms are in no
// incident in the end.
func plainFleet(t *testing.T, g *Graph, ids []string, lines []string) (alerts []string, alone int) {
	t.Helper()
	f := g.transform.(filtering)
	est := expect.Get(keyed.NewEstimator(f.cfg.Config))(t)
	fleet := expect.Get(incidents.New(incidents.Config{}))(t)
	type name struct{ key, id, kind string }
	told := map[name]keyed.Told{}
	tracks := map[string]*keyed.Track{}
	for i, line := range lines {
		key, at, x := parseLine(t, line)
		if tracks[key] == nil {
			tracks[key] = est.NewTrack(key)
		}
		e := est.Estimate(tracks[key], keyed.Value(at, ids[i], x))
		if e.Pace != (keyed.Pace{}) {
			fleet.Register(key, e.Time, e.Pace.Step, e.Pace.Budget)
		}
		if a := e.Alarm; a != nil {
			fleet.Add(incidents.Alarm{ID: e.ID, Key: key, Kind: a.Kind, Time: e.Time, Score: a.Score, Size: a.Size})
			told[name{key, e.ID, a.Kind}] = keyed.Told{Of: &e, Alert: a}
		}
	}
	_, last, _ := parseLine(t, lines[len(lines)-1])
	step := fleet.Advance(last)
	in := map[name]string{}
	for _, a := range step.Assigned {
		n := name{a.Key, a.ID, a.Kind}
		in[n] = a.Incident
		if of, first := told[n]; first { // later ones are of incidents that were found later
			alerts = append(alerts, string(f.layout.AppendAlert(nil, records.Object, a.Key, of, a.Incident, nil)))
			delete(told, n)
		}
	}
	for i := range step.Events {
		e := &step.Events[i]
		grows := i+1 < len(step.Events) && step.Events[i+1].ID == e.ID && step.Events[i+1].Time.Equal(e.Time) && step.Events[i+1].State == incidents.Update
		if grows { // what happens at one time is told once
			if e.State == incidents.Opened {
				step.Events[i+1].State = incidents.Opened
			}
			continue
		}
		alerts = append(alerts, string(f.layout.AppendIncident(nil, records.Object, e, nil)))
	}
	for _, incident := range in {
		if incident == "" {
			alone++
		}
	}
	return alerts, alone
}

func parseLine(t *testing.T, line string) (key string, at time.Time, x float64) {
	t.Helper()
	var stamp string
	expect.Get(fmt.Sscanf(strings.NewReplacer(`{"key":`, "", `,"time":`, " ", `,"x":`, " ", "}", "").Replace(line), "%q %q %g", &key, &stamp, &x))(t)
	at = expect.Get(time.Parse(time.RFC3339, stamp))(t)
	return key, at, x
}

func placesOf(file string, lines []string) (ids []string) {
	for i := range lines {
		ids = append(ids, fmt.Sprintf("%s:%d", file, i+1))
	}
	return ids
}

// The alerts of a file, in one run and in two that a state joins within an incident, are those of
// a plain loop: alarms with the incidents that they belong to, and what becomes of these.
func TestIncidentsOfAFile(t *testing.T) {
	expect.Long(t, "many incidents")
	t.Parallel()
	lines := fleetLines(start)
	dir := t.TempDir()
	file := filepath.Join(dir, "in.jsonl")
	digests := filepath.Join(dir, "digests.jsonl")
	run := func(name string, lines []string, set ...string) (Summary, []string) {
		t.Helper()
		save(t, file, lines...)
		alerts := filepath.Join(dir, name)
		g := compose(t, fleetConfig+"source: {jsonl: {path: "+file+"}}\nsink: none\nalerts:\n- jsonl: {path: "+alerts+"}\n- {jsonl: {path: "+digests+"}, kinds: [incident], digest: 24h}\n", set...)
		m := NewMetrics()
		s := expect.Get(Run{Graph: g, Metrics: m}.Execute(context.Background(), nil))(t)
		all, err := gather(m)
		if err != nil || int(all["hafvf_incidents_total"]) != strings.Count(strings.Join(readLines(t, alerts), ""), `"state":"opened"`) {
			t.Errorf("%v: %v incidents among the metrics", err, all["hafvf_incidents_total"])
		}
		return s, readLines(t, alerts)
	}
	s, got := run("once.jsonl", lines)
	want, wantAlone := plainFleet(t, compose(t, fleetConfig+"source: {jsonl: {path: x}}\n"), placesOf("in.jsonl", lines), lines)
	sameAlerts(t, want, got)
	if len(s.Incidents) != 2 || s.Incidents[0].NumMembers < 15 || s.Incidents[1].Group != "s0/r1" || !strings.Contains(s.String(), "2 incidents, ") {
		t.Errorf("%s", s)
	}
	if text := strings.Join(got, ""); strings.Count(text, `"state":"opened"`) != 2 || strings.Count(text, `"incident":"s0/r1@`) < 3 {
		t.Error(text)
	}
	// What a receiver of incidents and digests gets has every alarm.
	alone := 0
	for _, line := range readLines(t, digests) {
		var d struct {
			Kind   string
			Alarms int
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.Kind != "incident" && d.Kind != "digest" {
			t.Fatal(err, line)
		}
		alone += d.Alarms
	}
	if alone != wantAlone || strings.Count(strings.Join(readLines(t, digests), ""), `"kind":"digest"`) > 12 {
		t.Errorf("%d alarms in digests, and %d are in no incident", alone, wantAlone)
	}
	var all []string
	state := "state=" + filepath.Join(dir, "s.bin")
	within := (10*144 + 1) * 30
	for i, lines := range [][]string{lines[:within], lines} {
		_, part := run(fmt.Sprint("part", i), lines, state)
		all = append(all, part...)
	}
	sameAlerts(t, want, all)
}

// Keys that are silent at the end of a file are found last, and have fallen silent before: the alarms
// of all are looked at together, in every run.
func TestIncidentsOfSilencesAtTheEnd(t *testing.T) {
	expect.Long(t, "many runs to the end of a file")
	t.Parallel()
	lines := fleetLines(start)
	for i := range lines { // two racks fall silent, one after the other
		late := i > len(lines)-30*24 && strings.Contains(lines[i], `"s0/r2:`) || i > len(lines)-30*20 && strings.Contains(lines[i], `"s1/r0:`)
		switch {
		case late:
			lines[i] = ""
		case i >= len(lines)-30*2 && strings.Contains(lines[i], `"s1/r1:`): // alarms at the end, which are found before
			before, _, _ := strings.Cut(lines[i], `"x":`)
			lines[i] = before + `"x":15}` + "\n"
		}
	}
	g := compose(t, fleetConfig+"source: {jsonl: {path: "+write(t, "in.jsonl", lines...)+"}}\n", "silence={after: 90m}")
	for range 5 {
		fleet := expect.Get(incidents.New(incidents.Config{}))(t)
		var mu sync.Mutex
		var last time.Time
		got, want, silent := map[string]string{}, map[string]string{}, 0
		name := func(a incidents.Assignment) string { return a.Key + " " + a.ID + " " + a.Kind }
		_, err := Run{Graph: g.Trial(), Observer: &Observer{
			Estimate: func(key string, e *keyed.Estimate, alerts []keyed.Told) {
				mu.Lock()
				defer mu.Unlock()
				if e != nil {
					if e.Time.After(last) {
						last = e.Time
					}
					if e.Pace != (keyed.Pace{}) {
						fleet.Register(key, e.Time, e.Pace.Step, e.Pace.Budget)
					}
				}
				for _, a := range alerts {
					if a.Kind == keyed.SilentAlarm {
						silent++
					}
					if a.Kind != keyed.RecoveredAlarm {
						fleet.Add(incidents.Alarm{ID: a.Of.ID, Key: key, Kind: a.Kind, Time: a.Of.Time, Score: a.Score, Size: a.Size})
					}
				}
			},
			Assigned: func(a incidents.Assignment) { got[name(a)] = a.Incident },
		}}.Execute(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range fleet.Advance(last).Assigned {
			want[name(a)] = a.Incident
		}
		if diff := cmp.Diff(want, got); diff != "" || silent < 10 {
			t.Fatalf("%d silences; (-plain +run) %s", silent, diff)
		}
	}
}

// sameAlerts compares alerts in any order.
func sameAlerts(t *testing.T, want, got []string) {
	t.Helper()
	count := map[string]int{}
	for _, line := range want {
		count[strings.TrimSpace(line)]++
	}
	for _, line := range got {
		count[strings.TrimSpace(line)]--
	}
	wrong := 0
	for _, line := range slices.Sorted(maps.Keys(count)) {
		if n := count[line]; n != 0 {
			if wrong++; wrong < 6 {
				t.Errorf("%d too few: %s", n, line)
			}
		}
	}
	if wrong > 0 || len(want) == 0 {
		t.Errorf("%d of %d alerts differ", wrong, len(want))
	}
}

// People are told when an incident becomes a page and when it is over; files and topics get all.
func TestPages(t *testing.T) {
	files := receiver{Kinds: []string{incidents.Kind}, Keys: "s0/r1*"}
	people := files
	people.Pages = true
	for _, c := range []struct {
		event         incidents.Event
		files, people bool
	}{
		{incidents.Event{State: incidents.Opened, Page: true, Pages: true, Group: "s0/r1"}, true, true},
		{incidents.Event{State: incidents.Update, Page: true, Group: "s0/r1"}, true, false},
		{incidents.Event{State: incidents.Closed, Page: true, Group: "s0/r1"}, true, true},
		{incidents.Event{State: incidents.Merged, Page: true, Group: "s0/r1"}, true, true},
		{incidents.Event{State: incidents.Opened, Group: "s0/r1"}, true, false},
		{incidents.Event{State: incidents.Update, Page: true, Pages: true, Group: "s0/r1"}, true, true},
		{incidents.Event{State: incidents.Closed, Group: "s0/r1"}, true, false},
		{incidents.Event{State: incidents.Opened, Page: true, Pages: true, Members: []incidents.Member{{Key: "s0/r1:m"}}}, true, true},
		{incidents.Event{State: incidents.Opened, Page: true, Pages: true, Members: []incidents.Member{{Key: "s0/r2:m"}}}, false, false},
	} {
		if files.wantsIncident(&c.event) != c.files || people.wantsIncident(&c.event) != c.people {
			t.Errorf("%+v", c.event)
		}
	}
}

// The same alerts come from a topic. disorder holds the watermark back, so that all alarms before a
// restart wait for it in the changelog: how far else it is then depends on the clock.
func TestKafkaIncidents(t *testing.T) {
	expect.Long(t, "many incidents")
	t.Parallel()
	b := fakeBus(t, 2, "out", "alerts", "rejected")
	const week = 7 * 24 * time.Hour // whenever it is, the records are at the same hours of the same weekdays
	lines := fleetLines(time.Now().UTC().Truncate(week).Add(-2 * week))
	text := b.config("group: g, changelog: states, disorder: 600h", "detect: true\nincidents: true\nalerts: {kafka: {topic: alerts}}\n")
	set := []string{"model.prior=auto", "sink=none"}
	within := (10*144 + 1) * 30
	b.put(t, lines[:within]...)
	r := launch(t, compose(t, text, set...))
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	r.halt(t)
	b.put(t, lines[within:]...)
	expect.Get(Run{Graph: compose(t, text, append(set, "source.kafka.bounded=true")...)}.Execute(t.Context(), nil))(t)
	ids := make([]string, len(lines))
	at := map[string]int{}
	for i, line := range lines {
		at[line] = i
	}
	for _, record := range b.Consume(t, "in") {
		ids[at[string(record.Value)]] = fmt.Sprintf("in-%d-%d", record.Partition, record.Offset)
	}
	want, _ := plainFleet(t, compose(t, text, set...), ids, lines)
	sameAlerts(t, want, b.values(t, "alerts"))
}
