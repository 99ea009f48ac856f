package hafvf_test

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hafvf/hafvf"
)

// A smoothingTrace is what an independent implementation makes of a session.
type smoothingTrace struct {
	Family   string
	Prior    hafvf.Params
	X        []float64
	Mean, SD []float64
	Changes  []int
	LogOdds  map[string]float64 `json:"log_odds"` // of the changes
	Accident []float64
	Before   []float64 // probability that the edge before is really later
	After    []float64 // probability that the edge after is really earlier
}

// renormalise returns mean and standard deviation at i with the weights of the mixture
// summing to one. The trace leaves out what weighs at most 1e-6, and divides by the sum
// with it: far from zero that would widen the estimate by a thousandth of its mean.
func (tr *smoothingTrace) renormalise(i int) (mean, sd float64) {
	kept := 1.
	for _, p := range []float64{tr.Before[i], tr.After[i]} {
		if p <= 1e-6 {
			kept -= p
		}
	}
	mean = tr.Mean[i] / kept
	square := (tr.SD[i]*tr.SD[i] + tr.Mean[i]*tr.Mean[i]) / kept
	return mean, math.Sqrt(square - mean*mean)
}

func TestSmootherReproducesTheTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/smoothing/*.json")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var want smoothingTrace
			readJSON(t, file, &want)
			got := hafvf.NewSmoother(mustNew(t, want.Family, want.Prior), 10).Smooth(single(want.X))
			if !slices.Equal(got.Changes(), want.Changes) {
				t.Errorf("changes %v, want %v", got.Changes(), want.Changes)
			}
			near := func(what string, i int, a, b float64) {
				if !(math.Abs(a-b) <= 1e-8) {
					t.Errorf("%s at %d is %.12g, want %.12g, by %g", what, i, a, b, a-b)
				}
			}
			for i := range want.X {
				mean, sd := want.renormalise(i)
				near("mean", i, got.Mean(i)[0], mean)
				near("sd", i, got.SD(i)[0], sd)
				near("outlier", i, got.Outlier(i), want.Accident[i])
			}
			for at, odds := range want.LogOdds {
				i, err := strconv.Atoi(at)
				if err != nil {
					t.Fatal(err)
				}
				near("evidence", i, got.Evidence[i], odds)
			}
		})
	}
}

// BenchmarkSmoother times the segmenting smoother beside that of a filter.
func BenchmarkSmoother(b *testing.B) {
	m := mustNew(b, "normal", nil)
	for _, kind := range []string{"stationary", "jumping", "drifting", "outliers"} {
		x := make([]float64, 100_000)
		for i, v := range stream(kind, len(x)) {
			x[i] = v[0]
		}
		steps := single(x)
		run := func(name string, smooth func()) {
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					smooth()
				}
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*len(x))*1e9, "ns/observation")
			})
		}
		f := hafvf.NewFilter(m, []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, 1)
		run("one weight", func() { f.Smooth(steps) })
		s := hafvf.NewSmoother(m, 10)
		run("segments", func() { s.Smooth(steps) })
	}
}
