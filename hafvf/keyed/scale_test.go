package keyed

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// A filter with a scale equals a filter of the scaled values: the densities differ by the Jacobian, and the means
// are medians.
func TestScaleEqualsScaledValues(t *testing.T) {
	for _, scale := range []hafvf.Scale{hafvf.Log, hafvf.Log1p, hafvf.Sqrt} {
		plain := hafvf.Config{Family: "normal", WarmUp: 20, Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}}
		scaled := plain
		scaled.Scale = scale
		cfg := Config{Filter: scaled, Interval: .9, Alerts: AlertConfig{Beliefs: []hafvf.Kind{hafvf.Outlier, hafvf.Change}}}
		a := newEstimator(t, cfg)
		cfg.Filter = plain
		b := newEstimator(t, cfg)
		ta, tb := a.NewTrack("k"), b.NewTrack("k")
		rng := rand.New(rand.NewPCG(1, 2))
		beliefs := 0
		near := func(i int, what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("%s, step %d: %s is %g, want %g", scale, i, what, got, want)
			}
		}
		for i := range 300 {
			x := math.Exp(1 + rng.NormFloat64()/4 + float64(i/150)*2)
			if i == 30 {
				x = math.NaN()
			}
			now := time.Unix(int64(60*i), 0)
			y, slope := math.Log(x), 1/x
			switch scale {
			case hafvf.Log1p:
				y, slope = math.Log(1+x), 1/(1+x)
			case hafvf.Sqrt:
				y, slope = math.Sqrt(x), .5/math.Sqrt(x)
			}
			toData := func(y float64) float64 {
				switch scale {
				case hafvf.Log:
					return math.Exp(y)
				case hafvf.Log1p:
					return math.Exp(y) - 1
				}
				return math.Max(y, 0) * math.Max(y, 0)
			}
			got, want := a.Estimate(ta, Value(now, "", x)), b.Estimate(tb, Value(now, "", y))
			near(i, "log predictive", got.LogPredictive, want.LogPredictive+math.Log(slope))
			near(i, "elbo", got.ELBO, want.ELBO+math.Log(slope))
			near(i, "member's log predictive", got.Bank[1].LogPredictive, want.Bank[1].LogPredictive+math.Log(slope))
			near(i, "prediction", got.Predicted.Mean[0], toData(want.Predicted.Mean[0]))
			near(i, "estimate", got.Estimate.Mean[0], toData(want.Estimate.Mean[0]))
			near(i, "regime", got.Regime.Mean[0], toData(want.Regime.Mean[0]))
			near(i, "lower", got.Lower[0], toData(want.Lower[0]))
			near(i, "upper", got.Upper[0], toData(want.Upper[0]))
			near(i, "score", got.Detection.Score, want.Detection.Score)
			near(i, "usual", got.Detection.Usual.Mean[0], toData(want.Detection.Usual.Mean[0]))
			for _, m := range [][2]Moments{{got.Predicted, want.Predicted}, {got.Estimate, want.Estimate}, {got.Regime, want.Regime}} {
				y, h := m[1].Mean[0], 1e-5
				near(i, "standard deviation", m[0].SD[0]/m[1].SD[0], (toData(y+h)-toData(y-h))/(2*h))
			}
			if (got.Belief == nil) != (want.Belief == nil) || (got.Alarm == nil) != (want.Alarm == nil) {
				t.Fatalf("%s, step %d: alerts differ", scale, i)
			}
			if d := got.Detection; d.Kind == hafvf.Change && max(d.StartN-151, 151-d.StartN) > 2 {
				t.Errorf("%s, step %d: a change from observation %d on, want 151", scale, i, d.StartN)
			}
			if got.Belief != nil {
				beliefs++
				near(i, "size", got.Belief.Size, want.Belief.Size)
				near(i, "before", got.Belief.Before.Mean[0], toData(want.Belief.Before.Mean[0]))
				near(i, "after", got.Belief.After.Mean[0], toData(want.Belief.After.Mean[0]))
			}
		}
		if beliefs == 0 {
			t.Errorf("%s: no change was reported", scale)
		}
	}
}

