package adafvf

import (
	"fmt"
	"math"

	"hafvf/internal/linear"
)

// base holds the part that both optimizers share.
type base struct {
	inputs   []Group
	skipped  []int // per group
	steps    int
	rate     float64
	schedule func(int) float64
	decay    float64
}

func newBase(rate float64, schedule func(int) float64, decay float64, groups []Group) (base, error) {
	if !(rate > 0 && rate < math.Inf(1)) {
		return base{}, fmt.Errorf("adafvf: Rate = %g is not a finite number above zero", rate)
	}
	if !(decay >= 0 && decay < math.Inf(1)) {
		return base{}, fmt.Errorf("adafvf: WeightDecay = %g is not a finite number of at least zero", decay)
	}
	if len(groups) == 0 {
		return base{}, fmt.Errorf("adafvf: no groups: pass at least one group of parameters")
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
		inputs: append([]Group(nil), groups...), skipped: make([]int, len(groups)),
		rate: rate, schedule: schedule, decay: decay,
	}, nil
}

// Steps returns the number of calls of Step.
func (o *base) Steps() int { return o.steps }

// Groups returns the number of groups.
func (o *base) Groups() int { return len(o.inputs) }

// Skipped returns the number of times that a group was skipped because its gradient was not finite, summed over
// the groups.
func (o *base) Skipped() int {
	n := 0
	for _, s := range o.skipped {
		n += s
	}
	return n
}

// begin counts the step and returns its rate. It panics if Schedule returns an invalid factor.
func (o *base) begin() float64 {
	o.steps++
	if o.schedule == nil {
		return o.rate
	}
	f := o.schedule(o.steps)
	if !(f >= 0 && f < math.Inf(1)) {
		panic(fmt.Sprintf("adafvf: Schedule returned %g at step %d: it must be finite and at least zero", f, o.steps))
	}
	return f * o.rate
}

// huge is the maximum size of a gradient, so that its square is finite.
const huge = 1e100

// admit reports whether the gradient of group i can be learned. If not, it counts the group as skipped.
func (o *base) admit(i int) bool {
	for _, g := range o.inputs[i].Grads {
		if !(math.Abs(g) <= huge) {
			o.skipped[i]++
			return false
		}
	}
	return true
}

// shrink applies the decoupled weight decay.
func (o *base) shrink(params []float64, rate float64) {
	if o.decay != 0 {
		linear.Scale(params, 1-rate*o.decay)
	}
}
