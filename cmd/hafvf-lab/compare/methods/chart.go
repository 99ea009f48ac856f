package methods

import "math"

// A chart watches standardised values.
type chart interface {
	// watch reports whether z raises an alarm, and how many observations ago the change
	// was, −1 where it doesn't know.
	watch(z float64) (alarm bool, age int)
	// level is what the chart says of the mean, in the same units; sd is NaN where it says
	// nothing.
	level() (mean, sd float64)
	reset()
	floats() int
}

// phased is a chart with the observations that set its mean and standard deviation.
type phased struct {
	chart
	length int // of the phase that sets them

	n        int
	mean, ss float64 // Welford's
}

func (p *phased) Update(x float64) Step {
	step := Step{LogPredictive: nan, SD: nan, Age: -1}
	if p.n < p.length {
		p.n++
		d := x - p.mean
		p.mean += d / float64(p.n)
		p.ss += d * (x - p.mean)
		step.Mean = p.mean
		return step
	}
	sd := math.Sqrt(p.ss / float64(p.n-1))
	if sd == 0 {
		sd = 1e-9 // equal values: any other is an alarm
	}
	step.Change, step.Age = p.watch((x - p.mean) / sd)
	mean, width := p.level()
	step.Mean, step.SD = p.mean+sd*mean, sd*width
	if step.Change {
		p.reset()
		p.n, p.mean, p.ss = 0, 0, 0
	}
	return step
}

func (p *phased) Bytes() int { return word * (3 + p.floats()) }

// standardised gives a follower values in units of the first observations.
type standardised struct {
	location, scale float64
	Follower
}

func (s *standardised) Update(x float64) Step {
	step := s.Follower.Update((x - s.location) / s.scale)
	step.Mean = s.location + s.scale*step.Mean
	step.SD *= s.scale
	return step
}
