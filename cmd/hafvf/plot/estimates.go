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

// estimates are what a picture shows of the estimate records of a key. All slices
// but the data have one entry per record; NaN is what a record doesn't have.
type estimates struct {
	key  string
	note string // on what is drawn of a value with several coordinates

	timed bool          // at is Unix seconds; otherwise n
	at    []float64     // not decreasing
	data  []chart.Point // the observations, any number per record

	mean      []float64   // one step ahead
	low, high []float64   // of its interval, or two standard deviations off; of rates, of the estimate
	weights   [][]float64 // E[w], E[b], …: one slice per level
	memory    []float64
	surprise  []float64 // −log p(x|past), nats
	quiet     [][2]float64

	rates   bool // the observations are zeros and ones
	bounded bool // the records have intervals
	bank    bool // weights and memory are those of the heaviest filter of a bank
	usually bool // the band is that of what is usual
	*detected
}

// detected is what a picture shows of detection; nil where there was none.
type detected struct {
	score, threshold []float64
	usual            []float64 // the mean
	lowest, highest  []float64 // two standard deviations off

	regime          []float64 // the mean; NaN from the start of the next to where it is found
	outlier, change []float64 // probabilities
	alarms          []float64
	outliers        []chart.Point
	changes         []found
	warm            float64 // where the warm-up ends; −∞ where there was none
	brief           bool    // the records have neither regimes nor starts
}

// A found is the start of a new regime, and how it was found.
type found struct {
	start, at float64
	delay     int64 // observations between the two
}

func newEstimates(h history, band Band) *estimates {
	s, records := &estimates{key: h.key, timed: true}, h.records
	outputs, levels := 1, 1
	for _, r := range records {
		s.timed = s.timed && r.Time != nil
		levels = max(levels, len(r.Levels))
		outputs = max(outputs, len(r.Predicted.Mean))
	}
	at := func(r output.Record) float64 {
		if s.timed {
			return seconds(*r.Time)
		}
		return float64(r.N)
	}
	slices.SortStableFunc(records, func(a, b output.Record) int {
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.N, b.N))
	})
	s.weights = make([][]float64, levels)
	for _, r := range records {
		s.at = append(s.at, at(r))
		for _, v := range output.Observed(r.X, r.Predicted.Mean) {
			if !math.IsNaN(v) {
				s.data = append(s.data, chart.Point{X: at(r), Y: v})
			}
		}
		s.mean = append(s.mean, output.First(r.Predicted.Mean))
		off := 2 * output.First(r.Predicted.SD)
		low, high := output.First(r.Predicted.Mean)-off, output.First(r.Predicted.Mean)+off
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
		s.detected = newDetected(records, s.at, s.timed)
		s.usually = band != Predicted && !s.rates && some(s.usual)
		notes = append(notes, count(len(s.alarms), "alarm"), count(len(s.changes), "change"), count(len(s.outliers), "outlier"))
	}
	s.note = strings.Join(notes, ", ")
	if s.timed {
		s.quiet = quiet(s.at)
	}
	return s
}

// some reports whether there is a number.
func some(v []float64) bool {
	return slices.ContainsFunc(v, func(x float64) bool { return !math.IsNaN(x) })
}

// quiet are the stretches without observations: ten times as long as the median step.
func quiet(at []float64) (all [][2]float64) {
	var steps []float64
	for i := 1; i < len(at); i++ {
		if step := at[i] - at[i-1]; step > 0 {
			steps = append(steps, step)
		}
	}
	if len(steps) == 0 {
		return nil
	}
	slices.Sort(steps)
	least := 10 * steps[len(steps)/2]
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] > least {
			all = append(all, [2]float64{at[i-1], at[i]})
		}
	}
	return all
}

// count is n of what has a plural in s.
func count(n int, one string) string { return message.Count(n, one, one+"s") }

