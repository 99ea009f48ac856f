package hafvf

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/beta"
	"hafvf/internal/special"
)

// likely are families with data of the scale of their priors, and outliers.
var likely = func() (all []struct {
	family string
	prior  Params
	draw   func(rng *rand.Rand) []float64
}) {
	value := func(rng *rand.Rand) float64 {
		x := rng.NormFloat64()
		if rng.IntN(20) == 0 {
			x *= 20
		}
		return x
	}
	add := func(family string, prior Params, draw func(rng *rand.Rand) []float64) {
		all = append(all, struct {
			family string
			prior  Params
			draw   func(rng *rand.Rand) []float64
		}{family, prior, draw})
	}
	add("bernoulli", nil, func(rng *rand.Rand) []float64 { return []float64{float64(rng.IntN(2))} })
	add("categorical", Params{"alpha": []float64{1, .5, 2}}, func(rng *rand.Rand) []float64 { return []float64{float64(rng.IntN(3))} })
	add("poisson", nil, func(rng *rand.Rand) []float64 { return []float64{math.Floor(math.Abs(5 * value(rng)))} })
	add("exponential", nil, func(rng *rand.Rand) []float64 { return []float64{math.Abs(value(rng))} })
	add("normal", nil, func(rng *rand.Rand) []float64 { return []float64{value(rng)} })
	add("mvnormal", Params{"mu": []float64{0, 1}}, func(rng *rand.Rand) []float64 { return []float64{value(rng), 3 * rng.NormFloat64()} })
	add("regression", Params{"mean": []float64{0, 1}}, func(rng *rand.Rand) []float64 { return []float64{rng.NormFloat64(), 1, value(rng)} })
	add("ar", Params{"order": 2, "intercept": true}, func(rng *rand.Rand) []float64 { return []float64{value(rng)} })
	return all
}()

// marginals are the posterior of w and b by the trapezoidal rule in their logits, with many
// nodes.
type marginals struct{ log, w, v, lw, l1w, lb, l1b float64 }

func summed(f *Filter, elapsed float64) (out marginals) {
	type part struct {
		x     logistic
		share float64 // log of the density of logit w
	}
	const h, far = .1, 3000
	gains := make([]float64, 2*far+1)
	at := make([]logistic, len(gains))
	for k := range gains {
		at[k] = logisticAt(h * float64(k-far))
		gains[k] = f.line.Gain(over(at[k].w, elapsed))
	}
	over2 := []part{{logistic{w: f.top}, 0}}
	if len(f.levels) == 2 {
		over2 = nil
		p := f.levels[1].PriorAt(f.top)
		for x := -60.; x <= 60; x += .1 {
			l := logisticAt(x)
			over2 = append(over2, part{l, p.Alpha*l.lw + p.Beta*l.l1w - special.LogBeta(p.Alpha, p.Beta) + math.Log(.1)})
		}
	}
	top := math.Inf(-1)
	for _, g := range gains {
		top = max(top, g)
	}
	total, most := 0.0, math.Inf(-1)
	for _, b := range over2 {
		if b.share < -25 {
			continue
		}
		p := f.levels[0].PriorAt(b.x.w)
		norm := b.share - special.LogBeta(p.Alpha, p.Beta) + math.Log(h)
		for k, g := range gains {
			l := at[k]
			t := norm + p.Alpha*l.lw + p.Beta*l.l1w + g - top
			if t < most-40 {
				continue
			}
			most = max(most, t)
			e := math.Exp(t)
			total += e
			out.w += e * l.w
			out.v += e * over(l.w, elapsed)
			out.lw += e * l.lw
			out.l1w += e * l.l1w
			out.lb += e * b.x.lw
			out.l1b += e * b.x.l1w
		}
	}
	out.log = math.Log(total) + top
	for _, v := range []*float64{&out.w, &out.v, &out.lw, &out.l1w, &out.lb, &out.l1b} {
		*v /= total
	}
	return out
}

// Collapsed inference is that of many times as many nodes, for every family, from flat
// priors to sharp ones.
func TestCollapsed(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for i := range 64 {
		c := likely[i%len(likely)]
		m, err := New(c.family, c.prior, 0)
		if err != nil {
			t.Fatal(err)
		}
		draw := func() []float64 { return c.draw(rng) }
		u := func() Beta { return Beta{logUniform(rng, .1, 300), logUniform(rng, .1, 300)} }
		levels := []Beta{u(), {logUniform(rng, .2, 20), logUniform(rng, .2, 20)}}[:1+rng.IntN(2)]
		top := []float64{1, .99, .9}[rng.IntN(3)]
		f := newMember(m, Member{Levels: levels, Top: top, Inference: Collapsed})
		s := f.NewState()
		elapsed := []float64{1, 1, .3, 4}[rng.IntN(4)]
		for range 1 + rng.IntN(40) {
			f.UpdateAfter(s, elapsed, draw())
		}
		rows := f.rows(s, [][]float64{draw()})
		f.statistics(f.stats, rows)
		f.prepare(s, elapsed, f.stats)
		want := summed(f, elapsed)
		if d := math.Abs(f.gain - want.log); d > 3e-4 {
			t.Errorf("%d: %v %v: log evidence %v, want %v", i, levels, s[m.Len():f.stepLen()], f.gain, want.log)
			continue
		}
		weight, retained := f.exact.learn(s[m.Len():f.stepLen()])
		for name, v := range map[string][2]float64{"E[w]": {weight, want.w}, "E[v]": {retained, want.v}} {
			if math.Abs(v[0]-v[1]) > 1e-4 {
				t.Errorf("%d: %s is %v, want %v", i, name, v[0], v[1])
			}
		}
		logs := [][2]float64{{want.lw, want.l1w}, {want.lb, want.l1b}}
		for j := range levels {
			d := f.Level(s, j)
			lw, _ := special.DigammaDelta(d.Alpha, d.Beta)
			l1w, _ := special.DigammaDelta(d.Beta, d.Alpha)
			for k, v := range []float64{-lw, -l1w} {
				if w := logs[j][k]; math.Abs(v-w) > 3e-3*max(.1, math.Abs(w)) {
					t.Errorf("%d: level %d %+v: expected log %v, want %v", i, j, d, v, w)
				}
			}
		}
	}
}

