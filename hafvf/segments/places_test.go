package segments_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
	"hafvf/internal/testing/streams"
)

// placedKinds are streams with one change, or none, in the middle half.
var placedKinds = func() (kinds []streams.Kind) {
	add := func(f family, before float64, levels ...float64) {
		for _, after := range levels {
			kinds = append(kinds, streams.Kind{Name: fmt.Sprintf("%s %g → %g", f.name, before, after), Family: f.name, Make: func(rng *rand.Rand, n int) streams.Stream {
				return f.stream(rng, n, before, after)
			}})
		}
	}
	add(tosses, .5, .5, .7, .8)
	add(tosses, .65, .8)
	add(tosses, .95, .95, .75)
	add(family{name: "normal", draw: func(rng *rand.Rand, mean float64) float64 { return mean + rng.NormFloat64() }}, 0, 0, .64, 1, 1.5, 3)
	add(counts, .3, .3, .8, 3)
	add(waits, 1, 1, 1.9, 4)
	return kinds
}()

// A placeScore counts reported changes.
type placeScore struct {
	count, within    float64     // true changes near a reported one or in its interval, and those in the interval
	wide, wideWithin float64     // the same for intervals of five places or more
	claimed          [2]struct { // changes with a probability of .9 to .99, and above .99
		count, right, probability float64
	}
}

func (c *placeScore) add(places []expfam.ChangeInterval, changes, truth []int) {
	for k, p := range places {
		distance, within := math.MaxInt, false
		for _, place := range truth {
			if nearest(changes, place) == k {
				distance = min(distance, max(place-changes[k], changes[k]-place))
				within = within || p.From <= place && place <= p.To
			}
		}
		right := 0.
		if within {
			right = 1
		}
		if within || distance <= 30 {
			c.count++
			c.within += right
			if p.To-p.From >= 4 {
				c.wide++
				c.wideWithin += right
			}
		}
		if p.Probability >= .9 {
			claimed := &c.claimed[0]
			if p.Probability > .99 {
				claimed = &c.claimed[1]
			}
			claimed.count++
			claimed.right += right
			claimed.probability += p.Probability
		}
	}
}

// nearest returns the index of the change that is nearest to place.
func nearest(changes []int, place int) (k int) {
	for i, c := range changes {
		if max(c-place, place-c) < max(changes[k]-place, place-changes[k]) {
			k = i
		}
	}
	return k
}

func (c *placeScore) plus(o *placeScore) {
	c.count, c.within, c.wide, c.wideWithin = c.count+o.count, c.within+o.within, c.wide+o.wide, c.wideWithin+o.wideWithin
	for i, s := range o.claimed {
		c.claimed[i].count += s.count
		c.claimed[i].right += s.right
		c.claimed[i].probability += s.probability
	}
}

func (c *placeScore) String() string {
	text := ""
	for _, s := range c.claimed {
		text += fmt.Sprintf(" %6.0f %6.3f %6.3f", s.count, s.probability/s.count, s.right/s.count)
	}
	return fmt.Sprintf("%6.0f %6.3f %6.0f %6.3f %s", c.count, c.within/c.count, c.wide, c.wideWithin/c.wide, text)
}

// placed scores a smoother on streams of a kind.
func placed(t testing.TB, kind streams.Kind, stream uint64, lengths []int, seeds int, levels bool) (c placeScore) {
	m := familytest.OfStreams(t, kind.Family)
	smooth := bySegments(m)
	if levels {
		smooth = byLevels(m)
	}
	for _, n := range lengths {
		for k := range seeds {
			truth := kind.Make(rand.New(rand.NewPCG(*seed+uint64(k), stream)), n)
			changes, places := smooth(truth.X)
			c.add(places, changes, truth.Changes)
		}
	}
	return c
}

func bySegments(m expfam.Model) func(x []float64) ([]int, []expfam.ChangeInterval) {
	s := segments.NewSegmenter(m, 10)
	return func(x []float64) ([]int, []expfam.ChangeInterval) {
		g := s.Smooth(familytest.Single(x))
		return g.Changes(), g.Places()
	}
}

func byLevels(m expfam.Model) func(x []float64) ([]int, []expfam.ChangeInterval) {
	f := hafvf.NewFilter(m, []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, 1)
	return func(x []float64) ([]int, []expfam.ChangeInterval) {
		s := f.Smooth(familytest.Single(x))
		changes := hafvf.Changes(s.Evidence, 10)
		return changes, s.ChangeIntervals(changes)
	}
}

// The interval of a change contains the true one about as often as claimed, and the probability of a change is
// right about as often as claimed. The bounds are far from typical results.
func TestPlacesAreCalibrated(t *testing.T) {
	expect.Long(t, "many streams")
	var total placeScore
	for i, kind := range placedKinds {
		c := placed(t, kind, uint64(i), []int{400}, 10, false)
		total.plus(&c)
	}
	t.Logf("%v", &total)
	if !(total.count > 50) || !(total.within/total.count > .92) || !(total.claimed[1].right/total.claimed[1].count > .9) {
		t.Errorf("%v", &total)
	}
}

// BenchmarkPlaces prints how often the intervals of changes contain the true one: the number of true changes
// within 30 of a reported one or in its interval, and the share of them in the interval; the same for intervals
// of five places or more; and for changes with a probability of .9 to .99, and above .99, their number, the
// mean probability, and the share that is right.
//
//	go test ./hafvf/segments -run - -bench Places -benchtime 1x -seeds 50 -seed 1000
func BenchmarkPlaces(b *testing.B) {
	for b.Loop() {
		for _, levels := range []bool{false, true} {
			name := map[bool]string{false: "segments", true: "levels {9, 1}, {1, 1}"}[levels]
			fmt.Printf("\n%-26s %6s %6s %6s %6s  %20s %20s\n", name, "true", "within", "wide", "within", ".9 to .99, said, true", "above, said, true")
			var total placeScore
			for i, kind := range smoothedKinds {
				c := placed(b, kind, uint64(i), []int{6000}, int(*seeds), levels)
				fmt.Printf("%-26s %v\n", kind.Name, &c)
				total.plus(&c)
			}
			for i, kind := range placedKinds {
				c := placed(b, kind, uint64(100+i), []int{100, 400, 1600}, 10*int(*seeds), levels)
				fmt.Printf("%-26s %v\n", kind.Name, &c)
				total.plus(&c)
			}
			fmt.Printf("%-26s %v\n", "all", &total)
		}
	}
}
