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
	RecoveryShort = "Parameter recovery: alpha and beta of a level, simulated and fitted"
	RecoveryLong  = `Simulates subjects whose tosses are drawn from the predictions of a filter of one level, with
known alpha and beta, and fits both as hafvf fit does. It prints, for each true mean alpha/(alpha+beta)
and sum alpha+beta, median and quartiles of the fitted ones, the share of subjects whose maximum is at a
bound or on a ridge, and the share whose interval of alpha holds the true one; and over all subjects the
correlation of true and fitted mean (logit) and sum (log). It writes no files.`
)

// Recovery is the parameter recovery of subjects with so many trials.
type Recovery struct {
	Seed             uint64
	Subjects, Trials int // of each pair of mean and sum
}

// recovered is what a fit makes of one subject.
type recovered struct {
	mean, sum    float64
	bound, holds bool
}

// Run simulates, fits, and returns the table.
func (r Recovery) Run(ctx context.Context, progress func(done, of int)) (string, error) {
	means, sums := []float64{.7, .85, .95}, []float64{2, 10, 50}
	n := len(means) * len(sums) * r.Subjects
	all := make([]recovered, n)
	truth := func(i int) (mean, sum float64) {
		cell := i / r.Subjects
		return means[cell/len(sums)], sums[cell%len(sums)]
	}
	var done atomic.Int64
	parallel.Do(n, runtime.GOMAXPROCS(0), func(_, i int) {
		if ctx.Err() != nil {
			return
		}
		mean, sum := truth(i)
		all[i] = r.subject(rand.New(rand.NewPCG(r.Seed, uint64(i))), hafvf.Beta{Alpha: mean * sum, Beta: (1 - mean) * sum})
		progress(int(done.Add(1)), n)
	})
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d subjects of %d trials for each mean and sum, seed %d\n\n", r.Subjects, r.Trials, r.Seed)
	fmt.Fprintf(&b, "mean  sum  fitted mean (quartiles)  fitted sum (quartiles)  bound  alpha in interval\n")
	var trueMean, trueSum, mean, sum []float64
	for i := 0; i < n; i += r.Subjects {
		cell := all[i : i+r.Subjects]
		m, s := truth(i)
		quartiles := func(of func(recovered) float64) string {
			var v []float64
			for _, one := range cell {
				v = append(v, of(one))
			}
			slices.Sort(v)
			q := func(p float64) string { return number(stat.Quantile(p, stat.Empirical, v, nil)) }
			return fmt.Sprintf("%s (%s to %s)", q(.5), q(.25), q(.75))
		}
		fmt.Fprintf(&b, "%4.2f  %3.0f  %-23s  %-22s  %4.0f%%  %4.0f%%\n", m, s,
			quartiles(func(one recovered) float64 { return one.mean }), quartiles(func(one recovered) float64 { return one.sum }),
			share(len(cell), func(i int) bool { return cell[i].bound }), share(len(cell), func(i int) bool { return cell[i].holds }))
		for _, one := range cell {
			trueMean, mean = append(trueMean, math.Log(m/(1-m))), append(mean, math.Log(one.mean/(1-one.mean)))
			trueSum, sum = append(trueSum, math.Log(s)), append(sum, math.Log(one.sum))
		}
	}
	fmt.Fprintf(&b, "\ncorrelation of true and fitted: mean %.2f, sum %.2f\n", stat.Correlation(trueMean, mean, nil), stat.Correlation(trueSum, sum, nil))
	return b.String(), nil
}

// subject simulates one, and fits it.
func (r Recovery) subject(rng *rand.Rand, truth hafvf.Beta) recovered {
	model := newFilter(hafvf.Config{Family: "bernoulli"}).Model()
	x := make([][]float64, r.Trials)
	f := hafvf.NewFilter(model, []hafvf.Beta{truth}, 1)
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
	m := likelihood.Problem{
		Parameters: []likelihood.Parameter{likelihood.NewShape(.9), likelihood.NewShape(.1)},
		Pairs:      [][2]int{{0, 1}},
		Evidence: func(at []float64) (nats float64) {
			f := hafvf.NewFilter(model, []hafvf.Beta{{Alpha: at[0], Beta: at[1]}}, 1)
			s := f.NewState()
			for _, x := range x {
				nats += f.Update(s, x).LogPredictive
			}
			return nats
		},
	}.Maximise()
	sum := m.At[0] + m.At[1]
	return recovered{m.At[0] / sum, sum, m.Outcome == likelihood.AtBound, !(truth.Alpha < m.Lower[0]) && !(truth.Alpha > m.Upper[0])}
}
