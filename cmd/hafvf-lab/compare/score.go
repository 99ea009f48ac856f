package compare

import (
	"math"
	"slices"

	"hafvf/cmd/hafvf-lab/compare/methods"
	"hafvf/internal/median"
)

// The figures of a run.
const (
	nats         = iota // mean log predictive
	rmse                // of the estimate
	f1                  // of changes, said at most 100 observations after them
	near                // of changes, said to be at most 5 observations away
	falseChanges        // changes that there were none of
	delay               // of what was found
	micros              // time of an update
	size                // of the state
	figures
)

// An outcome has the figures of a run of a method over a stream, NaN where there is none.
type outcome [figures]float64

// A metric describes a figure.
type metric struct {
	Key, Name, Short string
	Higher           bool // is better
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

const (
	foundWithin = 100 // observations
	startWithin = 5
)

// score compares what a method has said with what is true.
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
	o[rmse] = s.error(m, steps, truth)
	if !m.Detects || truth == Unknown {
		return o
	}
	var said, starts []int
	for t, step := range steps {
		if t >= WarmUp && step.Change {
			said = append(said, t)
			starts = append(starts, t-step.Age)
		}
	}
	var falsely int
	var delays []float64
	if truth == Windows {
		o[f1], falsely, delays = s.windows(said)
	} else {
		var hits int
		hits, delays = match(s.Changes, said, 0, foundWithin)
		// The first observation counts among the changes and among what is found, as in
		// the Turing Change Point Dataset.
		o[f1] = f1Of(hits+1, len(s.Changes)+1, len(said)+1)
		if m.Places {
			slices.Sort(starts)
			hits, _ := match(s.Changes, starts, -startWithin, startWithin)
			o[near] = f1Of(hits+1, len(s.Changes)+1, len(starts)+1)
		}
		for _, t := range said {
			if !slices.ContainsFunc(s.Changes, func(c int) bool { return c <= t && t-c <= foundWithin }) {
				falsely++
			}
		}
	}
	o[falseChanges] = 1e4 * float64(falsely) / n
	o[delay] = median.Of(delays)
	return o
}

// error is the root mean square error of the estimate after each observation against the
// true mean. Where that is unknown it is that of the prediction, the estimate before each
// observation against the observation, in standard deviations of the series.
func (s Series) error(m methods.Method, steps []methods.Step, truth Truth) float64 {
	sum, n := 0.0, float64(len(s.X)-WarmUp)
	if truth == Complete {
		for t := WarmUp; t < len(s.X); t++ {
			d := steps[t].Mean - s.Mean[t]
			sum += d * d
		}
		return math.Sqrt(sum / n)
	}
	if m.Smooths {
		return math.NaN() // its estimates know what they would predict
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

// windows scores alarms against windows: a window is hit by an alarm in it, an alarm
// outside all windows is false, and the delay is from a window's start.
func (s Series) windows(said []int) (f1 float64, outside int, delays []float64) {
	windows := 0
	for _, w := range s.Windows {
		if w[1] < WarmUp {
			continue
		}
		windows++
		if i := slices.IndexFunc(said, func(t int) bool { return w[0] <= t && t <= w[1] }); i >= 0 {
			delays = append(delays, float64(said[i]-w[0]))
		}
	}
	for _, t := range said {
		if !slices.ContainsFunc(s.Windows, func(w [2]int) bool { return w[0] <= t && t <= w[1] }) {
			outside++
		}
	}
	return f1Of(len(delays), windows, len(delays)+outside), outside, delays
}

// f1Of is 1 where there is nothing to find and nothing found.
func f1Of(hits, truth, found int) float64 {
	if truth+found == 0 {
		return 1
	}
	return 2 * float64(hits) / float64(truth+found)
}

// match pairs truth with what was found from lo to hi after it, one to one, both in order.
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
