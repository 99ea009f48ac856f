package hafvf

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// threeKinds is the default bank in two orders. Excursions forget at the rate of the last member, and the first
// member holds the window.
var threeKinds = [][]Member{
	DefaultBank(),
	{{Top: .985}, {Levels: []Beta{{9, 1}}, Top: .9}, {Levels: []Beta{{.9, .1}, {1, 1}}, Top: 1}},
}

// banksOf returns threeKinds and, for normal, also banks whose members have AR.
func banksOf(family string) [][]Member {
	banks := slices.Clone(threeKinds)
	if family == "normal" {
		banks = append(banks, DefaultBankFor(family),
			[]Member{{Top: .985}, {Levels: []Beta{{.9, .1}}, Top: .9, AR: 2}, {Top: .99}, {Top: .95, AR: 1}})
	}
	return banks
}

// familyStream returns a model of the family, and a function that draws observations with outliers and changes.
func familyStream(t testing.TB, family string, rng *rand.Rand) (Model, func() []float64) {
	t.Helper()
	c := familytest.Of(family)
	m := c.New(t)
	level, n := 0., 0
	noise := func() float64 {
		if n++; n%60 == 0 {
			level = 5 * rng.NormFloat64()
		}
		x := level + rng.NormFloat64()
		if rng.IntN(30) == 0 {
			x += 9
		}
		return x
	}
	return m, func() []float64 {
		x := noise()
		return c.At(rng, level, x)
	}
}

var someFamilies = []string{"bernoulli", "categorical", "poisson", "exponential", "normal", "mvnormal", "regression", "ar"}

// hiccups draws the observations of one step: usually one, sometimes none, a missing one, or three.
func hiccups(rng *rand.Rand, m Model, draw func() []float64) [][]float64 {
	x := draw()
	switch rng.IntN(12) {
	case 0:
		return nil
	case 1:
		x[len(x)-1] = math.NaN()
	case 2:
		if _, ok := m.(expfam.Sequential); !ok {
			return [][]float64{x, draw(), draw()}
		}
	}
	return [][]float64{x}
}

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) })
}

// A bank with one member equals its filter: state, step, prediction and estimate.
func TestBankWithOneMemberEqualsFilter(t *testing.T) {
	for _, family := range someFamilies {
		for depth := range 3 {
			rng := rand.New(rand.NewPCG(1, uint64(depth)))
			m, draw := familyStream(t, family, rng)
			levels := []Beta{{.9, .1}, {1, 1}}[:depth]
			f, b := NewFilter(m, levels, .97), NewBank(m, []Member{{Levels: levels, Top: .97}}, .999, nil)
			s, u := f.NewState(), b.NewState()
			k := m.Outputs()
			var want, got [4][]float64
			for i := range want {
				want[i], got[i] = make([]float64, k), make([]float64, k)
			}
			for i := range 150 {
				xs := hiccups(rng, m, draw)
				row := make([]float64, m.Dim())
				if len(xs) > 0 {
					row = slices.Clone(f.Row(s, xs[0]))
				}
				m.Predict(want[0], want[1], f.Sample(s), f.PriorWeight(s), row)
				b.Predict(got[0], got[1], u, row)
				step, out := f.Update(s, xs...), b.Update(u, xs...)
				m.Estimate(want[2], want[3], f.Sample(s), row)
				b.Estimate(got[2], got[3], u, row)
				for j := range want {
					if !sameBits(want[j], got[j]) {
						t.Fatalf("%s, %d levels, step %d: moments %v, want %v", family, depth, i, got, want)
					}
				}
				if !sameBits(s, u) {
					t.Fatalf("%s, %d levels, step %d: state %v, want %v", family, depth, i, u, s)
				}
				a := []float64{step.LogPredictive, step.ELBO, step.Weight, step.Memory, step.Residual, step.LogPredictive, 1}
				o := out.Members[0]
				c := []float64{o.LogPredictive, o.ELBO, o.Weight, o.Memory, o.Residual, out.LogPredictive, o.Share}
				if !sameBits(a, c) || out.Missing != step.Missing || o.Converged != step.Converged || o.Iterations != step.Iterations {
					t.Fatalf("%s, %d levels, step %d: %+v, want %+v", family, depth, i, out, step)
				}
			}
		}
	}
}

