package hafvf

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// fixedPair holds members without levels, whose log predictive and forgetting have a closed form.
var fixedPair = []Member{{Top: .985}, {Top: .9998}}

// TestExcursionTraces compares with an independent implementation on natural statistics, on streams with
// outliers, bursts and changes.
func TestExcursionTraces(t *testing.T) {
	files, _ := filepath.Glob("testdata/excursion_*.json")
	if len(files) != 4 {
		t.Fatalf("%d traces, want 4", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var trace struct {
				Family string
				Prior  Params
				X      []float64
				// log predictive, P(stay), P(outlier), P(change), kind, start, age
				Steps [][7]float64
			}
			familytest.ReadJSON(t, file, &trace)
			m := familytest.New(t, trace.Family, trace.Prior)
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

// TestExcursionsHostile runs random families, priors, banks, times and data, including hiccups. Masses must sum
// to one, every figure must be a number, and every state valid.
func TestExcursionsHostile(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	kinds, failures := map[Kind]int{}, 0
	for steps := 0; steps < length(1_000_000); {
		m, draw := randomModel(t, rng)
		members := make([]Member, 1+rng.IntN(3))
		for i := range members {
			members[i] = Member{Levels: randomLevels(rng, rng.IntN(3)), Top: 1 - logUniform(rng, 1e-6, 1)}
			if _, ok := expfam.NewLagged(m, 1); ok && i > 0 {
				members[i].AR = rng.IntN(3)
			}
		}
		b := NewBank(m, members, 1-logUniform(rng, 1e-6, .9), &Detect{Commit: rng.Float64(), MinLength: rng.IntN(10)})
		s := b.NewState()
		var mean, sd [3]float64
		for i := range 50 + rng.IntN(200) {
			xs := hiccups(rng, m, draw)
			before := slices.Clone(s)
			elapsed := 1.
			switch rng.IntN(12) {
			case 0:
				elapsed = 0
			case 1, 2, 3:
				elapsed = logUniform(rng, 1e-3, 1e3)
			}
			out := b.UpdateAfter(s, elapsed, xs...)
			steps++
			for _, o := range out.Members {
				if !o.Converged {
					failures++
				}
			}
			d := out.Detection
			kinds[d.Kind]++
			bad := math.Abs(d.Stay+d.Outlier+d.Change-1) > 1e-9 || !(d.Stay >= 0) || !(d.Outlier >= 0) || !(d.Change >= 0) || notFinite(d.LogOdds())
			bad = bad || !out.Missing && notFinite(out.LogPredictive)
			shares := 0.
			for _, o := range out.Members {
				shares += o.Share
				bad = bad || !(o.Weight >= 0 && o.Weight <= 1) || !(o.Memory >= 0) || !out.Missing && notFinite(o.LogPredictive)
			}
			bad = bad || math.Abs(shares-1) > 1e-9
			_, err := b.DecodeState(s.Append(nil))
			if bad || err != nil {
				t.Fatalf("%T %+v members %v step %d after %g xs %v: %v %+v\nstate %v\n -> %v", m, m, members, i, elapsed, xs, err, out, before, s)
			}
			b.Estimate(mean[:m.Outputs()], sd[:m.Outputs()], s, append(make([]float64, m.Dim()), 1))
			if slices.ContainsFunc(sd[:], func(v float64) bool { return v < 0 }) {
				t.Fatalf("%T step %d: estimate %v ± %v", m, i, mean, sd)
			}
		}
	}
	t.Logf("%v, %d steps not converged", kinds, failures)
	for _, k := range []Kind{None, Outlier, Change} {
		if kinds[k] == 0 {
			t.Errorf("no step of kind %s", k)
		}
	}
}

// A burst shorter than MinLength is no change, and does not affect the regime's memory and mean.
func TestMinLength(t *testing.T) {
	m, _ := familyStream(t, "normal", nil)
	for minLength, want := range map[int]bool{5: true, 12: false} {
		rng := rand.New(rand.NewPCG(2, 9))
		b := NewBank(m, DefaultBank(), .999, &Detect{MinLength: minLength})
		s := b.NewState()
		changed := false
		for i := range 209 {
			d := b.Update(s, []float64{rng.NormFloat64() + 8*float64(i/200)}).Detection
			changed = changed || i >= 200 && d.Kind == Change
		}
		var mean, sd [1]float64
		b.EstimateRegime(mean[:], sd[:], s, nil)
		if memory := m.Memory(b.Filter(2).Sample(b.Member(s, 2))); changed != want || (math.Abs(mean[0]) < .5 && memory > 150) == want {
			t.Errorf("at least %d: a change %v, mean of the regime %g, memory %g", minLength, changed, mean[0], memory)
		}
	}
}
