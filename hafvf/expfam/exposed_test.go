package expfam

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A count x under the exposure r is a count of poisson with an r times larger rate: with the rate of prior and
// sample in units of r, everything but the term x·ln r of the density is the same.
func TestExposedIsPoissonOfAnotherUnit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 40))
	for range 100 {
		r := rng.ExpFloat64() + .1
		plain := poisson{newGamma(2, .5/r)} // the prior of λr
		rows := poisson{newGamma(2, .5)}.Exposed()
		d, e := make([]float64, plain.Len()), make([]float64, rows.Len())
		for range 20 {
			x, weight := float64(rng.IntN(9)), rng.Float64()
			row := []float64{r, x}
			if err := rows.Check(row); err != nil {
				t.Fatal(err)
			}
			plain.Scale(d, .9)
			rows.Scale(e, .9)
			plain.Observe(d, []float64{x}, weight)
			rows.Observe(e, row, weight)
			want, got := [5]float64{}, [5]float64{}
			plain.Estimate(want[:1], want[1:2], d, nil)
			plain.Predict(want[2:3], want[3:4], d, .7, nil)
			var law [2]Distribution
			plain.Predictive(law[:1], d, .7, nil)
			want[4] = law[0].CDF(x)
			rows.Estimate(got[:1], got[1:2], e, row)
			rows.Predict(got[2:3], got[3:4], e, .7, row)
			rows.(Predictor).Predictive(law[1:], e, .7, row)
			got[4] = law[1].CDF(x)
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-12*math.Abs(want[i]) {
					t.Fatalf("%v, want %v", got, want)
				}
			}
			if l := rows.LogBase(row); math.Abs(l-plain.LogBase([]float64{x})-x*math.Log(r)) > 1e-12 {
				t.Fatal(l)
			}
		}
	}
	rows := poisson{newGamma(2, .5)}.Exposed()
	for _, row := range [][]float64{{0, 1}, {-1, 1}, {1, -1}, {1, .5}} {
		if rows.Check(row) == nil {
			t.Errorf("%v passes", row)
		}
	}
}
