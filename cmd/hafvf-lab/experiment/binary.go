package experiment

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"hafvf/cmd/hafvf/chart"
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/median"
)

var binary = Experiment{
	Name:  "binary",
	Short: "Binary learning: w and b under incremental, fixed-decay and three-layer learning",
	Long: `The paper's example "Binary distribution learning": 200 draws of 0 or 1, whose
probability of 1 switches between 0.8 and 0.2 every 40 draws. Three filters follow it,
with θ₀ = {1, 1}, φ₀ = {0.9, 0.1} and β₀ = {0.75, 0.25}: incremental (w is learned
and never forgotten), fixed decay (b fixed to 0.75), and three layers (b learned
under γ = 0.999).

The figure shows per filter A the estimate against the truth, B the effective
memory next to the expected one, 1/(1−E[w]), C the increments u₁, u₂, u₃ of w, and
D those of b.`,
	simulate: func(seed uint64) outcome { return simulateBinary(seed) },
}

const (
	binaryTrials = 200
	binaryBlock  = 40
)

// binaryChanges holds the indices of the first trials after a change of the probability.
var binaryChanges = []int{40, 80, 120, 160}

// binaryConfigs lists the three filters, in the paper's order.
var binaryConfigs = []struct {
	name, title string
	levels      []hafvf.Beta
	top         float64
}{
	{"incremental", "Incremental: w never forgotten", []hafvf.Beta{{Alpha: 0.9, Beta: 0.1}}, 1},
	{"fixed_decay", "Fixed decay: b = 0.75", []hafvf.Beta{{Alpha: 0.9, Beta: 0.1}}, 0.75},
	{"three_layers", "Three layers: b learned, γ = 0.999", []hafvf.Beta{{Alpha: 0.9, Beta: 0.1}, {Alpha: 0.75, Beta: 0.25}}, 0.999},
}

type binaryOutcome struct {
	seed uint64
	p, x []float64
	runs []binaryRun // in the order of binaryConfigs
}

// A binaryRun holds the results of one filter over the trials.
type binaryRun struct {
	estimate, low, high []float64 // estimate of p after the trial, with its 95 % interval
	memory              []float64
	weights             [][]float64 // E[w], E[b]
	u                   [][]float64 // increments in the order of binaryTerms, of w and then of b
}

// binaryTerms names the increments of one level, in the order of binaryRun.u.
var binaryTerms = []string{"u1_alpha", "u2_alpha", "u3_alpha", "u1_beta", "u2_beta", "u3_beta"}

func simulateBinary(seed uint64) *binaryOutcome {
	o := &binaryOutcome{seed: seed}
	random := newRandom(seed)
	for t := range binaryTrials {
		p := 0.8
		if t/binaryBlock%2 == 1 {
			p = 0.2
		}
		x := 0.0
		if random.Float64() < p {
			x = 1
		}
		o.p, o.x = append(o.p, p), append(o.x, x)
	}
	for i := range binaryConfigs {
		o.runs = append(o.runs, runBinary(i, o.x))
	}
	return o
}

func runBinary(config int, xs []float64) binaryRun {
	c := binaryConfigs[config]
	f := newFilter(hafvf.Config{Family: "bernoulli", Prior: expfam.Params{"alpha": 1.0, "beta": 1.0}, Member: &hafvf.Member{Levels: c.levels, Top: c.top}})
	s := f.NewState()
	r := binaryRun{weights: make([][]float64, f.Levels()), u: make([][]float64, f.Levels()*len(binaryTerms))}
	for _, x := range xs {
		step := f.Update(s, []float64{x})
		var posterior [2]float64
		f.Model().Posterior(posterior[:], f.Sample(s))
		p := distuv.Beta{Alpha: posterior[0], Beta: posterior[1]}
		r.estimate = append(r.estimate, p.Mean())
		r.low, r.high = append(r.low, p.Quantile(0.025)), append(r.high, p.Quantile(0.975))
		r.memory = append(r.memory, step.Memory)
		for i, inc := range f.Increments() {
			r.weights[i] = append(r.weights[i], f.Level(s, i).Mean())
			for side := range 2 {
				for term, u := range [][2]float64{inc.U1, inc.U2, inc.U3} {
					index := i*len(binaryTerms) + 3*side + term
					r.u[index] = append(r.u[index], u[side])
				}
			}
		}
	}
	return r
}

func (o *binaryOutcome) columns() []column {
	columns := []column{{"trial", steps(binaryTrials)}, {"p_true", o.p}, {"x", o.x}}
	for i, r := range o.runs {
		name := binaryConfigs[i].name + "_"
		columns = append(columns,
			column{name + "p_mean", r.estimate}, column{name + "p_low95", r.low}, column{name + "p_high95", r.high},
			column{name + "memory", r.memory},
			column{name + "E_w", r.weights[0]}, column{name + "expected_memory", expectedMemory(r.weights[0])})
		for k, w := range r.weights {
			level := []string{"w", "b"}[k]
			if k > 0 {
				columns = append(columns, column{name + "E_" + level, w})
			}
			for j, term := range binaryTerms {
				columns = append(columns, column{name + level + "_" + term, r.u[k*len(binaryTerms)+j]})
			}
		}
	}
	return columns
}

