package adafvf

import (
	"fmt"
	"math"
)

// AdamConfig is how Adam learns. Zeros stand for its usual settings.
type AdamConfig struct {
	Rate         float64                // zero stands for 1e-3
	Schedule     func(step int) float64 // as that of Config
	WeightDecay  float64                // as that of Config
	Beta1, Beta2 float64                // decays of the moments, in (0, 1); zeros stand for 0.9 and 0.999
	Epsilon      float64                // zero stands for 1e-8
	// Clip is the largest norm of the gradient over all groups, to which longer
	// ones are scaled. Zero: none.
	Clip float64
}

// Adam is the optimizer of Kingma and Ba (2015), with the interface of Optimizer,
// to compare with. It is for one goroutine.
type Adam struct {
	base
	config AdamConfig
	groups []moments
}

// moments are those of one group's gradient.
type moments struct {
	n    int // steps that were not skipped
	m, v []float64
}

// NewAdam makes an optimizer of the groups. An error names the setting or the
// group that is wrong.
func NewAdam(config AdamConfig, groups ...Group) (*Adam, error) {
	c := config
	for _, v := range []struct {
		v  *float64
		or float64
	}{{&c.Rate, 1e-3}, {&c.Beta1, 0.9}, {&c.Beta2, 0.999}, {&c.Epsilon, 1e-8}} {
		if *v.v == 0 {
			*v.v = v.or
		}
	}
	if !(c.Beta1 > 0 && c.Beta1 < 1 && c.Beta2 > 0 && c.Beta2 < 1) {
		return nil, fmt.Errorf("adafvf: Beta1 = %g or Beta2 = %g is outside (0, 1)", c.Beta1, c.Beta2)
	}
	if !(c.Epsilon > 0 && c.Epsilon < math.Inf(1)) {
		return nil, fmt.Errorf("adafvf: Epsilon = %g is no finite number above zero", c.Epsilon)
	}
	if !(c.Clip >= 0) {
		return nil, fmt.Errorf("adafvf: Clip = %g is below zero", c.Clip)
	}
	o := &Adam{config: c}
	var err error
	if o.base, err = newBase(c.Rate, c.Schedule, c.WeightDecay, groups); err != nil {
		return nil, err
	}
	for _, g := range groups {
		o.groups = append(o.groups, moments{m: make([]float64, len(g.Params)), v: make([]float64, len(g.Params))})
	}
	return o, nil
}

// Step learns the gradients of all groups and moves their parameters. A group
// with a gradient that is not finite, or beyond 1e100, stays as it is, which is
// counted. Step allocates nothing.
func (o *Adam) Step() {
	rate := o.begin()
	scale := 1.0
	if o.config.Clip > 0 {
		scale = o.clip()
	}
	for i := range o.groups {
		g, s := &o.given[i], &o.groups[i]
		if !o.admit(i) {
			continue
		}
		o.shrink(g.Params, rate)
		s.n++
		c := &o.config
		// m̂/(√v̂ + ε), with both corrections outside of the loop.
		right := math.Sqrt(1 - math.Pow(c.Beta2, float64(s.n)))
		step := rate * right / (1 - math.Pow(c.Beta1, float64(s.n)))
		epsilon := c.Epsilon * right
		new1, new2 := (1-c.Beta1)*scale, (1-c.Beta2)*scale*scale
		m, v, params := s.m[:len(g.Grads)], s.v[:len(g.Grads)], g.Params[:len(g.Grads)]
		for k, x := range g.Grads {
			mean := c.Beta1*m[k] + new1*x
			square := c.Beta2*v[k] + new2*x*x
			m[k], v[k] = mean, square
			params[k] -= step * mean / (math.Sqrt(square) + epsilon)
		}
	}
}

// clip is the factor that brings the gradient of the groups that are finite to
// the largest norm.
func (o *Adam) clip() float64 {
	sum := 0.0
	for i := range o.given {
		part := 0.0
		for _, x := range o.given[i].Grads {
			part += x * x
		}
		if part < math.Inf(1) {
			sum += part
		}
	}
	if norm := math.Sqrt(sum); norm > o.config.Clip {
		return o.config.Clip / norm
	}
	return 1
}
