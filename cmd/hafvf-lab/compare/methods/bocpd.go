package methods

import "math"

// Bayesian online changepoint detection (Adams and MacKay 2007, arXiv:0710.3742): the posterior of the run length,
// with a conjugate posterior for each run,
//
//	p(r+1, x…x) = p(r, x…)·p(x|run)·(1 − h),  p(0, x…x) = h·Σ p(r, x…)·p(x|θ₀)
//
// with a constant hazard h. This is their equation 3, except that a new run starts with the observation itself. Runs
// with a posterior probability below 10⁻⁶ are pruned.
//
// bocpd-robust adds an outlier component with a fixed contamination. This is the simplest form of robustness;
// Knoblauch, Jewson and Damoulas (2018) use the β-divergence. An observation is an outlier with probability .01 and
// then has the naive predictive density. A run learns an observation with the probability that it is not an outlier.
//
// A change is reported if more than half of the posterior is on runs that started after the last reported one. Its
// start is the most probable start of these runs.
//
// The hazard is 1/1000, the prior mean of a change in hafvf.Detect.
var runLengths = []Method{
	{Name: "bocpd", About: "Bayesian online changepoint detection", Setting: "hazard 1/1000, runs above 1e-6", Source: "Adams and MacKay 2007",
		Detects: true, Places: true, New: func(s Start) Follower { return newBOCPD(s, 1e-3, 0, 1e-6) }},
	{Name: "bocpd-robust", About: "the same with outliers", Setting: "hazard 1/1000, contamination .01", Source: "after Knoblauch et al. 2018",
		Detects: true, Places: true, New: func(s Start) Follower { return newBOCPD(s, 1e-3, .01, 1e-6) }},
}

type bocpd struct {
	conjugate
	hazard, contamination, minP float64

	runs     []runLength // ordered by start
	free     [][]float64 // samples of pruned runs, for reuse
	empty    []float64   // the empty sample
	n        int         // observations so far
	reported int         // start of the run that was last reported as a change
}

// A runLength is a run that may continue.
type runLength struct {
	start  int
	logP   float64 // log of the posterior probability of the run
	sample []float64

	clean float64 // probability that the observation is not an outlier
}

func newBOCPD(s Start, hazard, contamination, minP float64) *bocpd {
	return &bocpd{conjugate: newConjugate(s.Model), hazard: hazard, contamination: contamination, minP: minP, empty: make([]float64, s.Model.Len())}
}

func (b *bocpd) Update(x float64) Step {
	b.see(x)
	newRun := runLength{start: b.n}
	if n := len(b.free); n > 0 {
		newRun.sample, b.free = b.free[n-1], b.free[:n-1]
		clear(newRun.sample)
	} else {
		newRun.sample = make([]float64, len(b.empty))
	}
	if len(b.runs) > 0 {
		newRun.logP = math.Log(b.hazard)
		for i := range b.runs {
			b.runs[i].logP += math.Log1p(-b.hazard)
		}
	}
	b.runs = append(b.runs, newRun)
	naive := b.predictive(b.empty, 0)
	top := math.Inf(-1)
	for i := range b.runs {
		r := &b.runs[i]
		l := b.predictive(r.sample, 1)
		r.clean = 1
		if b.contamination > 0 {
			clean := math.Log1p(-b.contamination) + l
			l = logAdd(clean, math.Log(b.contamination)+naive)
			r.clean = math.Exp(clean - l)
		}
		r.logP += l
		top = max(top, r.logP)
	}
	sum := 0.0
	for _, r := range b.runs {
		sum += math.Exp(r.logP - top)
	}
	step := Step{LogPredictive: top + math.Log(sum), Age: -1}
	var estimate blend
	retained, later, best := b.runs[:0], 0.0, 0
	for _, r := range b.runs {
		r.logP -= step.LogPredictive
		p := math.Exp(r.logP)
		if p < b.minP {
			b.free = append(b.free, r.sample)
			continue
		}
		if r.clean > 0 {
			b.Observe(r.sample, b.row[:], r.clean)
		}
		mean, sd := b.estimate(r.sample)
		estimate.add(p, mean, sd)
		retained = append(retained, r)
		if r.start > b.reported {
			if later == 0 || r.logP > retained[best].logP {
				best = len(retained) - 1
			}
			later += p
		}
	}
	// Normalise the posterior after pruning.
	total := math.Log(estimate.total)
	for i := range retained {
		retained[i].logP -= total
	}
	b.runs = retained
	if later > .5 {
		b.reported = retained[best].start
		step.Change, step.Age = true, b.n-b.reported
	}
	step.Mean, step.SD = estimate.moments()
	b.n++
	return step
}

func (b *bocpd) Bytes() int { return len(b.runs) * word * (len(b.empty) + 2) }
