package main

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"hafvf/cmd/hafvf/chart"
)

// estimates are what a picture shows of the estimate records of a key. All slices
// but the data have one entry per record; NaN is what a record doesn't have.
type estimates struct {
	key  string
	note string // on what is drawn of a value with several coordinates

	timed bool          // at is Unix seconds; otherwise n
	at    []float64     // not decreasing
	data  []chart.Point // the observations, any number per record

	mean, sd []float64   // one step ahead
	weights  [][]float64 // E[w], E[b], …: one slice per level
	memory   []float64
	surprise []float64 // −log p(x|past), nats
}

func newEstimates(h history) *estimates {
	s, records := &estimates{key: h.key, timed: true}, h.records
	outputs, levels := 1, 1
	for _, r := range records {
		s.timed = s.timed && r.Time != nil
		levels = max(levels, len(r.Levels))
		if m, ok := r.Predicted.Mean.([]any); ok {
			outputs = max(outputs, len(m))
		}
	}
	at := func(r record) float64 {
		if s.timed {
			return float64(r.Time.UnixMicro()) / 1e6
		}
		return float64(r.N)
	}
	slices.SortStableFunc(records, func(a, b record) int {
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.N, b.N))
	})
	s.weights = make([][]float64, levels)
	for _, r := range records {
		s.at = append(s.at, at(r))
		for _, v := range values(r.X, r.Predicted.Mean) {
			if !math.IsNaN(v) {
				s.data = append(s.data, chart.Point{X: at(r), Y: v})
			}
		}
		s.mean = append(s.mean, first(r.Predicted.Mean))
		s.sd = append(s.sd, first(r.Predicted.SD))
		s.memory = append(s.memory, orNaN(r.Memory))
		s.surprise = append(s.surprise, -orNaN(r.LogP))
		for i := range s.weights {
			w := math.NaN()
			switch {
			case i == 0:
				w = orNaN(r.Weight)
			case i < len(r.Levels):
				a, b := orNaN(r.Levels[i].Alpha), orNaN(r.Levels[i].Beta)
				w = a / (a + b)
			}
			s.weights[i] = append(s.weights[i], w)
		}
	}
	if outputs > 1 {
		s.note = fmt.Sprintf("first of %d values", outputs)
	}
	return s
}

// levelColor is the colour of the weight of level i, bottom up.
func levelColor(i int) color.NRGBA {
	return []color.NRGBA{chart.Vermilion, chart.Green, chart.Purple, chart.Orange}[min(i, 3)]
}

// levelName names the weight of level i as the paper does, from w and b on.
func levelName(i int) string {
	switch i {
	case 0:
		return "E[w]"
	case 1:
		return "E[b]"
	}
	return fmt.Sprintf("E[b%d]", i)
}

// stack is the panels of a key: all of them, or where the picture is small, only
// data and weights.
func (s *estimates) stack(large bool) chart.Stack {
	x := chart.Axis{Time: s.timed, Min: s.at[0], Max: s.at[len(s.at)-1]}
	if !s.timed {
		x.Label = "observation"
	}
	panels := []chart.Panel{s.dataPanel(), s.weightPanel()}
	if large {
		panels = append(panels, s.memoryPanel(), s.surprisePanel())
	} else {
		panels[1].Share, panels[1].Ticks = 0.6, 2
	}
	return chart.Stack{Title: s.key, Note: s.note, X: x, Panels: panels}
}

func (s *estimates) dataPanel() chart.Panel {
	lo, hi := dataRange(s.data, s.mean)
	low, high := make([]float64, len(s.at)), make([]float64, len(s.at))
	for i, m := range s.mean {
		low[i], high[i] = m-2*s.sd[i], m+2*s.sd[i]
	}
	return chart.Panel{Share: 2.2, Min: lo, Max: hi, Layers: []chart.Layer{
		chart.Dots{Name: "observed", Points: s.data, Color: chart.Black},
		chart.Line{Name: "predicted", X: s.at, Y: s.mean, Color: chart.Blue, Width: 0.8},
		chart.Band{Name: "± 2 sd", X: s.at, Low: low, High: high, Color: chart.Blue},
		chart.Arrows{Name: "beyond the axis", Points: s.data, Color: chart.Black},
	}}
}

func (s *estimates) weightPanel() chart.Panel {
	p := chart.Panel{Share: 1, Min: -0.04, Max: 1.04, Ticks: 3}
	for i, w := range s.weights {
		p.Layers = append(p.Layers, chart.Line{Name: levelName(i), X: s.at, Y: w, Color: levelColor(i), Width: 0.9})
	}
	return p
}

func (s *estimates) memoryPanel() chart.Panel {
	lo, hi := math.Inf(1), 0.0
	for _, m := range s.memory {
		if m > 0 && m < math.Inf(1) {
			lo, hi = min(lo, m), max(hi, m)
		}
	}
	p := chart.Panel{Share: 1, Max: max(1.05*hi, 1e-9), Layers: []chart.Layer{
		chart.Line{Name: "memory (observations)", X: s.at, Y: s.memory, Color: chart.Blue, Width: 0.9},
	}}
	if hi > 100*lo {
		p.Min, p.Max, p.Log = lo/1.2, hi*1.2, true
	}
	return p
}

func (s *estimates) surprisePanel() chart.Panel {
	lo, hi := chart.Pad(chart.Extent(s.surprise, 10))
	return chart.Panel{Share: 1, Min: lo, Max: hi, Layers: []chart.Layer{
		chart.Line{Name: "surprise (nats)", X: s.at, Y: s.surprise, Color: chart.Gray, Width: 0.6},
		chart.Arrows{Points: chart.Points(s.at, s.surprise), Color: chart.Black},
	}}
}
