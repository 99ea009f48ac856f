package beta

import (
	"math"

	"hafvf/internal/special"
)

// OfLogs returns the Beta distribution with these E[log w] and E[log(1−w)], by Newton's
// method on the logs of its parameters from a start. It is the nearest to any distribution
// with these, by the Kullback–Leibler divergence from that. Where a parameter leaves
// [1e-12, 1e12], it returns the start: w then is as certain as makes no difference.
func OfLogs(logW, log1W float64, start Dist) Dist {
	a, b := start.Alpha, start.Beta
	for range 100 {
		a0, a1 := special.DigammaDelta(a, b)
		b0, b1 := special.DigammaDelta(b, a)
		_, _, c1, _, _ := special.Polygammas(a+b, false)
		f, g := -a0-logW, -b0-log1W
		// The Jacobian of (f, g) by (log a, log b).
		fa, fb := -a*a1, -b*c1
		ga, gb := -a*c1, -b*b1
		det := fa*gb - fb*ga
		da, db := (g*fb-f*gb)/det, (f*ga-g*fa)/det
		const longest = 1.
		if size := max(math.Abs(da), math.Abs(db)); size > longest {
			da, db = da*longest/size, db*longest/size
		}
		a *= math.Exp(da)
		b *= math.Exp(db)
		if !(min(a, b) >= 1e-12 && max(a, b) <= 1e12) {
			return start
		}
		if max(math.Abs(da), math.Abs(db)) < 1e-10 {
			break
		}
	}
	return Dist{Alpha: a, Beta: b}
}
