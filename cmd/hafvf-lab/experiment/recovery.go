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

// Help of the command recovery.
const (
	RecoveryShort = "Parameter recovery: simulate a filter with known parameters, and fit them"
	RecoveryLong  = `Simulates subjects whose tosses are drawn from the predictions of a filter with known parameters, and
fits these parameters as hafvf fit does: alpha and beta of the only level, and top without levels. For
each true mean alpha/(alpha+beta) and sum alpha+beta, and for each true top, it prints the median and
quartiles of the fitted values, the share of subjects whose maximum is at a bound or on a ridge, and
the share whose interval of alpha, or of top, contains the true value. It also prints the correlations
of true and fitted values over all subjects, with the log of the sum. It writes no files.`
)

// Recovery is a parameter recovery.
type Recovery struct {
	Seed             uint64
	Subjects, Trials int // subjects per setting, trials per subject
}

// fitted holds the true or the fitted parameters of a subject. mean is top if there is no level.
type fitted struct {
	mean, sum      float64
	bound, covered bool // maximum at a bound or on a ridge; interval of alpha or top contains the true value
}

// Run simulates and fits the subjects, and returns the table. It calls progress after each subject, from several
// goroutines.
func (r Recovery) Run(ctx context.Context, progress func(done, total int)) (string, error) {
	var truths []fitted
	for _, sum := range []float64{2, 10, 50, 0} {
		for _, mean := range []float64{.7, .85, .95} {
			truths = append(truths, fitted{mean: mean, sum: sum})
		}
	}
	results := make([]fitted, len(truths)*r.Subjects)
	var done atomic.Int64
	parallel.Do(len(results), runtime.GOMAXPROCS(0), func(_, i int) {
		if ctx.Err() == nil {
			results[i] = r.subject(rand.New(rand.NewPCG(r.Seed, uint64(i))), truths[i/r.Subjects])
			progress(int(done.Add(1)), len(results))
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
		cell := results[k*r.Subjects : (k+1)*r.Subjects]
		quartiles := func(valueOf func(fitted) float64) string {
			var v []float64
			for _, one := range cell {
				v = append(v, valueOf(one))
			}
			slices.Sort(v)
			q := func(p float64) string { return number(stat.Quantile(p, stat.Empirical, v, nil)) }
			return fmt.Sprintf("%s (%s to %s)", q(.5), q(.25), q(.75))
		}
		first := quartiles(func(one fitted) float64 { return one.mean })
		bound, holds := share(len(cell), func(i int) bool { return cell[i].bound }), share(len(cell), func(i int) bool { return cell[i].covered })
		if truth.sum == 0 {
			if k > 0 && truths[k-1].sum > 0 {
				b.WriteString("\n top       fitted top (quartiles)                           bound    top in interval\n")
			}
			fmt.Fprintf(&b, "%4.2f       %-23s  %-22s  %4.0f%%  %4.0f%%\n", truth.mean, first, "", bound, holds)
		} else {
			fmt.Fprintf(&b, "%4.2f  %3.0f  %-23s  %-22s  %4.0f%%  %4.0f%%\n", truth.mean, truth.sum, first, quartiles(func(one fitted) float64 { return one.sum }), bound, holds)
		}
		for _, one := range cell {
			target := &top
			if truth.sum > 0 {
				target = &mean
				sum[0], sum[1] = append(sum[0], math.Log(truth.sum)), append(sum[1], math.Log(one.sum))
			}
			target[0], target[1] = append(target[0], truth.mean), append(target[1], one.mean)
		}
	}
	correlation := func(pairs [2][]float64) float64 { return stat.Correlation(pairs[0], pairs[1], nil) }
	fmt.Fprintf(&b, "\ncorrelation of true and fitted: mean %.2f, sum %.2f, top %.2f\n", correlation(mean), correlation(sum), correlation(top))
	return b.String(), nil
}

// subject simulates one subject with the parameters truth, and fits it.
func (r Recovery) subject(rng *rand.Rand, truth fitted) fitted {
	model := newFilter(hafvf.Config{Family: "bernoulli"}).Model()
	p := likelihood.Problem{Parameters: []likelihood.Parameter{likelihood.NewShape(.9), likelihood.NewShape(.1)}, Pairs: [][2]int{{0, 1}}}
	params := []float64{truth.mean * truth.sum, (1 - truth.mean) * truth.sum}
	filter := func(params []float64) *hafvf.Filter {
		return hafvf.NewFilter(model, []hafvf.Beta{{Alpha: params[0], Beta: params[1]}}, 1)
	}
	if truth.sum == 0 {
		p = likelihood.Problem{Parameters: []likelihood.Parameter{likelihood.NewParameter(.9, likelihood.Share)}}
		params = []float64{truth.mean}
		filter = func(params []float64) *hafvf.Filter { return hafvf.NewFilter(model, nil, params[0]) }
	}
	x := make([][]float64, r.Trials)
	f := filter(params)
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
	p.Evidence = func(params []float64) (nats float64) {
		f := filter(params)
		s := f.NewState()
		for _, x := range x {
			nats += f.Update(s, x).LogPredictive
		}
		return nats
	}
	m := p.Maximise()
	fit := fitted{mean: m.Values[0], bound: m.Outcome == likelihood.AtBound, covered: !(params[0] < m.Lower[0]) && !(params[0] > m.Upper[0])}
	if truth.sum > 0 {
		fit.sum = m.Values[0] + m.Values[1]
		fit.mean /= fit.sum
	}
	return fit
}
