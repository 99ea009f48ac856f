package experiment

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"

	"hafvf/cmd/hafvf/chart"
)

// sgdColors holds the colours of sgdOptimizers.
var sgdColors = []color.NRGBA{chart.Vermilion, chart.Blue, chart.Green, chart.Gray, chart.Purple, chart.Orange}

func (o *sgdOutcome) figure() *chart.Figure {
	n := o.protocol.iterations
	t := steps(n)
	whole := chart.Axis{Label: "iteration", Min: 1, Max: float64(n)}

	// A: scores of the whole training, and enlarged from a quarter of it on.
	scores := chart.Panel{Title: "A", Label: "nats per trial, clean", Share: 1, Ticks: 6}
	var early, late []float64
	for k, c := range sgdOptimizers {
		middle, low, high := o.clean(k)
		early, late = append(early, middle[2:]...), append(late, middle[len(middle)/4:]...)
		scores.Layers = append(scores.Layers, chart.Line{Name: c.name, X: o.scored(), Y: middle, Color: sgdColors[k], Width: 1.1, Dashed: k == byMeanOfAll})
		if k == byAdam || k == byMean {
			scores.Layers = append(scores.Layers, chart.Band{X: o.scored(), Low: low, High: high, Color: sgdColors[k]})
			late = slices.Concat(late, low[len(low)/4:], high[len(high)/4:])
		}
	}
	enlarged := scores
	enlarged.Title = "A enlarged"
	scores.Min, scores.Max = chart.Pad(slices.Min(early), slices.Max(early))
	enlarged.Min, enlarged.Max = chart.Pad(slices.Min(late), slices.Max(late))

	// B: the batches under the first seed, for Adam and AdaFVF.
	traces := o.traces("B", 1.3, n/20, n)

	rows := []chart.Row{
		{Height: 270, Stacks: []chart.Stack{
			{Title: "Negative ELBO on clean data", X: chart.Axis{Label: "iteration", Min: sgdEvery, Max: float64(n)}, Panels: []chart.Panel{scores}},
			{Title: "The same, from a quarter of the training on", X: chart.Axis{Label: "iteration", Min: float64(n / 4), Max: float64(n)}, Panels: []chart.Panel{enlarged}},
		}},
		{Height: 200, Stacks: []chart.Stack{{Title: "Negative ELBO of the batches", X: whole, Panels: []chart.Panel{traces}}}},
	}
	heats := chart.Row{Height: 260}
	for _, k := range []int{byMean, bySum} {
		heats.Stacks = append(heats.Stacks, chart.Stack{
			Title: "Expected memory of the variance: " + sgdOptimizers[k].name, X: whole, Panels: []chart.Panel{o.heat("C", k, t)},
		})
	}
	rows = append(rows, heats)
	zooms := chart.Row{Height: 560}
	for _, center := range o.zooms() {
		first, last := center-30, center+50
		traces := o.traces("B enlarged", 1.2, int(first), int(last))
		mean, sum := o.heat("C enlarged: mean", byMean, t), o.heat("C enlarged: sum", bySum, t)
		var marks []float64
		for _, x := range o.corrupted() {
			if x >= first && x <= last {
				marks = append(marks, x)
			}
		}
		rules := chart.Rules{X: marks, Color: chart.Vermilion, Dashed: true}
		traces.Layers = append(traces.Layers, rules)
		zooms.Stacks = append(zooms.Stacks, chart.Stack{
			Title: fmt.Sprintf("Around iteration %g", center),
			X:     chart.Axis{Label: "iteration", Min: first, Max: last}, Panels: []chart.Panel{traces, mean, sum},
		})
	}
	rows = append(rows, zooms)
	return &chart.Figure{
		Title: "A variational recurrent auto-encoder, trained with corrupt batches",
		Width: 960,
		Rows:  rows,
		Notes: []string{
			fmt.Sprintf("64 subjects × %d trials, %d per step; one visit in a hundred is corrupt in a tenth of its trials. A: mean of seeds %d to %d, for Adam and AdaFVF (mean) with their range. "+
				"B, C: seed %d. Dashed: corrupt batches. C: 1/(1−E[w₂]) per group of parameters; where several iterations fall on one pixel, the least.",
				o.protocol.trials, sgdBatch, o.protocol.seed, o.protocol.seed+sgdSeeds-1, o.protocol.seed),
			"Data and networks are this program's: the paper gives neither, so that the order of the optimizers can be compared with it, and not the level.",
		},
	}
}

// traces returns a panel with the negative ELBO per trial of every batch. Its scale fits the iterations from start to
// end.
func (o *sgdOutcome) traces(title string, share float64, start, end int) chart.Panel {
	t := steps(o.protocol.iterations)
	trails := o.trails
	p := chart.Panel{Title: title, Label: "nats per trial", Share: share}
	shown := slices.Concat(trails[byAdam][0].Train[start:end], trails[byMean][0].Train[start:end])
	p.Min, p.Max = chart.Pad(slices.Min(shown), slices.Max(shown))
	var bad []chart.Point
	for _, x := range o.corrupted() {
		bad = append(bad, chart.Point{X: x, Y: trails[byAdam][0].Train[int(x)-1]})
	}
	p.Layers = []chart.Layer{
		chart.Dots{Name: "corrupt batch, Adam", Points: bad, Color: chart.Black},
		chart.Line{Name: sgdOptimizers[byMean].name, X: t, Y: trails[byMean][0].Train, Color: chart.Blue, Width: 0.7},
		chart.Line{Name: sgdOptimizers[byAdam].name, X: t, Y: trails[byAdam][0].Train, Color: chart.Vermilion, Width: 0.7},
	}
	return p
}

// heat returns a map of the expected memories under optimizer k.
func (o *sgdOutcome) heat(title string, k int, t []float64) chart.Panel {
	h := heat{name: "1/(1−E[w₂]) from 1 (dark) to 100 steps (light), logarithmic", x: t, dark: 1, light: 100}
	for i := range o.groups {
		// The first group is at the top.
		h.values = append(h.values, o.memory(k, len(o.groups)-1-i))
	}
	var names plot.ConstantTicks
	for i, name := range slices.Backward(o.groups) {
		names = append(names, plot.Tick{Value: float64(len(o.groups)-1-i) + 0.5, Label: name})
	}
	return chart.Panel{Title: title, Share: 2, Min: 0, Max: float64(len(names)), Marker: names, Layers: []chart.Layer{h}}
}

// zooms returns two iterations with a corrupt batch and none in the 15 iterations before: the first after a tenth of
// the training, and the first after half of it. If there is none, it returns the tenth or the half.
func (o *sgdOutcome) zooms() (centers []float64) {
	n := float64(o.protocol.iterations)
	bad := o.corrupted()
	for _, start := range []float64{0.1 * n, 0.5 * n} {
		center := math.Round(start)
		for i, x := range bad {
			if x >= start && x+50 <= n && (i == 0 || x-bad[i-1] > 15) {
				center = x
				break
			}
		}
		centers = append(centers, center)
	}
	return centers
}
