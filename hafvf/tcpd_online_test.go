package hafvf_test

import (
	"math"
	"slices"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// findings are what the default bank with detection says of a series in one
// pass, from 0.
type findings struct {
	changes  []int // where it says that a regime has started; a revision adds none
	starts   []int // of the same regimes, as far as revised
	outliers []int
}

// defaultDetector is the default bank with detection under the prior, or for n > 0
// and a family that can be fitted, under the one that fits the first n values of x.
func defaultDetector(t testing.TB, family string, prior expfam.Params, x []float64, n int) *hafvf.Bank {
	t.Helper()
	model := familytest.New(t, family, prior)
	if m, ok := model.(expfam.Fitted); ok && n > 0 {
		complete := slices.DeleteFunc(slices.Clone(x), math.IsNaN)
		var first [][]float64
		for i := range min(n, len(complete)) {
			first = append(first, complete[i:i+1])
		}
		model = m.Fit(m.LocationScale(first))
	}
	return hafvf.NewBank(model, hafvf.DefaultBankOf(family), hafvf.DefaultForgetting, &hafvf.Detect{})
}

// find runs the bank over x. In the first warmUp steps it says nothing: a change
// there is told with its first revision, or never.
func find(b *hafvf.Bank, x []float64, warmUp int) (f findings) {
	state := b.NewState()
	for t := range x {
		d := b.Update(state, x[t:t+1]).Detection
		switch {
		case t < warmUp:
		case d.Kind == hafvf.Revision && len(f.starts) > 0:
			f.starts[len(f.starts)-1] = int(d.Start) - 1
		case d.Starts():
			f.changes = append(f.changes, t)
			f.starts = append(f.starts, int(d.Start)-1)
		case d.Kind == hafvf.Outlier:
			f.outliers = append(f.outliers, t)
		}
	}
	return f
}

// BenchmarkTCPDOnline prints the tables of BenchmarkTCPD for the changes that the
// default bank with detection finds in one pass: under one prior for the series in
// units of their standard deviation, and under the prior that fits the first
// quarter of each, of 50 values at most, during which nothing is told:
//
//	go test ./hafvf -run - -bench TCPDOnline -benchtime 1x -tcpd DIR
func BenchmarkTCPDOnline(b *testing.B) {
	if *tcpdDir == "" {
		b.Skip("-tcpd DIR names no dataset")
	}
	series := tcpdSeries(b)
	unit := expfam.Params{"mu": 0., "kappa": 0.01, "alpha": 1., "beta": 1.}
	for _, c := range []struct {
		name string
		find func(x []float64) findings
	}{
		{"z-scored", func(x []float64) findings { return find(defaultDetector(b, "normal", unit, x, 0), x, 0) }},
		{"fitted", func(x []float64) findings {
			warmUp := min(50, len(x)/4)
			return find(defaultDetector(b, "normal", nil, x, warmUp), x, warmUp)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			found := map[string][]int{}
			for b.Loop() {
				for name, x := range series {
					found[name] = c.find(x).starts
				}
			}
			cover, score := tcpdTable(b, series, found)
			b.ReportMetric(cover, "covering")
			b.ReportMetric(score, "F1")
		})
	}
}
