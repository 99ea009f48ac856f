package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
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
	"hafvf/pipeline/config"
)

// fleetLines returns observations of 30 keys in six racks as JSON, every ten minutes for twelve days from begin. The
// values of one rack rise on the ninth day, the values of most keys on the eleventh, and those of one key on the seventh.
func fleetLines(begin time.Time) (lines []string) {
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range 12 * 144 {
		when := begin.Add(time.Duration(i) * 10 * time.Minute)
		for k := range 30 {
			key := fmt.Sprintf("s%d/r%d:m%d", k/15, k/5%3, k%5)
			x := rng.NormFloat64()
			switch {
			case k/5 == 1 && i >= 8*144 && i < 8*144+6, i >= 10*144 && i < 10*144+4 && k%3 > 0:
				x += 9
			case k == 29 && i >= 6*144 && i < 6*144+3:
				x += 40
			}
			lines = append(lines, fmt.Sprintf(`{"key":%q,"time":%q,"x":%.4f}`+"\n", key, when.Format(time.RFC3339), x))
		}
	}
	return lines
}

const fleetConfig = "model: {family: normal, prior: auto}\ndetect: true\nsilence: true\nincidents: true\n"

// A webhook gets incidents and digests, and the digests list all alarms outside incidents. With few keys or explicit
// kinds it gets each alarm. The metrics count incidents.
func TestIncidentsOfAFile(t *testing.T) {
	expect.Long(t, "many incidents")
	t.Parallel()
	alerts := filepath.Join(t.TempDir(), "alerts.jsonl")
	type report struct {
		Kind   string
		Alarms int
		Page   bool
	}
	post := make(chan []report, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var reports []report
		json.NewDecoder(r.Body).Decode(&reports)
		post <- reports
	}))
	defer server.Close()
	outputs := "}}\nsink: none\nalerts:\n- jsonl: {path: " + alerts + "}\n- webhook: {url: \"" + server.URL + "\"}\n"
	few := slices.DeleteFunc(fleetLines(start), func(line string) bool { return strings.Contains(line, `"s1/`) })
	expect.Get(Run{Graph: compose(t, fleetConfig+"source: {jsonl: {path: "+write(t, "few.jsonl", few...)+outputs)}.Execute(t.Context(), nil))(t)
	hasAll := map[string]int{}
	for len(post) > 0 {
		for _, a := range <-post {
			hasAll[a.Kind]++
		}
	}
	if hasAll["novelty"] == 0 || hasAll["digest"] > 0 {
		t.Errorf("of few keys: %v", hasAll)
	}
	g := compose(t, fleetConfig+"source: {jsonl: {path: "+write(t, "in.jsonl", fleetLines(start)...)+outputs)
	m, in := NewMetrics(), map[[3]string]string{}
	assigned := func(a incidents.Assignment) { in[[3]string{a.Key, a.ID, a.Kind}] = a.Incident }
	s := expect.Get(Run{Graph: g, Metrics: m, Observer: &Observer{Assigned: assigned}}.Execute(t.Context(), nil))(t)
	equal(t, 2., expect.Get(gather(m))(t)["hafvf_incidents_total"])
	if len(s.Incidents) != 2 || s.Incidents[0].NumMembers < 15 || s.Incidents[1].Group != "s0/r1" || !strings.Contains(s.String(), "2 incidents, ") {
		t.Errorf("%s", s)
	}
	text := readFile(t, alerts)
	if strings.Count(text, `"state":"opened"`) != 2 || strings.Count(text, `"incident":"s0/r1@`) < 3 {
		t.Error(text)
	}
	alone := len(in)
	for _, incident := range in {
		if incident != "" {
			alone--
		}
	}
	inDigests, n, singles := 0, 0, 0
	for len(post) > 0 {
		for _, d := range <-post {
			if inDigests += d.Alarms; d.Kind == "digest" {
				n++
			} else if d.Page && d.Kind != "incident" {
				singles++
			} else {
				equal(t, "incident", d.Kind)
			}
		}
	}
	if singles == 0 || singles > 3*2+6 {
		t.Errorf("%d pages of alarms in no incident in twelve days", singles)
	}
	if inDigests != alone || n == 0 || n > 12 {
		t.Errorf("%d alarms in %d digests, and %d are in no incident", inDigests, n, alone)
	}
}