// The log predictive of a bank is the log of the mean of its members' predictives, under shares that are drawn
// towards equality.
func TestBankAverages(t *testing.T) {
	m, draw := familyStream(t, "normal", rand.New(rand.NewPCG(1, 3)))
	const forgetting = .9
	b := NewBank(m, DefaultBank(), forgetting, nil)
	s := b.NewState()
	shares := []float64{1. / 3, 1. / 3, 1. / 3}
	for i := range 300 {
		out := b.Update(s, draw())
		sum, p := 0., 0.
		for k := range shares {
			shares[k] = math.Pow(shares[k], forgetting)
			sum += shares[k]
		}
		for k, o := range out.Members {
			shares[k] *= math.Exp(o.LogPredictive) / sum
			p += shares[k]
		}
		if math.Abs(math.Log(p)-out.LogPredictive) > 1e-9 {
			t.Fatalf("step %d: log predictive %g, want %g", i, out.LogPredictive, math.Log(p))
		}
		for k, o := range out.Members {
			shares[k] /= p
			if math.Abs(shares[k]-o.Share) > 1e-9 || o.Share > out.Members[out.Heaviest].Share {
				t.Fatalf("step %d: shares %v, want %v", i, out.Members, shares)
			}
		}
	}
}

// density sums exp(log predictive) of a bank over all observations, after the given elapsed time.
func density(t *testing.T, b *Bank, s State, elapsed float64, family string, each func(x, p float64)) float64 {
	t.Helper()
	sum := 0.
	add := func(x, weight float64) {
		p := weight * math.Exp(b.UpdateAfter(slices.Clone(s), elapsed, []float64{x}).LogPredictive)
		each(x, p)
		sum += p
	}
	switch family {
	case "bernoulli", "categorical":
		for x := range b.Model().Outputs() + 1 {
			if b.Filter(0).Check([][]float64{{float64(x)}}) == nil {
				add(float64(x), 1)
			}
		}
	case "poisson":
		for x := range 600 { // the levels of familyStream have tails of 2⁻ˣ
			add(float64(x), 1)
		}
	default:
		// x = sinh y, or eʸ: heavy tails become exponential.
		const h = 1. / 12
		for i := -20 * 12; i <= 20*12; i++ {
			if y := float64(i) * h; family == "normal" {
				add(math.Sinh(y), h*math.Cosh(y))
			} else {
				add(math.Exp(y), h*math.Exp(y))
			}
		}
	}
	return sum
}

// The predictive of a bank integrates to one with and without detection: in a calm stream, during an excursion,
// after a change, and after any elapsed time.
func TestBankPredictiveIntegratesToOne(t *testing.T) {
	expect.Long(t, "integrals of densities")
	for _, family := range []string{"bernoulli", "categorical", "poisson", "exponential", "normal"} {
		for _, members := range banksOf(family) {
			for _, detect := range []*Detect{nil, {}} {
				m, draw := familyStream(t, family, rand.New(rand.NewPCG(1, 4)))
				b := NewBank(m, members, .999, detect)
				s := b.NewState()
				for i := range 130 {
					b.Update(s, draw())
					if i != 0 && i != 1 && i != 63 && i != 129 {
						continue
					}
					for _, elapsed := range map[bool][]float64{false: {1}, true: {0, .1, 1, 30}}[i == 129 && family != "poisson"] {
						if sum := density(t, b, s, elapsed, family, func(float64, float64) {}); math.Abs(sum-1) > 1e-7 {
							t.Fatalf("%s, detection %v, step %d, after %g: sums to 1 %+.1e", family, detect != nil, i, elapsed, sum-1)
						}
					}
				}
			}
		}
	}
}

// Mean and standard deviation of the prediction equal the moments of the log predictive's mixture. This holds
// only for fixed weights: members with levels predict with the mean of their weight, while the log predictive
// integrates over it.
func TestBankPredictiveMoments(t *testing.T) {
	m := familytest.New(t, "normal", Params{"alpha": 6.})
	rng := rand.New(rand.NewPCG(1, 5))
	b := NewBank(m, []Member{{Top: .5}, {Top: .9}, {Top: 1}, {Top: .95, AR: 1}}, .99, nil)
	s := b.NewState()
	for i := range 30 {
		b.Update(s, []float64{float64(i/15) + rng.NormFloat64()})
	}
	var mean, sd [1]float64
	b.Predict(mean[:], sd[:], s, nil)
	first, second := 0., 0.
	density(t, b, s, 1, "normal", func(x, p float64) {
		first += p * x
		second += p * x * x
	})
	if want := math.Sqrt(second - first*first); math.Abs(mean[0]-first) > 1e-8 || math.Abs(sd[0]-want) > 1e-8 {
		t.Errorf("mean %g and standard deviation %g, want %g and %g", mean[0], sd[0], first, want)
	}
}

