package hafvf_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// Data in other units give the same inference in those units, also in a bank with detection: the log predictive
// changes by the log of the scale, predictions change with the units, and nothing else changes.
func TestFitIsEquivariant(t *testing.T) {
	for _, c := range []struct {
		family        string
		prior         expfam.Params
		scale, offset float64
		columns       int // length of an observation
	}{
		{"normal", nil, 1e-3, 1e4, 1},
		{"normal", nil, 1e6, -7, 1},
		{"mvnormal", expfam.Params{"mu": []float64{0, 0}}, 1e3, 5e3, 2},
		{"exponential", nil, 1e-4, 0, 1},
		{"regression", expfam.Params{"mean": []float64{0, 0}}, 1e4, 0, 3},
		{"ar", expfam.Params{"order": 2}, 1e-5, 0, 1},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		var xs, ys [][]float64
		for i := range 300 {
			x := make([]float64, c.columns)
			y := make([]float64, c.columns)
			for k := range x {
				x[k] = rng.NormFloat64() + float64(i/150*4)
				if c.family == "exponential" {
					x[k] = rng.ExpFloat64()
				}
				y[k] = c.scale*x[k] + c.offset
			}
			if c.family == "regression" {
				x[1] = 1 // an intercept, which has no unit
				y[1] = 1
			}
			xs, ys = append(xs, x), append(ys, y)
		}
		base := familytest.New(t, c.family, c.prior).(expfam.Fitted)
		f := hafvf.NewBank(base, hafvf.DefaultBankFor(c.family), .999, &hafvf.Detect{})
		g := hafvf.NewBank(base, hafvf.DefaultBankFor(c.family), .999, &hafvf.Detect{})
		f.Use(base.Fit(base.LocationScale(xs[:50])))
		g.Use(base.Fit(base.LocationScale(ys[:50])))
		s, u := f.NewState(), g.NewState()
		outputs := base.Outputs()
		mean, sd := make([]float64, outputs), make([]float64, outputs)
		mean2, sd2 := make([]float64, outputs), make([]float64, outputs)
		for i := range xs {
			p, q := f.Update(s, xs[i]), g.Update(u, ys[i])
			if p.Missing {
				continue
			}
			last, scaled := len(p.Members)-1, q.LogPredictive+float64(outputs)*math.Log(c.scale)
			if math.Abs(p.LogPredictive-scaled) > 1e-6 || math.Abs(p.Members[0].Weight-q.Members[0].Weight) > 1e-6 ||
				math.Abs(p.Members[last].Share-q.Members[last].Share) > 1e-6 || p.Detection.Kind != q.Detection.Kind {
				t.Fatalf("%s, scale %g, step %d: %+v, in other units %+v", c.family, c.scale, i, p, q)
			}
			if c.family == "regression" {
				continue // its regressors have units
			}
			f.Predict(mean, sd, s, f.Regressors(s, nil))
			g.Predict(mean2, sd2, u, g.Regressors(u, nil))
			for k := range mean {
				if math.Abs(mean2[k]-(c.scale*mean[k]+c.offset)) > 1e-6*c.scale || i > 10 && math.Abs(sd2[k]-c.scale*sd[k]) > 1e-6*c.scale*sd[k] {
					t.Fatalf("%s, step %d: prediction %g ± %g, in other units %g ± %g", c.family, i, mean[k], sd[k], mean2[k], sd2[k])
				}
			}
		}
	}
}

// Constant data also get a scale.
func TestFitOfConstants(t *testing.T) {
	for _, x := range []float64{0, 3, -1e9} {
		for family, prior := range map[string]expfam.Params{"normal": nil, "exponential": nil, "poisson": nil, "ar": {"order": 1, "intercept": true}} {
			if x < 0 && family != "normal" && family != "ar" {
				continue
			}
			base := familytest.New(t, family, prior).(expfam.Fitted)
			m := base.Fit(base.LocationScale([][]float64{{x}, {x}, {x}}))
			f := hafvf.NewFilter(m, levels(2), 1)
			s := f.NewState()
			for range 5 {
				if step := f.Update(s, []float64{x}); !step.Missing && (math.IsNaN(step.LogPredictive) || math.IsInf(step.LogPredictive, 0)) {
					t.Errorf("%s at %g: %+v", family, x, step)
				}
			}
		}
	}
}
