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

// A guard saves a track before an observation. It restores the track if learning the observation panics or leaves a
// number that is not finite.
type guard struct {
	track     Track
	states    [5]hafvf.State // copies of Track.states
	plan      usual.Plan
	starts    []regimeStart
	runs      []oneSidedRun
	heartbeat heartbeat
}

// states returns the states that an observation changes in place.
func (t *Track) states() [5]hafvf.State {
	return [...]hafvf.State{t.state, t.rhythm, t.decisions.profile, t.decisions.alarm, hafvf.State(t.decisions.band)}
}

func (g *guard) save(t *Track) {
	g.track = *t
	for i, s := range t.states() {
		g.states[i] = append(g.states[i][:0], s...)
	}
	g.plan = append(g.plan[:0], t.decisions.plan...)
	g.starts = append(g.starts[:0], t.starts...)
	g.runs = append(g.runs[:0], t.decisions.runs...)
	if t.heartbeat != nil {
		g.heartbeat = *t.heartbeat
	}
}

// restore restores the saved track, including the contents of its slices, which may have been replaced.
func (g *guard) restore(t *Track) {
	*t = g.track
	for i, s := range t.states() {
		copy(s, g.states[i])
	}
	copy(t.decisions.plan, g.plan)
	copy(t.starts, g.starts)
	copy(t.decisions.runs, g.runs)
	if t.heartbeat != nil {
		*t.heartbeat = g.heartbeat
	}
	t.stages.priorOf = nil
}

// finite reports whether all numbers of the track are finite. It ignores missing values in the window of an
// autoregressive model.
func (t *Track) finite() bool {
	states := t.states()
	return t.stages.bank.Finite(t.state) && !slices.ContainsFunc(states[1:], func(s hafvf.State) bool { return !linear.Finite(s) }) &&
		linear.Finite(t.locationScale) && linear.Finite(t.decisions.standard)
}

// resetAfter is the number of consecutive observations that cannot be learned, after which the state itself is assumed
// to be out of proportion and the key is reset.
const resetAfter = 3

// unlearnable is the reason for not learning an observation that would make numbers of its key's state infinite or NaN.
const unlearnable = "not learned: x is out of proportion to the earlier values of this key, and the state of the key would not be finite with it; the key continues without this observation"

// A PanicError is a panic in the computations of a key. It is a bug in hafvf. The observation is not learned; other
// keys are not affected.
type PanicError struct {
	Value string // value of the panic, formatted
	Stack string
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("the computation of the key panicked, a bug in hafvf; the log has the stack trace (%s)", p.Value)
}

// newPanicError converts a non-nil result of recover to a PanicError.
func newPanicError(value any) *PanicError {
	stack := debug.Stack()
	if raised, ok := value.(*parallel.Raised); ok {
		value, stack = raised.Value, raised.Stack
	}
	return &PanicError{fmt.Sprint(value), string(stack)}
}
