package compare

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"hafvf/cmd/hafvf-lab/compare/methods"
	"hafvf/cmd/hafvf/backtest"
	"hafvf/hafvf"
)

func selected(t *testing.T, names ...string) []methods.Method {
	t.Helper()
	found := must(methods.Select(names, false))
	return found
}

func table(t *testing.T, g GroupReport, key string) Table {
	t.Helper()
	i := slices.IndexFunc(g.Tables, func(t Table) bool { return t.Key == key })
	if i < 0 {
		t.Fatalf("%s has no table %s", g.Name, key)
	}
	return g.Tables[i]
}

// A run and a plain loop over the library give equal figures.
func TestRunEqualsPlainLoop(t *testing.T) {
	g := Streams(3, 2, 600)
	g.Cases = g.Cases[12:14] // without a change, and coins
	r := must(Comparison{Methods: selected(t, "forgetting", "kalman"), Groups: []Group{g}}.Run(t.Context()))
	for caseIndex, item := range g.Cases {
		sum, square := 0.0, 0.0
		for _, draw := range item.Draws {
			s := must(draw())
			start := must(methods.Begin(s.Family, s.X[:50]))
			f := hafvf.NewFilter(start.Model, nil, .99)
			state, mean, sd := f.NewState(), make([]float64, 1), make([]float64, 1)
			squaredError := 0.0
			for i, x := range s.X {
				step := f.Update(state, []float64{x})
				start.Model.Estimate(mean, sd, f.Sample(state), nil)
				if i >= 50 {
					sum += step.LogPredictive / 550 / 2
					squaredError += (mean[0] - s.Mean[i]) * (mean[0] - s.Mean[i]) / 550
				}
			}
			square += math.Sqrt(squaredError) / 2
		}
		if len(r.Groups) != 1 || r.Groups[0].Draws != 2 {
			t.Fatalf("%+v", r)
		}
		for key, want := range map[string]float64{"log_predictive": sum, "rmse": square} {
			rows := table(t, r.Groups[0], key).Rows
			row := rows[slices.IndexFunc(rows, func(r Row) bool { return r.Method == "forgetting" })]
			if got := float64(row.Cases[caseIndex].Mean); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: %s %g, want %g", item.Name, key, got, want)
			}
		}
	}
	// The Kalman filter has no density for coins, so the mean is over the other case only.
	nats := table(t, r.Groups[0], "log_predictive")
	kalman := nats.Rows[slices.IndexFunc(nats.Rows, func(r Row) bool { return r.Method == "kalman" })]
	if !math.IsNaN(float64(kalman.Cases[1].Mean)) || nats.Over != 1 || kalman.Mean != kalman.Cases[0].Mean {
		t.Errorf("%+v, over %d cases", kalman, nats.Over)
	}
}

// steps returns the steps of a method that reports changes at the given times. The values are the ages of the
// changes.
func steps(n int, ages map[int]int) []methods.Step {
	result := make([]methods.Step, n)
	for t := range result {
		age, change := ages[t]
		result[t] = methods.Step{LogPredictive: math.NaN(), Change: change, Age: age}
	}
	return result
}

func TestSeriesScore(t *testing.T) {
	detector := methods.Method{Detects: true, Places: true}
	x := make([]float64, 1050)
	known := Series{Family: "normal", X: x, Mean: x, Changes: []int{200, 500, 800}}
	// Found after 4 and 100 observations, the second with a start that is 6 off; missed; false at 450, which is also
	// too early; within the warm-up.
	got := known.score(detector, steps(len(x), map[int]int{20: 0, 204: 4, 450: 1, 600: 106}), Complete)
	want := outcome{nats: math.NaN(), rmse: 0, f1: 2 * 3. / 8, near: 2 * 2. / 8, falseChanges: 10, delay: 52}
	for i := range want[:micros] {
		if !(got[i] == want[i] || math.IsNaN(got[i]) && math.IsNaN(want[i])) {
			t.Errorf("%s: %g, want %g", metrics[i].Key, got[i], want[i])
		}
	}
	quiet := known
	quiet.Changes = nil
	if got := quiet.score(detector, steps(len(x), nil), Complete); got[f1] != 1 || got[falseChanges] != 0 || !math.IsNaN(got[delay]) {
		t.Errorf("nothing to find and nothing found: %v", got)
	}
	if got := quiet.score(methods.Method{}, steps(len(x), nil), Complete); !math.IsNaN(got[f1]) || !math.IsNaN(got[falseChanges]) {
		t.Errorf("a method that detects nothing: %v", got)
	}

	// Windows: one hit twice, one missed, one before the first score; two reports outside.
	labelled := Series{Family: "normal", X: x, Windows: [][2]int{{10, 20}, {300, 400}, {700, 800}}}
	got = labelled.score(detector, steps(len(x), map[int]int{15: 0, 299: 0, 310: 0, 400: 0, 900: 0}), Windows)
	if got[f1] != 2*1./(2+3) || got[falseChanges] != 20 || got[delay] != 10 || !math.IsNaN(got[near]) {
		t.Errorf("windows: %v", got)
	}
}

