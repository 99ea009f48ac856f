package hafvf_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// BenchmarkRegressors times the models on regressors: one fixed weight, two levels, and
// the default bank with detection. The bytes of a key are the mean over a stream.
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
		for _, f := range []struct {
			name    string
			members []hafvf.Member
			detect  *hafvf.Detect
		}{
			{"fixed", []hafvf.Member{{Top: .985}}, nil},
			{"two levels", hafvf.DefaultBank()[:1], nil},
			{"default, detection", hafvf.DefaultBank(), &hafvf.Detect{}},
		} {
			b.Run(fmt.Sprintf("%s/%s", c.name, f.name), func(b *testing.B) {
				bank := hafvf.NewBank(m, f.members, hafvf.DefaultForgetting, f.detect)
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
	}
}
