package methods

import (
	"math"
	"slices"
)

// ADWIN, the adaptive window (Bifet and Gavaldà 2007, Learning from Time-Changing Data with Adaptive Windowing):
// ADWIN2 with exponential histograms. The window drops its oldest bucket while any cut into parts of n₀ and n₁
// observations has means that differ by more than
//
//	ε = √(2σ²L/m) + ⅔L/m,  1/m = 1/n₀ + 1/n₁,  L = ln(2 ln n/δ)
//
// Row i of the histogram has buckets of 2ⁱ observations, at most five. As in MOA and River, cuts are checked after
// every 32nd observation, both parts have at least five observations, and 1/m uses counts that are smaller by four.
var adwins = []Method{
	{Name: "adwin", About: "ADWIN, adaptive window", Setting: "δ = .002, every 32 observations, values standardised", Source: "Bifet and Gavaldà 2007",
		Detects: true, Places: true, New: func(s Start) Follower { return &standardised{s.Location, s.Scale, newADWIN(.002)} }},
}

type adwin struct {
	delta  float64
	rows   [][]bucket // buckets by size, smallest first; in a row the oldest first
	window bucket
	n      float64
	tick   int
}

// A bucket holds the sum of its observations, and their sum of squares about the mean.
type bucket struct{ sum, ss float64 }

const (
	adwinBuckets = 5  // maximum number of buckets in a row
	adwinClock   = 32 // observations between two checks
	adwinShort   = 5  // minimum length of a part, in observations
	adwinGrace   = 10 // largest window that is not cut, in observations
)

func newADWIN(delta float64) *adwin { return &adwin{delta: delta} }

// merged returns the union of b, with n observations, and c, with m observations.
func merged(b bucket, n float64, c bucket, m float64) bucket {
	if n == 0 {
		return c
	}
	d := b.sum/n - c.sum/m
	return bucket{b.sum + c.sum, b.ss + c.ss + n*m*d*d/(n+m)}
}

// subtract returns the bucket of n observations which, merged with c of m observations, gives b.
func subtract(b bucket, n float64, c bucket, m float64) bucket {
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
	step.Mean = a.window.sum / a.n
	step.SD = math.Sqrt(a.window.ss) / a.n
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
	a.window = merged(a.window, a.n, bucket{sum: x}, 1)
	a.n++
	for i, size := 0, 1.; len(a.rows[i]) > adwinBuckets; i, size = i+1, 2*size {
		if i+1 == len(a.rows) {
			a.rows = append(a.rows, nil)
		}
		a.rows[i+1] = append(a.rows[i+1], merged(a.rows[i][0], size, a.rows[i][1], size))
		a.rows[i] = slices.Delete(a.rows[i], 0, 2)
	}
}

// cut drops the oldest bucket if two parts of the window differ, and reports whether they do.
func (a *adwin) cut() bool {
	logTerm := math.Log(2 * math.Log(a.n) / a.delta)
	variance := a.window.ss / a.n
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
			if math.Abs(sum0/n0-(a.window.sum-sum0)/n1) > epsilon {
				a.drop()
				return true
			}
		}
	}
	return false
}

// drop removes the oldest bucket.
func (a *adwin) drop() {
	last := len(a.rows) - 1
	size := math.Exp2(float64(last))
	oldest := a.rows[last][0]
	a.n -= size
	a.window = subtract(a.window, a.n, oldest, size)
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
