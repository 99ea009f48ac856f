package usual

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// A scoreTrace is a file of testdata/real; see the README there.
type scoreTrace struct {
	X, T                             []float64
	Location, Scale, Period, W, Rest float64
	Rows                             []struct {
		I          int
		Z          []float64
		Slow, Fast float64
		Score      float64
	}
}

// times returns the times of the trace, or zero times if it has none.
func (tr scoreTrace) times() []time.Time {
	times := make([]time.Time, len(tr.X))
	for i, s := range tr.T {
		times[i] = time.Unix(0, int64(s*1e9))
	}
	return times
}

// A profile without a plan reproduces the scores of the reference.
func TestScoreTraces(t *testing.T) {
	const warmUp = 50
	files, err := filepath.Glob("testdata/real/*.json")
	if err != nil || len(files) != 11 {
		t.Fatalf("%d traces: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var trace scoreTrace
			familytest.ReadJSON(t, file, &trace)
			times := trace.times()
			location, scale := expfam.LocationScale(trace.X[:warmUp])
			step := MedianStep(times[:warmUp])
			pace := paceOf(BudgetOver(DefaultBudgetTime, step), step, AutoRest)
			if strings.HasSuffix(file, "golden2_hour.json") {
				pace.slow = 0
			}
			if location != trace.Location || math.Abs(scale-trace.Scale) > 1e-15*scale || pace.period != trace.Period || pace.slow != trace.W || pace.rest != trace.Rest {
				t.Fatalf("location %v, scale %v, pace %+v; want %v, %v, period %v, w %v, rest %v", location, scale, pace, trace.Location, trace.Scale, trace.Period, trace.W, trace.Rest)
			}
			c := DefaultProfile()
			if trace.T == nil {
				c.Seasons = nil
			}
			p := profileOf(c)
			p.plain = true
			s := p.NewState()
			rows, worst := trace.Rows, 0.0
			compare := func(what string, got, want float64) {
				t.Helper()
				worst = math.Max(worst, math.Abs(got-want))
				if !(math.Abs(got-want) <= 1e-8) {
					t.Fatalf("observation %d: %s %v, want %v", rows[0].I, what, got, want)
				}
			}
			for i, x := range trace.X {
				step := p.Update(s, pace, times[i], []float64{(x - location) / scale})
				if len(rows) == 0 || rows[0].I != i {
					continue
				}
				if len(rows[0].Z) != p.views {
					t.Fatalf("%d views, want %d", p.views, len(rows[0].Z))
				}
				slow := 0.
				for k, v := range step.Views {
					compare("surprise", v.Surprise, rows[0].Z[k])
					slow += v.Score / float64(p.views)
				}
				compare("mean of the views", slow, rows[0].Slow)
				compare("fast", step.Fast, rows[0].Fast)
				compare("score", step.Score, rows[0].Score)
				rows = rows[1:]
			}
			if len(rows) > 0 {
				t.Fatalf("%d rows left", len(rows))
			}
			t.Logf("worst error %.1e", worst)
		})
	}
}
