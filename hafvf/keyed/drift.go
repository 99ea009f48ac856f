package keyed

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"hafvf/hafvf/segments"
)

// A Drift describes a session whose level follows a straight line. The line is a least-squares fit to the means of ten
// blocks of the session. The season is subtracted from the values, and each value is weighted by the probability that
// it is not an outlier. All fields are on the data's scale. If the model uses another scale, the line is straight on
// that scale, and Rate is the mean rate over the session.
type Drift struct {
	// Rate is the change of the level per day, or per trial without times. Lower and Upper bound its 95 % interval, by
	// Student's t. The spread of the block means determines the interval, so correlated noise widens it.
	Rate, Lower, Upper float64
	From, To           float64 // levels at the first and at the last observation
	Positive           bool    // all values are above zero
}

// A session drifts if the line explains the share minExplained of the variance of the block means. A step reaches at
// most three quarters, and few random walks reach more. If a random walk explains the session better, as for a line
// with bends, the share minExplainedWalk is enough, but the residuals must not form a walk: their squared successive
// differences must sum to at least minStepRatio times their squares. This ratio is 2 for independent residuals, and
// near 0 for a walk.
const (
	nBlocks          = 10
	minExplained     = .92
	minExplainedWalk = .905
	minStepRatio     = .8
)

// drift returns the Drift of a session, or nil if a line does not explain the session. steps are the values on the
// model's scale without their season. Families other than normal have no Drift.
func (z *smoothing) drift(observations []Observation, steps [][][]float64, g *segments.Segmentation) *Drift {
	trend := g.Trend()
	if trend == segments.Steady || z.cfg.Family != "normal" {
		return nil
	}
	first := observations[0].Point()
	timeOf := func(p Point) float64 {
		if first.Time.IsZero() {
			return float64(p.Trial - first.Trial)
		}
		return p.Time.Sub(first.Time).Hours() / 24
	}
	var times, values, weights []float64
	d := &Drift{Positive: true}
	for i, o := range observations {
		for j, y := range steps[i] {
			if !math.IsNaN(y[0]) {
				times, values, weights = append(times, timeOf(o.Point())), append(values, y[0]), append(weights, 1-g.Outlier(i))
				d.Positive = d.Positive && o.X[j][0] > 0
			}
		}
	}
	var meanTimes, means []float64
	for i := range nBlocks {
		start, end := i*len(times)/nBlocks, (i+1)*len(times)/nBlocks
		meanTimes, means = append(meanTimes, stat.Mean(times[start:end], weights[start:end])), append(means, stat.Mean(values[start:end], weights[start:end]))
	}
	level, slope := stat.LinearRegression(meanTimes, means, nil, false)
	explained := stat.RSquared(meanTimes, means, nil, level, slope)
	var squares, successive, last float64
	for i := range times {
		residual := weights[i] * (values[i] - level - slope*times[i])
		if squares += residual * residual; i > 0 {
			successive += (residual - last) * (residual - last)
		}
		last = residual
	}
	if trend == segments.Wanders && (!(explained >= minExplainedWalk) || successive < minStepRatio*squares) || trend == segments.Drifts && !(explained >= minExplained) {
		return nil
	}
	const degrees = nBlocks - 2
	halfWidth := math.Abs(slope) * math.Sqrt((1-explained)/explained/degrees) * distuv.StudentsT{Sigma: 1, Nu: degrees}.Quantile(.975)
	// The lines of all slopes pass through the centre of the means.
	centre, length := stat.Mean(meanTimes, nil), timeOf(observations[len(observations)-1].Point())
	ends := func(s float64) (start, stop float64) {
		return z.scale.value(level + slope*centre - s*centre), z.scale.value(level + slope*centre + s*(length-centre))
	}
	rate := func(s float64) float64 { start, stop := ends(s); return (stop - start) / length }
	d.Rate, d.Lower, d.Upper = rate(slope), rate(slope-halfWidth), rate(slope+halfWidth)
	d.From, d.To = ends(slope)
	return d
}
