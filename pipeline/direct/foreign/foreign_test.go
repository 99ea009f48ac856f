// Package foreign tests the direct runner with Beam's ptest, as authors of pipelines do. It is a separate program,
// because ptest links Beam's deprecated runner, which takes the name "direct".
package foreign

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
)

const runner = "in this process"

func init() {
	beam.RegisterRunner(runner, direct.Execute)
	register.DoFn4x0[int, int, func(*int) bool, func(int)](&sidesFn{})
	register.Function1x1(mostly)
	register.Function1x2(keyed)
	register.Function2x1(smaller)
	register.Function2x1(times)
	register.Function2x1(lookUp)
	register.Function2x1(readTwice)
	register.Function1x2(notNumbers)
	register.Function2x1(size)
	register.Function3x1(sumOfWindow)
	register.Emitter1[int]()
	register.Iter1[int]()
}

func TestMain(m *testing.M) { ptest.MainWithDefault(m, runner) }

func mostly(i int) bool { return i < 6 }

func keyed(i int) (string, int) { return "k", i }

// add adds a number to a TestStream, at a time in seconds.
func add(t *testing.T, c *teststream.Config, seconds int, number int) {
	t.Helper()
	expect.OK(t, c.AddElements(int64(seconds)*1000, number))
}

func smaller(a, b int) int { return min(a, b) }

func times(i, factor int) int { return i * factor }

func lookUp(i int, lookup func(string) func(*int) bool) int {
	sum := 0
	for _, key := range []string{"k", "of nobody"} {
		for v, next := 0, lookup(key); next(&v); {
			sum += v
		}
	}
	return i + sum
}

func readTwice(_ int, values func() func(*int) bool) int {
	n := 0
	for range 2 {
		for v, next := 0, values(); next(&v); {
			n++
		}
	}
	return n
}

// sidesFn has a single value and a list as side inputs.
type sidesFn struct{}

func (*sidesFn) ProcessElement(i, factor int, addends func(*int) bool, emit func(int)) {
	for v := 0; addends(&v); {
		i += v
	}
	emit(i * factor)
}

func notNumbers(i int) (float64, int) {
	if i%2 == 0 {
		return math.NaN(), i
	}
	return math.Copysign(0, -1), i
}

func size(_ float64, values func(*int) bool) int {
	n := 0
	for v := 0; values(&v); {
		n++
	}
	return n
}

func sumOfWindow(w beam.Window, _ string, values func(*int) bool) string {
	in, sum := w.(window.IntervalWindow), 0
	for v := 0; values(&v); {
		sum += v
	}
	return fmt.Sprintf("%d-%d: %d", in.Start/1000, in.End/1000, sum)
}

// TestForeign runs pipelines as their authors test them, by Beam's ptest and passert.
func TestForeign(t *testing.T) {
	five := func(s beam.Scope) beam.PCollection { return beam.Create(s, 1, 2, 3, 4, 5) }
	streamOf := func(s beam.Scope, events func(c *teststream.Config)) beam.PCollection {
		c := teststream.NewConfig()
		events(&c)
		return teststream.Create(s, c)
	}
	for name, build := range map[string]func(s beam.Scope){
		"passert's own": func(s beam.Scope) {
			in := five(s)
			passert.Count(s, in, "five", 5)
			passert.Sum(s, in, "five", 5, 15)
			passert.Hash(s, beam.Create(s, "a"), "a", "DMF1ucDxtqgxw5niaXcmYQ==", 1)
			passert.EqualsFloat(s, beam.Create(s, 1.0), beam.Create(s, 1.0), 1e-9)
			passert.AllWithinBounds(s, beam.Create(s, 1.0, 2.0), 0, 3)
			passert.Empty(s, beam.CreateList(s, []int{}))
			passert.NonEmpty(s, in)
			passert.True(s, in, mostly)
		},
		"a side input of what has a side input": func(s beam.Scope) {
			in := five(s)
			scaled := beam.ParDo(s, times, in, beam.SideInput{Input: stats.Sum(s, in)})
			passert.Equals(s, beam.ParDo(s, times, in, beam.SideInput{Input: stats.Max(s, scaled)}), 75, 150, 225, 300, 375)
		},
		"one and all beside": func(s beam.Scope) {
			in := five(s)
			out := beam.ParDo(s, &sidesFn{}, in, beam.SideInput{Input: beam.Combine(s, smaller, beam.Create(s, 7, 9))}, beam.SideInput{Input: in})
			passert.Equals(s, out, 112, 119, 126, 133, 140)
		},
		"looked up": func(s beam.Scope) {
			side := beam.ParDo(s, keyed, five(s))
			passert.Equals(s, beam.ParDo(s, lookUp, beam.Create(s, 100), beam.SideInput{Input: side}), 115)
		},
		"nothing beside": func(s beam.Scope) {
			passert.Equals(s, beam.ParDo(s, readTwice, beam.Create(s, 1), beam.SideInput{Input: beam.CreateList(s, []int{})}), 0)
		},
		"keys that equal nothing": func(s beam.Scope) {
			passert.Equals(s, beam.ParDo(s, size, beam.GroupByKey(s, beam.ParDo(s, notNumbers, five(s)))), 2, 3)
		},
		"late elements join sessions": func(s beam.Scope) {
			in := streamOf(s, func(c *teststream.Config) {
				for _, seconds := range []int{0, 5} {
					add(t, c, seconds, seconds)
				}
				c.AdvanceWatermark(10_000)
				add(t, c, 20, 20)
				c.AdvanceWatermark(31_000)
				add(t, c, 12, 12)
				c.AdvanceWatermark(200_000)
				add(t, c, 3, 3) // too late
				c.AdvanceWatermarkToInfinity()
			})
			sessions := beam.WindowInto(s, window.NewSessions(10*time.Second), beam.ParDo(s, keyed, in), beam.AllowedLateness(time.Minute))
			panes := beam.ParDo(s, sumOfWindow, beam.GroupByKey(s, sessions))
			passert.Equals(s, beam.WindowInto(s, window.NewGlobalWindows(), panes), "0-15: 5", "20-30: 20", "0-30: 12")
		},
	} {
		t.Run(name, func(t *testing.T) {
			ptest.BuildAndRun(t, build)
		})
	}
	t.Run("what does not hold fails", func(t *testing.T) {
		for name, build := range map[string]func(s beam.Scope){
			"Equals":       func(s beam.Scope) { passert.Equals(s, five(s), 1, 2) },
			"Empty":        func(s beam.Scope) { passert.Empty(s, five(s)) },
			"two for one":  func(s beam.Scope) { beam.ParDo(s, times, five(s), beam.SideInput{Input: five(s)}) },
			"none for one": func(s beam.Scope) { beam.ParDo(s, times, five(s), beam.SideInput{Input: beam.CreateList(s, []int{})}) },
		} {
			p, s := beam.NewPipelineWithRoot()
			build(s)
			if err := ptest.Run(p); err == nil {
				t.Errorf("%s passes", name)
			}
		}
	})
}
