package segments_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hafvf/hafvf/segments"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
	"hafvf/internal/testing/streams"
)

// A family is one without a scale of its own, whose single observations carry little information.
type family struct {
	name string
	draw func(rng *rand.Rand, level float64) float64
	// marginal returns the log marginal likelihood of n observations with the given sum under the default
	// prior, without the terms that do not depend on how the observations are divided.
	marginal func(n, sum float64) float64
}

var (
	tosses = family{"bernoulli", streams.Toss, func(n, sum float64) float64 {
		return lgamma(sum+1) + lgamma(n-sum+1) - lgamma(n+2)
	}}
	counts = family{"poisson", streams.Poisson, func(n, sum float64) float64 { return lgamma(sum+1) - (sum+1)*math.Log(n+1) }}
	waits  = family{"exponential", func(rng *rand.Rand, mean float64) float64 { return mean * rng.ExpFloat64() }, func(n, sum float64) float64 {
		return lgamma(n+1) - (n+1)*math.Log(sum+1)
	}}
)

func lgamma(x float64) float64 { v, _ := math.Lgamma(x); return v }

// found counts the changes of streams that a Segmenter finds within 30 observations, and those that it reports
// elsewhere. It also counts both for an enumeration.
type found struct{ streams, observations, changes, found, elsewhere, enumerated, enumeratedElsewhere float64 }

// stream returns n observations with two or four levels. One change is in the middle half; three changes are
// near the quarters. If the first two levels are equal, there is no change.
func (f family) stream(rng *rand.Rand, n int, levels ...float64) streams.Stream {
	changes := []int{n/4 + rng.IntN(n/2)}
	if len(levels) == 4 {
		changes = []int{n/4 + rng.IntN(n/8) - n/16, n/2 + rng.IntN(n/8) - n/16, 3*n/4 + rng.IntN(n/8) - n/16}
	}
	s := streams.Stream{X: make([]float64, n), Mean: make([]float64, n)}
	level := 0
	for t := range n {
		if level < len(changes) && t == changes[level] {
			level++
		}
		s.Mean[t] = levels[level]
		s.X[t] = f.draw(rng, s.Mean[t])
	}
	if levels[0] != levels[1] {
		s.Changes = changes
	}
	return s
}

// add scores seeds streams of n observations with the given levels.
func (c *found) add(t testing.TB, f family, levels []float64, n, seeds int) {
	t.Helper()
	s := segments.NewSegmenter(familytest.OfStreams(t, f.name), 10)
	for i := range seeds {
		truth := f.stream(rand.New(rand.NewPCG(*seed, uint64(i))), n, levels...)
		x, changes := truth.X, truth.Changes
		c.streams++
		c.observations += float64(n)
		c.changes += float64(len(changes))
		near := func(places []int, place int) bool {
			return slices.ContainsFunc(places, func(c int) bool { return max(c-place, place-c) <= 30 })
		}
		count := func(reported []int, found, elsewhere *float64) {
			for _, change := range changes {
				if near(reported, change) {
					*found++
				}
			}
			for _, place := range reported {
				if !near(changes, place) {
					*elsewhere++
				}
			}
		}
		count(s.Smooth(familytest.Single(x)).Changes(), &c.found, &c.elsewhere)
		count(f.divide(x, 0), &c.enumerated, &c.enumeratedElsewhere)
	}
}

// divide divides x at the best place of a change if the log odds are above log 10, and then divides both parts
// in the same way.
func (f family) divide(x []float64, from int) (changes []int) {
	if len(x) < 2 {
		return nil
	}
	split, logOdds := f.enumerate(x)
	if logOdds <= math.Log(10) {
		return nil
	}
	return slices.Concat(f.divide(x[:split], from), []int{from + split}, f.divide(x[split:], from+split))
}

// enumerate returns the best place of one change, and the log odds of a change against no change, averaged over
// the places.
func (f family) enumerate(x []float64) (best int, logOdds float64) {
	prefix := make([]float64, len(x)+1)
	for i, v := range x {
		prefix[i+1] = prefix[i] + v
	}
	marginal := func(from, end int) float64 { return f.marginal(float64(end-from), prefix[end]-prefix[from]) }
	evidence := make([]float64, len(x)-1)
	for i := range evidence {
		evidence[i] = marginal(0, i+1) + marginal(i+1, len(x)) - marginal(0, len(x))
	}
	top := slices.Max(evidence)
	sum := 0.
	for _, e := range evidence {
		sum += math.Exp(e - top)
	}
	return slices.Index(evidence, top) + 1, top + math.Log(sum/float64(len(evidence)))
}

// A change in values that carry little information is found about as often as by enumeration of its places.
// Without a change hardly any is reported.
func TestLittleInformation(t *testing.T) {
	expect.Long(t, "many streams")
	var clear, same found
	clear.add(t, tosses, []float64{.5, .8}, 400, 20)
	clear.add(t, tosses, []float64{.95, .75}, 400, 20)
	clear.add(t, tosses, []float64{.8, .6}, 400, 20)
	clear.add(t, counts, []float64{.3, .6}, 400, 20)
	clear.add(t, waits, []float64{1, 1.6}, 400, 20)
	clear.add(t, tosses, []float64{.5, .8, .5, .8}, 800, 20)
	for _, level := range []float64{.5, .8} {
		same.add(t, tosses, []float64{level, level}, 400, 20)
		same.add(t, counts, []float64{level, level}, 400, 20)
		same.add(t, waits, []float64{level, level}, 400, 20)
	}
	if clear.found < .85*clear.enumerated || clear.enumerated < .65*clear.changes ||
		clear.elsewhere > 1.5*clear.enumeratedElsewhere || same.elsewhere > 2 {
		t.Errorf("changes %+v, none %+v", clear, same)
	}
}

// BenchmarkLittleInformation prints the share of changes that are found in values that carry little
// information, the same for an enumeration of their places, and the changes found elsewhere per 10,000:
//
//	go test ./hafvf/segments -run - -bench LittleInformation -benchtime 1x
func BenchmarkLittleInformation(b *testing.B) {
	for b.Loop() {
		fmt.Println("family      levels                  n  found  enumeration  elsewhere per 10,000, enumeration")
		row := func(f family, n int, levels ...float64) {
			var c found
			c.add(b, f, levels, n, 200)
			fmt.Printf("%-11s %-20s %5d %6.3f %12.3f %9.2f %9.2f\n", f.name, fmt.Sprint(levels), n, c.found/c.changes, c.enumerated/c.changes, 1e4*c.elsewhere/c.observations, 1e4*c.enumeratedElsewhere/c.observations)
		}
		for _, n := range []int{100, 200, 400, 1600} {
			for _, p := range []float64{.5, .65, .8, .95} {
				for _, change := range []float64{0, .1, .2, .3, .4} {
					q := p + change
					if q > .95 {
						q = p - change
					}
					q = math.Round(100*q) / 100
					row(tosses, n, p, q)
					if n >= 400 && change > 0 {
						row(tosses, n, p, q, p, q)
					}
				}
			}
			for _, after := range []float64{.3, .6, .8, 1.5} {
				row(counts, n, .3, after)
			}
			row(counts, n, .1, .3)
			for _, after := range []float64{3, 4, 6} {
				row(counts, n, 3, after)
			}
			for _, after := range []float64{1, 1.6, 1.9, 3} {
				row(waits, n, 1, after)
			}
		}
	}
}
