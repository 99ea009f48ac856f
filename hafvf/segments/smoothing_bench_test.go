package segments_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
	"hafvf/internal/testing/familytest"
	"hafvf/internal/testing/streams"
)

var long = flag.Bool("long", false, "run the searches at full length instead of one hundredth")

var seed = flag.Uint64("seed", 1, "seed of the streams, and of the search for missed maxima")

var seeds = flag.Int("seeds", 1, "number of seeds, from -seed on, that streams are averaged over")

// smoothedKinds are streams.Kinds and seven more: a rare event whose rate falls, with a stretch in which it is
// frequent; faster walks; changes of half to one standard deviation; a mean that swings; and autocorrelated
// noise.
var smoothedKinds = slices.Concat(streams.Kinds, []streams.Kind{
	{Name: "coin rare, outage", Family: "bernoulli", Make: outage},
	{Name: "walk .1σ", Family: "normal", Make: func(rng *rand.Rand, n int) streams.Stream { return streams.Walk(rng, n, .1) }},
	{Name: "walk .3σ", Family: "normal", Make: func(rng *rand.Rand, n int) streams.Stream { return streams.Walk(rng, n, .3) }},
	{Name: "small shifts", Family: "normal", Make: smallShifts},
	{Name: "sine", Family: "normal", Make: sine},
	{Name: "AR .5", Family: "normal", Make: func(rng *rand.Rand, n int) streams.Stream { return correlated(rng, n, .5) }},
	{Name: "AR .8", Family: "normal", Make: func(rng *rand.Rand, n int) streams.Stream { return correlated(rng, n, .8) }},
})

// outage has a rate of .02 that falls to .005 in the middle, and a rate of .5 for 60 tosses after a quarter.
func outage(rng *rand.Rand, n int) streams.Stream {
	s := streams.Stream{X: make([]float64, n), Mean: make([]float64, n), Changes: []int{n / 4, n/4 + 60, n / 2}}
	for t := range n {
		p := .02
		switch {
		case t >= n/4 && t < n/4+60:
			p = .5
		case t >= n/2:
			p = .005
		}
		s.Mean[t], s.X[t] = p, streams.Toss(rng, p)
	}
	return s
}

// smallShifts has five changes of .5 to 1.
func smallShifts(rng *rand.Rand, n int) streams.Stream {
	s := streams.Stream{X: make([]float64, n), Mean: make([]float64, n), Changes: streams.Separated(rng, n, 5, n/20)}
	mu, next := 0.0, 0
	for t := range n {
		if next < len(s.Changes) && t == s.Changes[next] {
			next++
			mu += streams.Uniform(rng, .5, 1) * streams.Sign(rng)
		}
		s.Mean[t], s.X[t] = mu, mu+rng.NormFloat64()
	}
	return s
}

// sine swings by 2 with a period of 500 observations.
func sine(rng *rand.Rand, n int) streams.Stream {
	s := streams.Stream{X: make([]float64, n), Mean: make([]float64, n)}
	for t := range n {
		s.Mean[t] = 2 * math.Sin(2*math.Pi*float64(t)/500)
		s.X[t] = s.Mean[t] + rng.NormFloat64()
	}
	return s
}

// correlated is autoregressive noise with mean 0 and variance 1.
func correlated(rng *rand.Rand, n int, phi float64) streams.Stream {
	s := streams.Stream{X: make([]float64, n), Mean: make([]float64, n)}
	last := rng.NormFloat64()
	for t := range n {
		last = phi*last + math.Sqrt(1-phi*phi)*rng.NormFloat64()
		s.X[t] = last
	}
	return s
}

// A smoothing is the result of a method for a stream.
type smoothing struct {
	mean, sd []float64
	changes  []int
}

// A smoothingScore holds sums over the streams of a kind.
type smoothingScore struct {
	squares, n  float64 // of errors
	near, nNear float64 // within 10 of a change
	covered     float64 // means within two standard deviations
	f1, streams float64
	falsely     float64
	changes     int
	took        time.Duration
}

