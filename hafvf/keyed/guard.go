package keyed

import (
	"fmt"
	"runtime/debug"
	"slices"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
	"hafvf/internal/linear"
	"hafvf/internal/parallel"
)

// A guard keeps what a track was before an observation, so that one which would leave a number
// in it that is not finite, or that the mathematics panic at, can be taken back.
type guard struct {
	track     Track
	states    [4]hafvf.State // of the track
	plan      usual.Plan
	starts    []regimeStart
	lately    []oneSidedRun
	heartbeat heartbeat
}

// states are those that an observation changes in place.
func (t *Track) states() [4]hafvf.State {
	return [...]hafvf.State{t.state, t.rhythm, t.decisions.profile, t.decisions.alarm}
}

// save keeps the track as it is.
func (g *guard) save(t *Track) {
	g.track = *t
	for i, s := range t.states() {
		g.states[i] = append(g.states[i][:0], s...)
	}
	g.plan = append(g.plan[:0], t.decisions.plan...)
	g.starts = append(g.starts[:0], t.starts...)
	g.lately = append(g.lately[:0], t.decisions.runs...)
	if t.heartbeat != nil {
		g.heartbeat = *t.heartbeat
	}
}

// takeBack makes the track what it was. Its slices may have been replaced since, but what they
// held is in the guard.
func (g *guard) takeBack(t *Track) {
	*t = g.track
	for i, s := range t.states() {
		copy(s, g.states[i])
	}
	copy(t.decisions.plan, g.plan)
	copy(t.starts, g.starts)
	copy(t.decisions.runs, g.lately)
	if t.heartbeat != nil {
		*t.heartbeat = g.heartbeat
	}
	t.stages.priorOf = nil
}

// finite reports whether all numbers of the track are finite, but for those that the window of
// a model on past values lacks.
func (t *Track) finite() bool {
	states := t.states()
	return t.stages.bank.Finite(t.state) && !slices.ContainsFunc(states[1:], func(s hafvf.State) bool { return !linear.Finite(s) }) &&
		linear.Finite(t.locationScale) && linear.Finite(t.decisions.standard)
}

// resetAfter is the number of observations in a row that cannot be learned after which it is the
// state that is out of proportion: the key begins anew.
const resetAfter = 3

// unlearnable is the reason of an observation with which the numbers of its key would not be
// finite any more.
const unlearnable = "not learned: x is out of all proportion to the values of this key before, and with it the state of the key would not be finite; the key goes on as if it had not come"

// A PanicError is one of the mathematics of a key. It is a fault of this module, and costs no other
// key: the observation is not learned.
type PanicError struct {
	Value string // what it says of itself
	Stack string
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("the mathematics of the key panicked, a fault of hafvf, of which the log has the place (%s)", p.Value)
}

// caught makes a PanicError of what recover has returned.
func caught(value any) *PanicError {
	stack := debug.Stack()
	if raised, ok := value.(*parallel.Raised); ok {
		value, stack = raised.Value, raised.Stack
	}
	return &PanicError{fmt.Sprint(value), string(stack)}
}
