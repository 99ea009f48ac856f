package segments_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
	"hafvf/internal/testing/streams"
)

// A smoothingTrace is the result of an independent implementation for a session.
type smoothingTrace struct {
	Family   string
	Prior    expfam.Params
	X        []float64
	Changes  []int
	LogOdds  map[string]float64 `json:"log_odds"` // of the changes
	Accident []float64
	Lanes    []float64
	Shares   [][]float64
}

// memory returns the memory of the heaviest lane at i: the sum of its weights over the segment's observations.
func (tr *smoothingTrace) memory(i int) (memory float64) {
	from, end := 0, len(tr.X)
	for _, c := range tr.Changes {
		if c <= i {
			from = c
		} else {
			end = min(end, c)
		}
	}
	heaviest := 0
	for j, p := range tr.Shares[i] {
		if p > tr.Shares[i][heaviest] {
			heaviest = j
		}
	}
	for j := from; j < end; j++ {
		memory += (1 - tr.Accident[j]) * math.Pow(tr.Lanes[heaviest], math.Abs(float64(i-j)))
	}
	return memory
}

func TestSmootherReproducesTheTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var want smoothingTrace
			familytest.ReadJSON(t, file, &want)
			m := familytest.New(t, want.Family, want.Prior)
			got := segments.NewSegmenter(m, 10).SmoothLong(familytest.Single(want.X))
			if !slices.Equal(got.Changes(), want.Changes) {
				t.Errorf("changes %v, want %v", got.Changes(), want.Changes)
			}
			near := func(what string, i int, a, b float64) {
				if !(math.Abs(a-b) <= 1e-8) {
					t.Errorf("%s at %d is %.12g, want %.12g, by %g", what, i, a, b, a-b)
				}
			}
			for i := range want.X {
				near("memory", i, m.Memory(got.Sample(i)), want.memory(i))
				near("outlier", i, got.Outlier(i), want.Accident[i])
			}
			for step, odds := range want.LogOdds {
				i := expect.Get(strconv.Atoi(step))(t)
				if k := slices.Index(got.Changes(), i); k >= 0 && want.Family != "normal" {
					odds = math.Max(odds, got.Places()[k].Evidence) // the trace has no evidence of places
				}
				near("evidence", i, got.Evidence[i], odds)
			}
		})
	}
}

// The posterior of a step combines its segment's observations. Each is weighted by its distance, with the decay
// of one of the lanes, and by its probability of not being an accident. This holds for every family, with
// missing values and several observations per step.
func TestSegmentPosteriorIsConjugate(t *testing.T) {
	for _, c := range familytest.All() {
		t.Run(c.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(13, 1))
			m := c.New(t)
			steps := c.Steps(m, rng, 150, func(i int, x []float64) {
				switch {
				case i >= 75 && (c.Name == "normal" || c.Name == "ar"):
					x[len(x)-1] += 12
				case i >= 75 && c.Name == "poisson":
					x[0] += 40
				}
			})
			rows := steps
			if _, sequential := m.(expfam.Sequential); sequential {
				rows = familytest.ARRows(steps)
			}
			g := segments.NewSegmenter(m, 10).Smooth(steps)
			if n := len(g.Changes()); (c.Name == "normal" || c.Name == "poisson") && n == 0 {
				t.Error("no edge")
			}
			var observed []int // the steps that are not missing
			for i, step := range rows {
				if g.Missing[i] == slices.ContainsFunc(step, func(x []float64) bool { return !familytest.AnyMissing(x) }) {
					t.Fatalf("step %d: missing %v", i, g.Missing[i])
				}
				if !g.Missing[i] {
					observed = append(observed, i)
				}
			}
			prior := c.Natural(familytest.Posterior(m, make([]float64, m.Len())))
			for k, seg := range g.Segments {
				from, _ := slices.BinarySearch(observed, seg.Start)
				end, _ := slices.BinarySearch(observed, seg.Start+seg.N)
				if k == 0 {
					from = 0
				}
				for i := from; i < end; i++ {
					got := c.Natural(familytest.Posterior(m, g.Sample(observed[i])))
					best := math.Inf(1)
					for _, w := range []float64{.8, .92, .975, .995, .9998} {
						want, size := slices.Clone(prior), make([]float64, len(prior))
						for j := from; j < end; j++ {
							weight := math.Pow(w, math.Abs(float64(i-j))) * (1 - g.Outlier(observed[j]))
							for _, x := range rows[observed[j]] {
								if familytest.AnyMissing(x) {
									continue
								}
								for p, v := range c.Statistics(x) {
									want[p] += weight * v
									size[p] += weight * math.Abs(v)
								}
							}
						}
						off := 0.
						for p, v := range got {
							off = math.Max(off, math.Abs(v-want[p])/(1+size[p]))
						}
						best = math.Min(best, off)
					}
					if best > 1e-11 {
						t.Fatalf("step %d: natural parameters are %g from those of any lane", observed[i], best)
					}
				}
			}
		})
	}
}

