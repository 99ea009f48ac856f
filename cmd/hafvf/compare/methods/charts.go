package methods

import (
	"math"
	"slices"
)

// What people use: charts of quality control, two detectors of drift, and a forecast.
// None has a predictive density.
//
// cusum: tabular CUSUM, two-sided (Page 1954; Montgomery, Introduction to Statistical
// Quality Control, chapter 9): with z the standardised value,
//
//	C⁺ ← max(0, C⁺ + z − k),  C⁻ ← max(0, C⁻ − z − k),  an alarm where one is above h
//
// and the change where that one was last zero. k = ½ and h = 5 give a false alarm in 465
// observations where mean and standard deviation are known.
//
// ewma: E ← E + λ(x − E) with control limits ±Lσ√(λ/(2−λ)) (Roberts 1959; Lucas and
// Saccucci 1990). λ = .1 and L = 2.814 give one in 500.
//
// Both take mean and standard deviation from 50 observations, and from 50 more after each
// alarm, when they are silent.
var charts = []Method{
	{Name: "adwin", About: "ADWIN, adaptive window", Setting: "δ = .002, every 32 observations, values standardised", Source: "Bifet and Gavaldà 2007",
		Detects: true, Places: true, New: func(s Start) Follower { return &standardised{s.Location, s.Scale, newADWIN(.002)} }},
	{Name: "page-hinkley", About: "Page–Hinkley test", Setting: "δ = .005, λ = 50, α = .9999, values standardised", Source: "Page 1954, as River has it",
		Detects: true, New: func(s Start) Follower {
			return &standardised{s.Location, s.Scale, &pageHinkley{delta: .005, threshold: 50, alpha: .9999}}
		}},
	{Name: "cusum", About: "CUSUM chart", Setting: "k = .5, h = 5, mean and sd of 50 observations", Source: "Page 1954; Montgomery",
		Detects: true, Places: true, New: func(Start) Follower { return &phased{chart: &cusum{k: .5, h: 5}, length: 50} }},
	{Name: "ewma", About: "EWMA chart", Setting: "λ = .1, L = 2.814, mean and sd of 50 observations", Source: "Roberts 1959; Lucas and Saccucci 1990",
		Detects: true, New: func(Start) Follower { return &phased{chart: &ewma{lambda: .1, width: 2.814}, length: 50} }},
	{Name: "naive", About: "seasonal naive forecast", Setting: "the value a period ago; the last value where there is no period", Source: "Hyndman and Athanasopoulos, Forecasting, section 5.2",
		New: func(s Start) Follower { return &naive{period: s.Period} }},
}

// A chart watches standardised values.
type chart interface {
	// watch reports whether z raises an alarm, and how many observations ago the change
	// was, −1 where it doesn't know.
	watch(z float64) (alarm bool, age int)
	// level is what the chart says of the mean, in the same units; sd is NaN where it says
	// nothing.
	level() (mean, sd float64)
	reset()
	floats() int
}

// phased is a chart with the observations that set its mean and standard deviation.
type phased struct {
	chart
	length int // of the phase that sets them

	n        int
	mean, ss float64 // Welford's
	z        float64
}

func (p *phased) Update(x float64) Step {
	step := Step{LogPredictive: nan, SD: nan, Age: -1}
	if p.n < p.length {
		p.n++
		d := x - p.mean
		p.mean += d / float64(p.n)
		p.ss += d * (x - p.mean)
		step.Mean = p.mean
		return step
	}
	sd := math.Sqrt(p.ss / float64(p.n-1))
	if sd == 0 {
		sd = 1e-9 // equal values: any other is an alarm
	}
	step.Change, step.Age = p.watch((x - p.mean) / sd)
	mean, width := p.level()
	step.Mean, step.SD = p.mean+sd*mean, sd*width
	if step.Change {
		p.reset()
		p.n, p.mean, p.ss = 0, 0, 0
	}
	return step
}

