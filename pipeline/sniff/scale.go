package sniff

import (
	"math"
	"slices"

	"hafvf/hafvf"
)

// scaleOf returns the scale on which the values of most series are about symmetric, if they are far from
// it as they are: log, log1p if some are zero, else linear. By the quartile skewness of Bowley, with
// quantiles that leave three values of a series above, within .01 and .05: 0 of symmetric values, .58 and
// more of exponential ones, .43 of a lognormal with σ = .4 from 300 values on. Series of less than 30
// values have no voice.
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
			scaled[i] = scale.Of(v)
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

// skewness sorts x. It compares the quantiles tail and 1 − tail with the median.
func skewness(x []float64, tail float64) float64 {
	slices.Sort(x)
	quantile := func(p float64) float64 { return x[int(p*float64(len(x)-1))] }
	low, middle, high := quantile(tail), quantile(.5), quantile(1-tail)
	if !(high > low) {
		return 0
	}
	return (high + low - 2*middle) / (high - low)
}

// dispersion is the mean of the values of several series, their variance about a running mean of the same
// hour of their series relative to it, which is 1 for counts of a Poisson process, and the standard
// deviation of all. Each value has its hour of the day.
func dispersion(series [][]float64, hours [][]int8) (mean, ratio, sd float64) {
	const memory = 8. // values of a running mean
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
				squares += d * d / (1 + 1/k) // the mean has an error of its own
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
