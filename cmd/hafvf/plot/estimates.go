package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/cmd/hafvf/chart"
	"hafvf/cmd/hafvf/output"
	"hafvf/internal/message"
)

// estimates holds the content of a picture of the estimates of a key. All slices but data have one entry per record,
// and NaN for missing numbers.
type estimates struct {
	key  string
	note string // shown next to the title: values left out, and counts of detections

	timed bool          // x is Unix seconds; otherwise the record's n
	x     []float64     // not decreasing
	data  []chart.Point // observations, any number per record

	mean      []float64   // predicted mean, one step ahead
	low, high []float64   // bounds of the predicted interval, or ± 2 sd; for rates, estimate ± 2 sd within [0, 1]
	weights   [][]float64 // E[w], E[b], …: one slice per level
	memory    []float64
	surprise  []float64 // −log p(x|past), nats
	quiet     [][2]float64

	rates     bool // the observations are zeros and ones
	bounded   bool // the records have intervals
	bank      bool // weights and memory belong to the heaviest filter of a bank
	usualBand bool // the band is usual ± 2 sd
	*detected
}

// detected holds the content of a picture of detection; nil without detection. Slices of float64 but alarms have one
// entry per record.
type detected struct {
	score, threshold []float64
	usual            []float64 // usual mean
	lowest, highest  []float64 // usual ± 2 sd

	regime          []float64 // mean of the running regime; NaN from the start of a regime until the record that found it
	outlier, change []float64 // probabilities
	alarms          []float64
	outliers        []chart.Point
	changes         []found
	warmUpEnd       float64 // x of the end of the warm-up; −∞ without a warm-up
	brief           bool    // brief records: they have neither regimes nor starts
}

// A found is the start of a new regime and the record that found it.
type found struct {
	start, foundAt float64
	delay          int64 // observations from start to detection
}

func newEstimates(h history, band Band) *estimates {
	s, records := &estimates{key: h.key, timed: true}, h.records
	outputs, levels := 1, 1
	for _, r := range records {
		s.timed = s.timed && r.Time != nil
		levels = max(levels, len(r.Levels))
		outputs = max(outputs, len(r.Predicted.Mean))
	}
	xOf := func(r output.Record) float64 {
		if s.timed {
			return seconds(*r.Time)
		}
		return float64(r.N)
	}
	slices.SortStableFunc(records, func(a, b output.Record) int {
		return cmp.Or(cmp.Compare(xOf(a), xOf(b)), cmp.Compare(a.N, b.N))
	})
	s.weights = make([][]float64, levels)
	for _, r := range records {
		s.x = append(s.x, xOf(r))
		for _, v := range output.Observed(r.X, r.Predicted.Mean) {
			if !math.IsNaN(v) {
				s.data = append(s.data, chart.Point{X: xOf(r), Y: v})
			}
		}
		s.mean = append(s.mean, output.First(r.Predicted.Mean))
		halfWidth := 2 * output.First(r.Predicted.SD)
		low, high := output.First(r.Predicted.Mean)-halfWidth, output.First(r.Predicted.Mean)+halfWidth
		if r.Lower != nil && r.Upper != nil {
			low, high = output.First(*r.Lower), output.First(*r.Upper)
		}
		s.low, s.high = append(s.low, low), append(s.high, high)
		s.bounded = s.bounded || r.Lower != nil
		s.memory = append(s.memory, output.OrNaN(r.Memory))
		s.surprise = append(s.surprise, -output.OrNaN(r.LogP))
		for i := range s.weights {
			w := math.NaN()
			switch {
			case i == 0:
				w = output.OrNaN(r.Weight)
			case i < len(r.Levels):
				a, b := output.OrNaN(r.Levels[i].Alpha), output.OrNaN(r.Levels[i].Beta)
				w = a / (a + b)
			}
			s.weights[i] = append(s.weights[i], w)
		}
	}
	if s.rates = areRates(s.data, s.mean); s.rates {
		for i, r := range records {
			e := output.Moments{}
			if r.Estimate != nil {
				e = r.Estimate.Moments
				if r.Estimate.Regime != nil {
					e = *r.Estimate.Regime
				}
			}
			s.low[i], s.high[i] = rateBand(output.First(e.Mean), 2*output.First(e.SD))
		}
	}
	var notes []string
	if outputs > 1 {
		notes = append(notes, fmt.Sprintf("first of %d values", outputs))
	}
	s.bank = slices.ContainsFunc(records, func(r output.Record) bool { return len(r.Bank) > 1 })
	if slices.ContainsFunc(records, func(r output.Record) bool { return r.Detect != nil }) {
		s.detected = newDetected(records, s.x, s.timed)
		s.usualBand = band != Predicted && !s.rates && hasNumber(s.usual)
		notes = append(notes, count(len(s.alarms), "alarm"), count(len(s.changes), "change"), count(len(s.outliers), "outlier"))
	}
	s.note = strings.Join(notes, ", ")
	if s.timed {
		s.quiet = quiet(s.x)
	}
	return s
}

