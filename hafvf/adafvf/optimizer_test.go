package adafvf_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hafvf/hafvf"
	"hafvf/hafvf/adafvf"
	"hafvf/internal/testing/expect"
)

// optimizers makes every kind of optimizer.
var optimizers = map[string]func(groups ...adafvf.Group) (stepper, error){
	"adam": func(g ...adafvf.Group) (stepper, error) { return adafvf.NewAdam(adafvf.AdamConfig{Clip: 3}, g...) },
	"mean": func(g ...adafvf.Group) (stepper, error) { return adafvf.New(adafvf.Config{}, g...) },
	"sum":  func(g ...adafvf.Group) (stepper, error) { return adafvf.New(adafvf.Config{Pooling: 1}, g...) },
	"few":  func(g ...adafvf.Group) (stepper, error) { return adafvf.New(adafvf.Config{Coordinates: 3}, g...) },
	"fixed": func(g ...adafvf.Group) (stepper, error) {
		return adafvf.New(adafvf.Config{Fixed: &adafvf.Decays{W1: .9, W2: .99}}, g...)
	},
	"shrink": func(g ...adafvf.Group) (stepper, error) { return adafvf.New(adafvf.Config{WeightDecay: .1}, g...) },
}

// twoGroups returns groups of 11 parameters and of 1.
func twoGroups() []adafvf.Group {
	return []adafvf.Group{
		{Name: "w", Params: make([]float64, 11), Grads: make([]float64, 11)},
		{Name: "b", Params: make([]float64, 1), Grads: make([]float64, 1)},
	}
}

// fill draws gradients, and occasionally corrupt ones.
func fill(rng *rand.Rand, groups []adafvf.Group) {
	scale := math.Exp(rng.NormFloat64())
	if rng.IntN(20) == 0 {
		scale *= 1e4
	}
	for _, g := range groups {
		for i := range g.Grads {
			g.Grads[i] = scale * (g.Params[i] - 1 + rng.NormFloat64())
		}
	}
}

func params(groups []adafvf.Group) (values []float64) {
	for _, g := range groups {
		values = append(values, g.Params...)
	}
	return values
}

// With fixed decays, the natural parameters of the posterior are weighted sums: κ − κ₀ = Σρⁱ, κm = Σρⁱg,
// 2(α−α₀) = Σωⁱ. Each step adds ½g² to β + ½κm².
func TestFixedDecaysFollowTheClosedForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := adafvf.Decays{W1: rapid.Float64Range(0, 1).Draw(t, "w1"), W2: rapid.Float64Range(0, 1).Draw(t, "w2")}
		prior := adafvf.Prior{Kappa: math.Exp(rapid.Float64Range(-23, 1).Draw(t, "log kappa")), Alpha: 2, Beta: 0.01}
		n := rapid.IntRange(1, 60).Draw(t, "steps")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g := adafvf.Group{Params: []float64{0}, Grads: []float64{0}}
		o := must(adafvf.New(adafvf.Config{Rate: 1, Fixed: &w, Prior: prior}, g))
		rho, omega := w.W1*w.W2, w.W2
		var count, half, weighted float64 // Σρⁱ, Σωⁱ, Σρⁱg
		kappa, beta := prior.Kappa, prior.Beta
		for range n {
			x := 1 + rng.NormFloat64()
			g.Grads[0], g.Params[0] = x, 0
			o.Step()
			squares := prior.Beta + omega*(beta-prior.Beta) + 0.5*x*x
			squares += 0.5 * rho * weighted * weighted / kappa
			count, half, weighted = rho*count+1, omega*half+1, rho*weighted+x
			kappa = prior.Kappa + count
			m := weighted / kappa
			beta = squares - 0.5*kappa*m*m
			alpha := prior.Alpha + half/2
			want := -m / math.Sqrt(m*m+beta/(alpha-1)*(1+1/kappa))
			s := o.Stats(0)
			if math.Abs(g.Params[0]-want) > 1e-9 || math.Abs(s.MeanMemory-count) > 1e-12*count || math.Abs(s.VarianceMemory-half) > 1e-12*half {
				t.Fatalf("moved by %.12g, memories %g, %g; closed form %.12g, %g, %g", g.Params[0], s.MeanMemory, s.VarianceMemory, want, count, half)
			}
		}
	})
}

