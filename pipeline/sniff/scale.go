package sniff

import (
	"math"
	"slices"

	"hafvf/hafvf"
)

// scaleOf returns log, or log1p if some values are zero, if that makes most skewed series about symmetric. Otherwise
// it returns linear. It uses Bowley's quartile skewness with tail quantiles that leave about three values of a series
// above, between .01 and .05. Symmetric values have skewness 0, exponential ones .58 or more, and a lognormal with σ
// = .4 has .43 from 300 values on. Series with less than 30 values do not vote.
func scaleOf(series [][]float64) hafvf.Scale {
	const (
		minValues = 30
		above     = 3
		skewed    = .4
	)
	scale := hafvf.Log
	for _, x := range series {
		for _, v := range x {
			if v < 0 {
				return hafvf.Linear
			}
			if v == 0 {
				scale = hafvf.Log1p
			}
		}
	}
	voters, votes := 0, 0
	for _, x := range series {
		if len(x) < minValues {
			continue
		}
		voters++
		tail := min(max(.01, above/float64(len(x))), .05)
		scaled := slices.Clone(x)
		plain := skewness(scaled, tail)
		for i, v := range scaled {
			scaled[i] = scale.Transform(v)
		}
		if plain > skewed && math.Abs(skewness(scaled, tail)) < plain/2 {
			votes++
		}
	}
	if 2*votes > voters {
		return scale
	}
	return hafvf.Linear
}

// skewness compares the quantiles tail and 1 − tail with the median. It sorts x.
func skewness(x []float64, tail float64) float64 {
	slices.Sort(x)
	quantile := func(p float64) float64 { return x[int(p*float64(len(x)-1))] }
	low, middle, high := quantile(tail), quantile(.5), quantile(1-tail)
	if !(high > low) {
		return 0
	}
	return (high + low - 2*middle) / (high - low)
}

// dispersion returns the mean of all values, the dispersion ratio and the standard deviation of all values. The ratio
// is the variance about a running mean for the same hour of the same series, relative to that mean. It is 1 for
// Poisson counts. hours has the hour of the day of each value.
func dispersion(series [][]float64, hours [][]int8) (mean, ratio, sd float64) {
	const memory = 8. // length of the running mean in values
	var sum, sumSquares, squares, expected float64
	n := 0
	for s, values := range series {
		var level, seen [24]float64
		for i, x := range values {
			sum += x
			sumSquares += x * x
			n++
			h := hours[s][i]
			if k := seen[h]; k >= 2 {
				k = min(k, memory)
				d := x - level[h]
				squares += d * d / (1 + 1/k) // the running mean has its own error
				expected += level[h]
			}
			seen[h]++
			level[h] += (x - level[h]) / min(seen[h], memory)
		}
	}
	if n == 0 {
		return 0, 1, 0
	}
	mean, ratio = sum/float64(n), 1
	if expected > 0 {
		ratio = squares / expected
	}
	return mean, ratio, math.Sqrt(max(0, sumSquares/float64(n)-mean*mean))
}
