package hafvf

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/domain"
)

// A Prediction holds the results that Bank.PredictAll computes, in slices of length Model.Outputs.
type Prediction struct {
	Mean, SD             []float64 // of the next observation, as PredictAfter
	RegimeMean, RegimeSD []float64 // as PredictRegime; nil: not computed
	// Lower and Upper are the bounds of the central interval that contains the next observation with
	// probability Level: the quantiles at (1 − Level)/2 and (1 + Level)/2 of the whole mixture, each component
	// with its weight at its prior mean. Unlike Mean, they include excursions that start at the next
	// observation. A quantile is the smallest value whose distribution function is at least the probability; it
	// is exact to about 1e-7 of the scale of the prediction. If Lower is nil, no bounds are computed.
	Lower, Upper []float64
	Level        float64
	// Extra lists normals about Mean that are mixed into the distribution of the bounds. The mixture of the
	// bank has the rest of the weight. The standard deviations of the normals are multiples of RegimeSD. For an
	// output whose RegimeSD is not positive and finite, or whose Mean is not finite, Extra has no effect.
	Extra []Normal
}

// A Normal is a normal distribution, with its standard deviation in multiples of another one, and its weight.
type Normal struct{ SDFactor, Weight float64 }

// PredictAll is PredictAfter, PredictRegime and Interval in one pass over the hypotheses.
//
// It panics if Level is not in domain.Interval while Lower is set, if a slice has the wrong length, or if Lower
// is set and the model is not an expfam.Predictor. All models of package expfam are Predictors.
func (b *Bank) PredictAll(req *Prediction, s State, elapsed float64, x []float64) {
	b.begin(req.Mean, req.SD, req.RegimeMean, req.RegimeSD, s)
	if req.Lower != nil {
		b.checkMoments(req.Lower, req.Upper, s)
		if err := domain.Interval.Check("level", req.Level); err != nil {
			panic("hafvf: interval." + err.Error())
		}
	}
	parts := b.hypotheses(s, elapsed, x)
	excursions, n := len(parts)-len(b.members), b.Model().Outputs()
	b.laws = b.laws[:0]
	for i := range parts {
		b.moments(&parts[i], req.Lower != nil)
		b.mixture.add(parts[i].weight)
		if b.regimeMixture.toMean != nil && i >= excursions {
			b.regimeMixture.add(b.gains[i-excursions])
		}
	}
	if req.Lower == nil {
		return
	}
	parts = b.starting(parts, s, x)
	for i := len(b.laws) / n; i < len(parts); i++ {
		b.addLaws(&parts[i])
	}
	for k, mean := range req.Mean {
		extra, restWeight := req.Extra, 1.
		if extra != nil && (!(req.RegimeSD[k] > 0) || notFinite(req.RegimeSD[k]) || notFinite(mean)) {
			extra = nil
		}
		total := len(extra) + len(parts)
		b.mixed = slices.Grow(b.mixed[:0], total)[:total]
		for i, o := range extra {
			c, sd := &b.mixed[i], o.SDFactor*req.RegimeSD[k]
			c.Distribution, c.weight = expfam.Student(mean, sd*sd, math.MaxFloat64), o.Weight
			restWeight -= o.Weight
		}
		for i := range parts {
			c := &b.mixed[len(extra)+i]
			c.Distribution, c.weight = b.laws[i*n+k], restWeight*parts[i].weight
		}
		req.Lower[k], req.Upper[k] = b.mixed.interval(req.Level, mean, req.SD[k])
	}
}

// addLaws appends the distributions of a component to laws, one per output.
func (b *Bank) addLaws(p *mixturePart) {
	start := len(b.laws)
	b.laws = slices.Grow(b.laws, b.Model().Outputs())[:start+b.Model().Outputs()]
	if p.line != nil {
		p.line.Predictive(b.laws[start:], p.sample, p.w, p.regressors)
		return
	}
	p.model.(expfam.Predictor).Predictive(b.laws[start:], p.sample, p.w, p.regressors)
}

// Interval writes the bounds of a central interval, see Prediction. elapsed and x have the same meaning as in
// PredictAfter.
func (b *Bank) Interval(lower, upper []float64, level float64, s State, elapsed float64, x []float64) {
	b.PredictAll(&Prediction{Mean: lower, SD: upper, Lower: lower, Upper: upper, Level: level}, s, elapsed, x)
}

// starting appends the components of excursions that start at the next observation to parts, and reduces the
// weights of the members accordingly. parts is the result of hypotheses, which ends with the members.
func (b *Bank) starting(parts []mixturePart, s State, x []float64) []mixturePart {
	if b.detector == nil {
		return parts
	}
	ds := b.detection(s)
	outliers, changes := ds.starts()
	v := ds.learned()
	stay := 0.0
	members := parts[len(parts)-len(b.members):]
	for _, p := range members {
		stay += p.weight
	}
	for i := range members {
		members[i].weight *= 1 - ds[atStay]*(outliers+changes)/stay
	}
	class := b.detector.class(ds)
	return append(parts,
		mixturePart{b.Model(), nil, class, 0, ds[atStay] * (changes + (1-v)*outliers), x},
		mixturePart{b.Model(), nil, class, 1, ds[atStay] * v * outliers, x})
}

// A component of a mixture is a distribution with a weight.
type component struct {
	expfam.Distribution
	weight float64
}

// mixed is a mixture. Its weights sum to one.
type mixed []component

