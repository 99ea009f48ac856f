package segments

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/linear"
	"hafvf/internal/special"
)

// laneWeights are the fixed weights of a Segmenter's lanes: memories of 5, 12, 40, 200 and 5000 observations.
var laneWeights = [...]float64{.8, .92, .975, .995, .9998}

const (
	laneCount  = len(laneWeights)
	shareDecay = .999 // decay of the lanes' log shares towards equality per step
	placeReach = 30   // maximum distance of an edge's place from the edge, in observations
)

// perLane holds a number per lane.
type perLane [laneCount]float64

// lanes are the filters of fixed weight that a Segmenter averages, with the scratch of one goroutine. A set of
// samples holds one sample per lane, one after the other. An observation is a step of a Segmentation that has
// values to learn; it is identified by its index among these steps.
type lanes struct {
	rowSource *expfam.Rows
	model     expfam.Model // model of the rows
	line      expfam.Line
	width     int       // floats in a sample
	stats     []float64 // ΣT(x) of an observation
	set       []float64 // a set of samples
	window    []float64 // a set of samples per observation within reach of an edge
	places    []float64 // evidence of the places of an edge

	complete [][]float64 // rows without missing values
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
	l.rowSource = expfam.NewRows(m)
	l.model = withoutWindow(m)
	l.line = l.model.NewLine()
}

// withoutWindow returns m as a model of rows, without a window of previous values.
func withoutWindow(m expfam.Model) expfam.Model {
	if _, ok := m.(expfam.Sequential); ok {
		return struct{ expfam.Model }{m}
	}
	return m
}

func (l *lanes) newSet() []float64 { return make([]float64, laneCount*l.width) }

// lane returns the sample of lane i in a set. It aliases set.
func (l *lanes) lane(set []float64, i int) []float64 {
	return set[i*l.width : (i+1)*l.width : (i+1)*l.width]
}

// setAt returns set j of sets. It aliases sets.
func (l *lanes) setAt(sets []float64, j int) []float64 {
	n := laneCount * l.width
	return sets[j*n : (j+1)*n : (j+1)*n]
}

// rows returns the rows of observation i that are not missing, valid until the next call.
func (l *lanes) rows(g *Segmentation, i int) [][]float64 {
	rows := l.rowSource.At(g.earlier, g.steps, g.stepIndex[i])
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

// backward runs the lanes over the observations end−1, …, from. end must be the end of a segment, or the end of
// a part in which a segment continues beyond the part.
func (l *lanes) backward(set []float64, g *Segmentation, part, from, end int) {
	if clear(set); end == g.bounds[part+1] {
		copy(set, g.crossings[1][part].set)
	}
	for i := end - 1; i >= from; i-- {
		l.advance(set, g, i)
	}
}

// score is advance, and also adds the log predictive of the observation to every lane's log share and log
// likelihood.
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

// decay moves log shares towards equality.
func (p *perLane) decay() { linear.Scale(p[:], shareDecay) }

// normalise makes the shares sum to one. p holds their logarithms.
func (p *perLane) normalise() {
	sum := special.LogSumExp(p[:])
	for j := range p {
		p[j] -= sum
	}
}

// evidence returns the change evidence E of the samples before and after, averaged over the lanes under the log
// shares p:
//
//	E = −log Σ pᵢ exp(−Eᵢ),  Eᵢ = B(fᵢ) + B(bᵢ) − B(fᵢ + bᵢ) − B(0)
//
// If one plausible lane explains both sides by drift, there is no change.
func (l *lanes) evidence(before, after []float64, p *perLane) float64 {
	var terms perLane
	for j := range terms {
		terms[j] = p[j] - l.laneEvidence(j, before, after)
	}
	return -special.LogSumExp(terms[:])
}

func (l *lanes) laneEvidence(lane int, before, after []float64) float64 {
	return l.bayesFactor(l.lane(before, lane), l.lane(after, lane))
}

// bayesFactor returns the log Bayes factor of two samples against one.
func (l *lanes) bayesFactor(before, after []float64) float64 {
	l.line.Set(before, after)
	if e, ok := l.line.(expfam.EvidenceLine); ok {
		return e.Evidence()
	}
	return l.line.Gain(0) - l.line.Gain(1)
}

// locate computes the evidence of every possible place of edge c between the segments [from, c) and [c, end).
// It returns the first of the places and the evidence of all, which is valid until the next call. sets holds
// the sets of the forward pass by observation, or is nil if there was no such pass.
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
