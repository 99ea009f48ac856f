package hafvf_test

import (
	"fmt"
	"testing"

	"hafvf/hafvf"
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
	for _, c := range []struct {
		name    string
		members []hafvf.Member
		detect  *hafvf.Detect
	}{
		{"default", hafvf.DefaultBank(), nil},
		{"default, detection", hafvf.DefaultBank(), &hafvf.Detect{}},
	} {
		for _, kind := range []string{"stationary", "jumping", "drifting", "outliers"} {
			xs := familytest.Stream(kind, 4096)
			b.Run(c.name+"/"+kind, func(b *testing.B) {
				bank := hafvf.NewBank(m, c.members, hafvf.DefaultForgetting, c.detect)
				s := bank.NewState()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					bank.Update(s, xs[i%len(xs)])
				}
				b.ReportMetric(float64(len(s.Append(nil))), "B/key")
			})
		}
	}
}

// must is v, of what cannot fail here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