// wellFormed checks properties of every segmentation.
func wellFormed(t *testing.T, g *segments.Segmentation, n int) {
	t.Helper()
	if g.Len() != n {
		t.Fatalf("%d steps of %d", g.Len(), n)
	}
	next := 0
	for k, s := range g.Segments {
		if s.Start != next || s.N < 1 && n > 0 {
			t.Fatalf("segment %d: %d steps from %d on, the one before ends at %d", k, s.N, s.Start, next)
		}
		next += s.N
	}
	if next != n {
		t.Fatalf("the segments end at %d of %d", next, n)
	}
	for i := range n {
		mean, sd := g.Mean(i)[0], g.SD(i)[0]
		if math.IsNaN(mean) || math.IsInf(mean, 0) || !(sd >= 0) {
			t.Fatalf("estimate %g ± %g at %d", mean, sd, i)
		}
		if e := g.Evidence[i]; i > 0 && e != e || i == 0 && e == e || math.IsInf(e, 0) {
			t.Fatalf("evidence %g at %d", e, i)
		}
		if p := g.Outlier(i); !(p >= 0 && p <= 1) {
			t.Fatalf("outlier %g at %d", p, i)
		}
	}
}

func repeat(n int, f func(i int) float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = f(i)
	}
	return x
}

func TestSmoothHostileSessions(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	nan := math.NaN()
	noise := func(int) float64 { return rng.NormFloat64() }
	for name, c := range map[string]struct {
		x       []float64
		changes []int
	}{
		"nothing":         {nil, nil},
		"one":             {[]float64{3}, nil},
		"two":             {[]float64{3, -300}, nil},
		"three":           {[]float64{3, -300, 3}, nil},
		"ten":             {repeat(10, noise), nil},
		"ten with a jump": {append(repeat(10, noise), repeat(10, func(int) float64 { return 50 + rng.NormFloat64() })...), []int{10}},
		"an outlier last": {append(repeat(50, noise), 100), nil},
		"outliers first":  {append([]float64{90, 91, 92, 93}, repeat(50, noise)...), nil},
		"six at the end":  {append(repeat(50, noise), 50, 51, 50, 52, 51, 50), []int{50}},
		"four and four":   {append(repeat(4, noise), 50, 51, 50, 52), nil},
		"constant":        {repeat(500, func(int) float64 { return 7 }), nil},
		"two values":      {repeat(500, func(i int) float64 { return float64(i / 250) }), []int{250}},
		"alternating":     {repeat(500, func(i int) float64 { return float64(i % 2) }), nil},
		// The fault does not hide a change of five standard deviations, but hides one of a half.
		"a fault of a hundredth": {repeat(4000, func(i int) float64 {
			switch x := rng.NormFloat64(); {
			case i >= 2000 && i < 2040:
				return 65535 + x
			case i >= 3000:
				return 5 + x
			case i >= 1000:
				return .5 + x
			default:
				return x
			}
		}), []int{2000, 2040, 3000}},
		"all missing":    {repeat(20, func(int) float64 { return nan }), nil},
		"one observed":   {repeat(20, func(i int) float64 { return []float64{nan, 4}[i/19] }), nil},
		"huge":           {repeat(300, func(i int) float64 { return 1e100 * (rng.NormFloat64() + 9*float64(i/150)) }), []int{150}},
		"tiny":           {repeat(300, func(i int) float64 { return 1e-100 * (rng.NormFloat64() + 9*float64(i/150)) }), []int{150}},
		"one value huge": {repeat(300, func(i int) float64 { return rng.NormFloat64() + 1e100*float64(i/150*150/max(i, 1)*((i+1)%151/150)) }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := familytest.New(t, "normal", nil).(expfam.Fitted)
			var xs [][]float64
			for _, v := range c.x {
				if v == v {
					xs = append(xs, []float64{v})
				}
			}
			if len(xs) == 0 {
				xs = [][]float64{{0}}
			}
			g := segments.NewSegmenter(m.Fit(m.LocationScale(xs)), 10).Smooth(familytest.Single(c.x))
			wellFormed(t, g, len(c.x))
			expect.Same(t, c.changes, g.Changes(), "changes")
		})
	}
}

