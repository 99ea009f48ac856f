package hafvf

import (
	"math"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// TestRealTraces compares with an independent implementation, on streams of independent values, of
// autocorrelated values and with a season. The reference leaves out the first observation, which has no
// previous value.
func TestRealTraces(t *testing.T) {
	for _, name := range []string{"iid", "ar", "season"} {
		t.Run(name, func(t *testing.T) {
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
			familytest.ReadJSON(t, "testdata/lanes_"+name+".json", &trace)
			m := familytest.New(t, "normal", Params{"mu": trace.Location, "kappa": .01, "alpha": 1., "beta": trace.Scale * trace.Scale})
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

// normalOf returns the model of the family normal with the given prior.
func normalOf(mu, kappa, alpha, beta float64) Model {
	m := must(expfam.New("normal", Params{"mu": mu, "kappa": kappa, "alpha": alpha, "beta": beta}, 0))
	return m
}

// The observations of one step have the same previous value and no order, and their mean is the next step's
// previous value.
func TestLaggedSteps(t *testing.T) {
	m := normalOf(0, 1, 1, 1)
	b := NewBank(m, DefaultBankFor("normal"), .999, &Detect{})
	s, u := b.NewState(), b.NewState()
	for _, xs := range [][2][][]float64{
		{{{1}, {2}, {6}}, {{6}, {math.NaN()}, {1}, {2}}},
		{{{4}, {5}}, {{5}, {4}}},
	} {
		p, q := b.Update(s, xs[0]...).LogPredictive, b.Update(u, xs[1]...).LogPredictive
		if math.Abs(p-q) > 1e-12 {
			t.Errorf("log predictive %g and %g in another order", p, q)
		}
	}
	if got := b.lags(s)[0]; got != 4.5 {
		t.Errorf("last value %g, want 4.5", got)
	}
}