func (o *binaryOutcome) figure() *chart.Figure {
	t := steps(binaryTrials)
	x := chart.Axis{Label: "trial", Min: 1, Max: binaryTrials + 4}
	var changes []float64
	for _, c := range binaryChanges {
		changes = append(changes, t[c])
	}
	rules := chart.Rules{X: changes, Color: chart.Purple, Dashed: true}

	longest := slices.Max(expectedMemory(o.runs[0].weights[0]))
	top := chart.Row{Height: 600}
	for i, r := range o.runs {
		named := rules
		named.Name = "change of p"
		panels := []chart.Panel{
			{Title: "A", Label: "probability of 1", Share: 1.5, Min: -0.04, Max: 1.04, Layers: []chart.Layer{
				chart.Line{Name: "true p", X: t, Y: o.p, Color: chart.Vermilion, Width: 1, Dashed: true},
				chart.Line{Name: "posterior mean", X: t, Y: r.estimate, Color: chart.Blue, Width: 1},
				chart.Band{Name: "95 % interval", X: t, Low: r.low, High: r.high, Color: chart.Blue},
				chart.Dots{Name: "draws", Points: chart.Points(t, o.x), Color: chart.Black},
			}},
			{Title: "B", Label: "memory (trials)", Share: 1, Min: 0.8, Max: 1.3 * longest, Log: true, Layers: []chart.Layer{
				chart.Line{Name: "effective memory", X: t, Y: r.memory, Color: chart.Blue, Width: 1},
				chart.Line{Name: "1/(1−E[w])", X: t, Y: expectedMemory(r.weights[0]), Color: chart.Orange, Width: 1, Dashed: true},
				named,
			}},
		}
		panels = append(panels, incrementPanels("C", "φ", t, r.u[:len(binaryTerms)], rules)...)
		top.Stacks = append(top.Stacks, chart.Stack{Title: binaryConfigs[i].title, X: x, Panels: panels})
	}

	three := o.runs[2]
	weights := chart.Panel{Label: "E[w]", Share: 1, Layers: []chart.Layer{rules}}
	for i, line := range []chart.Line{
		{Name: "incremental", Color: chart.Vermilion},
		{Name: "fixed decay", Color: chart.Green},
		{Name: "three layers", Color: chart.Blue},
	} {
		line.X, line.Y, line.Width = t, o.runs[i].weights[0], 1
		weights.Layers = append(weights.Layers, line)
	}
	weights.Min, weights.Max = chart.Pad(chart.Extent(slices.Concat(o.runs[0].weights[0], o.runs[1].weights[0], three.weights[0]), 6))
	stability := chart.Panel{Label: "E[b]", Share: 1, Layers: []chart.Layer{
		chart.Line{Name: "three layers", X: t, Y: three.weights[1], Color: chart.Blue, Width: 1}, rules,
	}}
	stability.Min, stability.Max = chart.Pad(chart.Extent(three.weights[1], 6))
	bottom := chart.Row{Height: 260, Stacks: []chart.Stack{
		{Title: "Weight of the past", X: x, Panels: []chart.Panel{weights}},
		{Title: "Three layers: stability of w", X: x, Panels: []chart.Panel{stability}},
		{Title: "Three layers: increments of b", X: x, Panels: incrementPanels("D", "β", t, three.u[len(binaryTerms):], rules)},
	}}

	return &chart.Figure{
		Title: "Binary learning with one and two levels of forgetting",
		Width: 1080,
		Rows:  []chart.Row{top, bottom},
		Notes: []string{
			fmt.Sprintf("Seed %d. 200 draws, p switches between 0.8 and 0.2 every 40 (dashed vertical lines). θ₀ = {1, 1}, φ₀ = {0.9, 0.1}, β₀ = {0.75, 0.25}. "+
				"Effective memory is θᵑ − θ₀ᵑ, the number of draws that the posterior of p is worth. C and D: the increments u₁, u₂, u₃ that the update adds to the forgotten φ (Proposition 1), and the same of β; arrows: beyond the axis.", o.seed),
		},
	}
}

// incrementPanels returns two panels of increments of one level: of alpha and of beta.
func incrementPanels(title, symbol string, t []float64, u [][]float64, rules chart.Rules) []chart.Panel {
	var panels []chart.Panel
	for side, name := range []string{"α", "β"} {
		terms := u[3*side : 3*side+3]
		lo, hi := chart.Pad(chart.Extent(slices.Concat(terms...), 6))
		p := chart.Panel{Title: title, Label: "increment of " + symbol + name, Share: 1, Min: lo, Max: hi, Layers: []chart.Layer{
			chart.Line{Name: "u₁", X: t, Y: terms[0], Color: chart.Blue, Width: 0.9},
			chart.Line{Name: "u₂", X: t, Y: terms[1], Color: chart.Green, Width: 0.9},
			chart.Line{Name: "u₃", X: t, Y: terms[2], Color: chart.Vermilion, Width: 0.9},
			rules,
		}}
		for _, term := range terms {
			p.Layers = append(p.Layers, chart.Arrows{Points: chart.Points(t, term), Color: chart.Black})
		}
		panels = append(panels, p)
	}
	return panels
}

