package hafvf

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/domain"
)

// A Prediction says what is asked of Bank.PredictAll: slices of length Model.Outputs.
type Prediction struct {
	Mean, SD             []float64 // of the next observation, as PredictAfter
	RegimeMean, RegimeSD []float64 // as PredictRegime; nil: not asked for
	// Lower and Upper are the bounds of the central interval that holds the next observation
	// with probability Level: the quantiles at (1 − Level)/2 and (1 + Level)/2 of the whole mixture,
	// each component with its weight at its prior mean. Other than Mean it has the part of what
	// starts at this very observation. A quantile is the smallest value whose distribution function is
	// at least that probability; it is exact to about 1e-7 of the scale of the prediction.
	// Lower is nil if no bounds are asked for.
	Lower, Upper []float64
	Level        float64
	// Beside are normals about Mean that the distribution of the bounds has beside the mixture, which has the rest of the
	// weight. They go by RegimeSD: where that is not positive and finite, or Mean is not finite, there are none.
	Beside []Normal
}

// A Normal is one of some times a standard deviation, with its weight.
type Normal struct{ Times, Weight float64 }

// PredictAll is PredictAfter, PredictRegime and Interval in one pass over the hypotheses.
//
// It panics if the level of bounds is not in domain.Interval, a slice has another length, or bounds are asked
// of a model that is not a Predictor; those of this package are.
func (b *Bank) PredictAll(to *Prediction, s State, elapsed float64, x []float64) {
	b.begin(to.Mean, to.SD, to.RegimeMean, to.RegimeSD, s)
	if to.Lower != nil {
		b.checkMoments(to.Lower, to.Upper, s)
		if err := domain.Interval.Check("level", to.Level); err != nil {
			panic("hafvf: interval." + err.Error())
		}
	}
	parts := b.hypotheses(s, elapsed, x)
	excursions, n := len(parts)-len(b.members), b.Model().Outputs()
	b.laws = b.laws[:0]
	for i := range parts {
		b.moments(&parts[i], to.Lower != nil)
		b.mixture.add(parts[i].weight)
		if b.running.toMean != nil && i >= excursions {
			b.running.add(b.gains[i-excursions])
		}
	}
	if to.Lower == nil {
		return
	}
	parts = b.starting(parts, s, x)
	for i := len(b.laws) / n; i < len(parts); i++ {
		b.addLaws(&parts[i])
	}
	for k, mean := range to.Mean {
		beside, rest := to.Beside, 1.
		if beside != nil && (!(to.RegimeSD[k] > 0) || notFinite(to.RegimeSD[k]) || notFinite(mean)) {
			beside = nil
		}
		all := len(beside) + len(parts)
		b.mixed = slices.Grow(b.mixed[:0], all)[:all]
		for i, o := range beside {
			c, sd := &b.mixed[i], o.Times*to.RegimeSD[k]
			c.Distribution, c.weight = expfam.Student(mean, sd*sd, math.MaxFloat64), o.Weight
			rest -= o.Weight
		}
		for i := range parts { // from the last on: those of the naive prior stay what they are
			c := &b.mixed[all-1-i]
			c.Distribution, c.weight = b.laws[i*n+k], rest*parts[i].weight
		}
		to.Lower[k], to.Upper[k] = b.mixed.interval(to.Level, mean, to.SD[k])
	}
}

// addLaws appends the distributions of a component, by output, to laws.
func (b *Bank) addLaws(p *mixturePart) {
	at := len(b.laws)
	b.laws = slices.Grow(b.laws, b.Model().Outputs())[:at+b.Model().Outputs()]
	if p.line != nil {
		p.line.Predictive(b.laws[at:], p.sample, p.w, p.regressors)
		return
	}
	p.model.(expfam.Predictor).Predictive(b.laws[at:], p.sample, p.w, p.regressors)
}

// Interval writes the bounds of a central interval, see Prediction. elapsed and x are as in PredictAfter.
func (b *Bank) Interval(lower, upper []float64, level float64, s State, elapsed float64, x []float64) {
	b.PredictAll(&Prediction{Mean: lower, SD: upper, Lower: lower, Upper: upper, Level: level}, s, elapsed, x)
}

// starting gives the components, of which hypotheses has made the members the last, what
// starts at the next observation.
func (b *Bank) starting(parts []mixturePart, s State, x []float64) []mixturePart {
	if b.detector == nil {
		return parts
	}
	l := b.detection(s)
	outliers, changes := l.starts()
	v := l.learned()
	stay := 0.0
	members := parts[len(parts)-len(b.members):]
	for _, p := range members {
		stay += p.weight
	}
	for i := range members {
		members[i].weight *= 1 - l[atStay]*(outliers+changes)/stay
	}
	class := b.detector.class(l)
	return append(parts,
		mixturePart{b.Model(), nil, class, 0, l[atStay] * (changes + (1-v)*outliers), x},
		mixturePart{b.Model(), nil, class, 1, l[atStay] * v * outliers, x})
}

