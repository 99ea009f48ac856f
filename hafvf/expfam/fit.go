package expfam

import (
	"cmp"
	"math"
	"slices"

	"hafvf/internal/linear"
	"hafvf/internal/median"
)

// Fitted is a model whose naive prior can be set from data (empirical Bayes): to their location and scale, with
// the weight of about a hundredth of an observation. The result does not depend on the model's present prior.
type Fitted interface {
	Model
	// LocationScale returns location and scale of xs, which must have at least one observation, in the form of
	// Update and without missing values. For continuous values it uses robust estimates. Every model has its
	// own layout of the result.
	LocationScale(xs [][]float64) []float64
	// Fit returns the model with the prior for this location and scale. It is equivariant: scaled or shifted
	// data give the same inference in other units.
	Fit(locationScale []float64) Model
}

// An Excursive model has a separate prior for excursions, see hafvf.Detect.
type Excursive interface {
	Fitted
	// FitExcursions is Fit for a bank with detection.
	FitExcursions(locationScale []float64) Model
}

// A Segmented model has a separate prior for sessions whose level jumps.
type Segmented interface {
	Fitted
	// FitSegments is Fit for the values of a session in their order.
	FitSegments(xs [][]float64) Model
}

// vague is the weight of a fitted prior, in observations.
const vague = 0.01

// minScale is the minimum of scales, so that their squares do not underflow.
const minScale = 1 / MaxAbs

// LocationScale returns the median of x, which must not be empty, and a robust scale: the median absolute
// deviation from the median, in units of a normal distribution's standard deviation. If more than half of the
// values are equal, the scale is the mean absolute deviation in these units. If all are equal, it is a
// thousandth of their size, or 1 if they are 0. It is at least 1e-140.
func LocationScale(x []float64) (location, scale float64) {
	location = median.Of(x)
	deviation := make([]float64, len(x))
	mean := 0.0
	for i, v := range x {
		deviation[i] = math.Abs(v - location)
		mean += deviation[i] / float64(len(x))
	}
	switch scale = median.Of(deviation) / normalMedian; {
	case scale > 0:
	case mean > 0:
		scale = mean * math.Sqrt(math.Pi/2)
	case location != 0:
		scale = math.Abs(location) / 1000
	default:
		scale = 1
	}
	return location, math.Max(scale, minScale)
}

// normalMedian is the median of |x| for x ~ N(0, 1).
const normalMedian = 0.67448975019608174

// coordinate returns coordinate i of every vector.
func coordinate(xs [][]float64, i int) []float64 {
	out := make([]float64, len(xs))
	for t, x := range xs {
		out[t] = x[i]
	}
	return out
}

// scales returns location and scale of the first n coordinates, computed by estimate.
func scales(xs [][]float64, n int, estimate func(x []float64) (location, scale float64)) (ls []float64) {
	for i := range n {
		location, scale := estimate(coordinate(xs, i))
		ls = append(ls, location, scale)
	}
	return ls
}

// LocationScale returns median and scale.
func (normal) LocationScale(xs [][]float64) []float64 { return scales(xs, 1, LocationScale) }

// Fit implements Fitted.
func (normal) Fit(ls []float64) Model {
	return normal{mu: ls[0], kappa: vague, alpha: 1, beta: ls[1] * ls[1]}
}

// segmentScale is LocationScale, but uses the scale of the differences between neighbours if it is smaller.
// With many levels, the scale of all values is the scale of the levels, which would make the prior of each
// segment so wide that a change costs about 20 nats.
func segmentScale(x []float64) (location, scale float64) {
	location, scale = LocationScale(x)
	differences := make([]float64, len(x)-1)
	for i := range differences {
		differences[i] = math.Abs(x[i+1] - x[i])
	}
	if len(differences) > 0 {
		if neighbourScale := median.Of(differences) / normalMedian / math.Sqrt2; neighbourScale > 0 {
			scale = math.Max(math.Min(scale, neighbourScale), minScale)
		}
	}
	return location, scale
}

// FitSegments implements Segmented.
func (m normal) FitSegments(xs [][]float64) Model { return m.Fit(scales(xs, 1, segmentScale)) }

// LocationScale returns median and scale of every coordinate.
func (m mvnormal) LocationScale(xs [][]float64) []float64 { return scales(xs, m.m, LocationScale) }

// FitSegments implements Segmented.
func (m mvnormal) FitSegments(xs [][]float64) Model { return m.Fit(scales(xs, m.m, segmentScale)) }

