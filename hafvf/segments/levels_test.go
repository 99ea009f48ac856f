package segments_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"hafvf/hafvf/segments"
	"hafvf/internal/testing/familytest"
	"hafvf/internal/testing/streams"
)

// sessionCount is the number of sessions of each kind in BenchmarkShortLevels.
const sessionCount = 60

// shortLevels has levels of the given length under white noise with a standard deviation of 1. Each level is
// apart from the previous one. A third of the sessions alternate, a third are stairs, and a third go either way.
func shortLevels(count, length int, apart float64) sessionKind {
	within := 1
	if apart < 6 {
		within = 2
	}
	return sessionKind{fmt.Sprintf("%d×%d, %g sd", count, length, apart), within, func(rng *rand.Rand, _ int) ([]float64, []int) {
		pattern, sign, levels := rng.IntN(3), streams.Sign(rng), []float64{0}
		for k := range count - 1 {
			switch pattern {
			case 0:
				sign = -sign
			case 1:
				sign = streams.Sign(rng)
			}
			levels = append(levels, levels[k]+sign*apart)
		}
		return blocks(rng.NormFloat64, slices.Repeat([]int{length}, count), func(k int) float64 { return levels[k] })
	}}
}

// helicopter has a hazard of 1/20 and levels between 40 and 260. Changes of less than two standard deviations
// count as none.
func helicopter(sd float64) sessionKind {
	return sessionKind{fmt.Sprintf("helicopter, sd %g", sd), 2, func(rng *rand.Rand, _ int) (x []float64, changes []int) {
		level, last := streams.Uniform(rng, 40, 260), 0
		for t := range 200 {
			if t-last > 3 && rng.Float64() < .05 {
				previous := level
				if level = streams.Uniform(rng, 40, 260); math.Abs(level-previous) > 2*sd {
					changes, last = append(changes, t), t
				}
			}
			x = append(x, level+sd*rng.NormFloat64())
		}
		return x, changes
	}}
}

// steps has 300 values with steps of one of the sizes after 30 to 99 values, under the noise of another kind.
func steps(noise sessionKind, within int, sizes ...float64) sessionKind {
	return sessionKind{"steps, " + noise.name, within, func(rng *rand.Rand, _ int) ([]float64, []int) {
		const n = 300
		x, _ := noise.make(rng, n)
		var changes []int
		for t := 30 + rng.IntN(70); t < n-8; t += 30 + rng.IntN(70) {
			changes = append(changes, t)
			size := sizes[rng.IntN(len(sizes))] * streams.Sign(rng)
			for i := range x[t:] {
				x[t+i] += size
			}
		}
		return x, changes
	}}
}

// kindNamed returns an unchanging kind.
func kindNamed(name string) sessionKind {
	return unchanging[slices.IndexFunc(unchanging, func(k sessionKind) bool { return k.name == name })]
}

// A finder returns the changes of a session.
type finder func(x []float64) []int

// segmenter returns the finder of a Segmenter whose prior is fitted to each session.
func segmenter(t testing.TB, levelsOnly bool) finder {
	s := segments.NewSegmenter(familytest.New(t, "normal", nil), 10)
	if levelsOnly {
		s.LevelsOnly()
	}
	return func(x []float64) []int {
		steps := familytest.Single(x)
		s.Fit(slices.Concat(steps...))
		return s.Smooth(steps).Changes()
	}
}

// peltMean is optimal partitioning (Jackson et al. 2005; PELT finds the same) with the squared error, a penalty of
// 3 log n, and the noise estimated from differences.
func peltMean(x []float64) []int {
	var d []float64
	for i := range x[1:] {
		d = append(d, math.Abs(x[i+1]-x[i]))
	}
	slices.Sort(d)
	sd := d[len(d)/2] / .6745 / math.Sqrt2
	return partitioned(x, 2, 3*math.Log(float64(len(x))), func(_, squares float64) float64 { return squares / (sd * sd) })
}