// newDetected reads the detections of records in their order, at the places at.
func newDetected(records []output.Record, at []float64, timed bool) *detected {
	d := &detected{warm: math.Inf(-1)}
	for i, r := range records {
		if r.WarmUp {
			d.warm = at[i]
		}
		is := cmp.Or(r.Detect, &output.Detection{}) // without one nothing is a number
		usual := cmp.Or(is.Usual, &output.Moments{})
		mean, off := output.First(usual.Mean), 2*output.First(usual.SD)
		d.score, d.threshold = append(d.score, output.OrNaN(is.Score)), append(d.threshold, output.OrNaN(is.Threshold))
		d.outlier, d.change = append(d.outlier, output.OrNaN(is.Outlier)), append(d.change, output.OrNaN(is.Change))
		d.usual, d.lowest, d.highest = append(d.usual, mean), append(d.lowest, mean-off), append(d.highest, mean+off)
		regime := math.NaN()
		switch {
		case r.Estimate != nil && r.Estimate.Regime != nil:
			regime = output.First(r.Estimate.Regime.Mean)
		case r.Estimate != nil:
			d.brief = true
			regime = output.First(r.Estimate.Mean)
		}
		d.regime = append(d.regime, regime)
		if is.Alarm != nil {
			d.alarms = append(d.alarms, at[i])
		}
		switch {
		case is.Starts():
			start := at[i] // brief records do not say it
			switch {
			case timed && is.Start != nil:
				start = seconds(*is.Start)
			case !timed && is.StartN > 0:
				start = float64(is.StartN)
			}
			from := start
			if n := len(d.changes); is.Kind == "revision" && n > 0 {
				from = min(start, d.changes[n-1].start)
				d.changes = d.changes[:n-1]
			}
			d.changes = append(d.changes, found{start, at[i], is.Delay})
			for j := i - 1; j >= 0 && at[j] >= from; j-- {
				d.regime[j] = math.NaN()
			}
		case is.Kind == "outlier":
			for _, v := range output.Observed(r.X, r.Predicted.Mean) {
				if !math.IsNaN(v) {
					d.outliers = append(d.outliers, chart.Point{X: at[i], Y: v})
				}
			}
		}
	}
	// What turned out to be the first observations of a regime are no outliers.
	d.outliers = slices.DeleteFunc(d.outliers, func(p chart.Point) bool {
		return slices.ContainsFunc(d.changes, func(c found) bool { return p.X >= c.start && p.X <= c.at })
	})
	return d
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// whose says to which filter weights and memory belong, where there are several.
func (s *estimates) whose() string {
	if s.bank {
		return " of the heaviest filter"
	}
	return ""
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
	panels := []chart.Panel{s.dataPanel()}
	if s.detected != nil {
		panels[0] = s.regimePanel(large)
		scored := some(s.score)
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
				silence.Name = "nothing came"
			}
			panels[i].Layers = append(panels[i].Layers, silence)
		}
		if s.detected != nil {
			panels[i].Layers = append(panels[i].Layers, s.marks(i == 0, large)...)
		}
	}
	return chart.Stack{Title: s.key, Note: s.note, X: x, Panels: panels}
}

// band is that of what is usual, or the prediction's: its interval where the records have one,
// else two standard deviations.
func (s *estimates) band() chart.Band {
	if s.usually {
		return chart.Band{Name: "usual ± 2 sd", X: s.at, Low: s.lowest, High: s.highest, Color: chart.Blue}
	}
	name := "predicted ± 2 sd"
	switch {
	case s.rates:
		name = "estimate ± 2 sd"
	case s.bounded:
		name = "predicted, lower to upper"
	}
	return chart.Band{Name: name, X: s.at, Low: s.low, High: s.high, Color: chart.Blue}
}

func (s *estimates) dataPanel() chart.Panel {
	lo, hi := dataRange(s.data, s.mean)
	if s.rates {
		lo, hi = rateRange(s.low, s.high)
	}
	return chart.Panel{Share: 2.2, Min: lo, Max: hi, Layers: among(s.data, s.rates,
		chart.Line{Name: "predicted", X: s.at, Y: s.mean, Color: chart.Blue, Width: 0.8},
		s.band(),
	)}
}

var (
	outlierColor = chart.Orange
	changeColor  = chart.Purple
	alarmColor   = chart.Vermilion
)

