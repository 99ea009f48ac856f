package plot

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"hafvf/cmd/hafvf/chart"
	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/segments"
)

// smoothed holds the content of a picture of the smoothed records of a key. The slices x, mean, sd, weights, memory,
// evidence and threshold have one entry per record, and a NaN entry where lines break: between two sessions, and between
// the parts of a split session without segments.
type smoothed struct {
	key  string
	note string

	timed         bool      // x is Unix seconds; otherwise the trial of the key
	x             []float64 // not decreasing
	data          []chart.Point
	changes       []float64    // x of the first observations of new regimes
	probabilities []string     // probability of each change, as text
	intervals     [][2]float64 // 95 % interval of each change

	mean, sd  []float64
	segments  struct{ x, mean []float64 } // means of the segments, with a NaN entry between two segments
	outliers  []chart.Point               // observations with an outlier probability above 0.5
	weights   [2][]float64                // forward, backward
	memory    [3][]float64                // forward, backward, both
	evidence  []float64
	threshold []float64 // threshold of the evidence for a change
}

func newSmoothed(h history, odds float64) *smoothed {
	s := &smoothed{key: h.key}
	records := output.Latest(h.records)
	s.timed = !records[0].Untimed()
	nan := math.NaN()
	var names []string
	sessions, cut, outputs := 1, map[int]bool{}, 1
	var segment *output.Point // start of the previous record's segment
	offset := 0.              // trials before the session
	xOf := func(r output.Record) float64 {
		if s.timed {
			return seconds(*r.Time)
		}
		return offset + float64(r.N)
	}
	for i, r := range records {
		first := i == 0 || !r.SameSession(&records[i-1])
		if first && !s.timed {
			// Sessions follow each other, unless their trial numbers start later.
			if offset = float64(r.Session.Start.Trial - 1); i > 0 {
				offset = max(offset, s.x[len(s.x)-1])
			}
		}
		if i > 0 && first {
			sessions++
		}
		if first && !s.timed {
			names = append(names, r.SessionName())
		}
		// Segments continue across the parts of a split session, and so does the smoothed line.
		if i > 0 && (first || r.Split != records[i-1].Split && r.Segment == nil) {
			s.add(s.x[len(s.x)-1], nan, nan, [2]float64{nan, nan}, [3]float64{nan, nan, nan}, nan, nan)
		}
		if g := r.Segment; g != nil && g.Start != nil {
			if segment != nil && (first || segment.Compare(g.Start.Point) != 0) {
				s.segments.x, s.segments.mean = append(s.segments.x, xOf(r)), append(s.segments.mean, nan)
			}
			s.segments.x, s.segments.mean = append(s.segments.x, xOf(r)), append(s.segments.mean, output.First(g.Mean))
			segment = g.Start
		}
		if r.Split != "" {
			cut[sessions] = true
		}
		for _, v := range output.Observed(r.X, r.Estimate.Mean) {
			if math.IsNaN(v) {
				continue
			}
			s.data = append(s.data, chart.Point{X: xOf(r), Y: v})
			if output.OrNaN(r.Outlier) > .5 {
				s.outliers = append(s.outliers, chart.Point{X: xOf(r), Y: v})
			}
		}
		if r.Change {
			s.changes, s.probabilities = append(s.changes, xOf(r)), append(s.probabilities, output.Percent(output.OrNaN(r.Probability)))
			if p := r.Interval; p != nil && !s.timed {
				s.intervals = append(s.intervals, [2]float64{offset + float64(p.FromN), offset + float64(p.ToN)})
			} else if p != nil && p.From != nil && p.To != nil {
				s.intervals = append(s.intervals, [2]float64{seconds(*p.From), seconds(*p.To)})
			}
		}
		threshold := math.Log(odds)
		if r.Segment != nil {
			threshold = segments.Threshold(odds, int(r.Session.N))
		}
		outputs = max(outputs, len(r.Estimate.Mean))
		s.add(xOf(r), output.First(r.Estimate.Mean), output.First(r.Estimate.SD),
			[2]float64{output.OrNaN(r.Forward.Weight), output.OrNaN(r.Backward.Weight)},
			[3]float64{output.OrNaN(r.Forward.Memory), output.OrNaN(r.Backward.Memory), output.OrNaN(r.Memory)}, output.OrNaN(r.Evidence), threshold)
	}
	s.note = noteOf(outputs, sessions, len(cut), names)
	return s
}

// noteOf returns the note next to the title: the number of values, the sessions, and how many were split. names are
// the names of sessions without times.
func noteOf(outputs, sessions, cut int, names []string) string {
	var notes []string
	if outputs > 1 {
		notes = append(notes, fmt.Sprintf("first of %d values", outputs))
	}
	switch {
	case sessions > 1 && len(names) > 0 && len(names) <= maxNames:
		notes = append(notes, fmt.Sprintf("%d sessions: %s", sessions, strings.Join(names, ", ")))
	case sessions > 1:
		notes = append(notes, fmt.Sprintf("%d sessions", sessions))
	}
	switch {
	case cut > 0 && sessions > 1:
		notes = append(notes, fmt.Sprintf("%d cut into parts", cut))
	case cut > 0:
		notes = append(notes, "session cut into parts")
	}
	return strings.Join(notes, ", ")
}

// maxNames is the maximum number of sessions that a picture names.
const maxNames = 8

