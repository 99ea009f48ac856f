package segments_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// A reversal alternates between two levels, in blocks of trials.
type reversal struct {
	family       family
	levels       [2]float64
	block        int
	first, count int // trials of the first and last block, 0 means block; blocks, 0 means about 300 trials
}

func (r reversal) String() string {
	return fmt.Sprintf("%s %g/%g, blocks of %d", r.family.name, r.levels[0], r.levels[1], r.block)
}

// stream draws the trials, and returns them with the indices of the changes.
func (r reversal) stream(rng *rand.Rand) (x []float64, changes []int) {
	ends := r.first
	if ends == 0 {
		ends = r.block
	}
	count := r.count
	if count == 0 {
		count = max(2, 300/r.block)
	}
	for k := range count {
		n := r.block
		if k == 0 || k == count-1 {
			n = ends
		}
		if k > 0 {
			changes = append(changes, len(x))
		}
		for range n {
			x = append(x, r.family.draw(rng, r.levels[k%2]))
		}
	}
	return x, changes
}

// reversals lists the sets. The first twelve are coins.
var reversals = func() (kinds []reversal) {
	add := func(f family, a, b float64, blocks ...int) {
		for _, n := range blocks {
			kinds = append(kinds, reversal{family: f, levels: [2]float64{a, b}, block: n})
		}
	}
	add(tosses, .9, .1, 10, 15, 20, 30, 50)
	add(tosses, .8, .2, 15, 20, 30, 50)
	add(tosses, .7, .3, 30, 50)
	kinds = append(kinds, reversal{tosses, [2]float64{.9, .1}, 20, 100, 11})
	add(counts, 1, 5, 10, 20, 30)
	add(counts, .3, 2, 20, 50)
	add(waits, 1, 6, 15, 30, 50)
	return kinds
}()

// reversed returns the share of the changes that are found within 5 trials, over the given number of sessions,
// and the reported changes that are more than 20 trials from any change, per trial.
func reversed(t testing.TB, r reversal, odds float64, sessions int) (recall, falsely float64) {
	s := segments.NewSegmenter(familytest.OfStreams(t, r.family.name), odds)
	found, total, elsewhere, trials := 0., 0., 0., 0.
	for i := range sessions {
		x, changes := r.stream(rand.New(rand.NewPCG(*seed+uint64(i), 77)))
		got := s.Smooth(familytest.Single(x)).Changes()
		within := func(places []int, place, far int) bool {
			return slices.ContainsFunc(places, func(c int) bool { return max(c-place, place-c) <= far })
		}
		for _, c := range changes {
			if within(got, c, 5) {
				found++
			}
		}
		for _, c := range got {
			if !within(changes, c, 20) {
				elsewhere++
			}
		}
		total += float64(len(changes))
		trials += float64(len(x))
	}
	return found / total, elsewhere / trials
}

// BenchmarkReversals prints the share of reversals that are found within 5 trials, and false changes (more than
// 20 from any) per 10,000, at odds of 10 and of 4:
//
//	go test ./hafvf/segments -run - -bench Reversals -benchtime 1x -seed 1000
func BenchmarkReversals(b *testing.B) {
	for b.Loop() {
		var mean [2]float64
		for i, r := range reversals {
			fmt.Printf("%-36v", r)
			for k, odds := range [...]float64{10, 4} {
				recall, falsely := reversed(b, r, odds, 60)
				fmt.Printf(" %.3f %6.1f", recall, 1e4*falsely)
				mean[k] += recall / 12
			}
			if fmt.Println(); i == 11 {
				fmt.Printf("%-36s %.3f        %.3f\n", "mean of the coins", mean[0], mean[1])
			}
		}
	}
}

// Higher odds never report more changes, on any set, and odds beyond all evidence report none.
func TestHigherOddsFewerChanges(t *testing.T) {
	expect.Long(t, "sets of sessions")
	for _, r := range reversals {
		m := familytest.OfStreams(t, r.family.name)
		for i := range uint64(2) {
			x, _ := r.stream(rand.New(rand.NewPCG(i, 78)))
			inOrder(t, fmt.Sprint(r, i), m, x)
		}
	}
	for i, kind := range smoothedKinds {
		x := kind.Make(rand.New(rand.NewPCG(78, uint64(i))), 300).X
		inOrder(t, kind.Name, familytest.OfStreams(t, kind.Family), x)
	}
}

func inOrder(t *testing.T, name string, m expfam.Model, x []float64) {
	t.Helper()
	previous := len(x)
	for _, odds := range []float64{10, 1000, 1e300} {
		n := len(segments.NewSegmenter(m, odds).Smooth(familytest.Single(x)).Changes())
		if n > previous || odds > 1e6 && n > 0 {
			t.Errorf("%s: %d changes at odds %g, and at lower odds %d", name, n, odds, previous)
		}
		previous = n
	}
}

// Sessions of a few trials are smoothed at any odds, for every family.
func TestSmoothFewTrials(t *testing.T) {
	for _, c := range familytest.All() {
		m := c.New(t)
		rng := rand.New(rand.NewPCG(79, 1))
		for _, odds := range []float64{1e-300, .1, 1, 3, 10, 1e3, 1e6} {
			for n := range 11 {
				steps := c.Steps(m, rng, n, func(int, []float64) {})
				if g := segments.NewSegmenter(m, odds).Smooth(steps); g.Len() != n || n < 10 && len(g.Changes()) > 0 {
					t.Errorf("%s: changes %v of %d trials at odds %g", c.Name, g.Changes(), n, odds)
				}
			}
		}
	}
}
