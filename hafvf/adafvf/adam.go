package adafvf

import (
	"fmt"
	"math"
)

// AdamConfig configures Adam. Zeros mean its usual settings.
type AdamConfig struct {
	Rate         float64                // 0 means 1e-3
	Schedule     func(step int) float64 // see Config
	WeightDecay  float64                // see Config
	Beta1, Beta2 float64                // decays of the moments, in (0, 1); 0 means 0.9 and 0.999
	Epsilon      float64                // 0 means 1e-8
	// Clip is the maximum norm of the gradient over all groups; longer gradients are scaled to it. 0 means no
	// maximum.
	Clip float64
}

// Adam is the optimizer of Kingma and Ba (2015) with the interface of Optimizer, for comparison. It is not safe
// for concurrent use.
type Adam struct {
	base
	config AdamConfig
	groups []moments
}

// moments holds the moments of one group's gradient.
type moments struct {
	n    int // steps that were not skipped
	m, v []float64
}

// NewAdam returns an optimizer of the groups. The error names the invalid setting or group.
func NewAdam(config AdamConfig, groups ...Group) (*Adam, error) {
	c := config
	for _, v := range []struct {
		v        *float64
		standard float64
	}{{&c.Rate, 1e-3}, {&c.Beta1, 0.9}, {&c.Beta2, 0.999}, {&c.Epsilon, 1e-8}} {
		if *v.v == 0 {
			*v.v = v.standard
		}
	}
	if !(c.Beta1 > 0 && c.Beta1 < 1 && c.Beta2 > 0 && c.Beta2 < 1) {
		return nil, fmt.Errorf("adafvf: Beta1 = %g or Beta2 = %g is outside (0, 1)", c.Beta1, c.Beta2)
	}
	if !(c.Epsilon > 0 && c.Epsilon < math.Inf(1)) {
		return nil, fmt.Errorf("adafvf: Epsilon = %g is not a finite number above zero", c.Epsilon)
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

// Step learns the gradients of all groups and moves their parameters. If a gradient of a group is not finite or
// beyond 1e100, Step skips the group and counts it in Skipped. Step allocates nothing.
func (o *Adam) Step() {
	rate := o.begin()
	scale := 1.0
	if o.config.Clip > 0 {
		scale = o.clip()
	}
	for i := range o.groups {
		g, s := &o.inputs[i], &o.groups[i]
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

// clip returns the factor that scales the gradient of all finite groups down to the maximum norm, or 1 if it is
// shorter.
func (o *Adam) clip() float64 {
	sum := 0.0
	for i := range o.inputs {
		part := 0.0
		for _, x := range o.inputs[i].Grads {
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