// A Beta distribution comes back from its expected logs, from a start far off.
func TestOfLogs(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	for range 10_000 {
		want := beta.Dist{Alpha: logUniform(rng, 1e-3, 1e5), Beta: logUniform(rng, 1e-3, 1e5)}
		lw, _ := special.DigammaDelta(want.Alpha, want.Beta)
		l1w, _ := special.DigammaDelta(want.Beta, want.Alpha)
		start := beta.Dist{Alpha: want.Alpha * logUniform(rng, .01, 100), Beta: want.Beta * logUniform(rng, .01, 100)}
		got := beta.OfLogs(-lw, -l1w, start)
		if math.Abs(got.Alpha-want.Alpha) > 1e-6*want.Alpha || math.Abs(got.Beta-want.Beta) > 1e-6*want.Beta {
			t.Fatalf("%+v from %+v, want %+v", got, start, want)
		}
	}
}

// Observations have the probabilities that the nodes give them: those of a coin sum to one.
func TestCollapsedPredictive(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 3))
	m, err := New("bernoulli", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := newMember(m, Member{Levels: DefaultMember().Levels, Top: 1, Inference: Collapsed})
	s := f.NewState()
	for i := range 500 {
		sum := 0.0
		for x := range 2 {
			sum += math.Exp(f.Update(slices.Clone(s), []float64{float64(x)}).LogPredictive)
		}
		if math.Abs(sum-1) > 1e-4 {
			t.Fatalf("step %d: the probabilities sum to %v", i, sum)
		}
		x := 0.
		if rng.Float64() < []float64{.1, .7}[i/100%2] {
			x = 1
		}
		f.Update(s, []float64{x})
	}
}

// A grid follows its definition, written out; and one of equal weights is a filter of that
// weight.
func TestGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	m, err := New("normal", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	weights := []float64{0, .7, .95, 1}
	f, same, fixed := newMember(m, Member{Top: .9, Inference: Grid, Weights: weights}), newMember(m, Member{Top: .9, Inference: Grid, Weights: []float64{.9, .9}}), NewFilter(m, nil, .9)
	s, u, v := f.NewState(), same.NewState(), fixed.NewState()
	counts := make([]float64, len(weights))
	line := m.NewLine()
	for i := range 200 {
		x := []float64{rng.NormFloat64() + 4*float64(i/50%2)}
		stats := make([]float64, m.Len())
		m.Observe(stats, x, 1)
		line.Set(f.Sample(s), stats)
		all, sum, mean := float64(len(counts)), 0.0, 0.0
		for _, n := range counts {
			all += .9 * n
		}
		p := make([]float64, len(counts))
		for k, w := range weights {
			p[k] = (1 + .9*counts[k]) / all * math.Exp(line.Gain(w)+m.LogBase(x))
			sum += p[k]
		}
		for k, w := range weights {
			counts[k] = .9*counts[k] + p[k]/sum
			mean += p[k] / sum * w
		}
		step, a, b := f.Update(s, x), same.Update(u, x), fixed.Update(v, x)
		if math.Abs(step.LogPredictive-math.Log(sum)) > 1e-10 || math.Abs(step.Weight-mean) > 1e-10 {
			t.Fatalf("step %d: %+v, want a log predictive of %v and a weight of %v", i, step, math.Log(sum), mean)
		}
		if math.Abs(a.LogPredictive-b.LogPredictive) > 1e-10 || math.Abs(a.Memory-b.Memory) > 1e-10*b.Memory {
			t.Fatalf("step %d: %+v, want %+v", i, a, b)
		}
	}
	for k, n := range f.counts(s) {
		if math.Abs(n-counts[k]) > 1e-10 {
			t.Errorf("weight %g: %g, want %g", weights[k], n, counts[k])
		}
	}
}