// No parameter moves by more than the rate, for any gradients.
func TestNoStepIsLongerThanTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := math.Exp(rapid.Float64Range(-10, 3).Draw(t, "log rate"))
		groups := twoGroups()
		c := adafvf.Config{Rate: rate, Pooling: rapid.Float64Range(0, 1).Draw(t, "pooling"), Schedule: func(step int) float64 { return 1 / float64(step) }}
		o := must(adafvf.New(c, groups...))
		value := rapid.Custom(func(t *rapid.T) float64 {
			return math.Copysign(math.Exp(rapid.Float64Range(-230, 230).Draw(t, "log")), rapid.Float64Range(-1, 1).Draw(t, "sign"))
		})
		for step := 1; step <= 20; step++ {
			for _, g := range groups {
				for i := range g.Grads {
					g.Grads[i] = value.Draw(t, "gradient")
				}
			}
			before := params(groups)
			o.Step()
			for i, p := range params(groups) {
				moved := math.Abs(p - before[i])
				if !(moved <= rate/float64(step)+1e-15*math.Abs(p)) {
					t.Fatalf("step %d: moved by %g at a rate of %g", step, moved, rate/float64(step))
				}
			}
			for i := range groups {
				s := o.Stats(i)
				if !(s.W1 >= 0 && s.W1 <= 1 && s.W2 >= 0 && s.W2 <= 1 && s.B >= 0 && s.B <= 1 && s.MeanMemory >= 1-1e-9) {
					t.Fatalf("step %d: %+v", step, s)
				}
			}
		}
	})
}

// Training that is saved and resumed is the same to the last bit.
func TestResumedTrainingIsTheSame(t *testing.T) {
	for name, make := range optimizers {
		groups := twoGroups()
		rng := rand.New(rand.NewPCG(3, 1))
		o := must(make(groups...))
		var saved []byte
		var savedParams []float64
		for i := range 150 {
			fill(rng, groups)
			if i == 50 {
				groups[1].Grads[0] = math.NaN()
			}
			o.Step()
			if i == 79 {
				saved, savedParams = must(o.MarshalBinary()), params(groups)
			}
		}
		again := twoGroups()
		rng = rand.New(rand.NewPCG(3, 1))
		for range 80 {
			// The draws of the first part, on parameters that do not matter.
			fill(rng, twoGroups())
		}
		copy(again[0].Params, savedParams)
		copy(again[1].Params, savedParams[11:])
		o2 := must(make(again...))
		if err := o2.UnmarshalBinary(saved); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 70 {
			fill(rng, again)
			o2.Step()
		}
		expect.Same(t, params(groups), params(again), name)
		if !bytes.Equal(must(o.MarshalBinary()), must(o2.MarshalBinary())) || o2.Steps() != 150 || o2.Skipped() != 1 {
			t.Errorf("%s: states differ; %d steps, %d skipped", name, o2.Steps(), o2.Skipped())
		}
	}
}

