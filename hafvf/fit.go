package hafvf

import (
	"math"
	"slices"
)

// A Fitted model's naive prior can be set by data: to their location and scale,
// and to the worth of about a hundredth of an observation, whatever the prior of
// the model that is asked.
type Fitted interface {
	Model
	// Gauge measures location and scale of at least one observation, complete,
	// as Update takes them; robustly where the values are continuous.
	Gauge(xs [][]float64) []float64
	// Fit returns the model with the prior that a gauge gives. Data that are
	// scaled or moved give the same inference in other units.
	Fit(gauge []float64) Model
}

// vague is what a fitted prior is worth, in observations.
const vague = 0.01

// location is the median, and scale the median absolute deviation from it, in
// units of a normal distribution's standard deviation. Where more than half of
// the values are equal, it is the mean absolute deviation; where all are, a
// thousandth of their size, or 1.
func locationScale(x []float64) (location, scale float64) {
	location = median(x)
	deviation := make([]float64, len(x))
	mean := 0.0
	for i, v := range x {
		deviation[i] = math.Abs(v - location)
		mean += deviation[i] / float64(len(x))
	}
	const normalMedian = 0.67448975019608174 // of |x|, for x ~ N(0, 1)
	switch scale = median(deviation) / normalMedian; {
	case scale > 0:
	case mean > 0:
		scale = mean * math.Sqrt(math.Pi/2)
	case location != 0:
		scale = math.Abs(location) / 1000
	default:
		scale = 1
	}
	return location, scale
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	return s[(n-1)/2] + (s[n/2]-s[(n-1)/2])/2
}

// coordinate is the i-th of every vector.
func coordinate(xs [][]float64, i int) []float64 {
	out := make([]float64, len(xs))
	for t, x := range xs {
		out[t] = x[i]
	}
	return out
}

// Gauge is median and scale.
func (normal) Gauge(xs [][]float64) []float64 {
	location, scale := locationScale(coordinate(xs, 0))
	return []float64{location, scale}
}

// Fit implements Fitted.
func (normal) Fit(gauge []float64) Model {
	return normal{mu: gauge[0], kappa: vague, alpha: 1, beta: gauge[1] * gauge[1]}
}

// Gauge is median and scale of every coordinate.
func (m mvnormal) Gauge(xs [][]float64) (gauge []float64) {
	for i := range m.m {
		location, scale := locationScale(coordinate(xs, i))
		gauge = append(gauge, location, scale)
	}
	return gauge
}

// Fit implements Fitted.
func (m mvnormal) Fit(gauge []float64) Model {
	rK, rL := newTriangle(1), newTriangle(m.m)
	rK.set(0, 0, math.Sqrt(vague))
	mean := make([][]float64, m.m)
	for i := range m.m {
		mean[i] = []float64{gauge[2*i]}
		rL.set(i, i, gauge[2*i+1])
	}
	return mvnormal{newGram(rK, rL, mean, float64(m.m+1))}
}

// Gauge is the mean that an exponential distribution of that median has, or
// where half of the values are zero, their mean.
func (exponential) Gauge(xs [][]float64) []float64 {
	x := coordinate(xs, 0)
	scale := median(x) / math.Ln2
	if scale == 0 {
		scale = mean(x)
	}
	if scale == 0 {
		scale = 1
	}
	return []float64{scale}
}

// Fit gives the rate a prior worth one duration: one worth less has no mean.
func (exponential) Fit(gauge []float64) Model {
	return exponential{newGamma(1, gauge[0])}
}

// Gauge is the mean, of half a count more than there are, so that it isn't zero.
func (poisson) Gauge(xs [][]float64) []float64 {
	return []float64{mean(coordinate(xs, 0)) + 0.5/float64(len(xs))}
}

// Fit gives the mean a prior worth one event.
func (poisson) Fit(gauge []float64) Model {
	return poisson{newGamma(1, 1/gauge[0])}
}

func mean(x []float64) float64 {
	m := 0.0
	for i, v := range x {
		m += (v - m) / float64(i+1)
	}
	return m
}

// Gauge is location and scale of the target, and of every regressor its root mean
// square and, where it is constant, its value.
func (r regression) Gauge(xs [][]float64) []float64 {
	location, scale := locationScale(coordinate(xs, r.p))
	gauge := []float64{location, scale}
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
		gauge = append(gauge, math.Sqrt(square), constant)
	}
	return gauge
}

// Fit puts the target's location into the coefficient of the first constant
// regressor.
func (r regression) Fit(gauge []float64) Model {
	location, scale := gauge[0], gauge[1]
	mean, size := make([]float64, r.p), make([]float64, r.p)
	placed := false
	for i := range r.p {
		size[i] = gauge[2+2*i]
		if size[i] == 0 {
			size[i] = 1
		}
		if c := gauge[3+2*i]; c != 0 && !placed {
			mean[i] = location / c
			placed = true
		}
	}
	return fitRegression(mean, size, vague, scale)
}

// fitRegression is the regression whose coefficients have the prior of worth
// observations with regressors of the given sizes, and residuals of the scale.
func fitRegression(mean, size []float64, worth, scale float64) regression {
	n := len(mean)
	rK, rL := newTriangle(n), newTriangle(1)
	for i := range n {
		rK.set(i, i, math.Sqrt(worth)*size[i])
	}
	rL.set(0, 0, math.Sqrt2*scale)
	return regression{newGram(rK, rL, [][]float64{mean}, 2)}
}

// Gauge is median and scale of the values.
func (a ar) Gauge(xs [][]float64) []float64 {
	location, scale := locationScale(coordinate(xs, 0))
	return []float64{location, scale}
}

// Fit gives the weights of the past a prior worth a tenth of an observation, for
// they are hardly ever far above 1.
func (a ar) Fit(gauge []float64) Model {
	location, scale := gauge[0], gauge[1]
	mean := make([]float64, a.p)
	size := slices.Repeat([]float64{math.Hypot(location, scale)}, a.p)
	if a.intercept {
		mean[a.order], size[a.order] = location, 1
	}
	return ar{regression: fitRegression(mean, size, 10*vague, scale), order: a.order, intercept: a.intercept}
}