// binaryReaction is the number of trials in which a filter should react to a change.
const binaryReaction = 15

func (o *binaryOutcome) findings() []finding {
	incremental, decay, three := o.runs[0], o.runs[1], o.runs[2]
	n := binaryTrials
	var findings []finding
	add := func(claim, measure string, value float64, holds bool) {
		findings = append(findings, finding{claim, measure, value, holds})
	}
	// distance returns the mean distance of the estimate from p in the trials after the changes.
	distance := func(r binaryRun) float64 {
		var d []float64
		for _, c := range binaryChanges {
			for t := c; t < c+binaryReaction; t++ {
				d = append(d, math.Abs(r.estimate[t]-o.p[t]))
			}
		}
		return mean(d)
	}
	// settled returns the mean memory in the last 10 trials of the blocks.
	settled := func(r binaryRun) float64 {
		var m []float64
		for c := binaryBlock; c <= n; c += binaryBlock {
			m = append(m, r.memory[c-10:c]...)
		}
		return mean(m)
	}
	drop := func(r binaryRun) float64 {
		var k []float64
		for _, c := range binaryChanges {
			k = append(k, 100*remainingShare(r.memory, c, binaryReaction))
		}
		return mean(k)
	}

	v := share(n-1, func(i int) bool { return incremental.memory[i+1] > incremental.memory[i] })
	add("Incremental: “the memory grew at each trial”.",
		"% of the trials at which the effective memory grew; 100 supports it", v, v == 100)
	v = incremental.memory[n-1] / incremental.memory[n/2-1]
	add("Incremental: the memory tends “to grow indefinitely”.",
		"effective memory after trial 200 over that after trial 100; above 1.5 supports it", v, v > 1.5)
	v = share(n, func(i int) bool { return incremental.u[2][i] > 0 && incremental.u[5][i] > 0 })
	add("Incremental: “each observation … results in a positive increment for both φα and φβ through u₃” (confirmation bias).",
		"% of the trials at which u₃ is above zero for both (at the first there is nothing to forget); 95 or more supports it", v, v >= 95)
	impact := func(c int) float64 { return -slices.Min(incremental.u[0][c : c+binaryReaction]) }
	v = impact(binaryChanges[3]) / impact(binaryChanges[0])
	add("Incremental: “the impact of the contingency changes decreases as learning goes on”.",
		"deepest u₁ of φα in the 15 trials after the last change over that after the first; below 1 supports it", v, v < 1)

	v = slices.Max(decay.memory[n/2:]) / slices.Max(decay.memory[:n/2])
	add("Fixed decay: the memory is bounded.",
		"largest effective memory in trials 101 to 200 over that in trials 1 to 100; below 1.25 supports it", v, v < 1.25)
	v = median.Of(decay.memory[binaryBlock:])
	add("Fixed decay: the bound is “approximately 5 trials”.",
		"median effective memory over trials 41 to 200; 4 to 6.5 supports it", v, v >= 4 && v <= 6.5)
	v = slices.Max(decay.memory)
	add("The same, taken as the bound itself.",
		"largest effective memory; 4 to 6.5 supports it", v, v >= 4 && v <= 6.5)
	v = median.Of(decay.weights[0][binaryBlock:])
	add("Fixed decay: “E[w] ≈ 0.8”.",
		"median E[w] over trials 41 to 200; 0.77 to 0.83 supports it", v, v >= 0.77 && v <= 0.83)
	react := func(start, end int) float64 {
		var u []float64
		for _, c := range binaryChanges {
			u = append(u, decay.u[0][c+start:c+end]...)
		}
		return mean(u)
	}
	v = react(0, binaryReaction) - react(-binaryReaction, 0)
	add("Fixed decay: “the contingency changes are efficiently detected”, by a drop of δL through u₁.",
		"mean u₁ of φα in the 15 trials after the changes, less that in the 15 before; below 0 supports it", v, v < 0)
	v = drop(decay)
	add("Fixed decay: the change “triggers a resetting of the parameters in the following trials”.",
		"% of the memory that is left at its lowest in the 15 trials after a change, mean over the changes; below 50 supports it", v, v < 50)

	v = settled(three) / settled(decay)
	add("Three layers: “a higher memory than in the second example”.",
		"mean effective memory in the last 10 trials of the blocks, over that of the fixed decay; above 1 supports it", v, v > 1)
	v = drop(three)
	add("Three layers: the memory drops after a change.",
		"% of the memory that is left at its lowest in the 15 trials after a change, mean over the changes; below 50 supports it", v, v < 50)
	v = distance(three) / distance(incremental)
	add("Three layers: “more flexible than the first example”.",
		"mean |estimate − p| in the 15 trials after the changes, over that of the incremental filter; below 1 supports it", v, v < 1)
	return findings
}
