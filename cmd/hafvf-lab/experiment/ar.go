package experiment

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"hafvf/cmd/hafvf/chart"
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/median"
)

var ar = Experiment{
	Name:  "ar",
	Short: "Autoregressive model: two impulses and a change of frequencies",
	Long: `The paper's experiment "Autoregressive model": 400 points, the sum of five random
sinusoids of low frequencies, from the 201st on of high ones, with impulses of 2 at
t = 100 and t = 300. The forward-backward filter follows it as an autoregression of
order 10, with φ₀ = {4.5, 0.5}, β₀ = {1, 1} and γ = 1.

The paper gives neither frequencies nor amplitudes nor the prior of the
regression. Here the frequencies are drawn evenly between 1/100 and 1/25 per point,
then between 1/12 and 1/4, and the phases evenly; amplitudes are 1, and no noise is
added. The prior expects residuals of about 0.3 and weights of about 1: σ² ~
InvGamma(1, 0.1), weights ~ N(0, σ²/0.1). What the impulses do depends on it: the
table repeats some statements under the wider InvGamma(1, 1), N(0, σ²).

The figure shows A the signal with the one-step prediction and, below, enlarged at
the impulses and at the change, B the memory of both passes and of the two together
next to the expected one, 1/(1−E[w]), and C the smoothed weights of the regression.`,
	simulate: func(seed uint64) outcome { return simulateAR(seed) },
}

const (
	arPoints = 400
	arChange = 200 // index of the first point of high frequencies
	arOrder  = 10
	arWaves  = 5
)

// arImpulses holds the indices of t = 100 and t = 300.
var arImpulses = []int{99, 299}

// An arPrior is the prior of the regression: σ² ~ InvGamma(alpha, beta), weights ~
// N(0, σ²/precision).
type arPrior struct{ alpha, beta, precision float64 }

var (
	arUsual = arPrior{1, 0.1, 0.1} // residuals of about 0.3, weights of about 1
	arWide  = arPrior{1, 1, 1}     // the family's default
)

type arOutcome struct {
	seed        uint64
	frequencies [2][]float64 // per point, sorted
	x           []float64
	usual, wide arRun
}

// An arRun holds the results of the filter under one prior. memory and weight hold the forward and then the backward
// pass; memory also holds the smoothed memory.
type arRun struct {
	prediction  []float64 // one step ahead
	smoothed    []float64 // mean given the regressors and all points
	memory      [3][]float64
	weight      [2][]float64
	coefficient [arOrder][]float64 // smoothed posterior means
}

func simulateAR(seed uint64) *arOutcome {
	o := &arOutcome{seed: seed}
	random := newRandom(seed)
	var phases [2][]float64
	for regime, bounds := range [][2]float64{{1. / 100, 1. / 25}, {1. / 12, 1. / 4}} {
		for range arWaves {
			o.frequencies[regime] = append(o.frequencies[regime], bounds[0]+random.Float64()*(bounds[1]-bounds[0]))
			phases[regime] = append(phases[regime], 2*math.Pi*random.Float64())
		}
		slices.Sort(o.frequencies[regime])
	}
	for t := range arPoints {
		regime := 0
		if t >= arChange {
			regime = 1
		}
		x := 0.0
		for i, f := range o.frequencies[regime] {
			x += math.Sin(2*math.Pi*f*float64(t) + phases[regime][i])
		}
		if slices.Contains(arImpulses, t) {
			x += 2
		}
		o.x = append(o.x, x)
	}
	o.usual, o.wide = runAR(arUsual, o.x), runAR(arWide, o.x)
	return o
}

func runAR(prior arPrior, xs []float64) (r arRun) {
	f := newFilter(hafvf.Config{
		Family: "ar",
		Prior:  expfam.Params{"order": arOrder, "precision": prior.precision, "alpha": prior.alpha, "beta": prior.beta},
		Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 4.5, Beta: 0.5}, {Alpha: 1, Beta: 1}}, Top: 1},
	})
	s := f.NewState()
	var m, sd [1]float64
	var session [][][]float64
	for t, x := range xs {
		m[0] = math.NaN()
		if t >= arOrder {
			f.Model().Predict(m[:], sd[:], f.Sample(s), f.PriorWeight(s), f.Row(s, []float64{x}))
		}
		r.prediction = append(r.prediction, m[0])
		f.Update(s, []float64{x})
		session = append(session, [][]float64{{x}})
	}

	smoothed := f.Smooth(session)
	var posterior [arOrder + arOrder*arOrder + 2]float64 // mean, precision, alpha, beta
	for t := range session {
		smoothed.Estimate(m[:], sd[:], t)
		r.smoothed = append(r.smoothed, m[0])
		for i, pass := range []hafvf.PassStep{smoothed.Forward(t), smoothed.Backward(t)} {
			r.memory[i] = append(r.memory[i], pass.Memory)
			r.weight[i] = append(r.weight[i], pass.Weight)
		}
		r.memory[2] = append(r.memory[2], smoothed.Memory(t))
		f.Model().Posterior(posterior[:], smoothed.Sample(t))
		for i := range r.coefficient {
			r.coefficient[i] = append(r.coefficient[i], posterior[i])
		}
	}
	return r
}