// A missing observation changes only the number of steps and the window. It counts in the start of a change.
func TestBankMissing(t *testing.T) {
	m, _ := familyStream(t, "normal", nil)
	rng := rand.New(rand.NewPCG(1, 6))
	b, gaps := NewBank(m, DefaultBankFor("normal"), .999, &Detect{}), NewBank(m, DefaultBankFor("normal"), .999, &Detect{})
	s, u := b.NewState(), gaps.NewState()
	n, start := int64(0), int64(0)
	changed := false
	for i := range 60 {
		x := rng.NormFloat64()
		if i >= 40 {
			x += 12
		}
		for range rng.IntN(3) {
			before := slices.Clone(u)
			out := gaps.Update(u, []float64{math.NaN()})
			if !out.Missing || !math.IsNaN(out.LogPredictive) || math.Abs(out.Detection.Stay+out.Detection.Outlier+out.Detection.Change-1) > 1e-12 {
				t.Fatalf("step %d: %+v", i, out)
			}
			before[gaps.detectorAt+atSteps]++
			if !sameBits(before, u) {
				t.Fatalf("step %d: a missing observation changed the state", i)
			}
			n++
		}
		n++
		if i == 40 {
			start = n
		}
		known := append(gaps.ExcursionStarts(nil, u), n)
		p, q := b.Update(s, []float64{x}), gaps.Update(u, []float64{x})
		if !slices.Contains(known, q.Detection.Start) {
			t.Fatalf("step %d: start %d is none of %v", i, q.Detection.Start, known)
		}
		if p.LogPredictive != q.LogPredictive || p.Detection.Kind != q.Detection.Kind || p.Detection.Stay != q.Detection.Stay {
			t.Fatalf("step %d: %+v with gaps, %+v without", i, q, p)
		}
		if q.Detection.Kind == Change {
			changed = true
			if q.Detection.Start != start || q.Detection.Delay != n-start || p.Detection.Start != 41 || p.Detection.Delay != int64(i-40) {
				t.Errorf("step %d: %+v, without gaps %+v, want a start at %d of %d", i, q.Detection, p.Detection, start, n)
			}
		}
	}
	if !changed {
		t.Error("no change reported")
	}
}

// Encoding and decoding a state at any step is bit-identical, for every family, and updates allocate nothing.
// DecodeState and ReadState find the end of a state, and reject a state that is truncated or has another
// format.
func TestBankResumeAndAllocations(t *testing.T) {
	for _, family := range someFamilies {
		for _, members := range banksOf(family) {
			rng := rand.New(rand.NewPCG(1, 7))
			m, draw := familyStream(t, family, rng)
			b := NewBank(m, members, .999, &Detect{})
			s := b.NewState()
			for i := range 200 {
				var err error
				before := s.Append(nil)
				u, err := b.DecodeState(before)
				if err != nil {
					t.Fatalf("%s, step %d: %v", family, i, err)
				}
				xs := hiccups(rng, m, draw)
				b.Update(s, xs...)
				b.Update(u, xs...)
				if !sameBits(s, u) {
					t.Fatalf("%s, step %d: a decoded state goes another way", family, i)
				}
			}
			encoded := s.Append(nil)
			if again, rest, err := b.ReadState(append(slices.Clone(encoded), 1, 2, 3)); err != nil || !sameBits(s, again) || len(rest) != 3 {
				t.Errorf("%s: before three bytes: %v, %d left, %v", family, again, len(rest), err)
			}
			for n := range encoded {
				if _, err := b.DecodeState(encoded[:n]); err == nil {
					t.Fatalf("%s: %d bytes passed for %d", family, n, len(encoded))
				}
			}
			if _, err := b.DecodeState(append(slices.Clone(encoded), 0)); err == nil {
				t.Errorf("%s: a byte more passed", family)
			}
			encoded[0] = 2
			if _, err := b.DecodeState(encoded); err == nil || !strings.Contains(err.Error(), "start without it") {
				t.Errorf("%s: of another format: %v", family, err)
			}
			xs := make([][]float64, 200)
			for i := range xs {
				xs[i] = draw()
			}
			i := 0
			if n := testing.AllocsPerRun(len(xs)-1, func() {
				b.Update(s, xs[i])
				i++
			}); n != 0 {
				t.Errorf("%s: %v allocations in an update", family, n)
			}
		}
	}
}

