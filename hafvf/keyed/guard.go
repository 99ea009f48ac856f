package keyed

import (
	"fmt"
	"runtime/debug"

	"hafvf/hafvf"
	"hafvf/internal/linear"
	"hafvf/internal/parallel"
)

// A guard keeps what a track was before an observation, so that one which would leave a number
// in it that is not finite, or that the mathematics panic at, can be taken back.
type guard struct {
	track                         Track
	state, rhythm, profile, alarm hafvf.State
	starts                        []start
	lately                        []stretch
	pulse                         pulse
	lasting                       lasting
}

// keep keeps the track as it is.
func (g *guard) keep(t *Track) {
	g.track = *t
	g.state = append(g.state[:0], t.state...)
	g.rhythm = append(g.rhythm[:0], t.rhythm...)
	g.profile = append(g.profile[:0], t.decisions.profile...)
	g.alarm = append(g.alarm[:0], t.decisions.alarm...)
	g.starts = append(g.starts[:0], t.starts...)
	g.lately = append(g.lately[:0], t.decisions.lately...)
	if t.pulse != nil {
		g.pulse = *t.pulse
	}
	if l := t.decisions.lasting; l != nil {
		g.lasting = *l
	}
}

// takeBack makes the track what it was. Its slices may have been replaced since, but what they
// held is in the guard.
func (g *guard) takeBack(t *Track) {
	*t = g.track
	copy(t.state, g.state)
	copy(t.rhythm, g.rhythm)
	copy(t.decisions.profile, g.profile)
	copy(t.decisions.alarm, g.alarm)
	copy(t.starts, g.starts)
	copy(t.decisions.lately, g.lately)
	if t.pulse != nil {
		*t.pulse = g.pulse
	}
	if l := t.decisions.lasting; l != nil {
		*l = g.lasting
	}
	t.chain.priorOf = nil
}

// finite reports whether all numbers of the track are finite, but for those that the window of
// a model on past values lacks.
func (t *Track) finite() bool {
	return t.chain.bank.Finite(t.state) && linear.Finite(t.rhythm) && linear.Finite(t.decisions.profile) && linear.Finite(t.decisions.alarm) &&
		linear.Finite(t.locationScale) && linear.Finite(t.decisions.standard)
}

// blind is the number of observations in a row that cannot be learned after which it is the
// state that is out of proportion: the key begins anew.
const blind = 3

// unlearned is the reason of an observation with which the numbers of its key would not be
// finite any more.
const unlearned = "not learned: x is out of all proportion to the values of this key before, and with it the state of the key would not be finite; the key goes on as if it had not come"

// A Panic is one of the mathematics of a key. It is a fault of this module, and costs no other
// key: the observation is not learned.
type Panic struct {
	Value string // what it says of itself
	Stack string
}

func (p *Panic) Error() string {
	return fmt.Sprintf("the mathematics of the key panicked, a fault of hafvf, of which the log has the place (%s)", p.Value)
}

// caught makes a Panic of what recover has returned.
func caught(value any) *Panic {
	stack := debug.Stack()
	if raised, ok := value.(*parallel.Raised); ok {
		value, stack = raised.Value, raised.Stack
	}
	return &Panic{fmt.Sprint(value), string(stack)}
}
