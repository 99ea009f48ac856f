package hafvf

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"
)

// An earlierState is an encoded state that version 17e0a67 of this package wrote under
// the fingerprint 7, what it observed next, and what it made of that: of a bank, weight,
// memory and levels are the last member's.
type earlierState struct {
	Name         string
	State        []byte
	Observations []float64
	Results      []struct {
		LogPredictive  float64 `json:"log_predictive"`
		Weight, Memory float64
		Levels         [][2]float64
	}
}

// States of version 1, without leads, go on as they would have. Encoded again, they are
// of the present version, and cut short or grown by a byte they are refused.
func TestStatesOfVersion1(t *testing.T) {
	text, err := os.ReadFile("testdata/states-17e0a67.json")
	if err != nil {
		t.Fatal(err)
	}
	var states []earlierState
	if err := json.Unmarshal(text, &states); err != nil {
		t.Fatal(err)
	}
	model := func(family string, prior Params) Model {
		m, err := New(family, prior, 0)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	ar, normal := model("ar", Params{"order": 2, "intercept": true}), model("normal", nil)
	levels := []Beta{{.9, .1}, {1, 1}}
	members := []Member{{Levels: levels, Top: 1}, {Levels: levels[:1], Top: .99}, {Top: .98}, {Levels: []Beta{{9, 1}, {1, 2}}, Top: 1}}
	// Filter and Bank, as far as this test sees them.
	type engine struct {
		decode func([]byte, uint64) (State, error)
		update func(State, float64) (logPredictive float64, step Step)
		level  func(s State, i int) Beta
	}
	filter := func(m Model) engine {
		f := NewFilter(m, levels, 1)
		return engine{f.DecodeState, func(s State, x float64) (float64, Step) {
			step := f.Update(s, []float64{x})
			return step.LogPredictive, step
		}, f.Level}
	}
	bank := func(m Model) engine {
		b := NewBank(m, members, .999, &Detect{})
		return engine{b.DecodeState, func(s State, x float64) (float64, Step) {
			out := b.Update(s, []float64{x})
			return out.LogPredictive, out.Members[3].Step
		}, func(s State, i int) Beta { return b.Filter(3).Level(b.Member(s, 3), i) }}
	}
	engines := map[string]engine{
		"filter of ar": filter(ar), "filter of normal": filter(normal),
		"bank of ar": bank(ar), "bank of normal": bank(normal),
	}
	if len(states) != len(engines) {
		t.Fatalf("%d states for %d engines", len(states), len(engines))
	}
	for _, old := range states {
		t.Run(old.Name, func(t *testing.T) {
			e := engines[old.Name]
			s, err := e.decode(old.State, 7)
			if err != nil {
				t.Fatal(err)
			}
			again, err := e.decode(s.Append(nil, 7), 7)
			if err != nil || !sameBits(s, again) {
				t.Errorf("encoded again: %v, %v", again, err)
			}
			for _, b := range [][]byte{old.State[:len(old.State)-1], append(old.State[:len(old.State):len(old.State)], 0)} {
				if _, err := e.decode(b, 7); err == nil {
					t.Errorf("%d bytes passed for %d", len(b), len(old.State))
				}
			}
			if _, err := e.decode(old.State, 8); !errors.Is(err, ErrOtherConfig) {
				t.Errorf("under another fingerprint: %v", err)
			}
			near := func(i int, what string, got, want float64) {
				if !(math.Abs(got-want) <= 1e-8*math.Max(math.Abs(want), 1e-3)) {
					t.Errorf("observation %d: %s = %.12g, want %.12g", i, what, got, want)
				}
			}
			for i, x := range old.Observations {
				logPredictive, step := e.update(s, x)
				want := old.Results[i]
				near(i, "log predictive", logPredictive, want.LogPredictive)
				near(i, "weight", step.Weight, want.Weight)
				near(i, "memory", step.Memory, want.Memory)
				for k, l := range want.Levels {
					near(i, "alpha", e.level(s, k).Alpha, l[0])
					near(i, "beta", e.level(s, k).Beta, l[1])
				}
			}
		})
	}
}

// laterState is an encoded state of a default bank with detection that version cd81bb3
// wrote under the fingerprint 7, in the middle of a change, what it observed next, and
// what it made of that.
type laterState struct {
	Name         string
	State        []byte
	Observations [][]float64
	Results      []struct {
		LogPredictive         float64 `json:"log_predictive"`
		Stay, Outlier, Change float64
		Kind                  Kind
		Start                 int64
		Weights, Memories     []float64
	}
}

// States of version 2, which have all their zeros, go on as they would have.
func TestStatesOfVersion2(t *testing.T) {
	text, err := os.ReadFile("testdata/states-cd81bb3.json")
	if err != nil {
		t.Fatal(err)
	}
	var states []laterState
	if err := json.Unmarshal(text, &states); err != nil {
		t.Fatal(err)
	}
	models := map[string]struct {
		prior Params
		dim   int
	}{"regression": {nil, 17}, "ar": {Params{"order": 3}, 0}, "mvnormal": {nil, 3}, "normal": {}, "poisson": {}}
	if len(states) != len(models) {
		t.Fatalf("%d states for %d models", len(states), len(models))
	}
	for _, old := range states {
		t.Run(old.Name, func(t *testing.T) {
			m, err := New(old.Name, models[old.Name].prior, models[old.Name].dim)
			if err != nil {
				t.Fatal(err)
			}
			b := NewBank(m, DefaultBankOf(old.Name), DefaultForgetting, &Detect{})
			s, err := b.DecodeState(old.State, 7)
			if err != nil {
				t.Fatal(err)
			}
			encoded := s.Append(nil, 7)
			again, err := b.DecodeState(encoded, 7)
			if err != nil || !sameBits(s, again) {
				t.Errorf("encoded again: %v, %v", again, err)
			}
			for _, whole := range [][]byte{old.State, encoded} {
				if state, rest := b.SplitState(append(whole[:len(whole):len(whole)], 1, 2, 3)); len(state) != len(whole) || len(rest) != 3 {
					t.Errorf("%d bytes before %d, want %d before 3", len(state), len(rest), len(whole))
				}
				for n := range whole {
					if _, err := b.DecodeState(whole[:n], 7); err == nil {
						t.Fatalf("%d bytes passed for %d", n, len(whole))
					}
				}
			}
			near := func(i int, what string, got, want float64) {
				if !(math.Abs(got-want) <= 1e-8*math.Max(math.Abs(want), 1e-3)) {
					t.Errorf("observation %d: %s = %.12g, want %.12g", i, what, got, want)
				}
			}
			starts := 0
			for i, x := range old.Observations {
				out, want := b.Update(s, x), old.Results[i]
				d := out.Detection
				if d.Starts() {
					starts++
				}
				if d.Kind != want.Kind || d.Start != want.Start {
					t.Errorf("observation %d: %s since %d, want %s since %d", i, d.Kind, d.Start, want.Kind, want.Start)
				}
				near(i, "log predictive", out.LogPredictive, want.LogPredictive)
				near(i, "stay", d.Stay, want.Stay)
				near(i, "outlier", d.Outlier, want.Outlier)
				near(i, "change", d.Change, want.Change)
				for k := range want.Weights {
					near(i, "weight", out.Members[k].Weight, want.Weights[k])
					near(i, "memory", out.Members[k].Memory, want.Memories[k])
				}
			}
			if starts == 0 {
				t.Error("no change in the observations")
			}
		})
	}
}
