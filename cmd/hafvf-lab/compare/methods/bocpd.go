package methods

import "math"

// Bayesian online changepoint detection (Adams and MacKay 2007, arXiv:0710.3742): the
// posterior of the run length, each run with its own conjugate posterior,
//
//	p(r+1, x…x) = p(r, x…)·p(x|run)·(1 − h),  p(0, x…x) = h·Σ p(r, x…)·p(x|θ₀)
//
// with a constant hazard h, here as in their equation 3 but so that a new run begins with
// the observation itself. Runs below a posterior probability of 10⁻⁶ are pruned.
//
// bocpd-robust adds a component of outliers at fixed contamination, the simplest form of
// what Knoblauch, Jewson and Damoulas (2018) robustify by the β-divergence: an observation
// is an outlier with probability .01, of the naive predictive density, and a run learns it
// with the probability that it is none.
//
// A change is said where more than half of the posterior is on runs that began after the
// one that was last said, at the most probable of their beginnings.
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
	hazard, contamination, least float64

	runs []runLength // by their beginnings
	free [][]float64 // samples of runs that were pruned
	none []float64   // the empty sample
	n    int         // observations
	said int         // beginning of the run that was last said to be a change
}

// A runLength is a run that may go on.
type runLength struct {
	began  int
	logP   float64 // of the run, posterior
	sample []float64

	clean float64 // probability that the observation is no outlier
}

func newBOCPD(s Start, hazard, contamination, least float64) *bocpd {
	return &bocpd{conjugate: newConjugate(s.Model), hazard: hazard, contamination: contamination, least: least, none: make([]float64, s.Model.Len())}
}

func (b *bocpd) Update(x float64) Step {
	b.see(x)
	began := runLength{began: b.n}
	if n := len(b.free); n > 0 {
		began.sample, b.free = b.free[n-1], b.free[:n-1]
		clear(began.sample)
	} else {
		began.sample = make([]float64, len(b.none))
	}
	if len(b.runs) > 0 {
		began.logP = math.Log(b.hazard)
		for i := range b.runs {
			b.runs[i].logP += math.Log1p(-b.hazard)
		}
	}
	b.runs = append(b.runs, began)
	naive := b.predictive(b.none, 0)
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
	kept, later, likeliest := b.runs[:0], 0.0, 0
	for _, r := range b.runs {
		r.logP -= step.LogPredictive
		p := math.Exp(r.logP)
		if p < b.least {
			b.free = append(b.free, r.sample)
			continue
		}
		if r.clean > 0 {
			b.Observe(r.sample, b.row[:], r.clean)
		}
		mean, sd := b.estimate(r.sample)
		estimate.add(p, mean, sd)
		kept = append(kept, r)
		if r.began > b.said {
			if later == 0 || r.logP > kept[likeliest].logP {
				likeliest = len(kept) - 1
			}
			later += p
		}
	}
	// What was pruned is shared out.
	total := math.Log(estimate.total)
	for i := range kept {
		kept[i].logP -= total
	}
	b.runs = kept
	if later > .5 {
		b.said = kept[likeliest].began
		step.Change, step.Age = true, b.n-b.said
	}
	step.Mean, step.SD = estimate.moments()
	b.n++
	return step
}

func (b *bocpd) Bytes() int { return len(b.runs) * word * (len(b.none) + 2) }