// A state in which any single entry is impossible is rejected.
func TestBankRefusesCorruptStates(t *testing.T) {
	m, draw := familyStream(t, "normal", rand.New(rand.NewPCG(1, 8)))
	b := NewBank(m, DefaultBankFor("normal"), .999, &Detect{})
	s := b.NewState()
	for range 63 {
		b.Update(s, draw())
	}
	if n := b.detection(s).alive(); n < 2 {
		t.Fatalf("%d excursions, want some", n)
	}
	for i := range s {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			u := slices.Clone(s)
			u[i] = v
			if _, err := b.DecodeState(u.Append(nil)); err == nil {
				t.Errorf("entry %d = %g passed", i, v)
			}
		}
	}
	base := b.detectorAt
	excursion := base + detectorHead + 2*m.Len()
	for name, c := range map[string]struct {
		index int
		v     float64
	}{
		"steps below zero":        {base + atSteps, -1},
		"start in the future":     {base + atStart, 1000},
		"half an observation":     {base + atAge, .5},
		"masses above one":        {base + atStay, 2},
		"nine excursions":         {base + atAlive, 9},
		"an excursion too few":    {base + atAlive, s[base+atAlive] - 1},
		"more events than tries":  {base + atOutlier, 1e9},
		"no tries":                {base + atPersist + 1, 0},
		"a class below zero":      {base + atLearned, 0},
		"a share above one":       {base + atLastShare, 1.5},
		"negative mass":           {excursion + outlier, -.1},
		"excursion in the future": {excursion + startedAt, 1000},
		"order of excursions":     {excursion + age, 0},
		"negative memory":         {excursion + sampleAt, -1},
		"negative memory of ar":   {excursion + b.views[1].offset, -1},
	} {
		u := slices.Clone(s)
		u[c.index] = c.v
		if _, err := b.DecodeState(u.Append(nil)); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}

func FuzzDecodeBankState(f *testing.F) {
	m, draw := familyStream(f, "normal", rand.New(rand.NewPCG(1, 9)))
	b := NewBank(m, DefaultBankFor("normal"), .999, &Detect{})
	s := b.NewState()
	for range 10 {
		b.Update(s, draw())
	}
	f.Add(s.Append(nil))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		s, err := b.DecodeState(bytes)
		if err != nil {
			return
		}
		if again, err := b.DecodeState(s.Append(nil)); err != nil || !sameBits(s, again) {
			t.Errorf("%x: %v became %v, %v", bytes, s, again, err)
		}
	})
}

