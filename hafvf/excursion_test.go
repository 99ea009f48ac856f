package hafvf

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// fixedPair are members without levels, whose log predictive and forgetting are
// in closed form.
var fixedPair = []Member{{Top: .985}, {Top: .9998}}

// TestExcursionTraces compares with an independent implementation on natural
// statistics, on streams with outliers, bursts and changes.
func TestExcursionTraces(t *testing.T) {
	files, _ := filepath.Glob("testdata/excursion_*.json")
	if len(files) != 4 {
		t.Fatalf("%d traces, want 4", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var trace struct {
				Family string
				Prior  Params
				X      []float64
				// log predictive, P(stay), P(outlier), P(change), kind, start, age
				Steps [][7]float64
			}
			if err := json.Unmarshal(text, &trace); err != nil {
				t.Fatal(err)
			}
			m, err := New(trace.Family, trace.Prior, 0)
			if err != nil {
				t.Fatal(err)
			}
			b := NewBank(m, fixedPair, .999, &Detect{})
			s := b.NewState()
			kinds := []Kind{None, Outlier, Change, Revision}
			worst := 0.0
			for i, want := range trace.Steps {
				out := b.Update(s, trace.X[i:i+1])
				d := out.Detection
				for k, got := range []float64{out.LogPredictive, d.Stay, d.Outlier, d.Change} {
					worst = math.Max(worst, math.Abs(got-want[k])/(1+math.Abs(want[k])))
				}
				if worst > 1e-8 || d.Kind != kinds[int(want[4])] || d.Start != int64(want[5]) || d.Age != int64(want[6]) {
					t.Fatalf("step %d: %+v %+v, want %v", i, out.LogPredictive, d, want)
				}
			}
			t.Logf("worst error %.1e", worst)
		})
	}
}
