package adafvf

import (
	"fmt"
	"math"

	"hafvf/internal/linear"
)

// base is what both optimizers have in common.
type base struct {
	given    []Group
	skipped  []int // per group
	steps    int
	rate     float64
	schedule func(int) float64
	decay    float64
}

func newBase(rate float64, schedule func(int) float64, decay float64, groups []Group) (base, error) {
	if !(rate > 0 && rate < math.Inf(1)) {
		return base{}, fmt.Errorf("adafvf: Rate = %g is no finite number above zero", rate)
	}
	if !(decay >= 0 && decay < math.Inf(1)) {
		return base{}, fmt.Errorf("adafvf: WeightDecay = %g is no finite number from zero on", decay)
	}
	if len(groups) == 0 {
		return base{}, fmt.Errorf("adafvf: there is no group of parameters to train")
	}
	for i, g := range groups {
		if len(g.Params) == 0 {
			return base{}, fmt.Errorf("adafvf: group %d %q has no parameters", i, g.Name)
		}
		if len(g.Grads) != len(g.Params) {
			return base{}, fmt.Errorf("adafvf: group %d %q has %d parameters and %d gradients", i, g.Name, len(g.Params), len(g.Grads))
		}
	}
	return base{
		given: append([]Group(nil), groups...), skipped: make([]int, len(groups)),
		rate: rate, schedule: schedule, decay: decay,
	}, nil
}

// Steps is how often Step was called.
func (o *base) Steps() int { return o.steps }

// Groups is the number of groups.
func (o *base) Groups() int { return len(o.given) }

// Skipped is how often a group was left out of a step, since its gradient was not
// finite: the sum over the groups.
func (o *base) Skipped() int {
	n := 0
	for _, s := range o.skipped {
		n += s
	}
	return n
}

// begin counts the step and returns its rate.
func (o *base) begin() float64 {
	o.steps++
	if o.schedule == nil {
		return o.rate
	}
	f := o.schedule(o.steps)
	if !(f >= 0 && f < math.Inf(1)) {
		panic(fmt.Sprintf("adafvf: Schedule is %g at step %d; it has to be finite and not below zero", f, o.steps))
	}
	return f * o.rate
}

// huge is the gradient from which on squares would leave the range of numbers.
const huge = 1e100

// admit reports whether the gradient of group i can be learned, and counts it
// where not.
func (o *base) admit(i int) bool {
	for _, g := range o.given[i].Grads {
		if !(math.Abs(g) <= huge) {
			o.skipped[i]++
			return false
		}
	}
	return true
}

// shrink is the decoupled weight decay.
func (o *base) shrink(params []float64, rate float64) {
	if o.decay != 0 {
		linear.Scale(params, 1-rate*o.decay)
	}
}
