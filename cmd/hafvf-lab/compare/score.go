package compare

import (
	"math"
	"slices"

	"hafvf/cmd/hafvf-lab/compare/methods"
	"hafvf/internal/median"
)

// Indices of the figures of a run.
const (
	nats         = iota // mean log predictive
	rmse                // root mean square error of the estimate
	f1                  // F1 of changes, reported at most 100 observations after them
	near                // F1 of changes, with a reported start at most 5 observations away
	falseChanges        // false changes per 10,000 observations
	delay               // median delay of the found changes, in observations
	micros              // processor time of an update, in µs
	size                // size of the state, in bytes
	figures
)

// An outcome holds the figures of a run of a method over a stream. A figure is NaN if it is not defined.
type outcome [figures]float64

// A metric describes a figure.
type metric struct {
	Key, Name, Short string
	Higher           bool // a larger value is better
	digits           int
}

var metrics = [figures]metric{
	{"log_predictive", "log predictive, nats per observation", "nats", true, 4},
	{"rmse", "RMSE of the estimate", "RMSE", false, 4},
	{"f1", "F1 of changes", "F1", true, 3},
	{"f1_start", "F1 of changes, their start within 5 observations", "F1≤5", true, 3},
	{"false", "false changes per 10,000 observations", "false", false, 2},
	{"delay", "median delay of the changes that were found, observations", "delay", false, 1},
	{"micros", "processor time of an update, µs", "µs", false, 2},
	{"bytes", "state of a stream, bytes", "bytes", false, 0},
}

// Limits, in observations.
const (
	foundWithin = 100 // delay of a found change
	startWithin = 5   // distance of its reported start
)

// score compares the steps of a method with the truth about s.
func (s Series) score(m methods.Method, steps []methods.Step, truth Truth) outcome {
	var o outcome
	for i := range o {
		o[i] = math.NaN()
	}
	n := float64(len(s.X) - WarmUp)
	if !m.Gaussian || s.Family == "normal" {
		o[nats] = 0
		for _, step := range steps[WarmUp:] {
			o[nats] += step.LogPredictive / n
		}
	}
	o[rmse] = s.estimateError(m, steps, truth)
	if !m.Detects || truth == Unknown {
		return o
	}
	var reports, starts []int
	for t, step := range steps {
		if t >= WarmUp && step.Change {
			reports = append(reports, t)
			starts = append(starts, t-step.Age)
		}
	}
	var falseReports int
	var delays []float64
	if truth == Windows {
		o[f1], falseReports, delays = s.windows(reports)
	} else {
		var hits int
		hits, delays = match(s.Changes, reports, 0, foundWithin)
		// As in the Turing Change Point Dataset, the first observation counts as a change and as a found change.
		o[f1] = f1Of(hits+1, len(s.Changes)+1, len(reports)+1)
		if m.Places {
			slices.Sort(starts)
			hits, _ := match(s.Changes, starts, -startWithin, startWithin)
			o[near] = f1Of(hits+1, len(s.Changes)+1, len(starts)+1)
		}
		for _, t := range reports {
			if !slices.ContainsFunc(s.Changes, func(c int) bool { return c <= t && t-c <= foundWithin }) {
				falseReports++
			}
		}
	}
	o[falseChanges] = 1e4 * float64(falseReports) / n
	o[delay] = median.Of(delays)
	return o
}

// estimateError returns the root mean square error of the estimates after each observation against the true means. If
// the true means are unknown, it returns the error of the predictions, which are the estimates before each
// observation, in standard deviations of the series. It returns NaN if a smoother has no true means, or if all values
// are equal.
func (s Series) estimateError(m methods.Method, steps []methods.Step, truth Truth) float64 {
	sum, n := 0.0, float64(len(s.X)-WarmUp)
	if truth == Complete {
		for t := WarmUp; t < len(s.X); t++ {
			d := steps[t].Mean - s.Mean[t]
			sum += d * d
		}
		return math.Sqrt(sum / n)
	}
	if m.Smooths {
		return math.NaN() // the estimates of a smoother know the predicted values
	}
	mean, square := 0.0, 0.0
	for _, x := range s.X[WarmUp:] {
		mean += x / n
	}
	for t := WarmUp; t < len(s.X); t++ {
		d := steps[t-1].Mean - s.X[t]
		sum += d * d
		square += (s.X[t] - mean) * (s.X[t] - mean)
	}
	if square == 0 {
		return math.NaN()
	}
	return math.Sqrt(sum / square)
}

// windows scores reports against windows. A window is hit by a report in it, and a report outside all windows is
// false. A delay is the number of observations from the start of a window to the first report in it. Windows that end
// in the warm-up do not count.
func (s Series) windows(reports []int) (f1 float64, outside int, delays []float64) {
	windows := 0
	for _, w := range s.Windows {
		if w[1] < WarmUp {
			continue
		}
		windows++
		if i := slices.IndexFunc(reports, func(t int) bool { return w[0] <= t && t <= w[1] }); i >= 0 {
			delays = append(delays, float64(reports[i]-w[0]))
		}
	}
	for _, t := range reports {
		if !slices.ContainsFunc(s.Windows, func(w [2]int) bool { return w[0] <= t && t <= w[1] }) {
			outside++
		}
	}
	return f1Of(len(delays), windows, len(delays)+outside), outside, delays
}

// f1Of returns F1. It returns 1 if there is nothing to find and nothing found.
func f1Of(hits, truth, found int) float64 {
	if truth+found == 0 {
		return 1
	}
	return 2 * float64(hits) / float64(truth+found)
}

// match pairs each true change c with a report from c+lo to c+hi, one to one. truth and found are in ascending order.
// A delay is the distance from a change to its report.
func match(truth, found []int, lo, hi int) (hits int, delays []float64) {
	next := 0
	for _, c := range truth {
		for next < len(found) && found[next] < c+lo {
			next++
		}
		if next < len(found) && found[next] <= c+hi {
			delays = append(delays, float64(found[next]-c))
			next++
			hits++
		}
	}
	return hits, delays
}