// Means, standard errors, ranks and marks of the best, computed by hand for two cases with three draws each.
func TestComparisonTable(t *testing.T) {
	value := func(v float64) (o outcome) {
		for i := range o {
			o[i] = v
		}
		return o
	}
	row := func(v ...float64) (outcomes []outcome) {
		for _, x := range v {
			outcomes = append(outcomes, value(x))
		}
		return outcomes
	}
	c := Comparison{Methods: []methods.Method{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "known", Hindsight: true}}}
	results := [][][]outcome{
		{row(1, 2, 3), row(1, 2.2, 3.1), row(0, 1, 2), row(9, 9, 9)},
		{row(4, 4, 4), row(4, 3.9, 4), row(3, 3, 3), row(9, 9, 9)},
	}
	got := c.table(nats, results)
	names := []string{}
	for _, r := range got.Rows {
		names = append(names, r.Method)
	}
	if want := []string{"known", "b", "a", "c"}; !slices.Equal(names, want) {
		t.Fatalf("rows %v, want %v", names, want)
	}
	b := got.Rows[1]
	// Means 2.1 and 3.9667; variances of the draws 1.11 and .003333 each over three.
	if mean, se := float64(b.Mean), float64(b.SE); math.Abs(mean-(2.1+11.9/3)/2) > 1e-12 || math.Abs(se-math.Sqrt(1.11/3+.01/3/3)/2) > 1e-9 {
		t.Errorf("%g ± %g", mean, se)
	}
	if b.Rank != 2.5 { // worse than known in both cases, and worse than a in the second
		t.Errorf("rank %v", b.Rank)
	}
	// a is worse than b by less than two standard errors of the difference, c by more, and hindsight does not count.
	for i, want := range []bool{false, true, true, false} {
		if got.Rows[i].Best != want {
			t.Errorf("%s: best %t", got.Rows[i].Method, got.Rows[i].Best)
		}
	}
	// With single draws the cases are the sample.
	if se := standardError([][]float64{{1}, {2}, {3}}); math.Abs(se-1/math.Sqrt(3)) > 1e-12 {
		t.Errorf("standard error %g", se)
	}
	if lower := c.table(rmse, results); lower.Rows[0].Method != "c" {
		t.Errorf("the lowest error is first, not %s", lower.Rows[0].Method)
	}
}

// A series has the period of its times, and windows as ranges of observations.
func TestKeys(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var hourly []Record
	for i := range 200 {
		hourly = append(hourly, Record{start.Add(time.Duration(i) * time.Hour), float64(i)})
	}
	labels := backtest.Labels{"hourly": {
		{Start: start.Add(90 * time.Minute), End: start.Add(3 * time.Hour)},
		{Start: start.Add(-time.Hour), End: start.Add(-time.Minute)},
		{Start: start.Add(199 * time.Hour), End: start.Add(999 * time.Hour)},
	}}
	bare := make([]Record, 120)
	g, skipped := Keys("x", "normal", map[string][]Record{"hourly": hourly, "few": hourly[:99], "bare": bare}, labels)
	if skipped != 1 || len(g.Cases) != 2 || g.Truth != Windows || g.Cases[0].Name != "bare" {
		t.Fatalf("%d left, %+v", skipped, g)
	}
	s, err := g.Cases[1].Draws[0]()
	if err != nil || s.Period != 24 || !slices.Equal(s.Windows, [][2]int{{2, 3}, {199, 199}}) {
		t.Errorf("%+v, error %v", s, err)
	}
	if s, _ := g.Cases[0].Draws[0](); s.Period != 1 {
		t.Errorf("period %d of a series without times", s.Period)
	}
}

// A cancelled comparison ends between runs.
func TestComparisonRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var runs atomic.Int64
	c := Comparison{Methods: selected(t, "hafvf", "naive"), Groups: []Group{Streams(1, 20, 600)}, Progress: func(int, int) {
		runs.Add(1)
		cancel()
	}}
	if r, err := c.Run(ctx); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("report %v, error %v", r, err)
	}
	if n := runs.Load(); n > 100 {
		t.Errorf("%d runs after the end", n)
	}
}

// must returns v. It panics if err is not nil.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