func (s *smoothingScore) add(truth streams.Stream, got smoothing, took time.Duration) {
	s.streams++
	s.changes += len(truth.Changes)
	s.took += took
	for t, mean := range truth.Mean {
		off := got.mean[t] - mean
		s.squares += off * off
		s.n++
		if math.Abs(off) <= 2*got.sd[t] {
			s.covered++
		}
		if slices.ContainsFunc(truth.Changes, func(c int) bool { return max(c-t, t-c) <= 10 }) {
			s.near += off * off
			s.nNear++
		}
	}
	hits := len(got.changes)
	free := slices.Clone(truth.Changes)
	for _, c := range got.changes {
		i := slices.IndexFunc(free, func(f int) bool { return max(c-f, f-c) <= 5 })
		if i < 0 {
			hits--
			if !slices.ContainsFunc(truth.Changes, func(f int) bool { return max(c-f, f-c) <= 20 }) {
				s.falsely++
			}
			continue
		}
		free = slices.Delete(free, i, i+1)
	}
	if total := len(got.changes) + len(truth.Changes); total > 0 {
		s.f1 += 2 * float64(hits) / float64(total)
	} else {
		s.f1++
	}
}

func (s *smoothingScore) rmse() float64         { return math.Sqrt(s.squares / s.n) }
func (s *smoothingScore) falseChanges() float64 { return 1e4 * s.falsely / s.n }

// A smoothingTotal holds means over kinds. Kinds without changes contribute neither to F1 nor to the error near
// changes.
type smoothingTotal struct{ rmse, near, coverage, f1, falsely, micros, kinds, changing float64 }

func (total *smoothingTotal) add(s *smoothingScore) {
	total.kinds++
	total.rmse += s.rmse()
	total.coverage += s.covered / s.n
	total.falsely += s.falseChanges()
	total.micros += float64(s.took.Microseconds()) / s.n
	if s.changes > 0 {
		total.changing++
		total.near += math.Sqrt(s.near / s.nNear)
		total.f1 += s.f1 / s.streams
	}
}

func (total *smoothingTotal) String() string {
	return fmt.Sprintf("%6.3f %6.2f %6.3f %6.3f %7.2f %6.1f", total.rmse/total.kinds, total.near/total.changing, total.coverage/total.kinds, total.f1/total.changing, total.falsely/total.kinds, total.micros/total.kinds)
}

func (s *smoothingScore) String() string {
	f1, near := "     –", "     –"
	if s.changes > 0 {
		f1, near = fmt.Sprintf("%6.3f", s.f1/s.streams), fmt.Sprintf("%6.2f", math.Sqrt(s.near/s.nNear))
	}
	return fmt.Sprintf("%6.3f %s %6.3f %s %7.2f %6.1f", s.rmse(), near, s.covered/s.n, f1, s.falseChanges(), float64(s.took.Microseconds())/s.n)
}

// smoothings lists the compared methods.
var smoothings = []struct {
	name   string
	smooth func(m expfam.Model, x []float64) smoothing
}{
	{"segments", func(m expfam.Model, x []float64) smoothing {
		g := segments.NewSegmenter(m, 10).Smooth(familytest.Single(x))
		out := smoothing{changes: g.Changes()}
		for t := range x {
			out.mean, out.sd = append(out.mean, g.Mean(t)[0]), append(out.sd, g.SD(t)[0])
		}
		return out
	}},
	{"one weight, levels {9, 1}, {1, 1}", func(m expfam.Model, x []float64) smoothing {
		s := hafvf.NewFilter(m, []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, 1).Smooth(familytest.Single(x))
		out := smoothing{mean: make([]float64, len(x)), sd: make([]float64, len(x)), changes: hafvf.Changes(s.Evidence, 10)}
		for t := range x {
			s.Estimate(out.mean[t:t+1], out.sd[t:t+1], t)
		}
		return out
	}},
	{"Kalman, fitted noise", func(_ expfam.Model, x []float64) smoothing { return kalman(x) }},
}