// However a session is cut into parts, the parts have its segments in order, for every family. Parts can have a
// single step, or only missing values.
func TestSegmentAnyParts(t *testing.T) {
	for _, c := range familytest.All() {
		t.Run(c.Name, func(t *testing.T) {
			m := c.New(t)
			smoother := segments.NewSegmenter(m, 10)
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 21))
				var parts [][][][]float64
				for range 1 + rng.IntN(8) {
					var steps [][][]float64
					missing := rng.IntN(4) == 0
					for range []int{1, 2, 5, 30}[rng.IntN(4)] {
						x := c.Vector(m, rng)
						if missing || rng.IntN(8) == 0 {
							x = []float64{math.NaN()}
						}
						steps = append(steps, [][]float64{x})
					}
					parts = append(parts, steps)
				}
				from, end := 0, 0 // of the previous segment, in the session
				offset := 0
				for k, g := range smoother.Segment(parts...) {
					smoother.Estimate(g)
					for j, s := range g.Segments {
						start := offset + s.Start
						if joined := j == 0 && k > 0 && s.Start < 0; joined != (start == from && k > 0) || !joined && start != end {
							t.Fatalf("seed %d, part %d: a segment of %d from %d on, after one from %d to %d", seed, k, s.N, start, from, end)
						}
						from, end = start, start+s.N
					}
					for i := range parts[k] {
						if e := g.Evidence[i]; (offset+i > 0) != (e == e) || math.IsInf(e, 0) {
							t.Errorf("seed %d: evidence %g at %d", seed, e, offset+i)
						}
						if sd := g.SD(i)[0]; !(sd >= 0) && !g.Missing[i] {
							t.Errorf("seed %d: sd %g at %d", seed, sd, offset+i)
						}
					}
					offset += len(parts[k])
				}
				if end != offset {
					t.Errorf("seed %d: segments up to %d of %d", seed, end, offset)
				}
			}
		})
	}
}

// twoRegimes draws observations of every family in the regimes 0 and 1.
var twoRegimes = map[string]func(rng *rand.Rand, regime float64) []float64{
	"bernoulli":   func(rng *rand.Rand, r float64) []float64 { return []float64{math.Floor(.15 + .7*r + rng.Float64())} },
	"categorical": func(rng *rand.Rand, r float64) []float64 { return []float64{r + float64(rng.IntN(5)/4)} },
	"poisson": func(rng *rand.Rand, r float64) []float64 {
		return []float64{streams.Poisson(rng, 3+9*r)}
	},
	"exponential": func(rng *rand.Rand, r float64) []float64 { return []float64{rng.ExpFloat64() * (1 + 9*r)} },
	"normal":      func(rng *rand.Rand, r float64) []float64 { return []float64{rng.NormFloat64() + 4*r} },
	"mvnormal": func(rng *rand.Rand, r float64) []float64 {
		return []float64{rng.NormFloat64(), rng.NormFloat64() - 4*r}
	},
	"regression": func(rng *rand.Rand, r float64) []float64 {
		u := rng.NormFloat64()
		return []float64{u, 1, u*(2-4*r) + 1 + rng.NormFloat64()}
	},
	"ar": func(rng *rand.Rand, r float64) []float64 { return []float64{rng.NormFloat64() + 8*r} },
}