// regimePanel is the panel of the data where regimes were detected.
func (s *estimates) regimePanel(large bool) chart.Panel {
	lo, hi := dataRange(s.data, s.regime)
	estimate := "estimate in the regime"
	if s.brief {
		estimate = "estimate"
	}
	flags := chart.Flags{Name: "alarm", X: s.alarms, Color: alarmColor}
	regimes := chart.Line{Name: estimate, X: s.at, Y: s.regime, Color: chart.Blue, Width: 1.4}
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
		hi += 0.06 * (hi - lo) // the place of the delays
	}
	return chart.Panel{Share: 2.4, Min: lo, Max: hi, Layers: among(s.data, s.rates, layers...)}
}

// marks are what detection marks on every panel, in the legend of the first.
func (s *estimates) marks(first, large bool) []chart.Layer {
	changes := chart.Rules{Color: changeColor, Width: 1.1}
	regimes := chart.Stripes{Color: color.NRGBA{0x00, 0x00, 0x00, 0x0e}}
	search := chart.Spans{Color: color.NRGBA{0xcc, 0x79, 0xa7, 0x50}}
	warm := chart.Spans{Color: color.NRGBA{0x00, 0x9e, 0x73, 0x22}}
	for _, c := range s.changes {
		changes.X = append(changes.X, c.start)
		search.X = append(search.X, [2]float64{c.start, c.at})
		if first && large {
			changes.Labels = append(changes.Labels, fmt.Sprintf("+%d", c.delay))
		}
	}
	regimes.Edges = changes.X
	if !math.IsInf(s.warm, -1) {
		warm.X = [][2]float64{{math.Inf(-1), s.warm}}
	}
	if first {
		changes.Name, regimes.Name = "change, at the start of the new regime", "regimes"
		search.Name = "from its start until it is found"
		if large {
			search.Name += ", +n observations"
		}
		if warm.X != nil {
			warm.Name = "warm-up: nothing is alarmed"
		}
	}
	if s.brief {
		changes.Name, changes.Labels = strings.Replace(changes.Name, "at the start of the new regime", "where it was found", 1), nil
		return []chart.Layer{changes, warm, regimes}
	}
	return []chart.Layer{changes, search, warm, regimes}
}

// scorePanel is the score with its threshold, if the records have it.
func (s *estimates) scorePanel() chart.Panel {
	_, hi := chart.Extent(s.score, 10)
	for _, t := range s.threshold {
		if t > hi {
			hi = t
		}
	}
	hi *= 1.08
	return chart.Panel{Share: 1.2, Min: -.04 * hi, Max: hi, Ticks: 3, Layers: []chart.Layer{
		chart.Line{Name: "score", X: s.at, Y: s.score, Color: chart.Gray, Width: 0.8},
		chart.Line{Name: "threshold of an alarm", X: s.at, Y: s.threshold, Color: alarmColor, Width: 0.9, Dashed: true},
		chart.Arrows{Points: chart.Points(s.at, s.score), Color: chart.Black},
	}}
}

func (s *estimates) probabilityPanel() chart.Panel {
	return chart.Panel{Share: 1, Min: -0.04, Max: 1.04, Ticks: 3, Layers: []chart.Layer{
		chart.Line{Name: "p_change", X: s.at, Y: s.change, Color: changeColor, Width: 0.9},
		chart.Line{Name: "p_outlier", X: s.at, Y: s.outlier, Color: outlierColor, Width: 0.9},
	}}
}

func (s *estimates) weightPanel() chart.Panel {
	p := chart.Panel{Share: 1, Min: -0.04, Max: 1.04, Ticks: 3}
	for i, w := range s.weights {
		name := levelName(i)
		if i == 0 {
			name += s.whose()
		}
		p.Layers = append(p.Layers, chart.Line{Name: name, X: s.at, Y: w, Color: levelColor(i), Width: 0.9})
	}
	return p
}

func (s *estimates) memoryPanel() chart.Panel {
	lo, hi := positive(s.memory)
	p := chart.Panel{Share: 1, Max: max(1.05*hi, 1e-9), Layers: []chart.Layer{
		chart.Line{Name: "memory (observations)" + s.whose(), X: s.at, Y: s.memory, Color: chart.Blue, Width: 0.9},
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
