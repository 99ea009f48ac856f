package methods

import (
	"math"
	"slices"
)

// ADWIN, the adaptive window (Bifet and Gavaldà 2007, Learning from Time-Changing Data
// with Adaptive Windowing), ADWIN2 with exponential histograms: the window loses its oldest
// bucket as long as any cut of it in two parts of n₀ and n₁ observations has means further
// apart than
//
//	ε = √(2σ²L/m) + ⅔L/m,  1/m = 1/n₀ + 1/n₁,  L = ln(2 ln n/δ)
//
// Row i of the histogram has buckets of 2ⁱ observations, at most five. As in MOA and River,
// cuts are looked for after every 32nd observation, both parts have at least five, and 1/m
// counts four less of each.
var adwins = []Method{
	{Name: "adwin", About: "ADWIN, adaptive window", Setting: "δ = .002, every 32 observations, values standardised", Source: "Bifet and Gavaldà 2007",
		Detects: true, Places: true, New: func(s Start) Follower { return &standardised{s.Location, s.Scale, newADWIN(.002)} }},
}

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
	logTerm := math.Log(2 * math.Log(a.n) / a.delta)
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
			epsilon := math.Sqrt(2*m*variance*logTerm) + 2./3*logTerm*m
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