// Changes of every family are found in the right place, and missing values do not cause changes.
func TestSmootherFindsChangesOfEveryFamily(t *testing.T) {
	for family, draw := range twoRegimes {
		t.Run(family, func(t *testing.T) {
			prior := familytest.Of(family).Prior
			found, falsely := 0, 0
			for seed := range uint64(10) {
				rng := rand.New(rand.NewPCG(seed, 16))
				var steps [][][]float64
				for i := range 300 {
					step := [][]float64{draw(rng, float64(i/150))}
					if rng.IntN(20) == 0 {
						step = [][]float64{{math.NaN()}}
					}
					steps = append(steps, step)
				}
				for _, c := range segments.NewSegmenter(familytest.New(t, family, prior), 10).Smooth(steps).Changes() {
					if c >= 140 && c <= 160 {
						found++
					} else {
						falsely++
					}
				}
			}
			// Drift explains one of the changes of the coins: tosses carry little information.
			want := 10
			if family == "bernoulli" {
				want = 9
			}
			if found < want || falsely > 0 {
				t.Errorf("%d changes of 10 found, %d false", found, falsely)
			}
		})
	}
}

// BenchmarkSmoothedFamilies prints results for sessions of 2000 observations of every family, with five changes
// between two regimes: F1 of the changes within 5, false changes (more than 20 from any) per 10,000, and the
// share of the found changes that lie in their intervals. It does so with the given prior, with a prior from
// the first 50 observations (prior: auto), and with a fifth of the values missing.
//
//	go test ./hafvf/segments -run - -bench SmoothedFamilies -benchtime 1x
func BenchmarkSmoothedFamilies(b *testing.B) {
	const n, sessions = 2000, 20
	for b.Loop() {
		for _, family := range slices.Sorted(maps.Keys(twoRegimes)) {
			line := fmt.Sprintf("%-12s", family)
			for _, setting := range []string{"given", "auto", "missing"} {
				m := familytest.New(b, family, familytest.Of(family).Prior)
				fitted, fits := m.(expfam.Fitted)
				if setting == "auto" && !fits {
					line += "    –      –    –"
					continue
				}
				f1, falsely := 0., 0
				var places placeScore
				for seed := range uint64(sessions) {
					rng := rand.New(rand.NewPCG(seed, 30))
					var steps [][][]float64
					var first [][]float64
					var truth []int
					regime, next := 0., 100+rng.IntN(300)
					for i := range n {
						if i == next && len(truth) < 5 {
							truth, regime, next = append(truth, i), 1-regime, i+150+rng.IntN(250)
						}
						x := twoRegimes[family](rng, regime)
						if setting == "missing" && rng.IntN(5) == 0 {
							x = []float64{math.NaN()}
						}
						if i < 50 {
							first = append(first, x)
						}
						steps = append(steps, [][]float64{x})
					}
					if setting == "auto" {
						m = fitted.Fit(fitted.LocationScale(first))
					}
					hits, free := 0, slices.Clone(truth)
					g := segments.NewSegmenter(m, 10).Smooth(steps)
					changes := g.Changes()
					places.add(g.Places(), changes, truth)
					for _, c := range changes {
						if i := slices.IndexFunc(free, func(f int) bool { return max(c-f, f-c) <= 5 }); i >= 0 {
							free = slices.Delete(free, i, i+1)
							hits++
						} else if !slices.ContainsFunc(truth, func(f int) bool { return max(c-f, f-c) <= 20 }) {
							falsely++
						}
					}
					f1 += 2 * float64(hits) / float64(len(changes)+len(truth)) / sessions
				}
				line += fmt.Sprintf("  %.3f %6.2f %.2f", f1, 1e4*float64(falsely)/(n*sessions), places.within/places.count)
			}
			fmt.Println(line)
		}
	}
}