// kalman is the Rauch-Tung-Striebel smoother of a random walk with noise. The ratio of their variances has its
// maximum-likelihood value.
func kalman(x []float64) smoothing {
	n := len(x)
	filter := func(q float64) (logLikelihood, noise float64, mean, variance []float64) {
		mean, variance = make([]float64, n), make([]float64, n)
		mean[0], variance[0] = x[0], 1 // in units of the noise variance
		logs, squares := 0.0, 0.0
		for t := 1; t < n; t++ {
			p := variance[t-1] + q
			off := x[t] - mean[t-1]
			gain := p / (p + 1)
			mean[t], variance[t] = mean[t-1]+gain*off, gain
			logs += math.Log(p + 1)
			squares += off * off / (p + 1)
		}
		noise = squares / float64(n-1)
		return -(float64(n-1)*math.Log(noise) + logs) / 2, noise, mean, variance
	}
	best, bestLogQ := math.Inf(-1), 0.0
	for logQ := -20.; logQ <= 5; logQ += .25 {
		if l, _, _, _ := filter(math.Exp(logQ)); l > best {
			best, bestLogQ = l, logQ
		}
	}
	q := math.Exp(bestLogQ)
	_, noise, mean, variance := filter(q)
	sd := make([]float64, n)
	sd[n-1] = math.Sqrt(noise * variance[n-1])
	for t := n - 2; t >= 0; t-- {
		p := variance[t] + q
		c := variance[t] / p
		mean[t] += c * (mean[t+1] - mean[t])
		variance[t] += c * c * (variance[t+1] - p)
		sd[t] = math.Sqrt(noise * variance[t])
	}
	return smoothing{mean: mean, sd: sd}
}

// scoreSmoothing scores methods on streams of every kind.
func scoreSmoothing(t testing.TB, methods int, seed uint64, seeds, n int) (kinds [][]smoothingScore, totals []smoothingTotal) {
	totals = make([]smoothingTotal, methods)
	for i, kind := range smoothedKinds {
		scores := make([]smoothingScore, methods)
		m := familytest.OfStreams(t, kind.Family)
		for k := range seeds {
			truth := kind.Make(rand.New(rand.NewPCG(seed+uint64(k), uint64(i))), n)
			for j := range scores {
				began := time.Now()
				got := smoothings[j].smooth(m, truth.X)
				scores[j].add(truth, got, time.Since(began))
			}
		}
		for j := range scores {
			totals[j].add(&scores[j])
		}
		kinds = append(kinds, scores)
	}
	return kinds, totals
}

// BenchmarkSmoothing prints a table of smoothers on streams of 22 kinds with 6000 observations: root mean
// square error of the mean, the same within 10 of a change, the share of true means within two standard
// deviations, F1 of the changes within 5, false changes (more than 20 from any) per 10,000 observations, and
// microseconds per observation.
//
//	go test ./hafvf/segments -run - -bench 'Smoothing$' -benchtime 1x -seeds 5 -seed 2000
func BenchmarkSmoothing(b *testing.B) {
	for b.Loop() {
		kinds, totals := scoreSmoothing(b, len(smoothings), *seed, *seeds, 6000)
		for j, method := range smoothings {
			fmt.Printf("\n%-34s %6s %6s %6s %6s %7s %6s\n", method.name, "RMSE", "near", "cover", "F1", "false", "µs")
			for i, scores := range kinds {
				fmt.Printf("%-34s %v\n", smoothedKinds[i].Name, &scores[j])
			}
			fmt.Printf("%-34s %v\n", "mean", &totals[j])
		}
	}
}

// The smoother finds edges where there are some and nowhere else, on streams of every kind. The bounds are far
// from typical results.
func TestSmoothStreams(t *testing.T) {
	n, seeds := 3000, 1
	if *long {
		n, seeds = 6000, 5
	}
	kinds, totals := scoreSmoothing(t, 2, *seed, seeds, n)
	for i, scores := range kinds {
		t.Logf("%-22s %v   one weight %v", smoothedKinds[i].Name, &scores[0], &scores[1])
	}
	t.Logf("%-22s %v   one weight %v", "mean", &totals[0], &totals[1])
	own, one := totals[0], totals[1]
	if !(own.f1/own.changing > .75) || !(own.falsely/own.kinds < 1) || !(own.coverage/own.kinds > .9) || !(own.rmse < .6*one.rmse) || !(own.near < .6*one.near) {
		t.Errorf("mean over the kinds %v, with one weight %v", &own, &one)
	}
}