// interval returns the central interval with probability level. mean and sd are the moments of the mixture.
func (m mixed) interval(level, mean, sd float64) (lower, upper float64) {
	below, total := (1-level)/2, m.CDF(math.Inf(1)) // rounding may make total less than 1
	sd = m.spread(total, mean, sd)
	lower = m.quantile(below*total, mean, sd)
	return lower, math.Max(lower, m.quantile((1-below)*total, mean, sd))
}

// CDF returns P(X ≤ x).
func (m mixed) CDF(x float64) float64 {
	p := 0.0
	for i := range m {
		if c := &m[i]; c.weight > 0 {
			p += c.weight * c.Distribution.CDF(x)
		}
	}
	return p
}

// spread returns the scale of the prediction, to which quantiles are exact. It is sd, or half of the distance
// between the quartiles if sd is not finite or not positive.
func (m mixed) spread(total, mean, sd float64) float64 {
	if !notFinite(sd) && sd > 0 {
		return sd
	}
	sd = 1
	if !notFinite(mean) {
		sd = math.Max(1, math.Abs(mean))
	}
	for {
		half := (m.quantile(.75*total, mean, sd) - m.quantile(.25*total, mean, sd)) / 2
		if half > 1e-6*sd && !notFinite(half) {
			return half
		}
		finer := 1e-9 * sd
		if finer == 0 || notFinite(half) {
			return sd
		}
		sd = finer
	}
}

// quantile returns the smallest value at which the distribution function is at least p, or NaN if the
// distribution function is NaN. mean and sd are the location and scale of the mixture; mean need not be finite.
func (m mixed) quantile(p, mean, sd float64) float64 {
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	if _, whole := m[0].Lattice(); !whole {
		if x, ok := m.newton(p, z, sd); ok {
			return x
		}
	}
	if notFinite(mean) {
		mean = 0
	}
	if !notFinite(z) {
		mean += z * sd
	}
	return m.bisect(p, mean, sd)
}

// bisect finds the quantile of p by bisection, from a bracket around x on.
func (m mixed) bisect(p, x, sd float64) float64 {
	lo, hi := x-sd/4, x+sd/4
	below, above := m.CDF(lo)-p, m.CDF(hi)-p
	for step := sd / 4; below >= 0 && !math.IsInf(lo, 0); step *= 2 {
		hi, above = lo, below
		lo -= step
		below = m.CDF(lo) - p
	}
	for step := sd / 4; above < 0 && !math.IsInf(hi, 0); step *= 2 {
		lo, below = hi, above
		hi += step
		above = m.CDF(hi) - p
	}
	if math.IsNaN(below) || math.IsNaN(above) {
		return math.NaN()
	}
	perUnit, whole := m[0].Lattice()
	if whole && perUnit >= 1 && math.Max(-lo, hi)*perUnit < 0x1p52 {
		const rounding = 0x1p-51 // relative, of k/n and of the product
		return m.onLattice(p, perUnit, math.Floor(lo*perUnit*(1-rounding)), math.Floor(hi*perUnit*(1+rounding)), below, above)
	}
	tolerance := 1e-9 * sd
	for hi-lo > tolerance {
		middle := lo + (hi-lo)/2
		if middle <= lo || middle >= hi {
			break // lo and hi are neighbouring floats
		}
		if m.CDF(middle) < p {
			lo = middle
		} else {
			hi = middle
		}
	}
	if whole { // a bound of a share is at most 1
		if integer := math.Round(hi); math.Abs(hi-integer) <= 2*tolerance && m.CDF(integer) >= p {
			return integer
		}
	}
	return hi
}

// newton finds the quantile of p by Newton's method. z is the quantile of p of a standard normal. ok is false if the
// iteration does not converge quickly.
func (m mixed) newton(p, z, sd float64) (quantile float64, ok bool) {
	const tolerance = 3e-8 // in units of sd
	heaviest, width := &m[0], math.Inf(1)
	for i := range m {
		if c := &m[i]; c.weight > 0 {
			if width = math.Min(width, c.Width()); c.weight > heaviest.weight {
				heaviest = c
			}
		}
	}
	x, last := heaviest.Near(p, z), 0. // last is the density at the previous point
	for range 10 {
		f, density := -p, 0.
		for i := range m {
			if c := &m[i]; c.weight > 0 {
				cdf, slope := c.At(x)
				f, density = f+c.weight*cdf, density+c.weight*slope
			}
		}
		step := f / density
		x -= step
		switch {
		case !(math.Abs(step) < 4*sd):
			return 0, false
		case math.Abs(step) < width/20 && math.Abs(step*(density-last)) < tolerance*sd*density:
			return x, true // the error is below step/2 times the relative change of the density
		}
		last = density
	}
	return 0, false
}

// onLattice returns the quantile of p among the multiples of 1/perUnit in (lo/perUnit, hi/perUnit]. below and
// above are the distribution function minus p at the two ends; below is negative, above is not.
func (m mixed) onLattice(p, perUnit, lo, hi, below, above float64) float64 {
	for i := 0; hi-lo > 1; i++ {
		k := math.Floor(lo + (hi-lo)/2)
		if i%2 == 0 {
			k = math.Max(lo+1, math.Min(math.Floor(lo-below*(hi-lo)/(above-below)), hi-1))
		}
		if f := m.CDF(k/perUnit) - p; f < 0 {
			lo, below = k, f
		} else {
			hi, above = k, f
		}
	}
	return hi / perUnit
}
