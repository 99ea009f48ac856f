package hafvf

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestRealTraces compares with an independent implementation, on a stream of
// independent values, one of autocorrelated ones and one with a season. The
// reference leaves out the first observation, of which there is no last value.
func TestRealTraces(t *testing.T) {
	for _, name := range []string{"iid", "ar", "season"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/real/golden_" + name + "_shared.json")
			if err != nil {
				t.Fatal(err)
			}
			var trace struct {
				X               []float64
				Location, Scale float64
				Rows            []struct {
					I             int
					Kind          Kind
					LogPredictive float64 `json:"log_predictive"`
					Stay          float64 `json:"p_stay"`
					Outlier       float64 `json:"p_outlier"`
					Change        float64 `json:"p_change"`
					Delay         int64
					Shares        []float64
				}
			}
			if err := json.Unmarshal(text, &trace); err != nil {
				t.Fatal(err)
			}
			m, err := New("normal", Params{"mu": trace.Location, "kappa": .01, "alpha": 1., "beta": trace.Scale * trace.Scale}, 0)
			if err != nil {
				t.Fatal(err)
			}
			b := NewBank(m, []Member{{Top: .985}, {Top: .9998, AR: 1}, {Top: .9998}}, .999, &Detect{})
			s := b.NewState()
			b.push(s, [][]float64{trace.X[:1]})
			rows := trace.Rows[1:]
			worst, starts := 0., 0
			for i := 1; i < len(trace.X); i++ {
				out := b.Update(s, trace.X[i:i+1])
				if len(rows) == 0 || rows[0].I != i {
					if out.Detection.Starts() {
						t.Errorf("step %d: %+v, of which the reference has nothing", i, out.Detection)
					}
					continue
				}
				d, want := out.Detection, rows[0]
				rows = rows[1:]
				compare := func(got, want float64) { worst = math.Max(worst, math.Abs(got-want)/(1+math.Abs(want))) }
				compare(out.LogPredictive, want.LogPredictive)
				compare(d.Stay, want.Stay)
				compare(d.Outlier, want.Outlier)
				compare(d.Change, want.Change)
				sum := 0. // the reference divides by it one step later
				for _, share := range want.Shares {
					sum += share
				}
				for k, share := range want.Shares {
					compare(out.Members[k].Share, share/sum)
				}
				if d.Starts() {
					starts++
				}
				if !(worst < 1e-8) || d.Kind != want.Kind || d.Delay != want.Delay {
					t.Fatalf("step %d: %+v, want %+v", i, out, want)
				}
			}
			if len(rows) > 0 || starts == 0 {
				t.Errorf("%d rows left, %d changes", len(rows), starts)
			}
			t.Logf("worst error %.1e, %d changes", worst, starts)
		})
	}
}
