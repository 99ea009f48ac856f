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
	m, err := expfam.New("normal", nil, 0)
	if err != nil {
		b.Fatal(err)
	}
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

// BenchmarkFamily times every family by depth, with the bytes of state per key.
func BenchmarkFamily(b *testing.B) {
	for _, c := range familytest.Families {
		m := c.New(b)
		for depth := range 4 {
			b.Run(fmt.Sprintf("%s/levels=%d", c.Name, depth), func(b *testing.B) {
				f := hafvf.NewFilter(m, levels(depth), 1)
				rng := rand.New(rand.NewPCG(1, 2))
				xs := make([][]float64, 1024)
				for i := range xs {
					xs[i] = c.Draw(rng)
					xs[i] = xs[i][len(xs[i])-f.Dim():]
				}
				s := f.NewState()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					f.Update(s, xs[i%len(xs)])
				}
				b.ReportMetric(float64(len(s.Append(nil))), "B/key")
			})
		}
	}
}

// BenchmarkBank times the default banks with and without detection, and the bank
// of one beside its filter.
func BenchmarkBank(b *testing.B) {
	m, err := expfam.New("normal", nil, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		members []hafvf.Member
		detect  *hafvf.Detect
	}{
		{"fixed", []hafvf.Member{{Top: .985}}, nil},
		{"two levels", hafvf.DefaultBank()[:1], nil},
		{"default", hafvf.DefaultBank(), nil},
		{"default, detection", hafvf.DefaultBank(), &hafvf.Detect{}},
		{"default of normal", hafvf.DefaultBankOf("normal"), nil},
		{"default of normal, detection", hafvf.DefaultBankOf("normal"), &hafvf.Detect{}},
		{"without two levels, detection", hafvf.DefaultBankOf("normal")[1:], &hafvf.Detect{}},
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