// For a state that does not fit, the error gives the reason, and the optimizer is unchanged.
func TestUnmarshalRefuses(t *testing.T) {
	groups := twoGroups()
	o := must(adafvf.New(adafvf.Config{}, groups...))
	rng := rand.New(rand.NewPCG(4, 1))
	fill(rng, groups)
	o.Step()
	state := must(o.MarshalBinary())
	change := func(index int, value byte) []byte {
		b := bytes.Clone(state)
		b[index] = value
		return b
	}
	other := func(c adafvf.Config, change func([]adafvf.Group) []adafvf.Group) stepper {
		return must(adafvf.New(c, change(twoGroups())...))
	}
	same := func(g []adafvf.Group) []adafvf.Group { return g }
	for _, c := range []struct {
		o     stepper
		state []byte
		want  string
	}{
		{o, nil, "too short"},
		{o, state[:len(state)-1], "too short"},
		{o, append(bytes.Clone(state), 0), "1 bytes too many"},
		{o, change(0, 'A'), "another optimizer"},
		{o, change(1, 9), "version is 9"},
		{o, change(len(state)-1, 0xff), "corrupt"},
		{must(adafvf.NewAdam(adafvf.AdamConfig{}, twoGroups()...)), state, "another optimizer"},
		{other(adafvf.Config{Prior: adafvf.Prior{Beta: 1e-8}}, same), state, "Prior.Beta = 1e-06, this optimizer has 1e-08"},
		{other(adafvf.Config{Fixed: &adafvf.Decays{}}, same), state, "fixed decays"},
		{other(adafvf.Config{}, func(g []adafvf.Group) []adafvf.Group { return g[:1] }), state, "2 groups, this optimizer has 1"},
		{other(adafvf.Config{}, func(g []adafvf.Group) []adafvf.Group { g[1].Name = "c"; return g }), state, `group 1 is "b", this optimizer's is "c"`},
		{other(adafvf.Config{}, func(g []adafvf.Group) []adafvf.Group {
			g[0].Params, g[0].Grads = g[0].Params[1:], g[0].Grads[1:]
			return g
		}), state, `"w" has 11 parameters, this optimizer's has 10`},
	} {
		before := must(c.o.MarshalBinary())
		err := c.o.UnmarshalBinary(c.state)
		expect.Error(t, err, c.want)
		if !bytes.Equal(before, must(c.o.MarshalBinary())) {
			t.Errorf("after %v the optimizer has changed", err)
		}
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	groups := twoGroups()
	for _, make := range optimizers {
		f.Add(must(must(make(groups...)).MarshalBinary()))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		groups := twoGroups()
		for name, make := range optimizers {
			o := must(make(groups...))
			if o.UnmarshalBinary(state) != nil {
				continue
			}
			if !bytes.Equal(state, must(o.MarshalBinary())) {
				t.Errorf("%s: read and written again, the state is another", name)
			}
			fill(rand.New(rand.NewPCG(5, 1)), groups)
			o.Step()
			for _, p := range params(groups) {
				if math.IsNaN(p) {
					t.Fatalf("%s: a parameter is NaN", name)
				}
			}
		}
	})
}

// A group whose gradient is not finite does not change, and the other groups do.
func TestNonFiniteGradientsAreSkipped(t *testing.T) {
	for name, make := range optimizers {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e200} {
			groups := twoGroups()
			rng := rand.New(rand.NewPCG(6, 1))
			o := must(make(groups...))
			for range 3 {
				fill(rng, groups)
				o.Step()
			}
			before := params(groups)
			fill(rng, groups)
			groups[0].Grads[7] = bad
			o.Step()
			after := params(groups)
			expect.Same(t, before[:11], after[:11], name, ", ", bad)
			if before[11] == after[11] {
				t.Errorf("%s, %g: the other group has not moved", name, bad)
			}
			if o.Skipped() != 1 || o.Steps() != 4 {
				t.Errorf("%s, %g: %d skipped of %d steps", name, bad, o.Skipped(), o.Steps())
			}
			fill(rng, groups)
			o.Step()
			if after[3] == groups[0].Params[3] || math.IsNaN(groups[0].Params[7]) {
				t.Errorf("%s, %g: afterwards the group does not go on", name, bad)
			}
		}
	}
}

// Adam's first steps, computed by hand after Kingma and Ba's algorithm 1.
func TestAdamByHand(t *testing.T) {
	p, g := []float64{1}, []float64{0}
	o := must(adafvf.NewAdam(adafvf.AdamConfig{Rate: .1, WeightDecay: .5}, adafvf.Group{Params: p, Grads: g}))
	m, v, want := 0.0, 0.0, 1.0
	for step, x := range []float64{2, -1, 0.5, 3} {
		g[0] = x
		o.Step()
		m, v = .9*m+.1*x, .999*v+.001*x*x
		n := float64(step + 1)
		want *= 1 - .1*.5
		want -= .1 * m / (1 - math.Pow(.9, n)) / (math.Sqrt(v/(1-math.Pow(.999, n))) + 1e-8)
		if math.Abs(p[0]-want) > 1e-14 {
			t.Fatalf("step %d: %.17g, want %.17g", step+1, p[0], want)
		}
	}
	// Clipped to a norm of 1, (3, 4) is (0.6, 0.8): the first step has the same signs and sizes, but its
	// moments differ from those without clipping.
	p, g = []float64{0, 0}, []float64{3, 4}
	o = must(adafvf.NewAdam(adafvf.AdamConfig{Clip: 1}, adafvf.Group{Params: p, Grads: g}))
	q, h := []float64{0, 0}, []float64{0.6, 0.8}
	o2 := must(adafvf.NewAdam(adafvf.AdamConfig{}, adafvf.Group{Params: q, Grads: h}))
	for range 2 {
		o.Step()
		o2.Step()
		copy(g, []float64{0.1, -0.3})
		copy(h, []float64{0.1, -0.3})
	}
	if diff := cmp.Diff(p, q, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-15 })); diff != "" {
		t.Errorf("clipped:\n%s", diff)
	}
}

