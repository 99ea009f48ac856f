package incidents_test

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// A trace is a trace of testdata.
type trace struct {
	Keys      []string
	By        []string // labels
	Step      float64  // seconds
	KeyBudget float64  `json:"key_budget"`
	Lateness  float64
	Alarms    []struct {
		ID, Key, Kind, Episode string
		Time, Score, Size      float64
	}
	Events []struct {
		Event, ID, Into, Group     string
		Time                       float64
		Page                       bool
		Score, Threshold, Expected float64
		Members                    [][4]any // key, time, score, p
	}
}

var tracesDir = flag.String("traces", "testdata", "folder with the traces golden_*.json to compare with")

func readTrace(t testing.TB, path string) (tr trace) {
	t.Helper()
	familytest.ReadJSON(t, path, &tr)
	return tr
}

func unix(sec float64) time.Time { return time.Unix(0, int64(math.Round(sec*1e9))).UTC() }

func span(sec float64) time.Duration { return time.Duration(sec * float64(time.Second)) }

// run adds the alarms of a trace to a fleet as they arrive. It calls after with the fleet after every step; after may
// replace the fleet.
func (tr trace) run(f *incidents.Fleet, after func(*incidents.Fleet, incidents.Step) *incidents.Fleet) {
	for _, k := range tr.Keys {
		f.Register(k, unix(0), span(tr.Step), span(tr.KeyBudget))
	}
	seen := 0.
	for _, a := range tr.Alarms {
		alarm := incidents.Alarm{ID: a.ID, Key: a.Key, Kind: a.Kind, Time: unix(a.Time), Score: a.Score, Size: a.Size}
		if a.Episode != "" {
			alarm.Episode = &incidents.Episode{ID: a.Episode}
		}
		f.Add(alarm)
		seen = max(seen, a.Time)
		f = after(f, f.Advance(unix(seen-tr.Lateness)))
	}
	after(f, f.Advance(unix(seen+86400)))
}

func newFleet(t expect.T, cfg incidents.Config) *incidents.Fleet {
	t.Helper()
	return expect.Get(incidents.New(cfg))(t)
}

// testdata/reference.py, an independent implementation, computed the traces.
func TestFleetGolden(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(*tracesDir, "golden_*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no traces in %s: %v", *tracesDir, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			tr := readTrace(t, path)
			var got []incidents.Event
			tr.run(newFleet(t, incidents.Config{By: tr.By}), func(f *incidents.Fleet, s incidents.Step) *incidents.Fleet {
				got = append(got, s.Events...)
				return f
			})
			if len(got) != len(tr.Events) {
				t.Fatalf("%d events, want %d", len(got), len(tr.Events))
			}
			ids := map[string]string{}
			for i, want := range tr.Events {
				e := got[i]
				if _, met := ids[e.ID]; !met {
					ids[e.ID] = fmt.Sprintf("i%d", len(ids)+1)
				}
				if want.Event == "merged" && e.State == incidents.Merged && ids[e.ID] == want.ID && ids[e.MergedInto] == want.Into && e.Time.Equal(unix(want.Time)) {
					continue // the trace has no more figures for it
				}
				if string(e.State) != want.Event || ids[e.ID] != want.ID || !e.Time.Equal(unix(want.Time)) || e.Page != want.Page || e.Group != want.Group {
					t.Fatalf("event %d: %s %s at %v, page %v, group %q; want %+v", i, e.State, ids[e.ID], e.Time, e.Page, e.Group, want)
				}
				if math.Abs(e.Score-want.Score) > 1e-6 || math.Abs(e.Threshold-want.Threshold) > 1e-6 || math.Abs(e.Expected-want.Expected) > 1e-9 {
					t.Errorf("event %d: score %.7f, threshold %.7f, expected %.10f; want %.7f, %.7f, %.10f",
						i, e.Score, e.Threshold, e.Expected, want.Score, want.Threshold, want.Expected)
				}
				if e.NumMembers != len(want.Members) || len(e.Members) != min(20, len(want.Members)) {
					t.Fatalf("event %d: %d members, %d told; want %d", i, e.NumMembers, len(e.Members), len(want.Members))
				}
				for j, m := range e.Members {
					key, seconds, score, p := want.Members[j][0].(string), want.Members[j][1].(float64), want.Members[j][2].(float64), want.Members[j][3].(float64)
					if m.Key != key || !m.Time.Equal(unix(seconds)) || m.Score != score || math.Abs(m.P-p) > 1e-6 {
						t.Errorf("event %d: member %d is %+v, want %v", i, j, m, want.Members[j])
					}
				}
				if !strings.HasPrefix(e.Message, fmt.Sprintf("%d of ", e.NumMembers)) {
					t.Errorf("event %d: %s", i, e.Message)
				}
				if testing.Verbose() && e.State != incidents.Update {
					t.Log(e.ID, e.State, e.Page, e.Message)
				}
			}
		})
	}
}