// peltNormal is optimal partitioning with the normal likelihood of mean and variance, and a penalty of 4 log n.
func peltNormal(x []float64) []int {
	return partitioned(x, 5, 4*math.Log(float64(len(x))), func(n, squares float64) float64 { return n * math.Log(squares/n) })
}

func partitioned(x []float64, shortest int, penalty float64, cost func(n, squares float64) float64) (changes []int) {
	best, last := make([]float64, len(x)+1), make([]int, len(x)+1)
	best[0] = -penalty
	for t := 1; t <= len(x); t++ {
		best[t] = math.Inf(1)
		for from := 0; from <= t-shortest; from++ {
			n := float64(t - from)
			if v := best[from] + penalty + cost(n, n*stat.PopVariance(x[from:t], nil)); v < best[t] {
				best[t], last[t] = v, from
			}
		}
	}
	for t := last[len(x)]; t > 0; t = last[t] {
		changes = append(changes, t)
	}
	slices.Reverse(changes)
	return changes
}

// A tally counts changes.
type tally struct{ found, total, others int }

func (a *tally) add(b tally) {
	a.found, a.total, a.others = a.found+b.found, a.total+b.total, a.others+b.others
}

// tallied returns the changes that are found in sessions of a kind, each by the nearest reported one.
func tallied(find finder, k sessionKind, n, sessions int, seed uint64) (sum tally) {
	for i := range sessions {
		x, changes := k.make(rand.New(rand.NewPCG(seed+uint64(i), 88)), n)
		free := find(x)
		sum.total += len(changes)
		for _, c := range changes {
			nearest := -1
			for j, f := range free {
				if d := max(c-f, f-c); d <= k.within && (nearest < 0 || d < max(c-free[nearest], free[nearest]-c)) {
					nearest = j
				}
			}
			if nearest >= 0 {
				free = slices.Delete(free, nearest, nearest+1)
				sum.found++
			}
		}
		sum.others += len(free)
	}
	return sum
}

// BenchmarkShortLevels prints the changes that are found, and other changes, in 60 sessions of each kind: by a
// Segmenter, by a Segmenter with LevelsOnly, and by optimal partitioning with the squared error and with the
// normal likelihood:
//
//	go test ./hafvf/segments -run - -bench ShortLevels -benchtime 1x -seed 1000
func BenchmarkShortLevels(b *testing.B) {
	finders := []finder{segmenter(b, false), segmenter(b, true), peltMean, peltNormal}
	for b.Loop() {
		fmt.Printf("%-36s %s\n", "", "found and others: segments, levels only, squared error, normal")
		table := func(name string, n int, kinds ...sessionKind) {
			sums := make([]tally, len(finders))
			row := func(name string, counts []tally) {
				fmt.Printf("%-36s %5d", name, counts[0].total)
				for _, c := range counts {
					fmt.Printf("  %5d %4d", c.found, c.others)
				}
				fmt.Println()
			}
			for _, k := range kinds {
				var counts []tally
				for i, f := range finders {
					counts = append(counts, tallied(f, k, n, sessionCount, *seed))
					sums[i].add(counts[i])
				}
				row(k.name, counts)
			}
			if len(kinds) > 1 {
				row(name, sums)
			}
		}
		apart := []float64{3, 4, 5, 6, 8, 10}
		for _, a := range apart {
			table(fmt.Sprintf("3 to 6 levels of 6 to 10, %g sd", a), 0, shortLevels(3, 10, a), shortLevels(4, 7, a), shortLevels(4, 10, a), shortLevels(5, 6, a), shortLevels(6, 8, a))
		}
		for _, shape := range [][2]int{{6, 5}, {4, 20}, {6, 20}, {2, 10}, {2, 20}} {
			for _, a := range apart {
				table("", 0, shortLevels(shape[0], shape[1], a))
			}
		}
		table("helicopter", 0, helicopter(12), helicopter(25))
		white := kindNamed("correlation 0")
		table("steps", 0, steps(white, 3, 2, 3, 5), steps(kindNamed("t of 3 degrees"), 3, 3.5, 5.2, 8.7), steps(kindNamed("correlation 0.5"), 5, 2, 3, 5), steps(kindNamed("walk of 0.1, noise 1"), 3, 4, 6))
		for _, n := range []int{10, 20, 30, 40, 100, 200} {
			table(fmt.Sprintf("none in %d values", n), n, unchanging...)
		}
	}
}

