package segments_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hafvf/hafvf/segments"
	"hafvf/internal/streams"
)

// coins are what a Segmenter and an enumeration find in coins of one change, within 30 tosses
// and elsewhere.
type coins struct{ streams, tosses, found, elsewhere, enumerated, enumeratedElsewhere float64 }

// toss makes streams of n tosses whose p changes from before to after in the middle half.
func (c *coins) toss(t testing.TB, before, after float64, n, seeds int) {
	t.Helper()
	s := segments.NewSegmenter(streamModel(t, "bernoulli"), 10)
	for i := range seeds {
		rng := rand.New(rand.NewPCG(*seed, uint64(i)))
		change := n/4 + rng.IntN(n/2)
		x := make([]float64, n)
		for j := range x {
			p := before
			if j >= change {
				p = after
			}
			x[j] = streams.Toss(rng, p)
		}
		near := func(at int) bool { return before != after && max(at-change, change-at) <= 30 }
		g := s.Smooth(stepsOf(x))
		found := false
		for _, at := range g.Changes() {
			if near(at) {
				found = true
			} else {
				c.elsewhere++
			}
		}
		if found {
			c.found++
		}
		switch at, logOdds := enumerate(x); {
		case logOdds <= math.Log(10):
		case near(at):
			c.enumerated++
		default:
			c.enumeratedElsewhere++
		}
		c.streams++
		c.tosses += float64(n)
	}
}

// enumerate is the best place of one change among tosses, and the log odds for a change against
// none: uniform priors of p before and after, averaged over the places.
func enumerate(x []float64) (best int, logOdds float64) {
	prefix := make([]float64, len(x)+1)
	for i, v := range x {
		prefix[i+1] = prefix[i] + v
	}
	log := func(from, end int) float64 { // marginal likelihood
		heads := prefix[end] - prefix[from]
		a, _ := math.Lgamma(heads + 1)
		b, _ := math.Lgamma(float64(end-from) - heads + 1)
		c, _ := math.Lgamma(float64(end-from) + 2)
		return a + b - c
	}
	evidence := make([]float64, len(x)-1)
	for i := range evidence {
		evidence[i] = log(0, i+1) + log(i+1, len(x)) - log(0, len(x))
	}
	top := slices.Max(evidence)
	sum := 0.
	for _, e := range evidence {
		sum += math.Exp(e - top)
	}
	return slices.Index(evidence, top) + 1, top + math.Log(sum/float64(len(evidence)))
}

// A toss tells little. A change of p is found about as often as by enumeration of its places,
// and a coin without a change has hardly any.
func TestCoins(t *testing.T) {
	var clear, same coins
	clear.toss(t, .5, .8, 400, 60)
	clear.toss(t, .95, .75, 400, 60)
	same.toss(t, .5, .5, 400, 60)
	same.toss(t, .8, .8, 400, 60)
	if clear.found < .85*clear.enumerated || clear.enumerated < .8*clear.streams || clear.elsewhere > clear.enumeratedElsewhere+4 || same.elsewhere > 2 {
		t.Errorf("changes %+v, none %+v", clear, same)
	}
}

// BenchmarkCoins prints what is found of one change of a coin, beside an enumeration, and what
// is found elsewhere per 10,000 tosses:
//
//	go test ./hafvf/segments -run - -bench Coins -benchtime 1x
func BenchmarkCoins(b *testing.B) {
	for b.Loop() {
		fmt.Println("before after     n  found  enumeration  elsewhere per 10,000, enumeration")
		for _, n := range []int{100, 200, 400, 1600} {
			for _, p := range []float64{.5, .65, .8, .95} {
				for _, change := range []float64{0, .1, .2, .3, .4} {
					after := p + change
					if after > .95 {
						after = p - change
					}
					var c coins
					c.toss(b, p, after, n, 200)
					fmt.Printf("%6.2f %5.2f %5d %6.3f %12.3f %9.2f %9.2f\n", p, after, n, c.found/c.streams, c.enumerated/c.streams, 1e4*c.elsewhere/c.tosses, 1e4*c.enumeratedElsewhere/c.tosses)
				}
			}
		}
	}
}
