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

// placedKinds are streams that change once, or hardly ever, in the middle half.
var placedKinds = func() (all []streams.Kind) {
	add := func(f family, before float64, levels ...float64) {
		for _, after := range levels {
			all = append(all, streams.Kind{Name: fmt.Sprintf("%s %g → %g", f.name, before, after), Family: f.name, Make: func(rng *rand.Rand, n int) streams.Stream {
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
	return all
}()

// A placeScore counts changes that are reported.
type placeScore struct {
	all, within      float64     // true ones within 30 of what is reported, or within the interval, and those within
	wide, wideWithin float64     // the same of intervals of five places or more
	said             [2]struct { // of the changes with a probability of .9 to .99, and above
		all, right, probability float64
	}
}

func (c *placeScore) add(places []expfam.ChangeInterval, changes, truth []int) {
	for k, p := range places {
		far, within := math.MaxInt, false
		for _, at := range truth {
			if nearest(changes, at) == k {
				far = min(far, max(at-changes[k], changes[k]-at))
				within = within || p.From <= at && at <= p.To
			}
		}
		right := 0.
		if within {
			right = 1
		}
		if within || far <= 30 {
			c.all++
			c.within += right
			if p.To-p.From >= 4 {
				c.wide++
				c.wideWithin += right
			}
		}
		if p.Probability >= .9 {
			said := &c.said[0]
			if p.Probability > .99 {
				said = &c.said[1]
			}
			said.all++
			said.right += right
			said.probability += p.Probability
		}
	}
}

// nearest is which of the changes is the nearest to at.
func nearest(changes []int, at int) (k int) {
	for i, c := range changes {
		if max(c-at, at-c) < max(changes[k]-at, at-changes[k]) {
			k = i
		}
	}
	return k
}

func (c *placeScore) plus(o *placeScore) {
	c.all, c.within, c.wide, c.wideWithin = c.all+o.all, c.within+o.within, c.wide+o.wide, c.wideWithin+o.wideWithin
	for i, s := range o.said {
		c.said[i].all += s.all
		c.said[i].right += s.right
		c.said[i].probability += s.probability
	}
}

func (c *placeScore) String() string {
	said := ""
	for _, s := range c.said {
		said += fmt.Sprintf(" %6.0f %6.3f %6.3f", s.all, s.probability/s.all, s.right/s.all)
	}
	return fmt.Sprintf("%6.0f %6.3f %6.0f %6.3f %s", c.all, c.within/c.all, c.wide, c.wideWithin/c.wide, said)
}

// placed scores a smoother on streams of a kind.
func placed(t testing.TB, kind streams.Kind, at uint64, lengths []int, seeds int, levels bool) (c placeScore) {
	m := familytest.OfStreams(t, kind.Family)
	smooth := bySegments(m)
	if levels {
		smooth = byLevels(m)
	}
	for _, n := range lengths {
		for k := range seeds {
			truth := kind.Make(rand.New(rand.NewPCG(*seed+uint64(k), at)), n)
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

// The interval of a change holds the true one about as often as it says, and so does the
// probability of a change: bounds far from what is usual.
func TestPlacesAreCalibrated(t *testing.T) {
	expect.Long(t, "many streams")
	var all placeScore
	for i, kind := range placedKinds {
		c := placed(t, kind, uint64(i), []int{400}, 30, false)
		all.plus(&c)
	}
	t.Logf("%v", &all)
	if !(all.all > 150) || !(all.within/all.all > .92) || !(all.said[1].right/all.said[1].all > .9) {
		t.Errorf("%v", &all)
	}
}

// Edges of a session that is cut have their places over the cuts.
func TestPlacesInParts(t *testing.T) {
	x := make([]float64, 900)
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range x {
		x[i] = rng.NormFloat64()
		if i >= 299 && i < 640 {
			x[i] += 1.5
		}
	}
	s := segments.NewSegmenter(familytest.OfStreams(t, "normal"), 10)
	whole := s.Smooth(familytest.Single(x))
	parts := s.Segment(familytest.Single(x[:300]), nil, familytest.Single(x[300:600]), familytest.Single(x[600:]))
	var got []expfam.ChangeInterval
	offset := 0
	for _, g := range parts {
		for _, p := range g.Places() {
			p.From, p.To = p.From+offset, p.To+offset
			got = append(got, p)
		}
		offset += g.Len()
	}
	if len(got) != 2 || len(whole.Places()) != 2 {
		t.Fatalf("places %v, of the whole %v", got, whole.Places())
	}
	for k, p := range whole.Places() {
		q := got[k]
		if max(p.From-q.From, q.From-p.From, p.To-q.To, q.To-p.To) > 1 || math.Abs(p.Evidence-q.Evidence) > .1*p.Evidence {
			t.Errorf("place %d of parts %+v, of the whole %+v", k, q, p)
		}
	}
}

// BenchmarkPlaces prints how often the intervals of changes hold the true one: the true
// changes within 30 of a reported one or in its interval, the share of them in it; the same of
// intervals of five places or more; and of changes said .9 to .99, and above .99, how many
// there are, what is said and how often it is right.
//
//	go test ./hafvf/segments -run - -bench Places -benchtime 1x -seeds 50 -seed 1000
func BenchmarkPlaces(b *testing.B) {
	for b.Loop() {
		for _, levels := range []bool{false, true} {
			name := map[bool]string{false: "segments", true: "levels {9, 1}, {1, 1}"}[levels]
			fmt.Printf("\n%-26s %6s %6s %6s %6s  %20s %20s\n", name, "true", "within", "wide", "within", ".9 to .99, said, true", "above, said, true")
			var all placeScore
			for i, kind := range smoothedKinds {
				c := placed(b, kind, uint64(i), []int{6000}, int(*seeds), levels)
				fmt.Printf("%-26s %v\n", kind.Name, &c)
				all.plus(&c)
			}
			for i, kind := range placedKinds {
				c := placed(b, kind, uint64(100+i), []int{100, 400, 1600}, 10*int(*seeds), levels)
				fmt.Printf("%-26s %v\n", kind.Name, &c)
				all.plus(&c)
			}
			fmt.Printf("%-26s %v\n", "all", &all)
		}
	}
}
