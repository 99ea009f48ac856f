package expfam

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The evidence of a normal line equals the difference of its gains, for large and small samples at any
// location.
func TestNormalEvidenceMatchesGains(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 20))
	for range 10_000 {
		m := normal{mu: rng.NormFloat64(), kappa: math.Exp(3 * rng.NormFloat64()), alpha: math.Exp(2 * rng.NormFloat64()), beta: math.Exp(5 * rng.NormFloat64())}
		sample := func() []float64 {
			d := make([]float64, 3)
			for range rng.IntN(40) {
				m.Scale(d, rng.Float64())
				m.Observe(d, []float64{5 * rng.NormFloat64()}, rng.Float64())
			}
			if rng.IntN(10) == 0 {
				clear(d)
			}
			return d
		}
		l := m.NewLine().(*normalLine)
		l.Set(sample(), sample())
		want := l.Gain(0) - l.Gain(1)
		if got := l.Evidence(); math.Abs(got-want) > 1e-11*(100+math.Abs(want)) {
			t.Fatalf("%+v: evidence %.17g, of the gains %.17g", l, got, want)
		}
	}
}

// The autoregression equals the family ar if the prior's location is 0 and its scale 1: log-partition,
// derivatives, posterior and moments.
func TestLaggedIsAR(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 10))
	for order := 1; order <= 3; order++ {
		m, _ := NewLagged(normal{kappa: .2, alpha: 2, beta: 2}, order)
		precision := make([][]float64, order+1)
		for i := range precision {
			precision[i] = make([]float64, order+1)
			precision[i][i] = 1
		}
		precision[order][order] = .2
		a, err := New("ar", Params{"order": order, "intercept": true, "precision": precision, "alpha": 2., "beta": 2.}, 0)
		if err != nil {
			t.Fatal(err)
		}
		d, e := make([]float64, m.Len()), make([]float64, a.Len())
		got, want := m.NewLine(), a.NewLine()
		same := func(i int, got, want []float64) {
			t.Helper()
			for k := range want {
				if math.Abs(got[k]-want[k]) > 1e-9*(1+math.Abs(want[k])) {
					t.Fatalf("order %d, step %d: %v, want %v", order, i, got, want)
				}
			}
		}
		for i := range 40 {
			u, v := make([]float64, m.Len()), make([]float64, a.Len())
			var row []float64
			for range 1 + i%2 {
				row = row[:0]
				for range order + 1 {
					row = append(row, 3+rng.NormFloat64())
				}
				weight := 1 - .9*rng.Float64()
				m.Observe(u, row, weight)
				a.Observe(v, slices.Insert(slices.Clone(row), order, 1), weight)
			}
			x := slices.Insert(slices.Clone(row), order, 1)
			got.Set(d, u)
			want.Set(e, v)
			for _, s := range []float64{0, .3, 1} {
				p, q := got.Jet(s), want.Jet(s)
				same(i, []float64{got.Gain(s), p.Q1, p.Q2, p.F2, p.F3, p.F4}, []float64{want.Gain(s), q.Q1, q.Q2, q.F2, q.F3, q.F4})
				var p1, q1, p2, q2 [1]float64
				m.Predict(p1[:], p2[:], d, s, row)
				a.Predict(q1[:], q2[:], e, s, x)
				same(i, []float64{p1[0], p2[0]}, []float64{q1[0], q2[0]})
			}
			m.Scale(d, .9)
			a.Scale(e, .9)
			m.Merge(d, u)
			a.Merge(e, v)
			same(i, d, e)
			n := 0
			for _, p := range a.Params() {
				n += p.Size()
			}
			p, q := make([]float64, n), make([]float64, n)
			m.Posterior(p, d)
			a.Posterior(q, e)
			same(i, p, q)
			var p1, q1, p2, q2 [1]float64
			m.Estimate(p1[:], p2[:], d, row)
			a.Estimate(q1[:], q2[:], e, x)
			same(i, []float64{p1[0], p2[0]}, []float64{q1[0], q2[0]})
		}
	}
}