// Fit implements Fitted.
func (m mvnormal) Fit(ls []float64) Model {
	rK, rL := linear.NewTriangle(1), linear.NewTriangle(m.m)
	rK.Set(0, 0, math.Sqrt(vague))
	mean := make([][]float64, m.m)
	for i := range m.m {
		mean[i] = []float64{ls[2*i]}
		rL.Set(i, i, ls[2*i+1])
	}
	return mvnormal{newGram(rK, rL, mean, float64(m.m+1))}
}

// LocationScale returns the mean of the exponential distribution that has the median of xs, or the mean of xs
// if half of the values are zero.
func (exponential) LocationScale(xs [][]float64) []float64 {
	x := coordinate(xs, 0)
	return []float64{math.Max(cmp.Or(median.Of(x)/math.Ln2, mean(x), 1), minScale)}
}

// Fit gives the rate a prior worth one observation: with less, the predictive distribution has no mean.
func (exponential) Fit(ls []float64) Model {
	return exponential{newGamma(1, ls[0])}
}

// FitExcursions gives the rate a prior worth one and a half observations, with a finite predictive mean. An
// excursion of a single observation, and with it the whole mixture, then has a variance. On 24 streams of 1,500
// values each, whose mean changes by a factor of 2, 4 or 10, the log predictive is -2.949, -2.598 and -2.186
// with this prior, and -2.954, -2.613 and -2.267 with the prior of Fit. Of 504 changes, this prior finds 278
// with 35 false ones, and the prior of Fit 282 with 52 false ones.
func (exponential) FitExcursions(ls []float64) Model {
	return exponential{newGamma(1.5, .5*ls[0])}
}

// LocationScale returns the mean, with half a count added so that it is not zero.
func (poisson) LocationScale(xs [][]float64) []float64 {
	return []float64{mean(coordinate(xs, 0)) + 0.5/float64(len(xs))}
}

// Fit gives the mean a prior worth one event.
func (poisson) Fit(ls []float64) Model {
	return poisson{newGamma(1, 1/ls[0])}
}

func mean(x []float64) float64 {
	m := 0.0
	for i, v := range x {
		m += (v - m) / float64(i+1)
	}
	return m
}

// LocationScale returns location and scale of the target. For every regressor it also returns the root mean
// square, and its value if it is constant or 0 if it is not.
func (r regression) LocationScale(xs [][]float64) []float64 {
	location, scale := LocationScale(coordinate(xs, r.p))
	ls := []float64{location, scale}
	for i := range r.p {
		u := coordinate(xs, i)
		square := 0.0
		for _, v := range u {
			square += v * v / float64(len(u))
		}
		constant := u[0]
		if slices.ContainsFunc(u, func(v float64) bool { return v != u[0] }) {
			constant = 0
		}
		ls = append(ls, math.Sqrt(square), constant)
	}
	return ls
}

// Fit puts the target's location into the coefficient of the first constant regressor.
func (r regression) Fit(ls []float64) Model {
	location, scale := ls[0], ls[1]
	mean, size := make([]float64, r.p), make([]float64, r.p)
	placed := false
	for i := range r.p {
		size[i] = cmp.Or(ls[2+2*i], 1)
		if c := ls[3+2*i]; c != 0 && !placed {
			mean[i] = location / c
			placed = true
		}
	}
	return fitRegression(mean, size, vague, scale)
}

// fitRegression returns the regression whose prior is worth the given number of observations, with regressors
// of the given sizes and residuals of the given scale.
func fitRegression(mean, size []float64, worth, scale float64) regression {
	n := len(mean)
	rK, rL := linear.NewTriangle(n), linear.NewTriangle(1)
	for i := range n {
		rK.Set(i, i, math.Sqrt(worth)*size[i])
	}
	rL.Set(0, 0, math.Sqrt2*scale)
	return regression{newGram(rK, rL, [][]float64{mean}, 2)}
}

// LocationScale returns median and scale of the values.
func (ar) LocationScale(xs [][]float64) []float64 { return normal{}.LocationScale(xs) }

// Fit gives the coefficients a prior worth a tenth of an observation, because they are hardly ever far above 1.
func (a ar) Fit(ls []float64) Model {
	location, scale := ls[0], ls[1]
	mean := make([]float64, a.p)
	size := slices.Repeat([]float64{math.Hypot(location, scale)}, a.p)
	if a.intercept {
		mean[a.order], size[a.order] = location, 1
	}
	return ar{regression: fitRegression(mean, size, 10*vague, scale), order: a.order, intercept: a.intercept}
}
