package methods

import "math"

// A chart watches standardised values.
type chart interface {
	// watch reports whether z raises an alarm, and the number of observations since the change, −1 if it is unknown.
	watch(z float64) (alarm bool, age int)
	// level returns the estimate of the mean, in the units of z. sd is NaN if the chart has none.
	level() (mean, sd float64)
	reset()
	floats() int
}

// phased is a chart that estimates mean and standard deviation from observations at the start and after each alarm.
type phased struct {
	chart
	length int // number of these observations

	n        int
	mean, ss float64 // mean and sum of squares by Welford's method
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
		sd = 1e-9 // equal values: any other value is an alarm
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

// standardised passes values to a Follower in units of the first observations, and converts the estimates back.
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