func (s *smoothed) add(x, mean, sd float64, weights [2]float64, memory [3]float64, evidence, threshold float64) {
	s.x, s.mean, s.sd = append(s.x, x), append(s.mean, mean), append(s.sd, sd)
	s.evidence, s.threshold = append(s.evidence, evidence), append(s.threshold, threshold)
	for i, v := range weights {
		s.weights[i] = append(s.weights[i], v)
	}
	for i, v := range memory {
		s.memory[i] = append(s.memory[i], v)
	}
}

// stack returns the panels of a key: all of them or, if large is false, data and evidence.
func (s *smoothed) stack(large bool) chart.Stack {
	panels := []chart.Panel{s.dataPanel()}
	if large {
		panels[0].Max += 0.06 * (panels[0].Max - panels[0].Min) // room for the labels of the probabilities
	}
	passes := hasNumber(s.weights[0]) // not in brief records
	if large && passes {
		panels = append(panels, s.weightPanel())
	}
	if large {
		panels = append(panels, s.memoryPanel(passes), s.evidencePanel())
	} else {
		panels = append(panels, s.evidencePanel())
		panels[1].Share, panels[1].Ticks = 0.6, 2
	}
	for i := range panels {
		changes := chart.Rules{X: s.changes, Color: chart.Purple}
		if i == 0 {
			changes.Name = "change"
			if large {
				changes.Labels = s.probabilities
			}
		}
		panels[i].Layers = append(panels[i].Layers, changes)
		if len(s.intervals) > 0 {
			intervals := chart.Spans{X: s.intervals, Color: color.NRGBA{0xcc, 0x79, 0xa7, 0x50}}
			if i == 0 {
				intervals.Name = "its place (95 %)"
			}
			panels[i].Layers = append(panels[i].Layers, intervals)
		}
	}
	x := chart.Axis{Time: s.timed, Min: slices.Min(s.x), Max: slices.Max(s.x)}
	if !s.timed {
		x.Label = "trial"
	}
	return chart.Stack{Title: s.key, Note: s.note, Panels: panels, X: x}
}

func (s *smoothed) dataPanel() chart.Panel {
	lo, hi := dataRange(s.data, s.mean)
	low, high := make([]float64, len(s.x)), make([]float64, len(s.x))
	for i, m := range s.mean {
		low[i], high[i] = m-1.96*s.sd[i], m+1.96*s.sd[i]
	}
	rates := areRates(s.data, s.mean)
	if rates {
		for i, m := range s.mean {
			low[i], high[i] = rateBand(m, 1.96*s.sd[i])
		}
		lo, hi = rateRange(low, high)
	}
	return chart.Panel{Share: 2.2, Min: lo, Max: hi, Layers: append(s.segmentLayers(), withData(s.data, rates,
		chart.Line{Name: "smoothed estimate", X: s.x, Y: s.mean, Color: chart.Blue, Width: 0.9},
		chart.Band{Name: "95 % (± 1.96 sd)", X: s.x, Low: low, High: high, Color: chart.Blue},
	)...)}
}

// segmentLayers returns the means of the segments and the outliers, for records with segments.
func (s *smoothed) segmentLayers() (layers []chart.Layer) {
	if len(s.segments.x) > 0 {
		layers = append(layers, chart.Line{Name: "mean of the segment", X: s.segments.x, Y: s.segments.mean, Color: chart.Orange, Width: 1.4})
	}
	if len(s.outliers) > 0 {
		layers = append(layers, chart.Rings{Name: "outlier", Points: s.outliers, Color: outlierColor})
	}
	return layers
}

func (s *smoothed) weightPanel() chart.Panel {
	return chart.Panel{Share: 1, Min: -0.04, Max: 1.04, Ticks: 3, Layers: []chart.Layer{
		chart.Line{Name: "E[w] forward", X: s.x, Y: s.weights[0], Color: chart.Vermilion, Width: 0.9},
		chart.Line{Name: "E[w] backward", X: s.x, Y: s.weights[1], Color: chart.Green, Width: 0.9},
	}}
}

func (s *smoothed) memoryPanel(passes bool) chart.Panel {
	lo, hi := positive(slices.Concat(s.memory[:]...))
	if hi == 0 {
		lo, hi = 1, 1
	}
	p := chart.Panel{Share: 1, Min: lo / 1.2, Max: hi * 1.2, Log: true}
	both := chart.Line{Name: "memory (observations)", X: s.x, Y: s.memory[2], Color: chart.Blue, Width: 0.9}
	if passes {
		both.Name = "smoothed"
		p.Layers = append(p.Layers,
			chart.Line{Name: "memory (observations) forward", X: s.x, Y: s.memory[0], Color: chart.Vermilion, Width: 0.9},
			chart.Line{Name: "backward", X: s.x, Y: s.memory[1], Color: chart.Green, Width: 0.9})
	}
	p.Layers = append(p.Layers, both)
	return p
}

func (s *smoothed) evidencePanel() chart.Panel {
	lo, hi := chart.Extent(s.evidence, 10)
	for _, e := range s.threshold {
		if e == e {
			lo, hi = min(lo, e), max(hi, e)
		}
	}
	lo, hi = chart.Pad(lo, hi)
	return chart.Panel{Share: 1, Min: lo, Max: hi, Layers: []chart.Layer{
		chart.Line{Name: "evidence of a change (nats)", X: s.x, Y: s.evidence, Color: chart.Gray, Width: 0.8},
		chart.Line{Name: "evidence needed for a change", X: s.x, Y: s.threshold, Color: chart.Black, Width: 0.8, Dashed: true},
		chart.Arrows{Points: chart.Points(s.x, s.evidence), Color: chart.Black},
	}}
}
