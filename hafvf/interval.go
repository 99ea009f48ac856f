package hafvf

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/domain"
	"hafvf/internal/special"
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
	curve  expfam.Curve // if the mixture is smooth

	seen                      float64 // where the curve was evaluated last, NaN for nowhere
	cdf, density, slope, bend float64 // there
}

// at is that of the curve at x, or if that is near enough to the last place, the Taylor series about that. What the series leaves
// out is about near/20.
func (c *component) at(x, near float64) (cdf, density, slope, bend float64) {
	d := x - c.seen
	t := d / math.Min(c.curve.Width(), c.curve.Free(c.seen))
	if t *= t; c.weight*t*t < near {
		return c.cdf + d*(c.density+d*(c.slope/2+d*(c.bend/6))), c.density + d*(c.slope+d*(c.bend/2)), c.slope + d*c.bend, c.bend
	}
	c.seen = x
	c.cdf, c.density, c.slope, c.bend = c.curve.At(x)
	return c.cdf, c.density, c.slope, c.bend
}

// light reports whether a share weighs so little that its rough function does, if it is enough to know between which
// two steps a quantile is.
func (c *component) light() bool { return c.weight > 0 && c.weight < .03 && c.curve.Doubt() < .1 }

// mixed is a mixture, of weights that sum to one.
type mixed []component

// interval is the central interval with the probability level, of a mixture with this mean and sd.
func (m mixed) interval(level, mean, sd float64) (lower, upper float64) {
	below, total := (1-level)/2, 0. // which rounding may leave below 1
	for i := range m {
		total += m[i].weight
	}
	if sd > 0 && !notFinite(sd) {
		z := math.Sqrt2 * math.Erfinv(level)
		if lower, upper, ok := m.near(below*total, (1-below)*total, z, mean, sd); ok {
			return lower, math.Max(lower, upper)
		}
	}
	total = m.CDF(math.Inf(1))
	sd = m.spread(total, mean, sd)
	lower = m.quantile(below*total, mean, sd)
	return lower, math.Max(lower, m.quantile((1-below)*total, mean, sd))
}

// near are the quantiles of two probabilities, which are those of a normal at −z and z. It reports false if they are not
// near to where they are looked for: quantile finds them all the same.
func (m mixed) near(below, above, z, mean, sd float64) (lower, upper float64, ok bool) {
	width, perUnit, whole := m.curves(), 0., false
	find := func(p, z float64) (x float64, ok bool) {
		x, _, ok = m.newton(p, z, aim{tolerance: 3e-8 * sd, reach: width / 20})
		return x, ok
	}
	if perUnit, whole = m[0].Lattice(); whole && perUnit >= 1 {
		at := lattice{mixed: m, perUnit: perUnit}
		find = func(p, z float64) (x float64, ok bool) {
			if width > 0 {
				if x, ok := at.between(p, z, width); ok {
					return x, ok
				}
			}
			return at.quantile(p, mean+z*sd, sd)
		}
	} else if width == 0 || whole {
		return 0, 0, false
	}
	if lower, ok = find(below, -z); ok {
		upper, ok = find(above, z)
	}
	return lower, upper, ok
}

// between is the quantile of p by that of the curves: the next multiple after half a step before it. If that is too close
// to tell, the function at the multiple before it does. It reports false if the quantile of the curves is not found.
func (l *lattice) between(p, z, width float64) (x float64, ok bool) {
	to := aim{.05 / l.perUnit, width / 2, special.RoughBy, l.perUnit}
	for i := range l.mixed {
		if c := &l.mixed[i]; c.light() {
			to.blur += c.weight * c.curve.Doubt()
		}
	}
	x, doubt, ok := l.newton(p, z, to)
	k := x*l.perUnit - .5
	doubt = 1e-6 + 2*doubt*l.perUnit
	if !ok || doubt > .4 {
		return 0, false
	}
	if at := math.Round(k); math.Abs(k-at) >= doubt {
		k = math.Ceil(k)
	} else if k = at; l.at(k) < p {
		k++
	}
	return math.Max(0, math.Min(k, l.perUnit)) / l.perUnit, true
}

// A lattice is a mixture of multiples of 1/perUnit. It knows its function at the first places that were asked for.
type lattice struct {
	mixed
	perUnit float64
	known   int
	seen    [8]struct{ k, cdf float64 }
}

func (l *lattice) at(k float64) float64 {
	for _, s := range l.seen[:l.known] {
		if s.k == k {
			return s.cdf
		}
	}
	cdf := l.CDF(k / l.perUnit)
	if l.known < len(l.seen) {
		l.seen[l.known].k, l.seen[l.known].cdf = k, cdf
		l.known++
	}
	return cdf
}

// quantile is that of p from 0 on, looked for from about start on.
func (l *lattice) quantile(p, start, sd float64) (x float64, ok bool) {
	n := l.perUnit
	most, step := math.Min(l.mixed[0].Most()*n, 0x1p52), math.Max(1, math.Floor(sd*n/4))
	k := math.Max(0, math.Min(math.Floor(start*n), most-1))
	from, to, below, above := -1., most, -p, 1-p
	if f := l.at(k) - p; f < 0 {
		for from, below = k, f; from+step < to; step *= 2 {
			if f = l.at(from+step) - p; f >= 0 {
				to, above = from+step, f
				break
			}
			from, below = from+step, f
		}
	} else {
		for to, above = k, f; to-step > from; step *= 2 {
			if f = l.at(to-step) - p; f < 0 {
				from, below = to-step, f
				break
			}
			to, above = to-step, f
		}
	}
	if math.IsNaN(below + above) {
		return 0, false
	}
	return l.step(p, from, to, below, above), to < 0x1p52
}