// Sessions in other units have the same result.
func TestSmootherIsEquivariant(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	x := repeat(600, func(i int) float64 {
		v := rng.NormFloat64() + 5*float64(i/200%2)
		if i%97 == 50 {
			v += 12
		}
		return v
	})
	run := func(scale, offset float64) *segments.Segmentation {
		m := familytest.New(t, "normal", nil).(expfam.Fitted)
		y, xs := slices.Clone(x), [][]float64{}
		for i := range y {
			y[i] = scale*y[i] + offset
			xs = append(xs, y[i:i+1])
		}
		return segments.NewSegmenter(m.Fit(m.LocationScale(xs)), 10).Smooth(familytest.Single(y))
	}
	want := run(1, 0)
	expect.Same(t, []int{200, 400}, want.Changes(), "changes")
	for _, u := range [][2]float64{{1e-3, 1e3}, {1e6, -1e9}, {-1, 1e7}} {
		got := run(u[0], u[1])
		expect.Same(t, want.Changes(), got.Changes(), "in other units changes")
		for i := range x {
			mean, sd := (got.Mean(i)[0]-u[1])/u[0], got.SD(i)[0]/math.Abs(u[0])
			if math.Abs(mean-want.Mean(i)[0]) > 1e-6*want.SD(i)[0] || math.Abs(sd/want.SD(i)[0]-1) > 1e-6 {
				t.Fatalf("%g, %g: %g ± %g at %d, want %g ± %g", u[0], u[1], mean, sd, i, want.Mean(i)[0], want.SD(i)[0])
			}
		}
	}
}

// Estimates of counts far from zero keep the precision of the number of observations.
func TestLargeCountsStayPrecise(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 1))
	x := repeat(300, func(i int) float64 { return 1e8 + math.Round(1e4*rng.NormFloat64()) + 1e6*float64(i/150) })
	g := segments.NewSegmenter(familytest.New(t, "poisson", expfam.Params{"shape": 1., "rate": 1e-8}), 10).Smooth(familytest.Single(x))
	if !slices.Equal(g.Changes(), []int{150}) {
		t.Fatalf("changes %v", g.Changes())
	}
	for i := range x {
		if sd := g.SD(i)[0]; !(sd < 1e4) {
			t.Fatalf("sd %g at %d, that of one observation is 1e4", sd, i)
		}
	}
}

// Smoothing a long session gives the same result on one goroutine and on two, for every family.
func TestSmootherIsTheSameOnAnyNumberOfGoroutines(t *testing.T) {
	expect.Long(t, "numbers of goroutines")
	familytest.SameOnAnyNumberOfGoroutines(t, 6, func(m expfam.Model, steps [][][]float64) (results []string) {
		g := segments.NewSegmenter(m, 10).Smooth(steps)
		for i := range steps {
			results = append(results, fmt.Sprint(g.Evidence[i], g.Missing[i], g.Sample(i), g.Mean(i), g.SD(i), g.Outlier(i)))
		}
		return append(results, fmt.Sprint(g.Segments))
	})
}

// BenchmarkSmoother times the segmenting smoother and the smoother of a filter.
func BenchmarkSmoother(b *testing.B) {
	m := familytest.New(b, "normal", nil)
	for _, kind := range []string{"stationary", "jumping", "drifting", "outliers"} {
		steps := familytest.SingleStream(kind, 100_000)
		run := func(name string, steps [][][]float64, smooth func(steps [][][]float64)) {
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					smooth(steps)
				}
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*len(steps))*1e9, "ns/observation")
			})
		}
		f := hafvf.NewFilter(m, []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, 1)
		run("one weight", steps, func(steps [][][]float64) { f.Smooth(steps) })
		s := segments.NewSegmenter(m, 10)
		run("segments", steps, func(steps [][][]float64) { s.Smooth(steps) })
		run("segments of 1000", steps[:1000], func(steps [][][]float64) { s.Smooth(steps) })
	}
}