func (o *arOutcome) columns() []column {
	r := &o.usual
	columns := []column{{"t", steps(arPoints)}, {"x", o.x}, {"predicted", r.prediction}, {"smoothed", r.smoothed},
		{"memory_forward", r.memory[0]}, {"memory_backward", r.memory[1]}, {"memory_smoothed", r.memory[2]}}
	for i, name := range []string{"forward", "backward"} {
		columns = append(columns, column{"E_w_" + name, r.weight[i]}, column{"expected_memory_" + name, expectedMemory(r.weight[i])})
	}
	for i, c := range r.coefficient {
		columns = append(columns, column{fmt.Sprintf("weight_lag%d", i+1), c})
	}
	return columns
}

// lagColor returns the colour of lag i+1, from dark to light.
func lagColor(i int) color.NRGBA { return shade(float64(i) / (arOrder - 1)) }

func (o *arOutcome) figure() *chart.Figure {
	r, t := &o.usual, steps(arPoints)
	marks := []chart.Layer{
		chart.Rules{X: []float64{t[arImpulses[0]], t[arImpulses[1]]}, Color: chart.Gray, Dashed: true},
		chart.Rules{X: []float64{t[arChange]}, Color: chart.Purple, Dashed: true},
	}
	low, high := slices.Min(o.x)-0.5, slices.Max(o.x)+0.5
	signal := chart.Panel{Title: "A", Label: "signal (a.u.)", Share: 1.4, Min: low, Max: high, Ticks: 8, Layers: []chart.Layer{
		chart.Dots{Name: "signal", Points: chart.Points(t, o.x), Color: chart.Black},
		chart.Line{Name: "predicted one step ahead", X: t, Y: r.prediction, Color: chart.Vermilion, Width: 0.9},
		chart.Line{Name: "smoothed", X: t, Y: r.smoothed, Color: chart.Blue, Width: 0.9},
		chart.Arrows{Points: chart.Points(t, r.prediction), Color: chart.Vermilion},
		chart.Rules{Name: "impulse", X: []float64{t[arImpulses[0]], t[arImpulses[1]]}, Color: chart.Gray, Dashed: true},
		chart.Rules{Name: "change of frequencies", X: []float64{t[arChange]}, Color: chart.Purple, Dashed: true},
	}}
	expected := slices.Concat(expectedMemory(r.weight[0]), expectedMemory(r.weight[1]), r.memory[2])
	memory := chart.Panel{Title: "B", Label: "memory (points)", Share: 1.3, Min: 0.8, Max: 1.3 * slices.Max(expected), Log: true, Layers: append([]chart.Layer{
		chart.Line{Name: "forward", X: t, Y: r.memory[0], Color: chart.Vermilion, Width: 1},
		chart.Line{Name: "backward", X: t, Y: r.memory[1], Color: chart.Green, Width: 1},
		chart.Line{Name: "smoothed", X: t, Y: r.memory[2], Color: chart.Blue, Width: 1},
		chart.Line{Name: "1/(1−E[w]) forward", X: t, Y: expectedMemory(r.weight[0]), Color: chart.Vermilion, Width: 0.8, Dashed: true},
		chart.Line{Name: "1/(1−E[w]) backward", X: t, Y: expectedMemory(r.weight[1]), Color: chart.Green, Width: 0.8, Dashed: true},
	}, marks...)}
	lo, hi := chart.Pad(chart.Extent(slices.Concat(r.coefficient[:]...), 6))
	weights := chart.Panel{Title: "C", Label: "AR weight", Share: 1.3, Min: lo, Max: hi}
	for i, c := range r.coefficient {
		weights.Layers = append(weights.Layers, chart.Line{Name: fmt.Sprintf("lag %d", i+1), X: t, Y: c, Color: lagColor(i), Width: 1})
	}
	weights.Layers = append(weights.Layers, marks...)

	// The legend of the panel above applies to the enlarged parts, too.
	zooms := chart.Row{Height: 190}
	for _, z := range []struct {
		title    string
		min, max float64
	}{
		{"A enlarged: impulse at t = 100", 85, 125},
		{"A enlarged: change at t = 201", 186, 226},
		{"A enlarged: impulse at t = 300", 285, 325},
	} {
		zooms.Stacks = append(zooms.Stacks, chart.Stack{
			Title: z.title,
			X:     chart.Axis{Label: "t", Min: z.min, Max: z.max},
			Panels: []chart.Panel{{Label: signal.Label, Share: 1, Min: low, Max: high, Ticks: 8, Layers: append([]chart.Layer{
				chart.Dots{Points: chart.Points(t, o.x), Color: chart.Black},
				chart.Line{X: t, Y: r.prediction, Color: chart.Vermilion, Width: 0.9},
				chart.Line{X: t, Y: r.smoothed, Color: chart.Blue, Width: 0.9},
				chart.Arrows{Points: chart.Points(t, r.prediction), Color: chart.Vermilion},
			}, marks...)}},
		})
	}
	return &chart.Figure{
		Title: "Autoregression through two impulses and a change of frequencies",
		Width: 960,
		Rows: []chart.Row{
			{Height: 560, Stacks: []chart.Stack{{X: chart.Axis{Label: "t", Min: 1, Max: arPoints + 4}, Panels: []chart.Panel{signal, memory, weights}}}},
			zooms,
		},
		Notes: []string{
			fmt.Sprintf("Seed %d. The sum of five sinusoids of amplitude 1, without noise; frequencies per point %s, from t = 201 on %s; impulses of 2 at t = 100 and 300. "+
				"Order 10, no intercept; σ² ~ InvGamma(%g, %g), weights ~ N(0, σ²/%g); φ₀ = {4.5, 0.5}, β₀ = {1, 1}, γ = 1.",
				o.seed, list(o.frequencies[0]), list(o.frequencies[1]), arUsual.alpha, arUsual.beta, arUsual.precision),
			"Both passes learn the same rows, each a point given the 10 before it, in opposite orders: only then do they share the statistics that the forward-backward formula subtracts. " +
				"The paper regresses backward on the 10 points after. The expected memory is 1/(1−E[w]); the paper's caption has 1/(1+E[w]), a slip; the smoothed posterior has no w of its own. " +
				"The first 10 points lack regressors. Arrows: predicted beyond the axis. C: smoothed posterior means.",
		},
	}
}

