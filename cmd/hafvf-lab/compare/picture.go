package compare

import (
	"math"

	"hafvf/cmd/hafvf-lab/compare/methods"
	"hafvf/cmd/hafvf/chart"
)

// Picture draws skill against cost, with a row of panels for each group: the prediction and the F1 of changes against
// the processor time of an update.
func (r *Report) Picture() *chart.Figure {
	f := &chart.Figure{Title: "skill against cost", Width: 890, OneLegend: true, Notes: []string{
		"Left: the density that a method gives to an observation, relative to the best method of the case (geometric mean " +
			"over the observations, mean over the cases): 1 is best. Right: F1 of the changes. Higher is better; further left is cheaper. " +
			"Methods in hindsight know the whole stream.",
	}}
	for _, g := range r.Groups {
		tables := map[int]Table{}
		for _, t := range g.Tables {
			tables[t.metric] = t
		}
		row := chart.Row{Height: 300}
		for _, panel := range []struct {
			title, label string
			skill        map[string]float64
		}{
			{g.Name + ": prediction", "density, relative to the best", relativeDensity(tables[nats])},
			{g.Name + ": changes", "F1", means(tables[f1])},
		} {
			if len(panel.skill) == 0 {
				continue
			}
			row.Stacks = append(row.Stacks, r.skill(panel.title, panel.label, panel.skill, means(tables[micros])))
		}
		if len(row.Stacks) > 0 {
			f.Rows = append(f.Rows, row)
		}
	}
	return f
}

// skill draws one panel: skill against cost, both by the names of methods. It omits methods without skill.
func (r *Report) skill(title, label string, skill, cost map[string]float64) chart.Stack {
	lo, hi := math.Inf(1), math.Inf(-1)
	own := chart.Dots{Name: "HAFVF", Color: chart.Vermilion}
	others := chart.Dots{Name: "other methods", Color: chart.Blue}
	hindsight := chart.Dots{Name: "in hindsight", Color: chart.Gray}
	var names labels
	for _, m := range r.Methods {
		y, ok := skill[m.Name]
		if !ok {
			continue
		}
		x := max(cost[m.Name], 1e-3) // µs
		lo, hi = min(lo, x), max(hi, x)
		dots := &others
		switch {
		case m.Hindsight:
			dots = &hindsight
		case methods.Own(m.Name):
			dots = &own
		}
		point := chart.Point{X: x, Y: y}
		dots.Points = append(dots.Points, point)
		names.points = append(names.points, point)
		names.texts = append(names.texts, m.Name)
		names.colors = append(names.colors, dots.Color)
	}
	layers := []chart.Layer{names}
	for _, d := range []chart.Dots{own, others, hindsight} {
		if len(d.Points) > 0 {
			layers = append(layers, d)
		}
	}
	return chart.Stack{
		Title:  title,
		X:      chart.Axis{Label: "µs of processor time per update", Log: true, Min: lo / 2, Max: hi * 4},
		Panels: []chart.Panel{{Label: label, Share: 1, Min: -.03, Max: 1.06, Ticks: 6, Layers: layers}},
	}
}

// relativeDensity returns, by method, the mean over cases of exp(l − best). l is the mean log predictive of the
// method, and best is the largest l of the case. Cases without l for some method do not count.
func relativeDensity(t Table) map[string]float64 {
	byMethod := map[string]float64{}
	if len(t.Rows) == 0 {
		return byMethod
	}
	n := 0.0
	for caseIndex := range t.Rows[0].Cases {
		best, complete := math.Inf(-1), true
		for _, row := range t.Rows {
			l := float64(row.Cases[caseIndex].Mean)
			complete = complete && !math.IsNaN(l)
			best = max(best, l)
		}
		if !complete {
			continue
		}
		n++
		for _, row := range t.Rows {
			byMethod[row.Method] += math.Exp(float64(row.Cases[caseIndex].Mean) - best)
		}
	}
	for name := range byMethod {
		byMethod[name] /= n
	}
	return byMethod
}

func means(t Table) map[string]float64 {
	byMethod := map[string]float64{}
	for _, row := range t.Rows {
		if v := float64(row.Mean); !math.IsNaN(v) {
			byMethod[row.Method] = v
		}
	}
	return byMethod
}
