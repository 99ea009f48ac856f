package experiment

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"hafvf/cmd/hafvf/chart"
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// outcomes holds one outcome of every experiment, for all tests.
var outcomes = func() map[string]outcome {
	byName := map[string]outcome{}
	for _, e := range All {
		byName[e.Name] = e.simulate(3)
	}
	return byName
}()

// series returns a column of an experiment's CSV file.
func series(t *testing.T, experiment, name string) []float64 {
	t.Helper()
	for _, c := range outcomes[experiment].columns() {
		if c.name == name {
			return c.values
		}
	}
	t.Fatalf("%s.csv has no column %s", experiment, name)
	return nil
}

func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) || (math.IsNaN(a) && math.IsNaN(b))
}

func TestSimulateIsReproducible(t *testing.T) {
	for _, e := range All {
		var texts, pictures [2][]byte
		var tables [2]string
		for i, o := range []outcome{outcomes[e.Name], e.simulate(3)} {
			var err error
			if texts[i], err = encode(o.columns()); err != nil {
				t.Fatal(err)
			}
			if pictures[i], err = o.figure().Render(".svg"); err != nil {
				t.Fatal(err)
			}
			tables[i] = tabulate([][]finding{o.findings()})
		}
		if !bytes.Equal(texts[0], texts[1]) || !bytes.Equal(pictures[0], pictures[1]) || tables[0] != tables[1] {
			t.Errorf("%s: two runs with seed 3 differ", e.Name)
		}
		if other, err := encode(e.simulate(4).columns()); err != nil || bytes.Equal(texts[0], other) {
			t.Errorf("%s: seeds 3 and 4 give the same data (error %v)", e.Name, err)
		}
	}
}

// A reader can redraw the figure from the CSV file: every line, band and set of dots is one of its columns.
func TestColumnsContainFigure(t *testing.T) {
	for name, o := range outcomes {
		columns := o.columns()
		for _, c := range columns {
			if len(c.values) != len(columns[0].values) {
				t.Errorf("%s: column %s has %d values, %s has %d", name, c.name, len(c.values), columns[0].name, len(columns[0].values))
			}
		}
		check := func(panel string, values []float64) {
			if !slices.ContainsFunc(columns, func(c column) bool {
				return slices.EqualFunc(c.values, values, func(a, b float64) bool { return a == b || (math.IsNaN(a) && math.IsNaN(b)) })
			}) {
				t.Errorf("%s, panel %q: a series that is not in the file", name, panel)
			}
		}
		for _, row := range o.figure().Rows {
			for _, stack := range row.Stacks {
				for _, p := range stack.Panels {
					for _, layer := range p.Layers {
						switch l := layer.(type) {
						case chart.Line:
							check(p.Title+" "+l.Name, l.Y)
						case chart.Band:
							check(p.Title+" low", l.Low)
							check(p.Title+" high", l.High)
						case chart.Dots:
							var y []float64
							for _, q := range l.Points {
								y = append(y, q.Y)
							}
							check(p.Title+" "+l.Name, y)
						}
					}
				}
			}
		}
	}
}

// Fixed decay is one Beta level under a weight of 0.75 that learns the draws.
func TestBinaryEqualsFilter(t *testing.T) {
	m := must(expfam.New("bernoulli", expfam.Params{"alpha": 1.0, "beta": 1.0}, 0))
	f := hafvf.NewFilter(m, []hafvf.Beta{{Alpha: 0.9, Beta: 0.1}}, 0.75)
	s := f.NewState()
	x, memory, w := series(t, "binary", "x"), series(t, "binary", "fixed_decay_memory"), series(t, "binary", "fixed_decay_E_w")
	for i := range 60 {
		step := f.Update(s, []float64{x[i]})
		if !near(memory[i], step.Memory) || !near(w[i], step.Weight) {
			t.Fatalf("trial %d: memory %g, weight %g in the file; %g, %g by hand", i+1, memory[i], w[i], step.Memory, step.Weight)
		}
		inc := f.Increments()[0]
		for j, u := range [][2]float64{inc.U1, inc.U2, inc.U3} {
			for side, name := range []string{"alpha", "beta"} {
				name = fmt.Sprintf("fixed_decay_w_u%d_%s", j+1, name)
				if got := series(t, "binary", name)[i]; got != u[side] {
					t.Fatalf("trial %d: %s = %g in the file, %g by hand", i+1, name, got, u[side])
				}
			}
		}
	}
}

// The marginal of Σ ~ InvWishart(Λ, ν) in two dimensions is Σᵢᵢ ~ InvGamma((ν−1)/2, Λᵢᵢ/2), and μᵢ|Σ ~ N(m, Σᵢᵢ/κ).
// 95 % of the draws of μᵢ must lie in the interval.
func TestMeanIntervalCoverage(t *testing.T) {
	m := must(expfam.New("mvnormal", expfam.Params{"mu": []any{1.0, -2.0}, "kappa": 0.4, "nu": 5.0, "scale": []any{[]any{2.0, 0.5}, []any{0.5, 3.0}}}, 0))
	random := rand.New(rand.NewPCG(1, 2))
	for i, c := range []struct{ mu, scale float64 }{{1, 2}, {-2, 3}} {
		center, half := meanInterval(m, make([]float64, m.Len()), i)
		precision := distuv.Gamma{Alpha: 2, Beta: c.scale / 2, Src: random}
		const n = 40_000
		inside := share(n, func(int) bool {
			mu := c.mu + random.NormFloat64()/math.Sqrt(0.4*precision.Rand())
			return math.Abs(mu-center) <= half
		})
		if math.Abs(inside-95) > 0.5 { // 4.6 standard errors
			t.Errorf("coordinate %d: %g %% of the draws lie in the interval", i, inside)
		}
	}
}

// The first prediction follows ten points without regressors, from which the filter learns nothing. Every prediction
// equals the prediction of a regression on the previous ten points.
func TestARPredictions(t *testing.T) {
	x, predicted := series(t, "ar", "x"), series(t, "ar", "predicted")
	f := newFilter(hafvf.Config{
		Family: "regression",
		Prior:  expfam.Params{"mean": slices.Repeat([]any{0.0}, arOrder), "precision": arUsual.precision, "alpha": arUsual.alpha, "beta": arUsual.beta},
		Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 4.5, Beta: 0.5}, {Alpha: 1, Beta: 1}}, Top: 1},
	})
	s := f.NewState()
	var mean, sd [1]float64
	for i := range 60 {
		if i < arOrder {
			if !math.IsNaN(predicted[i]) {
				t.Errorf("t = %d: predicted %g without regressors", i+1, predicted[i])
			}
			continue
		}
		row := slices.Clone(x[i-arOrder : i])
		slices.Reverse(row)
		row = append(row, x[i])
		f.Model().Predict(mean[:], sd[:], f.Sample(s), f.PriorWeight(s), row)
		if !near(mean[0], predicted[i]) {
			t.Fatalf("t = %d: predicted %g, by regression on the rows %g", i+1, predicted[i], mean[0])
		}
		f.Update(s, row)
	}
}

// must returns v. It panics if err is not nil.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
