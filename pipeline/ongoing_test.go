package pipeline

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"hafvf/connectors"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/fleet"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

// A passingListener passes the alerts of a fleet to an encoder.
type passingListener struct {
	*encoder
	dst transforms.Encoded
}

func (l *passingListener) Alert(key string, t keyed.AlertEvent, incident string) {
	l.encoder.Alert(&l.dst, key, t, incident, 0)
}
func (l *passingListener) Single(string, keyed.AlertEvent, bool) {}
func (l *passingListener) Incident(*incidents.Event)             {}
func (l *passingListener) Digest(*incidents.Digest)              {}

// Receivers that store alerts get the present state of an episode at every second observation, with and without
// incidents and whatever kinds they take. Other receivers get none. An observer gets each.
func TestOngoing(t *testing.T) {
	layout := expect.Get(records.NewLayout(hafvf.Config{Family: "normal"}))(t)
	m := keyed.Moments{Mean: []float64{10}, SD: []float64{1}}
	for _, groups := range []bool{false, true} {
		observed := 0
		e := &encoder{encoding: encoding{Layout: layout, Form: records.Nothing, Receivers: []receiver{
			{Choice: config.Choice{Kinds: []string{"novelty"}}, Form: records.Object},
			{Choice: config.Choice{Kinds: []string{incidents.Kind}, Labels: map[string]string{"severity": "page"}}, Form: records.Object, OnlyPages: true, Repeats: true},
			{Choice: config.Choice{Kinds: []string{"novelty"}, Keys: "other*"}, Form: records.Object, OnlyPages: true, Repeats: true},
		}}, run: &run{}, observer: (&run{}).observer()}
		e.Layout.Incidents = groups
		e.observer.Ongoing = func(string, keyed.AlertEvent) { observed++ }
		var dst transforms.Encoded
		for n := range int64(4) {
			ep := &keyed.EpisodeReport{ID: "in:7", Since: start, Reports: 1, State: keyed.EpisodeOpen, UsualBefore: m, Worst: keyed.Worst{Time: start, Value: 1, Size: -9}}
			e.Ongoing(&dst, "k", keyed.AlertEvent{Key: "k", Time: start.Add(time.Duration(n) * time.Minute), ID: "in:7", N: n, X: [][]float64{{2}}, Predicted: m, Source: keyed.SourceOngoing,
				Alert: &keyed.Alert{Kind: "novelty", Start: start, LogOdds: math.NaN(), Size: -8, Before: m, After: m, Usual: m, Episode: ep, Message: "k is 80 % below usual"}})
		}
		if groups {
			l := &passingListener{encoder: e}
			f := expect.Get(fleet.New(fleet.Config{}, l))(t)
			expect.OK(t, f.Process(dst.Alerts))
			dst = l.dst
		}
		var times []time.Time
		for line, err := range connectors.Chunk(dst.Alerts).Lines() {
			expect.OK(t, err)
			var r struct {
				ID, Kind, Message string
				Time, Start       time.Time
				X                 float64
				Ongoing           bool
				Labels            map[string]string
				Episode           struct{ ID string }
				Worst             struct{ Value float64 }
			}
			expect.OK(t, json.Unmarshal(line.Text, &r))
			if line.ID != "\x01in:7" || string(line.Key) != "k" || r.ID != "in:7" || r.Episode.ID != "in:7" || r.Kind != "novelty" || !r.Ongoing || r.X != 2 || r.Worst.Value != 1 ||
				!r.Start.Equal(start) || r.Labels["severity"] != "page" || r.Message != "k is 80 % below usual" {
				t.Errorf("%q: %s", line.ID, line.Text)
			}
			times = append(times, r.Time)
		}
		if want := []time.Time{start, start.Add(2 * time.Minute)}; !slices.EqualFunc(times, want, time.Time.Equal) || observed != 4 {
			t.Errorf("incidents: %v: records at %v, want %v; %d observed", groups, times, want, observed)
		}
	}
}
