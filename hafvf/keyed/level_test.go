package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

func TestLevelChange(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		before, after Moments
		want          string
	}{
		{Moments{[]float64{1}, []float64{1}}, Moments{[]float64{1.5}, []float64{4}}, "scatter"},
		{Moments{[]float64{1}, []float64{1}}, Moments{[]float64{-4}, []float64{2}}, "mean"},
		{Moments{[]float64{1}, []float64{0}}, Moments{[]float64{2}, []float64{0}}, "mean"},
		{Moments{[]float64{1}, []float64{4}}, Moments{[]float64{3}, []float64{2}}, "both"},
		{Moments{[]float64{1}, []float64{nan}}, Moments{[]float64{3}, []float64{nan}}, "mean"},
		{Moments{[]float64{1}, []float64{inf}}, Moments{[]float64{3}, []float64{2}}, "mean"},
		{Moments{[]float64{1}, nil}, Moments{[]float64{3}, nil}, ""},
		{Moments{[]float64{1}, []float64{2}}, Moments{[]float64{1}, []float64{2}}, ""},
		// The second output changes by more of its standard deviations.
		{Moments{[]float64{100, 1}, []float64{90, .1}}, Moments{[]float64{150, 1}, []float64{90, .4}}, "scatter"},
	} {
		expect.Same(t, c.want, LevelChange(c.before, c.after), c)
	}
	number := func(v float64) string { return fmt.Sprint(v) }
	before := Moments{[]float64{1}, []float64{.97}}
	expect.Same(t, "scatter 0.97 → 3.9", DescribeChange(before, Moments{[]float64{1.5}, []float64{3.9}}, number))
	expect.Same(t, "1 → 4, scatter 0.97 → 3.9", DescribeChange(before, Moments{[]float64{4}, []float64{3.9}}, number))
	expect.Same(t, "1 → 5", DescribeChange(before, Moments{[]float64{5}, nil}, number))
}

// The scatter is the standard deviation of the values, on the scale of the data. It is NaN without a scale.
func TestScatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 11))
	var values, logs []Observation
	for i := range 400 {
		x := rng.NormFloat64()
		values = append(values, Value(time.Unix(int64(i), 0).UTC(), "", 5+3*x))
		logs = append(logs, Value(time.Unix(int64(i), 0).UTC(), "", 100*math.Exp(.05*x)))
	}
	for _, c := range []struct {
		filter       hafvf.Config
		observations []Observation
		want         float64
	}{
		{hafvf.Config{Family: "normal", WarmUp: 1}, values, 3},
		{hafvf.Config{Family: "normal", WarmUp: 1, Scale: hafvf.Log}, logs, 5},
		{hafvf.Config{Family: "poisson"}, slices.Repeat([]Observation{Value(time.Unix(0, 0).UTC(), "", 4)}, 30), nan},
	} {
		for _, s := range smoothed(t, SmoothConfig{Filter: c.filter, Gap: time.Hour}, c.observations) {
			if got := s.Segment.Scatter[0]; !near(got, c.want, .1*c.want) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
				t.Fatalf("%s: scatter %g, want about %g", c.filter.Family, got, c.want)
			}
		}
	}
}
