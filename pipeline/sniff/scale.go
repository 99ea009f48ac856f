package sniff

import (
	"math"
	"slices"
	"time"

	"hafvf/hafvf"
)

// scaleOf returns log, or log1p if some values are zero, if that makes most skewed series about symmetric. Otherwise
// it returns linear. It judges the values about the mean of their hour, because a rhythm is skewed on a scale that its
// noise does not have. It uses Bowley's quartile skewness with tail quantiles that leave about three values of a series
// above, between .01 and .05. Symmetric values have skewness 0, exponential ones .58 or more, and a lognormal with σ
// = .4 has .43 from 300 values on. Series with less than 30 values do not vote. hours has the hour of the week of each
// value, and span is the time between the first and the last.
func scaleOf(series [][]float64, hours [][]uint8, span time.Duration) hafvf.Scale {
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
	for k, x := range series {
		if len(x) < minValues {
			continue
		}
		voters++
		tail := min(max(.01, above/float64(len(x))), .05)
		scaled := slices.Clone(x)
		for i, v := range scaled {
			scaled[i] = scale.Transform(v)
		}
		if plain := skewness(aboutHours(x, hours[k], span), tail); plain > skewed && math.Abs(skewness(aboutHours(scaled, hours[k], span), tail)) < plain/2 {
			votes++
		}
	}
	if 2*votes > voters {
		return scale
	}
	return hafvf.Linear
}

// aboutHours returns the differences of values from the mean of their hour of the week or, if an hour has too few
// values or span less than two weeks, of their hour of the day, or of all.
func aboutHours(x []float64, hours []uint8, span time.Duration) []float64 {
	const minValues = 4 // of an hour, on average
	differences := slices.Clone(x)
	for _, slots := range []uint8{7 * 24, 24, 1} {
		if slots > 1 && span < 2*time.Duration(slots)*time.Hour {
			continue
		}
		var sum, n [7 * 24]float64
		occupied := 0
		for i, v := range x {
			slot := hours[i] % slots
			if n[slot] == 0 {
				occupied++
			}
			sum[slot] += v
			n[slot]++
		}
		if len(x) < minValues*occupied && slots > 1 {
			continue
		}
		for i := range differences {
			differences[i] -= sum[hours[i]%slots] / n[hours[i]%slots]
		}
		break
	}
	return differences
}

// hasRhythm reports whether the hours explain more than half of the variance of most series.
func (s *sample) hasRhythm() bool {
	rhythms := 0
	series, hours := s.series()
	for k, x := range series {
		var squares [2]float64 // about the mean, and about the hours
		for i, d := range [][]float64{aboutHours(x, hours[k], 0), aboutHours(x, hours[k], s.span())} {
			for _, v := range d {
				squares[i] += v * v
			}
		}
		if 2*squares[1] < squares[0] {
			rhythms++
		}
	}
	return 2*rhythms > len(series)
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
// Poisson counts. hours has the hour of the week of each value.
func dispersion(series [][]float64, hours [][]uint8) (mean, ratio, sd float64) {
	const memory = 8. // length of the running mean in values
	var sum, sumSquares, squares, expected float64
	n := 0
	for s, values := range series {
		var level, seen [24]float64
		for i, x := range values {
			sum += x
			sumSquares += x * x
			n++
			h := hours[s][i] % 24
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