func (p *phased) Bytes() int { return word * (3 + p.floats()) }

type cusum struct {
	k, h      float64
	up, down  float64
	nUp, nLow int // observations since the sum was zero
}

func (c *cusum) watch(z float64) (bool, int) {
	step := func(sum float64, n int, z float64) (float64, int) {
		if sum += z - c.k; sum <= 0 {
			return 0, 0
		}
		return sum, n + 1
	}
	c.up, c.nUp = step(c.up, c.nUp, z)
	c.down, c.nLow = step(c.down, c.nLow, -z)
	switch {
	case c.up > c.h:
		return true, c.nUp - 1
	case c.down > c.h:
		return true, c.nLow - 1
	}
	return false, -1
}

func (c *cusum) level() (mean, sd float64) { return 0, nan }
func (c *cusum) reset()                    { *c = cusum{k: c.k, h: c.h} }
func (c *cusum) floats() int               { return 4 }

type ewma struct{ lambda, width, e float64 }

func (e *ewma) watch(z float64) (bool, int) {
	e.e += e.lambda * (z - e.e)
	_, sd := e.level()
	return math.Abs(e.e) > e.width*sd, -1
}

func (e *ewma) level() (mean, sd float64) { return e.e, math.Sqrt(e.lambda / (2 - e.lambda)) }
func (e *ewma) reset()                    { e.e = 0 }
func (e *ewma) floats() int               { return 1 }

// standardised gives a follower values in units of the first observations.
type standardised struct {
	location, scale float64
	Follower
}

func (s *standardised) Update(x float64) Step {
	step := s.Follower.Update((x - s.location) / s.scale)
	step.Mean = s.location + s.scale*step.Mean
	step.SD *= s.scale
	return step
}

// pageHinkley is the test with forgetting, for rises, as River has it
// (drift.PageHinkley, with its minimum of 30 observations), and its mirror image for
// falls.
type pageHinkley struct {
	delta, threshold, alpha float64

	n        int
	mean     float64
	up, down float64
}

func (p *pageHinkley) Update(x float64) Step {
	p.n++
	p.mean += (x - p.mean) / float64(p.n)
	p.up = max(0, p.alpha*p.up+x-p.mean-p.delta)
	p.down = max(0, p.alpha*p.down-x+p.mean-p.delta)
	step := Step{LogPredictive: nan, Mean: p.mean, SD: nan, Age: -1}
	if p.n+1 >= 30 && max(p.up, p.down) >= p.threshold {
		step.Change = true
		*p = pageHinkley{delta: p.delta, threshold: p.threshold, alpha: p.alpha}
	}
	return step
}

func (p *pageHinkley) Bytes() int { return word * 4 }

// naive forecasts the value that was a period ago.
type naive struct {
	period int
	past   []float64 // of one period, the oldest at next
	next   int
}

func (f *naive) Update(x float64) Step {
	if len(f.past) < f.period {
		f.past = append(f.past, x)
		return Step{LogPredictive: nan, Mean: x, SD: nan, Age: -1}
	}
	f.past[f.next] = x
	f.next = (f.next + 1) % f.period
	return Step{LogPredictive: nan, Mean: f.past[f.next], SD: nan, Age: -1}
}

func (f *naive) Bytes() int { return word * f.period }

// adwin is the adaptive window (Bifet and Gavaldà 2007, Learning from Time-Changing Data
// with Adaptive Windowing), ADWIN2 with exponential histograms: the window loses its oldest
// bucket as long as any cut of it in two parts of n₀ and n₁ observations has means further
// apart than
//
//	ε = √(2σ²δ′/m) + ⅔δ′/m,  1/m = 1/n₀ + 1/n₁,  δ′ = ln(2 ln n/δ)
//
// Row i of the histogram has buckets of 2ⁱ observations, at most five. As in MOA and River,
// cuts are looked for after every 32nd observation, both parts have at least five, and 1/m
// counts four less of each.
type adwin struct {
	delta float64
	rows  [][]bucket // from the smallest, each from the oldest
	all   bucket
	n     float64
	tick  int
}

