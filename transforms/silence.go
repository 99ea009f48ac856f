package transforms

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/states"
)

// silentTag is the tag of the timers of silence; those of waiting observations have others.
const silentTag = "silent"

// tells reports whether the node tells of keys that are silent.
func (fn *node) tells() bool { return fn.Live && fn.cfg.Silence != nil }

// findDeadlines finds out when the keys of a cell become silent.
func (fn *node) findDeadlines(c *cell) error {
	if c.deadlines != nil {
		return nil
	}
	c.deadlines = map[string]time.Time{}
	for key, b := range c.All() {
		e, err := fn.workers[0].Open(key, b)
		if errors.Is(err, keyed.ErrOtherConfig) {
			return fmt.Errorf("key %q: %w", key, err)
		}
		if err != nil {
			continue // the key begins anew when it speaks
		}
		if deadline := e.Deadline(); !deadline.IsZero() {
			c.deadlines[key] = deadline
		}
	}
	return c.Err()
}

// guard sets the timer of a cell in which a key speaks that has no deadline later than
// that. A key that has one only puts it off.
func (fn *node) guard(tp timers.Provider, c *opened, key string, speaks time.Time) {
	if c.deadlines[key].After(speaks) {
		return
	}
	c.deadlines[key] = speaks
	switch {
	case c.watched.IsZero():
		fn.watch(tp, c)
	case speaks.Before(c.watched):
		fn.wake(tp, c, speaks)
	}
}

// watch sets the timer of a cell for the first of its keys that becomes silent.
func (fn *node) watch(tp timers.Provider, c *opened) {
	var first time.Time
	for _, deadline := range c.deadlines {
		if first.IsZero() || deadline.Before(first) {
			first = deadline
		}
	}
	fn.wake(tp, c, first)
}

// wake sets the timer of a cell for a time; none where that is zero.
func (fn *node) wake(tp timers.Provider, c *opened, at time.Time) {
	if c.watched = at; !at.IsZero() {
		fn.set(tp, at, silentTag)
	}
}

// awaitEnd sets the timer of a cell for the end of the input.
func (fn *node) awaitEnd(tp timers.Provider) {
	fn.due.Set(tp, mtime.EndOfGlobalWindowTime.ToTime(), timers.WithTag(silentTag))
}

// findEnded finds out when the keys of a cell become silent whose input has ended.
func (fn *node) findEnded(c *opened) error {
	c.deadlines = nil
	if err := fn.findDeadlines(c.cell); err != nil {
		return fmt.Errorf("state %q: %w", c.name, err)
	}
	for e := range fn.openIn(c) {
		c.noteDeadline(e)
	}
	return nil
}

// noteDeadline notes when a key of the cell becomes silent.
func (c *opened) noteDeadline(e *held) {
	if c.deadlines[e.key] = e.Deadline(); c.deadlines[e.key].IsZero() {
		delete(c.deadlines, e.key)
	}
}

// tell tells of a key that is silent by now.
func (fn *node) tell(now time.Time, e *held) {
	s, silent := e.Tell(now)
	if !silent {
		return
	}
	fn.report.Counts.Silences++
	w := fn.workers[0]
	if w.encoder == nil {
		fn.report.Emitted++
		fn.out.silent(mtime.FromTime(s.Since.Add(s.Bound)), e.key, s)
		return
	}
	w.encoder.Silent(&w.encoded, e.key, s)
	fn.put(w.encoded, Encoded{}, w.encoded)
	fn.flush()
}

// resumeFn calls the cells whose states a run takes over, so that they get the timers that they
// had. It takes an impulse.
type resumeFn struct{ Config string }

func (fn *resumeFn) ProcessElement(ctx context.Context, _ []byte, emit func(beam.EventTime, string, []byte)) error {
	m := account.Part[*states.Memory](account.From(ctx), "")
	if m == nil {
		return nil // the runner has the timers
	}
	_, cfg, err := parseEstimator(fn.Config)
	for _, name := range cfg.Cells {
		if m.Cell(name).Len() > 0 {
			emit(mtime.ZeroTimestamp, name, nil)
		}
	}
	return err
}