// A component of a mixture is a distribution with a weight.
type component struct {
	expfam.Distribution
	weight float64
	curve  expfam.Curve // for newton
}

// mixed is a mixture, of weights that sum to one.
type mixed []component

// interval is the central interval with the probability level, of a mixture with this mean and sd.
func (m mixed) interval(level, mean, sd float64) (lower, upper float64) {
	below, total := (1-level)/2, m.CDF(math.Inf(1)) // which rounding may leave below 1
	if _, whole := m[0].Lattice(); !whole && !notFinite(sd) {
		if lower, upper, ok := m.newton(below*total, (1-below)*total, math.Sqrt2*math.Erfinv(level), sd); ok {
			return lower, upper
		}
	}
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

// spread is the standard deviation sd, or where that is none, half of the distance between the
// quartiles: the scale of the prediction, to which quantiles are exact.
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

// quantile is the smallest value at which the distribution function is at least p, NaN where
// that is not known. The search begins where that of a normal with this mean and sd is; the mean need not be
// finite.
func (m mixed) quantile(p, mean, sd float64) float64 {
	if notFinite(mean) {
		mean = 0
	}
	normal := mean
	if z := math.Sqrt2 * math.Erfinv(2*p-1); !notFinite(z) {
		normal += z * sd
	}
	perUnit, whole := m[0].Lattice()
	lo, hi := normal-sd/4, normal+sd/4
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
	if whole && perUnit >= 1 && math.Max(-lo, hi)*perUnit < 0x1p52 {
		const rounding = 0x1p-51 // of k/n, and of the product
		return m.onLattice(p, perUnit, math.Floor(lo*perUnit*(1-rounding)), math.Floor(hi*perUnit*(1+rounding)), below, above)
	}
	// The secant finds the place where the function is smooth: an end that stays counts by half (the Illinois
	// rule). The middle finds it where the function has steps. Below stays negative, and above does not.
	tolerance := 1e-9 * sd
	width, stays := hi-lo, 0
	for i := 1; hi-lo > tolerance; i++ {
		middle := lo + (hi-lo)/2
		x := middle
		if i%4 != 0 || hi-lo <= width/4 {
			x = lo - below*(hi-lo)/(above-below)
			x = math.Max(lo+tolerance/2, math.Min(x, hi-tolerance/2))
		}
		if i%4 == 0 {
			width = hi - lo
		}
		if !(x > lo && x < hi) { // the tolerance is less than the distance of numbers here
			if x = middle; x <= lo || x >= hi {
				break // neighbours
			}
		}
		if f := m.CDF(x) - p; f < 0 {
			if lo, below = x, f; stays > 0 {
				above /= 2
			}
			stays = 1
		} else {
			if hi, above = x, f; stays < 0 {
				below /= 2
			}
			stays = -1
		}
	}
	if whole { // no bound of a share is above 1
		if at := math.Round(hi); math.Abs(hi-at) <= 2*tolerance && m.CDF(at) >= p {
			return at
		}
	}
	return hi
}

// newton finds the quantiles of two probabilities by Newton's method. z and −z are those of a standard normal. It returns false
// if that does not converge at once.
func (m mixed) newton(below, above, z, sd float64) (lower, upper float64, ok bool) {
	heaviest, width := &m[0], math.Inf(1)
	for i := range m {
		if c := &m[i]; c.weight > 0 {
			c.SetCurve(&c.curve)
			if width = math.Min(width, c.curve.Width()); c.weight > heaviest.weight {
				heaviest = c
			}
		}
	}
	find := func(p, x float64) (quantile float64, ok bool) {
		const tolerance = 1e-8 // of sd
		last := 0.             // density
		for range 10 {
			f, density := -p, 0.
			for i := range m {
				if c := &m[i]; c.weight > 0 {
					cdf, slope := c.curve.At(x)
					f, density = f+c.weight*cdf, density+c.weight*slope
				}
			}
			step := f / density
			x -= step
			switch {
			case !(math.Abs(step) < 4*sd):
				return 0, false
			case math.Abs(step) < width/20 && math.Abs(step*(density-last)) < tolerance*sd*density:
				return x, true // the error of a step is below half of it times the relative change of the density since the last
			}
			last = density
		}
		return 0, false
	}
	if lower, ok = find(below, heaviest.curve.Near(below, -z)); ok {
		upper, ok = find(above, heaviest.curve.Near(above, z))
	}
	return lower, math.Max(lower, upper), ok
}

// onLattice returns the quantile of p among the multiples of 1/perUnit above from/perUnit and up to to/perUnit. The
// distribution function there less p is below, which is negative, and above, which is not.
func (m mixed) onLattice(p, perUnit, from, to, below, above float64) float64 {
	for i := 0; to-from > 1; i++ {
		k := math.Floor(from + (to-from)/2)
		if i%2 == 0 {
			k = math.Max(from+1, math.Min(math.Floor(from-below*(to-from)/(above-below)), to-1))
		}
		if f := m.CDF(k/perUnit) - p; f < 0 {
			from, below = k, f
		} else {
			to, above = k, f
		}
	}
	return to / perUnit
}