// hasNumber reports whether v contains a number that is not NaN.
func hasNumber(v []float64) bool {
	return slices.ContainsFunc(v, func(x float64) bool { return !math.IsNaN(x) })
}

// quiet returns the gaps between observations that are more than ten times the median step.
func quiet(x []float64) (gaps [][2]float64) {
	var steps []float64
	for i := 1; i < len(x); i++ {
		if step := x[i] - x[i-1]; step > 0 {
			steps = append(steps, step)
		}
	}
	if len(steps) == 0 {
		return nil
	}
	slices.Sort(steps)
	minGap := 10 * steps[len(steps)/2]
	for i := 1; i < len(x); i++ {
		if x[i]-x[i-1] > minGap {
			gaps = append(gaps, [2]float64{x[i-1], x[i]})
		}
	}
	return gaps
}

// count returns n with a noun whose plural ends in s.
func count(n int, one string) string { return message.Count(n, one, one+"s") }

// newDetected reads the detections of records. x has the position of each record.
func newDetected(records []output.Record, x []float64, timed bool) *detected {
	d := &detected{warmUpEnd: math.Inf(-1)}
	for i, r := range records {
		if r.WarmUp {
			d.warmUpEnd = x[i]
		}
		detection := cmp.Or(r.Detect, &output.Detection{}) // a record without detection gives NaN
		usual := cmp.Or(detection.Usual, &output.Moments{})
		mean, halfWidth := output.First(usual.Mean), 2*output.First(usual.SD)
		d.score, d.threshold = append(d.score, output.OrNaN(detection.Score)), append(d.threshold, output.OrNaN(detection.Threshold))
		d.outlier, d.change = append(d.outlier, output.OrNaN(detection.Outlier)), append(d.change, output.OrNaN(detection.Change))
		d.usual, d.lowest, d.highest = append(d.usual, mean), append(d.lowest, mean-halfWidth), append(d.highest, mean+halfWidth)
		regime := math.NaN()
		switch {
		case r.Estimate != nil && r.Estimate.Regime != nil:
			regime = output.First(r.Estimate.Regime.Mean)
		case r.Estimate != nil:
			d.brief = true
			regime = output.First(r.Estimate.Mean)
		}
		d.regime = append(d.regime, regime)
		if detection.Alarm != nil {
			d.alarms = append(d.alarms, x[i])
		}
		switch {
		case detection.Starts():
			start := x[i] // brief records have no start
			switch {
			case timed && detection.Start != nil:
				start = seconds(*detection.Start)
			case !timed && detection.StartN > 0:
				start = float64(detection.StartN)
			}
			clearFrom := start
			if n := len(d.changes); detection.Kind == "revision" && n > 0 {
				clearFrom = min(start, d.changes[n-1].start)
				d.changes = d.changes[:n-1]
			}
			d.changes = append(d.changes, found{start, x[i], detection.Delay})
			for j := i - 1; j >= 0 && x[j] >= clearFrom; j-- {
				d.regime[j] = math.NaN()
			}
		case detection.Kind == "outlier":
			for _, v := range output.Observed(r.X, r.Predicted.Mean) {
				if !math.IsNaN(v) {
					d.outliers = append(d.outliers, chart.Point{X: x[i], Y: v})
				}
			}
		}
	}
	// The first observations of a regime are not outliers.
	d.outliers = slices.DeleteFunc(d.outliers, func(p chart.Point) bool {
		return slices.ContainsFunc(d.changes, func(c found) bool { return p.X >= c.start && p.X <= c.foundAt })
	})
	return d
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// filterSuffix returns the suffix of legend names that identifies the filter of weights and memory; "" if there is
// only one filter.
func (s *estimates) filterSuffix() string {
	if s.bank {
		return " of the heaviest filter"
	}
	return ""
}

// levelColor returns the colour of the weight of level i; 0 is the bottom level.
func levelColor(i int) color.NRGBA {
	return []color.NRGBA{chart.Vermilion, chart.Green, chart.Purple, chart.Orange}[min(i, 3)]
}

// levelName returns the paper's name of the weight of level i: w, b, ….
func levelName(i int) string {
	switch i {
	case 0:
		return "E[w]"
	case 1:
		return "E[b]"
	}
	return fmt.Sprintf("E[b%d]", i)
}

// stack returns the panels of a key: all of them or, if large is false, data and weights; with detection, data and
// score.
func (s *estimates) stack(large bool) chart.Stack {
	x := chart.Axis{Time: s.timed, Min: s.x[0], Max: s.x[len(s.x)-1]}
	if !s.timed {
		x.Label = "observation"
	}
	panels := []chart.Panel{s.dataPanel()}
	if s.detected != nil {
		panels[0] = s.regimePanel(large)
		scored := hasNumber(s.score)
		if scored {
			panels = append(panels, s.scorePanel())
		}
		if large || !scored {
			panels = append(panels, s.probabilityPanel())
		}
	}
	if large || s.detected == nil {
		panels = append(panels, s.weightPanel())
	}
	if large {
		panels = append(panels, s.memoryPanel(), s.surprisePanel())
	} else {
		panels[1].Share, panels[1].Ticks = 0.6, 2
	}
	for i := range panels {
		if len(s.quiet) > 0 {
			silence := chart.Spans{X: s.quiet, Color: color.NRGBA{0xd5, 0x5e, 0x00, 0x22}}
			if i == 0 {
				silence.Name = "no observations"
			}
			panels[i].Layers = append(panels[i].Layers, silence)
		}
		if s.detected != nil {
			panels[i].Layers = append(panels[i].Layers, s.marks(i == 0, large)...)
		}
	}
	return chart.Stack{Title: s.key, Note: s.note, X: x, Panels: panels}
}

// band returns the band in the data panel: usual ± 2 sd, or the estimate of a rate ± 2 sd, or the predicted interval.
// Records without intervals have predicted ± 2 sd.
func (s *estimates) band() chart.Band {
	if s.usualBand {
		return chart.Band{Name: "usual ± 2 sd", X: s.x, Low: s.lowest, High: s.highest, Color: chart.Blue}
	}
	name := "predicted ± 2 sd"
	switch {
	case s.rates:
		name = "estimate ± 2 sd"
	case s.bounded:
		name = "predicted, lower to upper"
	}
	return chart.Band{Name: name, X: s.x, Low: s.low, High: s.high, Color: chart.Blue}
}

func (s *estimates) dataPanel() chart.Panel {
	lo, hi := dataRange(s.data, s.mean)
	if s.rates {
		lo, hi = rateRange(s.low, s.high)
	}
	return chart.Panel{Share: 2.2, Min: lo, Max: hi, Layers: withData(s.data, s.rates,
		chart.Line{Name: "predicted", X: s.x, Y: s.mean, Color: chart.Blue, Width: 0.8},
		s.band(),
	)}
}

var (
	outlierColor = chart.Orange
	changeColor  = chart.Purple
	alarmColor   = chart.Vermilion
)

// regimePanel returns the data panel for records with detection.
func (s *estimates) regimePanel(large bool) chart.Panel {
	lo, hi := dataRange(s.data, s.regime)
	estimate := "estimate in the regime"
	if s.brief {
		estimate = "estimate"
	}
	flags := chart.Flags{Name: "alarm", X: s.alarms, Color: alarmColor}
	regimes := chart.Line{Name: estimate, X: s.x, Y: s.regime, Color: chart.Blue, Width: 1.4}
	layers := []chart.Layer{
		flags,
		chart.Rings{Name: "outlier", Points: s.outliers, Color: outlierColor},
		regimes,
		s.band(),
		chart.Arrows{Points: s.outliers, Color: outlierColor},
	}
	if s.rates {
		lo, hi = rateRange(s.low, s.high)
		layers = []chart.Layer{flags, regimes, s.band()}
	}
	if large {
		hi += 0.06 * (hi - lo) // room for the labels of the delays
	}
	return chart.Panel{Share: 2.4, Min: lo, Max: hi, Layers: withData(s.data, s.rates, layers...)}
}

// marks returns the layers of detection for a panel. Only the first panel has them in the legend.
func (s *estimates) marks(first, large bool) []chart.Layer {
	changes := chart.Rules{Color: changeColor, Width: 1.1}
	regimes := chart.Stripes{Color: color.NRGBA{0x00, 0x00, 0x00, 0x0e}}
	search := chart.Spans{Color: color.NRGBA{0xcc, 0x79, 0xa7, 0x50}}
	warmUp := chart.Spans{Color: color.NRGBA{0x00, 0x9e, 0x73, 0x22}}
	for _, c := range s.changes {
		changes.X = append(changes.X, c.start)
		search.X = append(search.X, [2]float64{c.start, c.foundAt})
		if first && large {
			changes.Labels = append(changes.Labels, fmt.Sprintf("+%d", c.delay))
		}
	}
	regimes.Edges = changes.X
	if !math.IsInf(s.warmUpEnd, -1) {
		warmUp.X = [][2]float64{{math.Inf(-1), s.warmUpEnd}}
	}
	if first {
		changes.Name, regimes.Name = "change, at the start of the new regime", "regimes"
		search.Name = "from its start until it is found"
		if large {
			search.Name += ", +n observations"
		}
		if warmUp.X != nil {
			warmUp.Name = "warm-up: no alarms"
		}
	}
	if s.brief {
		changes.Name, changes.Labels = strings.Replace(changes.Name, "at the start of the new regime", "where it was found", 1), nil
		return []chart.Layer{changes, warmUp, regimes}
	}
	return []chart.Layer{changes, search, warmUp, regimes}
}

// scorePanel shows the score and, if the records have it, its threshold.
func (s *estimates) scorePanel() chart.Panel {
	_, hi := chart.Extent(s.score, 10)
	for _, t := range s.threshold {
		if t > hi {
			hi = t
		}
	}
	hi *= 1.08
	return chart.Panel{Share: 1.2, Min: -.04 * hi, Max: hi, Ticks: 3, Layers: []chart.Layer{
		chart.Line{Name: "score", X: s.x, Y: s.score, Color: chart.Gray, Width: 0.8},
		chart.Line{Name: "threshold of an alarm", X: s.x, Y: s.threshold, Color: alarmColor, Width: 0.9, Dashed: true},
		chart.Arrows{Points: chart.Points(s.x, s.score), Color: chart.Black},
	}}
}

func (s *estimates) probabilityPanel() chart.Panel {
	return chart.Panel{Share: 1, Min: -0.04, Max: 1.04, Ticks: 3, Layers: []chart.Layer{
		chart.Line{Name: "p_change", X: s.x, Y: s.change, Color: changeColor, Width: 0.9},
		chart.Line{Name: "p_outlier", X: s.x, Y: s.outlier, Color: outlierColor, Width: 0.9},
	}}
}

func (s *estimates) weightPanel() chart.Panel {
	p := chart.Panel{Share: 1, Min: -0.04, Max: 1.04, Ticks: 3}
	for i, w := range s.weights {
		name := levelName(i)
		if i == 0 {
			name += s.filterSuffix()
		}
		p.Layers = append(p.Layers, chart.Line{Name: name, X: s.x, Y: w, Color: levelColor(i), Width: 0.9})
	}
	return p
}

func (s *estimates) memoryPanel() chart.Panel {
	lo, hi := positive(s.memory)
	p := chart.Panel{Share: 1, Max: max(1.05*hi, 1e-9), Layers: []chart.Layer{
		chart.Line{Name: "memory (observations)" + s.filterSuffix(), X: s.x, Y: s.memory, Color: chart.Blue, Width: 0.9},
	}}
	if hi > 100*lo {
		p.Min, p.Max, p.Log = lo/1.2, hi*1.2, true
	}
	return p
}

func (s *estimates) surprisePanel() chart.Panel {
	lo, hi := chart.Pad(chart.Extent(s.surprise, 10))
	return chart.Panel{Share: 1, Min: lo, Max: hi, Layers: []chart.Layer{
		chart.Line{Name: "surprise (nats)", X: s.x, Y: s.surprise, Color: chart.Gray, Width: 0.6},
		chart.Arrows{Points: chart.Points(s.x, s.surprise), Color: chart.Black},
	}}
}
