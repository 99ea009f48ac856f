package hafvf_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

func levels(depth int) []hafvf.Beta {
	return []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}, {Alpha: 1, Beta: 1}}[:depth]
}

func BenchmarkNormal(b *testing.B) {
	m := familytest.New(b, "normal", nil)
	for _, kind := range []string{"stationary", "jumping", "drifting", "outliers"} {
		for depth := range 3 {
			xs := familytest.Stream(kind, 4096)
			b.Run(fmt.Sprintf("%s/levels=%d", kind, depth), func(b *testing.B) {
				f := hafvf.NewFilter(m, levels(depth), 1)
				s := f.NewState()
				b.ReportAllocs()
				iterations := 0
				for i := 0; b.Loop(); i++ {
					iterations += f.Update(s, xs[i%len(xs)]).Iterations
				}
				b.ReportMetric(float64(iterations)/float64(b.N), "evals/op")
			})
		}
	}
}

// BenchmarkBank times the default bank with and without detection.
func BenchmarkBank(b *testing.B) {
	m := familytest.New(b, "normal", nil)
	for _, kind := range []string{"stationary", "jumping", "drifting", "outliers"} {
		xs := familytest.Stream(kind, 4096)
		benchmarkBank(b, "default/"+kind, m, hafvf.DefaultBank(), nil, xs)
		benchmarkBank(b, "default, detection/"+kind, m, hafvf.DefaultBank(), &hafvf.Detect{}, xs)
	}
}

// BenchmarkRegressors times the models with regressors: with one fixed weight, with two levels, and in the
// default bank with detection.
func BenchmarkRegressors(b *testing.B) {
	for _, c := range []struct {
		name, family string
		prior        expfam.Params
		dim          int
	}{
		{"regression on 16", "regression", nil, 17},
		{"ar of order 2", "ar", expfam.Params{"order": 2.}, 0},
		{"ar of order 24", "ar", expfam.Params{"order": 24.}, 0},
	} {
		m := must(expfam.New(c.family, c.prior, c.dim))
		rng := rand.New(rand.NewPCG(1, 2))
		xs := make([][]float64, 4096)
		for i := range xs {
			xs[i] = make([]float64, max(c.dim, 1))
			for j := range xs[i] {
				xs[i][j] = rng.NormFloat64()
			}
		}
		benchmarkBank(b, c.name+"/fixed", m, []hafvf.Member{{Top: .985}}, nil, xs)
		benchmarkBank(b, c.name+"/two levels", m, hafvf.DefaultBank()[:1], nil, xs)
		benchmarkBank(b, c.name+"/default, detection", m, hafvf.DefaultBank(), &hafvf.Detect{}, xs)
	}
}

// benchmarkBank times a bank on a stream. It reports the mean number of bytes per key after a warm-up.
func benchmarkBank(b *testing.B, name string, m expfam.Model, members []hafvf.Member, detect *hafvf.Detect, xs [][]float64) {
	b.Run(name, func(b *testing.B) {
		bank := hafvf.NewBank(m, members, hafvf.DefaultForgetting, detect)
		s := bank.NewState()
		const warmUp = 1000
		bytes := 0
		for i, x := range xs {
			bank.Update(s, x)
			if i >= warmUp {
				bytes += len(s.Append(nil))
			}
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			bank.Update(s, xs[i%len(xs)])
		}
		b.ReportMetric(float64(bytes)/float64(len(xs)-warmUp), "B/key")
	})
}

// must returns v and panics on an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