// A digest lists alarms that its receiver did not get at once. A receiver with explicit kinds gets all of them.
func TestDigestLists(t *testing.T) {
	d := &incidents.Digest{Every: 12 * time.Hour, Alarms: []incidents.Alarm{{Key: "a", Kind: "novelty"}, {Key: "b", Kind: "silent"}}}
	pages, kinds := []string{"incident", "silent", "recovered"}, config.AlarmKinds()
	for name, c := range map[string]struct {
		choice config.Choice
		keys   int
		want   int
	}{
		"by default":              {config.Choice{Kinds: pages, SmallFleetKinds: kinds, NoSmallFleetDigest: true}, 20, 1},
		"by default of few":       {config.Choice{Kinds: pages, SmallFleetKinds: kinds, NoSmallFleetDigest: true}, 19, 0},
		"asked for":               {config.Choice{Kinds: pages, SmallFleetKinds: kinds}, 20, 1},
		"asked for of few":        {config.Choice{Kinds: pages, SmallFleetKinds: kinds}, 19, 2},
		"asked for with kinds":    {config.Choice{Kinds: pages}, 20, 2},
		"of another time, few":    {config.Choice{Digest: time.Hour}, 19, 0},
		"of another time, by all": {config.Choice{Digest: time.Hour}, 20, 0},
	} {
		r := receiver{Choice: c.choice}
		if r.Digest == 0 {
			r.Digest = d.Every
		}
		expect.Same(t, c.want, len(r.lists(d, c.keys)), name)
	}
}

// An incident that a run leaves open is reported at the start of the next run, whose metrics include it.
func TestOpenIncidentsOutlastARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := fleetLines(start)[:30*(8*144+4)]
	for i, open := range []int{1, 1, 0} {
		if i == 2 {
			lines = fleetLines(start)[:30*9*144]
		}
		expect.OK(t, os.WriteFile(dir+"/in.jsonl", []byte(strings.Join(lines, "")), 0o600))
		g := compose(t, fleetConfig+"state: "+dir+"/states\nsource: {jsonl: {path: "+dir+"/in.jsonl}}\nsink: none\n")
		m, heard := NewMetrics(), []incidents.Event{}
		expect.Get(Run{Graph: g, Metrics: m, Observer: &Observer{Incident: func(e *incidents.Event) { heard = append(heard, *e) }}}.Execute(t.Context(), nil))(t)
		metrics := expect.Get(gather(m))(t)
		equal(t, float64(open), metrics["hafvf_incident"])
		equal(t, float64(open), metrics["hafvf_incidents_open"])
		if first := heard[0]; first.Group != "s0/r1" || len(first.Members) < 3 || (first.State == incidents.Update) != (i > 0) {
			t.Errorf("run %d hears first %+v", i, first)
		}
	}
}

// Keys that are silent at the end of a file are detected last, although they fell silent earlier. Incidents consider
// the alarms of all keys together, in every run.
func TestIncidentsOfSilencesAtTheEnd(t *testing.T) {
	expect.Long(t, "many runs to the end of a file")
	t.Parallel()
	lines := fleetLines(start)
	for i := range lines { // two racks fall silent, one after the other
		late := i > len(lines)-30*24 && strings.Contains(lines[i], `"s0/r2:`) || i > len(lines)-30*20 && strings.Contains(lines[i], `"s1/r0:`)
		switch {
		case late:
			lines[i] = ""
		case i >= len(lines)-30*2 && strings.Contains(lines[i], `"s1/r1:`): // alarms at the end, which are detected before
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
			Estimate: func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
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
					if a.Kind != keyed.RecoveredAlarm && !a.IsWorse() {
						fleet.Add(incidents.Alarm{ID: a.ID, Key: key, Kind: a.Kind, Time: a.Time, Score: a.Score, Size: a.Size})
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

// Receivers by HTTP get incidents that become pages, and their ends. Files and topics get all events.
func TestPages(t *testing.T) {
	files := receiver{Choice: config.Choice{Kinds: []string{incidents.Kind}, Keys: "s0/r1*"}}
	people := files
	people.OnlyPages = true
	for _, c := range []struct {
		event         incidents.Event
		files, people bool
	}{
		{incidents.Event{State: incidents.Opened, Page: true, Group: "s0/r1"}, true, true},
		{incidents.Event{State: incidents.Update, Group: "s0/r1"}, true, false},
		{incidents.Event{State: incidents.Closed, Page: true, Group: "s0/r1"}, true, true},
		{incidents.Event{State: incidents.Merged, Page: true, Group: "s0/r1"}, true, true},
		{incidents.Event{State: incidents.Opened, Group: "s0/r1"}, true, false},
		{incidents.Event{State: incidents.Update, Page: true, Group: "s0/r1"}, true, true},
		{incidents.Event{State: incidents.Closed, Group: "s0/r1"}, true, false},
		{incidents.Event{State: incidents.Opened, Page: true, Members: []incidents.Member{{Key: "s0/r1:m"}}}, true, true},
		{incidents.Event{State: incidents.Opened, Page: true, Members: []incidents.Member{{Key: "s0/r2:m"}}}, false, false},
	} {
		if files.wantsIncident(&c.event) != c.files || people.wantsIncident(&c.event) != c.people {
			t.Errorf("%+v", c.event)
		}
	}
}
