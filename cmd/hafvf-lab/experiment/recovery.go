package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"gonum.org/v1/gonum/stat"

	"hafvf/hafvf"
	"hafvf/hafvf/likelihood"
	"hafvf/internal/parallel"
)

// What the command recovery says of itself.
const (
	RecoveryShort = "Parameter recovery: numbers of a filter, simulated and fitted"
	RecoveryLong  = `Simulates subjects whose tosses are drawn from the predictions of a filter with known numbers, and fits
these as hafvf fit does: alpha and beta of the only level, and top without levels. It prints, for each
true mean alpha/(alpha+beta) and sum alpha+beta, median and quartiles of the fitted ones, the share of
subjects whose maximum is at a bound or on a ridge, and the share whose interval of alpha holds the true
one; the same of top; and over all subjects the correlations of what is true and fitted, of the sum as
its log. It writes no files.`
)

// Recovery is the parameter recovery of subjects with so many trials.
type Recovery struct {
	Seed             uint64
	Subjects, Trials int // of each setting
}

// fitted is what a fit makes of one subject. mean is top if there is no level.
type fitted struct {
	mean, sum    float64
	bound, holds bool
}

// Run simulates, fits, and returns the table.
func (r Recovery) Run(ctx context.Context, progress func(done, of int)) (string, error) {
	var truths []fitted
	for _, sum := range []float64{2, 10, 50, 0} {
		for _, mean := range []float64{.7, .85, .95} {
			truths = append(truths, fitted{mean: mean, sum: sum})
		}
	}
	all := make([]fitted, len(truths)*r.Subjects)
	var done atomic.Int64
	parallel.Do(len(all), runtime.GOMAXPROCS(0), func(_, i int) {
		if ctx.Err() == nil {
			all[i] = r.subject(rand.New(rand.NewPCG(r.Seed, uint64(i))), truths[i/r.Subjects])
			progress(int(done.Add(1)), len(all))
		}
	})
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d subjects of %d trials each, seed %d\n\n", r.Subjects, r.Trials, r.Seed)
	fmt.Fprintf(&b, "mean  sum  fitted mean (quartiles)  fitted sum (quartiles)  bound  alpha in interval\n")
	var mean, sum, top [2][]float64
	for k, truth := range truths {
		cell := all[k*r.Subjects : (k+1)*r.Subjects]
		quartiles := func(of func(fitted) float64) string {
			var v []float64
			for _, one := range cell {
				v = append(v, of(one))
			}
			slices.Sort(v)
			q := func(p float64) string { return number(stat.Quantile(p, stat.Empirical, v, nil)) }
			return fmt.Sprintf("%s (%s to %s)", q(.5), q(.25), q(.75))
		}
		first := quartiles(func(one fitted) float64 { return one.mean })
		bound, holds := share(len(cell), func(i int) bool { return cell[i].bound }), share(len(cell), func(i int) bool { return cell[i].holds })
		if truth.sum == 0 {
			if k > 0 && truths[k-1].sum > 0 {
				b.WriteString("\n top       fitted top (quartiles)                           bound    top in interval\n")
			}
			fmt.Fprintf(&b, "%4.2f       %-23s  %-22s  %4.0f%%  %4.0f%%\n", truth.mean, first, "", bound, holds)
		} else {
			fmt.Fprintf(&b, "%4.2f  %3.0f  %-23s  %-22s  %4.0f%%  %4.0f%%\n", truth.mean, truth.sum, first, quartiles(func(one fitted) float64 { return one.sum }), bound, holds)
		}
		for _, one := range cell {
			to := &top
			if truth.sum > 0 {
				to = &mean
				sum[0], sum[1] = append(sum[0], math.Log(truth.sum)), append(sum[1], math.Log(one.sum))
			}
			to[0], to[1] = append(to[0], truth.mean), append(to[1], one.mean)
		}
	}
	correlation := func(of [2][]float64) float64 { return stat.Correlation(of[0], of[1], nil) }
	fmt.Fprintf(&b, "\ncorrelation of true and fitted: mean %.2f, sum %.2f, top %.2f\n", correlation(mean), correlation(sum), correlation(top))
	return b.String(), nil
}

// subject simulates one, and fits it.
func (r Recovery) subject(rng *rand.Rand, truth fitted) fitted {
	model := newFilter(hafvf.Config{Family: "bernoulli"}).Model()
	p := likelihood.Problem{Parameters: []likelihood.Parameter{likelihood.NewShape(.9), likelihood.NewShape(.1)}, Pairs: [][2]int{{0, 1}}}
	at := []float64{truth.mean * truth.sum, (1 - truth.mean) * truth.sum}
	filter := func(at []float64) *hafvf.Filter {
		return hafvf.NewFilter(model, []hafvf.Beta{{Alpha: at[0], Beta: at[1]}}, 1)
	}
	if truth.sum == 0 {
		p = likelihood.Problem{Parameters: []likelihood.Parameter{likelihood.NewParameter(.9, likelihood.Share)}}
		at = []float64{truth.mean}
		filter = func(at []float64) *hafvf.Filter { return hafvf.NewFilter(model, nil, at[0]) }
	}
	x := make([][]float64, r.Trials)
	f := filter(at)
	state := f.NewState()
	for t := range x {
		x[t] = []float64{1}
		after := slices.Clone(state)
		if rng.Float64() >= math.Exp(f.Update(after, x[t]).LogPredictive) {
			x[t] = []float64{0}
			copy(after, state)
			f.Update(after, x[t])
		}
		state = after
	}
	p.Evidence = func(at []float64) (nats float64) {
		f := filter(at)
		s := f.NewState()
		for _, x := range x {
			nats += f.Update(s, x).LogPredictive
		}
		return nats
	}
	m := p.Maximise()
	is := fitted{mean: m.Values[0], bound: m.Outcome == likelihood.AtBound, holds: !(at[0] < m.Lower[0]) && !(at[0] > m.Upper[0])}
	if truth.sum > 0 {
		is.sum = m.Values[0] + m.Values[1]
		is.mean /= is.sum
	}
	return is
}