func list(v []float64) string {
	var text []string
	for _, f := range v {
		text = append(text, fmt.Sprintf("%.3f", f))
	}
	return strings.Join(text, ", ")
}

func (o *arOutcome) findings() []finding {
	var findings []finding
	add := func(claim, measure string, value float64, holds bool) {
		findings = append(findings, finding{claim, measure, value, holds})
	}
	for _, p := range []struct {
		run   *arRun
		under string
	}{{&o.usual, ""}, {&o.wide, " (Wider prior: InvGamma(1, 1), N(0, σ²).)"}} {
		memory := p.run.memory[0]
		worst := 100.0
		for _, i := range arImpulses {
			worst = min(worst, 100*remainingShare(memory, i, 15))
		}
		add("“Outliers had a limited impact on learning”: the memory outlasts the impulses."+p.under,
			"% of the forward memory that is left at its lowest in the 15 points from an impulse on, the worse of the two; above 50 supports it", worst, worst > 50)
		v := 100 * remainingShare(memory, arChange, 15)
		add("The memory drops at the change of frequencies."+p.under,
			"% of the forward memory that is left at its lowest in the 15 points after it; below 50 supports it", v, v < 50)
		impulses := 0.0
		for _, i := range arImpulses {
			impulses = max(impulses, p.run.weightShift(i))
		}
		v = 100 * impulses / p.run.weightShift(arChange)
		add("At the outliers “the value of the parameters did not change” substantially."+p.under,
			"distance between the smoothed weights 20 points before and after an impulse, the larger of the two, in % of that at the change; below 25 supports it", v, v < 25)
	}

	r := &o.usual
	v := r.weightShift(arChange)
	add("With the contingency change the weights “were adapted to the two different signals”.",
		"distance between the smoothed weights 20 points before and after the change; above 0.5 supports it", v, v > 0.5)
	relativeError := func(start, end int) float64 {
		s := 0.0
		for t := start; t < end; t++ {
			s += (o.x[t] - r.prediction[t]) * (o.x[t] - r.prediction[t])
		}
		return 100 * math.Sqrt(s/float64(end-start)) / spread(o.x[start:end])
	}
	v = relativeError(arChange-50, arChange)
	add("The model follows the first signal.", "r.m.s. error of the one-step prediction at t = 151 to 200, in % of the signal's standard deviation; below 25 supports it", v, v < 25)
	v = relativeError(arPoints-50, arPoints)
	add("The model follows the second signal.", "the same at t = 351 to 400; below 25 supports it", v, v < 25)
	v = median.Of(r.memory[0][arChange-50:arChange]) / median.Of(expectedMemory(r.weight[0][arChange-50:arChange]))
	add("1/(1−E[w]) is the “corresponding expected effective memory”.",
		"median forward memory at t = 151 to 200 over the median of 1/(1−E[w]); 0.8 to 1.25 supports it", v, v >= 0.8 && v <= 1.25)
	return findings
}

// weightShift returns the distance between the smoothed weights 20 points before and 20 points after index i.
func (r *arRun) weightShift(i int) float64 {
	s := 0.0
	for _, c := range r.coefficient {
		s += (c[i+20] - c[i-20]) * (c[i+20] - c[i-20])
	}
	return math.Sqrt(s)
}