// step is the quantile of p between from, where the distribution function less p is below, and to, where it is
// above.
func (l *lattice) step(p, from, to, below, above float64) float64 {
	for i := 0; to-from > 1; i++ {
		k := math.Floor(from + (to-from)/2)
		if i%2 == 0 {
			k = math.Max(from+1, math.Min(math.Floor(from-below*(to-from)/(above-below)), to-1))
		}
		if f := l.at(k) - p; f < 0 {
			from, below = k, f
		} else {
			to, above = k, f
		}
	}
	return to / l.perUnit
}

// curves makes the curves of the components that weigh. It returns the width of the narrowest, 0 if one
// has no curve.
func (m mixed) curves() (narrowest float64) {
	narrowest = math.Inf(1)
	for i := range m {
		c := &m[i]
		if c.weight <= 0 {
			continue
		}
		if !c.Curve(&c.curve) {
			return 0
		}
		c.seen = math.NaN()
		narrowest = math.Min(narrowest, c.curve.Width())
	}
	return narrowest
}

// An aim says how near a search has to come.
type aim struct {
	tolerance float64 // of the next term
	reach     float64 // of the last step
	blur      float64 // that the curves have; 0 of those that are exact
	perUnit   float64 // of shares: it is enough to know which of so many multiples is nearest; 0 of numbers
}

// newton is the quantile of p in a mixture of curves, by Householder's method of the third order, from the quantile
// of the heaviest component on; z is that of a normal. It ends if its next term, doubt, is below the tolerance, in a step of less than
// the reach, and away from where the density may be infinite: what it leaves out is less by about the ratio of step and width. A step
// out of the bracket is one of Newton's instead, or else leads to the middle. It reports false if the end does not come soon.
func (m mixed) newton(p, z float64, to aim) (x, doubt float64, found bool) {
	heaviest := &m[0]
	for i := range m {
		if m[i].weight > heaviest.weight {
			heaviest = &m[i]
		}
	}
	x = heaviest.curve.Near(p, z)
	lo, hi := 0., 1.
	if to.perUnit == 0 {
		x = m.roughly(p, x, heaviest.curve.Width())
		lo, hi = math.Inf(-1), math.Inf(1)
	}
	for range 10 {
		f, f1, f2, f3 := -p, 0., 0., 0.
		logit := 0.
		if to.perUnit > 0 {
			logit = special.Log(x / (1 - x))
		}
		for i := range m {
			c := &m[i]
			switch {
			case c.light():
				g, g1 := c.curve.Rough(x, logit)
				f += c.weight * g
				f1 += c.weight * g1
			case c.weight > 0:
				g, g1, g2, g3 := c.at(x, max(1e-8, to.blur))
				f += c.weight * g
				f1 += c.weight * g1
				f2 += c.weight * g2
				f3 += c.weight * g3
			}
		}
		switch {
		case f < -2*to.blur:
			lo = x
		case f >= 2*to.blur:
			hi = x
		}
		if to.perUnit > 0 && math.Floor(lo*to.perUnit+.5) == math.Floor(hi*to.perUnit+.5) {
			return lo + (hi-lo)/2, 0, true
		}
		u := f / f1
		h, k := u*f2/f1, u*u*f3/f1
		halley := u / (1 - h/2)
		step := u * (1 - h/2) / (1 - h + k/6)
		next := x - step
		doubt = math.Abs(step - halley)
		inside := func() bool { return next > lo && next < hi }
		if inside() && doubt < to.tolerance && math.Abs(step) < math.Min(to.reach, heaviest.curve.Free(x)/2) {
			return next, doubt + 2*to.blur/f1, true
		}
		if !inside() {
			next = x - u
		}
		if !inside() {
			next = lo + (hi-lo)/2
		}
		if notFinite(next) {
			break
		}
		x = next
	}
	return x, doubt, false
}

// roughly is about the quantile of p, by a few steps of Newton from x on by the rough functions of what weighs: the
// exact ones need not be evaluated as often then. It is x if there are none.
func (m mixed) roughly(p, x, width float64) float64 {
	for range 3 {
		f, f1 := -p, 0.
		for i := range m {
			if c := &m[i]; c.weight > 1e-4 {
				g, g1 := c.curve.Rough(x, 0)
				f += c.weight * g
				f1 += c.weight * g1
			}
		}
		step := f / f1
		if !(math.Abs(step) < 2*width) {
			break
		}
		x -= step
		if math.Abs(step) < width/10 {
			break
		}
	}
	return x
}

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
	perUnit, whole := m[0].Lattice()
	if whole && perUnit >= 1 && math.Max(-lo, hi)*perUnit < 0x1p52 {
		const rounding = 0x1p-51 // of k/n, and of the product
		l := lattice{mixed: m, perUnit: perUnit}
		return l.step(p, math.Floor(lo*perUnit*(1+rounding)), math.Floor(hi*perUnit*(1+rounding)), below, above)
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