// Short levels are found if their distance is clear, and with LevelsOnly also where a walk explains as much. The
// bounds are a little below typical results.
func TestShortLevels(t *testing.T) {
	found := func(levelsOnly bool, kinds ...sessionKind) float64 {
		var sum tally
		for _, k := range kinds {
			sum.add(tallied(segmenter(t, levelsOnly), k, 0, 20, 88))
		}
		if sum.others > 6 {
			t.Errorf("%s: %d other changes", kinds[0].name, sum.others)
		}
		return float64(sum.found) / float64(sum.total)
	}
	for apart, bound := range map[float64]float64{5: .8, 6: .95, 8: .98} {
		if share := found(false, shortLevels(3, 10, apart), shortLevels(4, 7, apart), shortLevels(4, 10, apart), shortLevels(5, 6, apart), shortLevels(6, 8, apart)); !(share > bound) {
			t.Errorf("levels %g sd apart: %.3f are found", apart, share)
		}
	}
	if designed, free := found(true, shortLevels(4, 10, 3)), found(false, shortLevels(4, 10, 3)); !(designed > .7) || !(free < .5) {
		t.Errorf("levels 3 sd apart: %.3f are found if the task has levels, and else %.3f", designed, free)
	}
}

// The kind of a session is the one that made it.
func TestKind(t *testing.T) {
	for _, c := range []struct {
		kind sessionKind
		want segments.Kind
	}{
		{shortLevels(4, 20, 6), segments.Levels},
		{kindNamed("correlation 0.5"), segments.Correlated},
		{kindNamed("walk of 0.3, noise 1"), segments.Walk},
		{kindNamed("rise by 20"), segments.Line},
	} {
		s := segments.NewSegmenter(familytest.New(t, "normal", nil), 10)
		right, clear := 0, 0
		for i := range 10 {
			x, _ := c.kind.make(rand.New(rand.NewPCG(uint64(i), 89)), 200)
			steps := familytest.Single(x)
			s.Fit(slices.Concat(steps...))
			kind, against := s.Smooth(steps).Kind()
			if !(against >= 0) {
				t.Fatalf("%s: %g nats against the next kind", c.kind.name, against)
			}
			if kind == c.want {
				right++
				if against > 3 {
					clear++
				}
			}
			if k, a := s.Segment(steps[:len(x)/2], steps[len(x)/2:])[1].Kind(); k != kind || a != against {
				t.Errorf("%s in parts: %v by %g, and else %v by %g", c.kind.name, k, a, kind, against)
			}
		}
		if right < 9 || clear < 7 {
			t.Errorf("%s: %d of 10 sessions are of the kind %v, %d clearly", c.kind.name, right, c.want, clear)
		}
	}
	if kind, _ := segments.NewSegmenter(familytest.New(t, "poisson", nil), 10).Smooth(familytest.Single([]float64{1, 2, 3})).Kind(); kind.String() != "" {
		t.Errorf("counts are of the kind %v", kind)
	}
}

// A ramp between two levels has a start and an end, and no steps.
func TestRamp(t *testing.T) {
	find, right := segmenter(t, false), 0
	for i := range 20 {
		rng := rand.New(rand.NewPCG(uint64(i), 90))
		var x []float64
		for at := range 300 {
			x = append(x, 10*math.Max(0, math.Min(1, float64(at-200)/40))+rng.NormFloat64())
		}
		if changes := find(x); len(changes) == 2 && max(changes[0]-200, 200-changes[0]) <= 15 && max(changes[1]-240, 240-changes[1]) <= 15 {
			right++
		}
	}
	if right < 14 {
		t.Errorf("%d of 20 ramps have a start and an end only", right)
	}
}
