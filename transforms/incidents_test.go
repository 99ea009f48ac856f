package transforms_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/transforms"
)

func eventText(e incidents.Event) string {
	m := e.Members[0]
	return fmt.Sprintf("%s %s %s %v %d of %d keys, %s %v %v %v %v: %s", e.Time.Format(time.RFC3339), e.State, e.ID, e.Page, e.NumMembers, e.Keys,
		m.Key, m.Time, m.Score, m.Size, m.P, e.Message)
}

// Incidents after Filter finds on a runner what a plain loop finds: at the end of an input, and when its watermark
// passes the alarms.
func TestIncidents(t *testing.T) {
	cfg := keyed.Recommended("normal")
	est := expect.Get(keyed.NewEstimator(cfg))(t)
	fleet := expect.Get(incidents.New(incidents.Config{}))(t)
	rng := rand.New(rand.NewPCG(9, 9))
	var in []input
	tracks := map[string]*keyed.Track{}
	for i := range 6 * 144 {
		for k := range 12 {
			key, x := fmt.Sprintf("s%d/m%d", k/4, k), rng.NormFloat64()
			if k/4 == 1 && i >= 5*144 && i < 5*144+5 {
				x += 9
			}
			o := keyed.Value(timeAt(600*i), fmt.Sprintf("f:%d", len(in)), x)
			in = append(in, input{key, o})
			if tracks[key] == nil {
				tracks[key] = est.NewTrack(key)
			}
			e := est.Estimate(tracks[key], o)
			if e.Pace != (keyed.Pace{}) {
				fleet.Register(key, e.Time, e.Pace.Step, e.Pace.Budget)
			}
			if a := e.Alarm; a != nil {
				ep := &incidents.Episode{ID: a.Episode.ID, UsualMean: a.Episode.UsualBefore.Mean, Worst: incidents.Worst{Value: a.Episode.Worst.Value, Size: a.Episode.Worst.Size}}
				fleet.Add(incidents.Alarm{ID: e.ID, Key: key, Kind: a.Kind, Time: e.Time, Score: a.Score, Size: a.Size, Episode: ep})
			}
		}
	}
	last := map[string]incidents.Event{} // several events of an incident at one time are reported once
	var order []string
	for _, e := range fleet.Advance(timeAt(600 * 6 * 144)).Events {
		name := e.ID + e.Time.String()
		if prev, seen := last[name]; seen && prev.State == incidents.Opened {
			e.State, e.Page = incidents.Opened, prev.Page
		} else if !seen {
			order = append(order, name)
		}
		last[name] = e
	}
	var want []string
	for _, name := range order {
		want = append(want, eventText(last[name]))
	}
	if len(want) < 2 {
		t.Fatalf("the plain loop finds %q", want)
	}
	for _, atEnd := range []bool{false, true} {
		name := fmt.Sprint(t.Name(), atEnd)
		c := &testCase{in: in}
		cases.Store(name, c)
		p, s := beam.NewPipelineWithRoot()
		observations := beam.ParDo(s, &emitFn{Case: name}, beam.Impulse(s))
		estimates, _ := transforms.FilterPairs(s, cfg, observations)
		events := transforms.Incidents(s, transforms.IncidentsConfig{AtEnd: atEnd}, estimates)
		beam.ParDo(s, &collectOneFn{Case: name}, events)
		expect.Get(execute(t.Context(), p))(t)
		got := c.texts
		if atEnd { // without an account with the latest time, nothing after the last alarm is known
			want = slices.DeleteFunc(slices.Clone(want), func(s string) bool { return !slices.Contains(got, s) && slices.Index(want, s) == len(want)-1 })
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("at the end %v: %q, want %q", atEnd, got, want)
		}
	}
}