// A bucket is sum and sum of squares about the mean.
type bucket struct{ sum, ss float64 }

const (
	adwinBuckets = 5
	adwinClock   = 32
	adwinShort   = 5
	adwinGrace   = 10
)

func newADWIN(delta float64) *adwin { return &adwin{delta: delta} }

// merged is the bucket of n observations in b and m in c.
func merged(b bucket, n float64, c bucket, m float64) bucket {
	if n == 0 {
		return c
	}
	d := b.sum/n - c.sum/m
	return bucket{b.sum + c.sum, b.ss + c.ss + n*m*d*d/(n+m)}
}

// without is the bucket of n observations that merged with c, of m, makes b.
func without(b bucket, n float64, c bucket, m float64) bucket {
	if n == 0 {
		return bucket{}
	}
	rest := b.sum - c.sum
	d := rest/n - c.sum/m
	return bucket{rest, b.ss - c.ss - n*m*d*d/(n+m)}
}

func (a *adwin) Update(x float64) Step {
	a.insert(x)
	step := Step{LogPredictive: nan, Age: -1}
	if a.tick++; a.tick%adwinClock == 0 && a.n > adwinGrace {
		for a.cut() {
			step.Change = true
		}
	}
	step.Mean = a.all.sum / a.n
	step.SD = math.Sqrt(a.all.ss) / a.n
	if step.Change {
		step.Age = int(a.n) - 1
	}
	return step
}

func (a *adwin) insert(x float64) {
	if a.rows == nil {
		a.rows = [][]bucket{nil}
	}
	a.rows[0] = append(a.rows[0], bucket{sum: x})
	a.all = merged(a.all, a.n, bucket{sum: x}, 1)
	a.n++
	for i, size := 0, 1.; len(a.rows[i]) > adwinBuckets; i, size = i+1, 2*size {
		if i+1 == len(a.rows) {
			a.rows = append(a.rows, nil)
		}
		a.rows[i+1] = append(a.rows[i+1], merged(a.rows[i][0], size, a.rows[i][1], size))
		a.rows[i] = slices.Delete(a.rows[i], 0, 2)
	}
}

// cut drops the oldest bucket where two parts of the window differ, and reports whether
// they did.
func (a *adwin) cut() bool {
	deltaPrime := math.Log(2 * math.Log(a.n) / a.delta)
	variance := a.all.ss / a.n
	n0, sum0 := 0.0, 0.0
	for i := len(a.rows) - 1; i >= 0; i-- {
		size := math.Exp2(float64(i))
		for _, b := range a.rows[i] {
			n0 += size
			sum0 += b.sum
			n1 := a.n - n0
			if n0 < adwinShort || n1 < adwinShort {
				continue
			}
			m := 1/(n0-adwinShort+1) + 1/(n1-adwinShort+1)
			epsilon := math.Sqrt(2*m*variance*deltaPrime) + 2./3*deltaPrime*m
			if math.Abs(sum0/n0-(a.all.sum-sum0)/n1) > epsilon {
				a.drop()
				return true
			}
		}
	}
	return false
}

// drop takes the oldest bucket out.
func (a *adwin) drop() {
	last := len(a.rows) - 1
	size := math.Exp2(float64(last))
	oldest := a.rows[last][0]
	a.n -= size
	a.all = without(a.all, a.n, oldest, size)
	a.rows[last] = slices.Delete(a.rows[last], 0, 1)
	for last := len(a.rows) - 1; last > 0 && len(a.rows[last]) == 0; last-- {
		a.rows = a.rows[:last]
	}
}

func (a *adwin) Bytes() int {
	n := 4
	for _, r := range a.rows {
		n += 2 * len(r)
	}
	return word * n
}