// NewBank accepts valid configurations and names the invalid setting of others. Filter rejects a configuration
// that needs a bank, instead of ignoring the setting.
func TestConfigBank(t *testing.T) {
	for _, c := range []Config{
		{Family: "normal", Bank: DefaultBankFor("normal"), Forgetting: .99},
		{Family: "normal", Member: &Member{Levels: []Beta{{.9, .1}}, Top: 1}, Detect: &Detect{MinLength: 8}},
	} {
		b, err := c.NewBank()
		if want := max(len(c.Bank), 1); err != nil || b.Members() != want || b.Detects() != (c.Detect != nil) {
			t.Errorf("%+v: %+v, %v", c, b, err)
		}
	}
	for want, c := range map[string]Config{
		"top: must be in [0, 1], not 2":                                                                   {Family: "normal", Member: &Member{Top: 2}},
		"bank.1.top: must be in [0, 1], not 2":                                                            {Family: "normal", Bank: []Member{{Top: 1}, {Top: 2}}},
		"bank.0.levels.0.alpha: must be greater than 0, not 0":                                            {Family: "normal", Bank: []Member{{Levels: []Beta{{0, 1}}}}},
		"bank.1.ar: must be from 0 to 8, not 9":                                                           {Family: "normal", Bank: []Member{{Top: 1}, {Top: 1, AR: 9}}},
		"bank.1.ar: requires the family normal":                                                           {Family: "poisson", Bank: []Member{{Top: 1}, {Top: 1, AR: 1}}},
		"bank.0.ar: the first member must have the family's own model: put a member without ar before it": {Family: "normal", Bank: []Member{{Top: 1, AR: 1}}},
		"bank_forgetting: must be in (0, 1], not 2":                                                       {Family: "normal", Forgetting: 2},
		"detect.commit: must be in (0, 1), not 1":                                                         {Family: "normal", Detect: &Detect{Commit: 1}},
		"detect.min_length: must be at least 1, not -1":                                                   {Family: "normal", Detect: &Detect{MinLength: -1}},
	} {
		if _, err := c.NewBank(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	for want, c := range map[string]Config{
		"bank: a single filter has no members: use NewBank":     {Family: "normal", Bank: DefaultBank()},
		"detect: a single filter has no detection: use NewBank": {Family: "normal", Detect: &Detect{}},
		"warm_up: a single filter has no warm-up: use NewBank":  {Family: "normal", WarmUp: 50},
	} {
		if _, err := c.Filter(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// must returns v and panics on an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Without the ELBO a bank learns the same, bit by bit, and reports a lower bound of the ELBO.
func TestSkipELBO(t *testing.T) {
	for _, family := range someFamilies {
		for _, members := range banksOf(family) {
			rng := rand.New(rand.NewPCG(7, 8))
			m, draw := familyStream(t, family, rng)
			full, bounded := NewBank(m, members, DefaultForgetting, &Detect{}), NewBank(m, members, DefaultForgetting, &Detect{})
			bounded.SkipELBO()
			s, boundedState := full.NewState(), bounded.NewState()
			lower := 0
			for range 600 {
				xs := hiccups(rng, m, draw)
				if full.Filter(0).Check(xs) != nil {
					continue
				}
				exact, out := full.Update(s, xs...), bounded.Update(boundedState, xs...)
				for i, step := range out.Members {
					if want := exact.Members[i].ELBO; step.ELBO > want+1e-9*(1+math.Abs(want)) {
						t.Fatalf("%s: %g, and the ELBO is %g", family, step.ELBO, want)
					} else if step.ELBO < want {
						lower++
					}
				}
			}
			if !slices.EqualFunc(s, boundedState, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
				t.Errorf("%s: another state", family)
			}
			if lower == 0 {
				t.Errorf("%s: no bound is lower", family)
			}
		}
	}
}

// Outcome.Estimate is Bank.Estimate at the regressors of the step, and NaN without them. An update allocates nothing.
func TestOutcomeEstimate(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		xs   [][]float64
		want bool // the last step has an estimate
	}{
		{Config{Family: "normal", Detect: new(DefaultDetect())}, [][]float64{{1}, {2}, {30}}, true},
		{Config{Family: "mvnormal", Dim: 2}, [][]float64{{1, 2}, {2, 3}}, true},
		{Config{Family: "regression", Dim: 3}, [][]float64{{1, 2, 3}, {2, 1, 4}}, true},
		{Config{Family: "regression", Dim: 3}, [][]float64{{1, 2, 3}, {2, math.NaN(), 4}}, false},
		{Config{Family: "ar"}, [][]float64{{1}, {2}, {3}, {4}}, true},
	} {
		b := expect.Get(c.cfg.NewBank())(t)
		s := b.NewState()
		var out Outcome
		var row []float64
		for _, x := range c.xs {
			row = slices.Clone(b.Regressors(s, [][]float64{x}))
			out = b.Update(s, x)
		}
		n := b.Model().Outputs()
		mean, sd := make([]float64, n), make([]float64, n)
		b.Estimate(mean, sd, s, row)
		gotMean, gotSD := out.Estimate()
		if c.want != !math.IsNaN(gotMean[0]) || c.want && (!slices.Equal(gotMean, mean) || !slices.Equal(gotSD, sd)) {
			t.Errorf("%s: %v ± %v, want %v ± %v", c.cfg.Family, gotMean, gotSD, mean, sd)
		}
		if n := testing.AllocsPerRun(10, func() { b.Update(s, c.xs[0]).Estimate() }); n > 0 {
			t.Errorf("%s: %g allocations", c.cfg.Family, n)
		}
	}
}