// Decoupled decay shrinks the parameters before the step moves them.
func TestWeightDecayIsDecoupled(t *testing.T) {
	a, b := twoGroups(), twoGroups()
	for i := range a[0].Params {
		a[0].Params[i], b[0].Params[i] = float64(i), float64(i)
	}
	plain := must(adafvf.New(adafvf.Config{Rate: .01}, a...))
	decayed := must(adafvf.New(adafvf.Config{Rate: .01, WeightDecay: .3}, b...))
	rng := rand.New(rand.NewPCG(7, 1))
	for i := range a[0].Grads {
		a[0].Grads[i] = rng.NormFloat64()
	}
	copy(b[0].Grads, a[0].Grads)
	plain.Step()
	decayed.Step()
	for i := range a[0].Params {
		if want := a[0].Params[i] - float64(i)*.01*.3; math.Abs(b[0].Params[i]-want) > 1e-14 {
			t.Errorf("parameter %d: %g, want %g", i, b[0].Params[i], want)
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for name, make := range optimizers {
		groups := twoGroups()
		rng := rand.New(rand.NewPCG(8, 1))
		o := must(make(groups...))
		if n := testing.AllocsPerRun(200, func() { fill(rng, groups); o.Step() }); n != 0 {
			t.Errorf("%s: %g allocations per step", name, n)
		}
	}
}

func TestConstructionErrors(t *testing.T) {
	ok := adafvf.Group{Name: "w", Params: []float64{1, 2}, Grads: []float64{0, 0}}
	for _, c := range []struct {
		config adafvf.Config
		groups []adafvf.Group
		want   string
	}{
		{adafvf.Config{}, nil, "no groups"},
		{adafvf.Config{}, []adafvf.Group{ok, {Name: "b"}}, `group 1 "b" has no parameters`},
		{adafvf.Config{}, []adafvf.Group{{Name: "w", Params: []float64{1, 2}, Grads: []float64{0}}}, `group 0 "w" has 2 parameters and 1 gradients`},
		{adafvf.Config{Rate: -1}, []adafvf.Group{ok}, "Rate = -1"},
		{adafvf.Config{Rate: math.NaN()}, []adafvf.Group{ok}, "Rate = NaN"},
		{adafvf.Config{WeightDecay: -1}, []adafvf.Group{ok}, "WeightDecay = -1"},
		{adafvf.Config{Top: 1.1}, []adafvf.Group{ok}, "Top = 1.1"},
		{adafvf.Config{Pooling: 2}, []adafvf.Group{ok}, "Pooling = 2"},
		{adafvf.Config{Coordinates: -2}, []adafvf.Group{ok}, "Coordinates = -2"},
		{adafvf.Config{Prior: adafvf.Prior{Alpha: .5}}, []adafvf.Group{ok}, "Prior.Alpha = 0.5"},
		{adafvf.Config{Fixed: &adafvf.Decays{W1: 2}}, []adafvf.Group{ok}, "Fixed = {2, 0}"},
		{adafvf.Config{W1: hafvf.Beta{Alpha: -1, Beta: 1}}, []adafvf.Group{ok}, "W1 = {-1, 1}"},
	} {
		_, err := adafvf.New(c.config, c.groups...)
		expect.Error(t, err, c.want)
	}
	for _, c := range []struct {
		config adafvf.AdamConfig
		want   string
	}{{adafvf.AdamConfig{Beta1: 1}, "Beta1 = 1"}, {adafvf.AdamConfig{Epsilon: -1}, "Epsilon = -1"}, {adafvf.AdamConfig{Clip: -1}, "Clip = -1"}, {adafvf.AdamConfig{Rate: -1}, "Rate = -1"}} {
		if _, err := adafvf.NewAdam(c.config, ok); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
