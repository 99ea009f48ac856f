package segments

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/linear"
	"hafvf/internal/special"
)

// laneWeights are the fixed weights of a Segmenter's lanes: memories of 5, 12, 40, 200 and
// 5000 observations.
var laneWeights = [...]float64{.8, .92, .975, .995, .9998}

const (
	laneCount  = len(laneWeights)
	shareDecay = .999 // by which the lanes' log shares are drawn towards equal ones at every step
	placeReach = 30   // observations on either side of an edge that may be its place
)

// perLane is a number for every lane.
type perLane [laneCount]float64

// lanes are the filters of fixed weight that a Segmenter averages, with the scratch of one
// goroutine. A set of samples holds that of every lane, one after the other. An
// observation is one of the steps of a Segmentation that have something to learn.
type lanes struct {
	rowsOf *expfam.Rows
	model  expfam.Model // of rows
	line   expfam.Line
	width  int       // floats of a sample
	stats  []float64 // ΣT(x) of an observation
	set    []float64 // of samples
	window []float64 // sets of samples, of the observations within reach of an edge
	places []float64 // evidence of these

	complete [][]float64 // rows that aren't missing
}

func newLanes(m expfam.Model) *lanes {
	l := &lanes{width: m.Len(), stats: make([]float64, m.Len())}
	l.use(m)
	l.set = l.newSet()
	l.window = make([]float64, (2*placeReach+1)*len(l.set))
	return l
}

// use replaces the model.
func (l *lanes) use(m expfam.Model) {
	l.rowsOf = expfam.NewRows(m)
	l.model = withoutWindow(m)
	l.line = l.model.NewLine()
}

// withoutWindow is m as a model of rows, without a window of past values.
func withoutWindow(m expfam.Model) expfam.Model {
	if _, ok := m.(expfam.Sequential); ok {
		return struct{ expfam.Model }{m}
	}
	return m
}

func (l *lanes) newSet() []float64 { return make([]float64, laneCount*l.width) }

// lane is the sample that a set has for lane i.
func (l *lanes) lane(set []float64, i int) []float64 {
	return set[i*l.width : (i+1)*l.width : (i+1)*l.width]
}

// setAt is set j of those that sets holds.
func (l *lanes) setAt(sets []float64, j int) []float64 {
	n := laneCount * l.width
	return sets[j*n : (j+1)*n : (j+1)*n]
}

// rows are those of observation i that aren't missing, valid until the next call.
func (l *lanes) rows(g *Segmentation, i int) [][]float64 {
	rows := l.rowsOf.At(g.earlier, g.steps, g.at[i])
	if len(rows) == 1 || !slices.ContainsFunc(rows, expfam.Incomplete) {
		return rows
	}
	l.complete = l.complete[:0]
	for _, row := range rows {
		if !expfam.Incomplete(row) {
			l.complete = append(l.complete, row)
		}
	}
	return l.complete
}

// advance makes every lane forget, and learn observation i.
func (l *lanes) advance(set []float64, g *Segmentation, i int) {
	rows, regular := l.rows(g, i), g.regular[i]
	for j, w := range laneWeights {
		d := l.lane(set, j)
		l.model.Scale(d, w)
		l.observe(d, rows, regular)
	}
}

// observe adds regular·ΣT(x) to the sample d.
func (l *lanes) observe(d []float64, rows [][]float64, regular float64) {
	if regular > 0 {
		for _, row := range rows {
			l.model.Observe(d, row, regular)
		}
	}
}

// forward runs the lanes over the observations from, …, end−1.
func (l *lanes) forward(set []float64, g *Segmentation, from, end int) {
	for i := from; i < end; i++ {
		l.advance(set, g, i)
	}
}

// backward runs the lanes over the observations end−1, …, from, where end is that of a segment or
// of a part, beyond which a segment goes on.
func (l *lanes) backward(set []float64, g *Segmentation, part, from, end int) {
	if clear(set); end == g.bounds[part+1] {
		copy(set, g.crossings[1][part].set)
	}
	for i := end - 1; i >= from; i-- {
		l.advance(set, g, i)
	}
}

// score is advance, and adds to every lane's log share, and to its log likelihood, what it
// predicted of the observation.
func (l *lanes) score(share, likelihood *perLane, set []float64, g *Segmentation, i int) {
	rows, regular := l.rows(g, i), g.regular[i]
	clear(l.stats)
	l.observe(l.stats, rows, 1)
	top := math.Inf(-1)
	for j, w := range laneWeights {
		d := l.lane(set, j)
		l.model.Scale(d, w)
		if regular > 0 {
			l.line.Set(d, l.stats)
			gain := regular * l.line.Gain(1)
			share[j] += gain
			likelihood[j] += gain
			l.observe(d, rows, regular)
		}
		top = math.Max(top, share[j])
	}
	for j := range share {
		share[j] -= top
	}
}

// decay draws log shares towards equal ones.
func (p *perLane) decay() { linear.Scale(p[:], shareDecay) }

// normalise makes the shares, of which p holds logarithms, sum to one.
func (p *perLane) normalise() {
	sum := special.LogSumExp(p[:])
	for j := range p {
		p[j] -= sum
	}
}

// evidence is the change evidence E of the samples before and after, averaged over the
// lanes under the log shares p:
//
//	E = −log Σ pᵢ exp(−Eᵢ),  Eᵢ = B(fᵢ) + B(bᵢ) − B(fᵢ + bᵢ) − B(0)
//
// Where one plausible lane explains both sides, by drift, there is no change.
func (l *lanes) evidence(before, after []float64, p *perLane) float64 {
	var terms perLane
	for j := range terms {
		terms[j] = p[j] - l.evidenceOf(j, before, after)
	}
	return -special.LogSumExp(terms[:])
}

func (l *lanes) evidenceOf(lane int, before, after []float64) float64 {
	return l.bayesFactor(l.lane(before, lane), l.lane(after, lane))
}

// bayesFactor is the logarithm of that of two samples against one.
func (l *lanes) bayesFactor(before, after []float64) float64 {
	l.line.Set(before, after)
	if e, ok := l.line.(expfam.EvidenceLine); ok {
		return e.Evidence()
	}
	return l.line.Gain(0) - l.line.Gain(1)
}

// locate computes the evidence of every place that edge c between the segments [from, c)
// and [c, end) may have. It returns the first of the places and their evidence, which is
// valid until the next call. The sets are those of the forward pass, by observation, or nil
// where there was none.
func (l *lanes) locate(g *Segmentation, sets []float64, from, c, end int, p *perLane) (first int, evidence []float64) {
	first, last := max(from+1, c-placeReach), min(end-1, c+placeReach)
	set, known := l.set, first-1
	if sets == nil {
		clear(set)
		l.forward(set, g, from, known)
	} else {
		known = c
		copy(l.window, sets[(first-1)*len(set):c*len(set)])
		copy(set, l.setAt(sets, c-1))
	}
	for i := known; i < last; i++ {
		l.advance(set, g, i)
		copy(l.setAt(l.window, i+1-first), set)
	}
	l.places = append(l.places[:0], make([]float64, last-first+1)...)
	l.backward(set, g, g.parts()-1, last+1, end)
	for i := last; i >= first; i-- {
		l.advance(set, g, i)
		l.places[i-first] = l.evidence(l.setAt(l.window, i-first), set, p)
	}
	return first, l.places
}