// inferred is a bank with every inference.
func inferred(family string) []Member {
	bank := []Member{
		{Levels: DefaultMember().Levels, Top: 1, Inference: Collapsed},
		{Levels: DefaultMember().Levels[:1], Top: .9, Inference: Collapsed},
		{Top: .99, Inference: Grid},
	}
	if family == "normal" {
		bank = append(bank, Member{Top: .99, Inference: Grid, Weights: []float64{.5, 1}, AR: 2})
	}
	return append(bank, Member{Top: .9998})
}

// Banks of every inference stay finite on whatever comes, at any times, with detection, and
// go on from their encoded states.
func TestInferencesHostile(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range length(4000) {
		m, draw := randomModel(t, rng)
		family := ""
		if _, ok := expfam.NewLagged(m, 1); ok {
			family = "normal"
		}
		b := NewBank(m, inferred(family), DefaultForgetting, &Detect{})
		s := b.NewState()
		for step := range 60 {
			var xs [][]float64
			if rng.IntN(10) > 0 {
				xs = append(xs, draw())
			}
			elapsed := []float64{1, 0, .01, 50}[rng.IntN(4)]
			o := b.UpdateAfter(s, elapsed, xs...)
			if !o.Missing && math.IsNaN(o.LogPredictive) {
				t.Fatalf("%d: step %d: %+v", i, step, o)
			}
			again, err := b.DecodeState(s.Append(nil))
			if err != nil || !slices.EqualFunc(again, s, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
				t.Fatalf("%d: step %d: %v, decoded %v, %v", i, step, s, again, err)
			}
		}
	}
}

// A jump is found with any inference, and an update allocates nothing.
func TestInferencesDetect(t *testing.T) {
	m, err := New("normal", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range inferred("normal")[:3] {
		members := DefaultBankOf("normal")
		members[0] = first
		b := NewBank(m, members, DefaultForgetting, &Detect{})
		rng := rand.New(rand.NewPCG(5, 6))
		s := b.NewState()
		var found []int
		for i := range 600 {
			o := b.Update(s, []float64{rng.NormFloat64() + 5*float64(i/300)})
			if o.Detection.Kind == Change {
				found = append(found, int(o.Detection.Start))
			}
		}
		if len(found) != 1 || found[0] < 299 || found[0] > 302 {
			t.Errorf("%s: changes at %v, want one at 301", first.Inference, found)
		}
		x := []float64{1}
		if n := testing.AllocsPerRun(100, func() { b.Update(s, x) }); n > 0 {
			t.Errorf("%s: %g allocations", first.Inference, n)
		}
	}
}

// Levels mean the same under the same inference only; the sample does under any.
func TestCarryInference(t *testing.T) {
	m, err := New("normal", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	of := func(first Member) *Bank {
		members := DefaultBankOf("normal")
		members[0] = first
		return NewBank(m, members, DefaultForgetting, nil)
	}
	collapsed, grid := inferred("normal")[0], inferred("normal")[2]
	for _, c := range []struct {
		from, to Member
		levels   bool
	}{{DefaultMember(), collapsed, false}, {collapsed, DefaultMember(), false}, {collapsed, collapsed, true}, {grid, grid, true},
		{grid, Member{Top: .99, Inference: Grid, Weights: []float64{.5, 1}}, false}, {DefaultMember(), grid, false}} {
		from, to := of(c.from), of(c.to)
		s := from.NewState()
		rng := rand.New(rand.NewPCG(5, 7))
		for range 50 {
			from.Update(s, []float64{rng.NormFloat64()})
		}
		got, carried := to.Carry(from, s, true, true)
		if carried.Levels != c.levels {
			t.Errorf("%+v to %+v: %+v", c.from, c.to, carried)
		}
		if a, b := to.Filter(0).Sample(to.Member(got, 0)), from.Filter(0).Sample(from.Member(s, 0)); c.levels && !slices.Equal(a, b) {
			t.Errorf("%+v to %+v: sample %v, want %v", c.from, c.to, a, b)
		}
	}
}

// A member with the defaults of its inference written out is the same.
func TestInferenceCanonical(t *testing.T) {
	of := func(m Member) string {
		text, _ := json.Marshal(Config{Family: "normal", Bank: []Member{m}}.Canonical())
		return string(text)
	}
	plain := DefaultMember()
	written := plain
	written.Inference = Variational
	if of(plain) != of(written) {
		t.Error("variational is not the default")
	}
	grid := Member{Top: .99, Inference: Grid}
	all := grid
	all.Weights = DefaultWeights()
	if of(grid) != of(all) || of(grid) == of(Member{Top: .99}) {
		t.Error("the grid's default weights are not its own")
	}
	for _, bad := range []Member{
		{Top: .9, Inference: "exact"}, {Top: .9, Inference: Collapsed}, {Levels: []Beta{{1, 1}, {1, 1}, {1, 1}}, Inference: Collapsed},
		{Levels: []Beta{{1, 1}}, Inference: Grid}, {Inference: Grid, Weights: []float64{.5}}, {Inference: Grid, Weights: []float64{.5, 1.5}}, {Weights: []float64{.5, 1}},
	} {
		if _, err := (Config{Family: "normal", Bank: []Member{bad}}).NewBank(); err == nil {
			t.Errorf("%+v is taken", bad)
		} else {
			t.Log(err)
		}
	}
}
