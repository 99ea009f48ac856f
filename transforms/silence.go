package transforms

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// deadlines are when keys of a cell become silent: of the keys that do so first. A map of all keys
// would take as much memory as their states. At until the node looks into the states for the next.
type deadlines struct {
	first map[string]time.Time // nil before the node has looked for them
	until time.Time            // no other key becomes silent before; zero: no other does
	room  int                  // how many first may have before it is cut
}

// firstParts is the part of a cell's keys, 1/firstParts, that deadlines keep.
const firstParts = 16

// set notes when a key becomes silent; zero: it does not. The cell has n keys. Deadlines up to now are
// kept in any case.
func (d *deadlines) set(key string, at time.Time, n int, now time.Time) {
	if at.IsZero() || !d.until.IsZero() && !at.Before(d.until) {
		delete(d.first, key)
		return
	}
	if d.first[key] = at; len(d.first) < max(d.room, 64) {
		return
	}
	times := slices.SortedFunc(maps.Values(d.first), time.Time.Compare)
	after, _ := slices.BinarySearchFunc(times, now.Add(1), time.Time.Compare)
	if keep := max(after, n/firstParts); keep < len(times) {
		first := make(map[string]time.Time, keep)
		d.until = times[keep]
		for key, at := range d.first {
			if at.Before(d.until) {
				first[key] = at
			}
		}
		d.first = first
	}
	d.room = 2 * max(len(d.first), n/firstParts)
}

// next is when a key has to be looked at; zero if none has.
func (d *deadlines) next() (next time.Time) {
	for _, at := range d.first {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if next.IsZero() {
		return d.until
	}
	return next
}

// findDeadlines finds out when the keys of a cell become silent, at least of all that are by now.
func (fn *node) findDeadlines(c *opened, now time.Time) error {
	c.deadlines = deadlines{first: map[string]time.Time{}}
	n := c.Len()
	for key, b := range c.All() {
		if fn.keys[key] != nil {
			continue
		}
		at, err := fn.workers[0].Deadline(key, b)
		if errors.Is(err, keyed.ErrOtherConfig) {
			return fmt.Errorf("state %q: key %q: %w", c.name, key, err)
		}
		if err == nil { // else the key begins anew when it speaks
			c.deadlines.set(key, at, n, now)
		}
	}
	for e := range fn.openIn(c) {
		c.deadlines.set(e.key, e.Deadline(), n, now)
	}
	return c.readable()
}

// deadline is when a key of a cell becomes silent, zero if that is not known.
func (fn *node) deadline(c *opened, key string) time.Time {
	if at, is := c.deadlines.first[key]; is {
		return at
	}
	if e := fn.keys[key]; e != nil {
		return e.Deadline()
	}
	b := c.Get(key)
	if b == nil {
		return time.Time{}
	}
	at, _ := fn.workers[0].Deadline(key, b)
	return at
}

// guard sets the timer of a cell in which a key speaks that has no deadline later than
// that. A key that has one only puts it off.
func (fn *node) guard(tp timers.Provider, c *opened, key string, speaks time.Time) {
	if fn.deadline(c, key).After(speaks) {
		return
	}
	c.deadlines.set(key, speaks, c.Len(), time.Time{})
	switch {
	case c.watched.IsZero():
		fn.watch(tp, c)
	case speaks.Before(c.watched):
		fn.wake(tp, c, speaks)
	}
}

// watch sets the timer of a cell for the first of its keys that becomes silent.
func (fn *node) watch(tp timers.Provider, c *opened) { fn.wake(tp, c, c.deadlines.next()) }

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
