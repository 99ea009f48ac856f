package keyed

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"hafvf/hafvf/segments"
)

// A Drift is a session that a line explains. The line is that of least squares through the means of ten blocks of
// the session. Values are less their season, and each has the probability that it is no accident for its weight.
// Everything is on the data's scale. If the model has another one, the line is straight there, and Rate is its mean
// one over the session.
type Drift struct {
	// Rate is what the level gains a day, or without times a trial, and Lower to Upper its interval of 95 %, by
	// Student's t. As means of blocks scatter, correlated noise widens it.
	Rate, Lower, Upper float64
	From, To           float64 // levels at the first and at the last observation
	Positive           bool    // all values are above zero
}

// A session drifts if the line explains so much of the variance of the means: of a step that is at most three quarters,
// and of few walks more. If a walk explains the session better, as of a line with bends, a little less is enough, and the
// squares of the steps between what values are off the line have to be so large against the squares of these: 2 if they
// are independent, and near 0 in a walk.
const (
	blocks           = 10
	straight         = .92
	straightOfWander = .905
	leastSteps       = .8
)

// drift is that of a session, whose steps are the values on the model's scale less their season. It is nil of one that
// a line does not explain.
func (z *smoothing) drift(observations []Observation, steps [][][]float64, g *segments.Segmentation) *Drift {
	trend := g.Trend()
	if trend == segments.Steady || z.cfg.Family != "normal" {
		return nil
	}
	first := observations[0].Point()
	since := func(p Point) float64 {
		if first.Time.IsZero() {
			return float64(p.Trial - first.Trial)
		}
		return p.Time.Sub(first.Time).Hours() / 24
	}
	var at, values, weights []float64
	d := &Drift{Positive: true}
	for i, o := range observations {
		for j, y := range steps[i] {
			if !math.IsNaN(y[0]) {
				at, values, weights = append(at, since(o.Point())), append(values, y[0]), append(weights, 1-g.Outlier(i))
				d.Positive = d.Positive && o.X[j][0] > 0
			}
		}
	}
	var meanAt, means []float64
	for i := range blocks {
		from, end := i*len(at)/blocks, (i+1)*len(at)/blocks
		meanAt, means = append(meanAt, stat.Mean(at[from:end], weights[from:end])), append(means, stat.Mean(values[from:end], weights[from:end]))
	}
	level, slope := stat.LinearRegression(meanAt, means, nil, false)
	explained := stat.RSquared(meanAt, means, nil, level, slope)
	var squares, successive, last float64
	for i := range at {
		off := weights[i] * (values[i] - level - slope*at[i])
		if squares += off * off; i > 0 {
			successive += (off - last) * (off - last)
		}
		last = off
	}
	if trend == segments.Wanders && (!(explained >= straightOfWander) || successive < leastSteps*squares) || trend == segments.Drifts && !(explained >= straight) {
		return nil
	}
	const free = blocks - 2
	within := math.Abs(slope) * math.Sqrt((1-explained)/explained/free) * distuv.StudentsT{Sigma: 1, Nu: free}.Quantile(.975)
	// The line turns in the centre of the means.
	centre, length := stat.Mean(meanAt, nil), since(observations[len(observations)-1].Point())
	ends := func(s float64) (from, to float64) {
		return z.scale.value(level + slope*centre - s*centre), z.scale.value(level + slope*centre + s*(length-centre))
	}
	rate := func(s float64) float64 { from, to := ends(s); return (to - from) / length }
	d.Rate, d.Lower, d.Upper = rate(slope), rate(slope-within), rate(slope+within)
	d.From, d.To = ends(slope)
	return d
}