// MinAbs is in the units of the data, and the size of an alarm in standard deviations on the scale.
func TestScaleMinAbs(t *testing.T) {
	for minAbs, want := range map[float64]bool{5: true, 20: false} {
		cfg := Config{
			Filter: hafvf.Config{Family: "normal", WarmUp: 20, Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}, Scale: hafvf.Log},
			Alerts: AlertConfig{Beliefs: []hafvf.Kind{hafvf.Change}, MinAbs: minAbs},
		}
		rng := rand.New(rand.NewPCG(1, 3))
		// The median goes from 10 to 20.
		estimates := fed(t, cfg, 200, time.Minute, func(i int) float64 { return 10 * float64(1+i/100) * math.Exp(rng.NormFloat64()/10) })
		if alerted := slices.ContainsFunc(estimates, func(e Estimate) bool { return e.Belief != nil }); alerted != want {
			t.Errorf("min_abs %g: reported is %v", minAbs, alerted)
		}
	}
}

// A value that the scale does not allow is rejected; a missing value is accepted.
func TestScaleCheck(t *testing.T) {
	for scale, bad := range map[hafvf.Scale]float64{hafvf.Log: 0, hafvf.Log1p: -1, hafvf.Sqrt: -.1} {
		filter := hafvf.Config{Family: "normal", Scale: scale}
		est := newEstimator(t, Config{Filter: filter})
		sm := expect.Get(NewSmoother(SmoothConfig{Filter: filter, Gap: time.Minute}))(t)
		for _, check := range []func(string, Observation) error{est.Check, sm.Check} {
			err := check("k", Value(time.Unix(0, 0), "", bad))
			expect.Error(t, err, "scale "+string(scale), scale, ", ", bad)
			for _, x := range []float64{2, math.NaN()} {
				if err := check("k", Value(time.Unix(0, 0), "", x)); err != nil {
					t.Errorf("%s of %g: %v", scale, x, err)
				}
			}
		}
	}
	for _, cfg := range []hafvf.Config{{Family: "poisson", Scale: hafvf.Log}, {Family: "normal", Scale: "cube"}} {
		if _, err := NewEstimator(Config{Filter: cfg}); err == nil || !strings.HasPrefix(err.Error(), "scale: ") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// For a regression only the target is scaled. Sessions are smoothed on the scale, and evidence of changes does not
// depend on the unit.
func TestScaleOfRegressionAndSessions(t *testing.T) {
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "regression", Dim: 2, Scale: hafvf.Log}})
	track := est.NewTrack("k")
	rng := rand.New(rand.NewPCG(1, 4))
	var last Estimate
	for i := range 300 {
		u := rng.NormFloat64()
		x := math.Exp(2*u + rng.NormFloat64()/100)
		last = est.Estimate(track, Observation{Time: time.Unix(int64(i), 0), X: [][]float64{{u, x}}, Shape: Vector})
	}
	if got := math.Log(last.Estimate.Mean[0]) / last.X[0][0]; math.Abs(got-2) > .05 {
		t.Errorf("the coefficient is %g, want 2", got)
	}

	var values, logs []Observation
	for i := range 60 {
		y, now := rng.NormFloat64()+float64(i/30)*5, time.Unix(int64(i), 0)
		values, logs = append(values, Value(now, "", y)), append(logs, Value(now, "", math.Exp(y)))
	}
	plain := smoothed(t, SmoothConfig{Filter: hafvf.Config{Family: "normal"}, Gap: time.Hour}, values)
	scaled := smoothed(t, SmoothConfig{Filter: hafvf.Config{Family: "normal", Scale: hafvf.Log}, Gap: time.Hour}, logs)
	for i, p := range plain {
		s := scaled[i]
		if math.Abs(s.ChangeEvidence-p.ChangeEvidence) > 1e-6 || s.Change != p.Change ||
			math.Abs(math.Log(s.Estimate.Mean[0])-p.Estimate.Mean[0]) > 1e-9 ||
			math.Abs(s.Estimate.SD[0]/s.Estimate.Mean[0]-p.Estimate.SD[0]) > 1e-9 ||
			math.Abs(s.Segment.Estimate.SD[0]/s.Segment.Estimate.Mean[0]-p.Segment.Estimate.SD[0]) > 1e-9 {
			t.Fatalf("step %d: %+v, want the equivalent of %+v", i, s, p)
		}
	}
}
