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
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
)

// The tags of a cell's timers: for the key that has to be looked at next, for the last observation
// that waits, and for the end of the input. A timer may be too early, and never late.
const timerTag, lastTag, endTag = "look", "last", "end"

// An agenda is when keys of a cell have to be looked at: because an observation that waits is due,
// because the key becomes silent, or because it expires. It has the keys that come first. A map of
// all keys would take as much memory as their states. At until the node looks into the states for
// the next.
type agenda struct {
	first map[string]time.Time // nil before the node has looked for them
	until time.Time            // no other key comes before; zero: no other does
	room  int                  // how many first may have before it is cut
}

// firstParts is the part of a cell's keys, 1/firstParts, that an agenda keeps.
const firstParts = 16

// set notes when a key has to be looked at; zero: not before it speaks. The cell has n keys. What
// comes up to now is kept in any case.
func (d *agenda) set(key string, at time.Time, n int, now time.Time) {
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
		d.until = times[keep]
		maps.DeleteFunc(d.first, func(_ string, at time.Time) bool { return !at.Before(d.until) })
		d.first = maps.Collect(maps.All(d.first)) // gives the room back
	}
	d.room = 2 * max(len(d.first), n/firstParts)
}

// next is when some key has to be looked at; zero if none has.
func (d *agenda) next() (next time.Time) {
	for _, at := range d.first {
		next = earlier(next, at)
	}
	return earlier(next, d.until)
}

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// emitsSilences reports whether the node tells of keys that are silent, and expires whether it forgets keys.
func (fn *encodeFn) emitsSilences() bool { return fn.cfg.Live && fn.cfg.Silence != nil }
func (fn *encodeFn) expires() bool       { return fn.cfg.Live && fn.cfg.Expire > 0 }

// next is when a key of a cell has to be looked at, of what is known of it; zero: not before it speaks.
func (fn *encodeFn) next(c *openCell, waits, deadline, expiry time.Time) (at time.Time) {
	if fn.cfg.waits() && !waits.IsZero() {
		at = waits.Add(fn.workers[0].MaxDelay())
	}
	if fn.emitsSilences() {
		at = earlier(at, deadline)
	}
	if fn.expires() && !expiry.IsZero() {
		// After it, not at it, and not again before long if the key was kept.
		at = earlier(at, fn.onGrid(later(expiry, c.woken).Add(time.Millisecond)))
	}
	return at
}

func (fn *encodeFn) nextOf(e *openKey) time.Time {
	waits, _ := e.Waiting()
	return fn.next(e.of, waits, e.Deadline(), e.Expiry())
}

// onGrid is the first time at which keys are looked at for expiry that is not before t. A key that
// expires begins anew in any case, see keyed.KeyState.Expiry. What a look gives back is the room of its
// state, within a part of that time: so keys are looked at together.
func (fn *encodeFn) onGrid(t time.Time) time.Time {
	step := max(fn.cfg.Expire/keyed.ExpiryParts, time.Millisecond)
	on := t.Truncate(step)
	if on.Before(t) {
		on = on.Add(step)
	}
	return on
}

// plan makes the agenda of a cell, at least of all keys that have to be looked at by now.
func (fn *encodeFn) plan(c *openCell, now time.Time) error {
	c.agenda = agenda{first: map[string]time.Time{}}
	n, w := c.Len(), fn.workers[0]
	for key, b := range c.All() {
		if fn.keys[key] != nil {
			continue
		}
		waits, last := keyed.Waiting(b)
		deadline, err := w.Deadline(key, b)
		if fn.emitsSilences() && errors.Is(err, keyed.ErrOtherConfig) {
			return fmt.Errorf("state %q: key %q: %w", c.name, key, err)
		}
		c.agenda.set(key, fn.next(c, waits, deadline, w.Expiry(b)), n, now)
		c.last = later(c.last, last)
	}
	for e := range fn.openIn(c) {
		c.agenda.set(e.key, fn.nextOf(e), n, now)
	}
	return c.readable()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// planBlock sets the timer of a cell in which a key speaks. What it should be set for is known when the
// block is processed. Until then all its observations may wait, and the key may be silent as soon as
// it has spoken. A key that is known to be looked at later only puts that off.
func (fn *encodeFn) planBlock(tp timers.Provider, c *openCell, cell, key string, times waitSpan) {
	var at time.Time
	if fn.cfg.waits() {
		at = fn.workers[0].IntervalEnd(times.first).Add(fn.workers[0].MaxDelay())
		if last := fn.workers[0].IntervalEnd(times.last); last.After(c.last) {
			c.last = last
			fn.set(tp, cell, last.Add(fn.workers[0].MaxDelay()), lastTag)
		}
	}
	if fn.emitsSilences() && !fn.deadline(c, key).After(times.first) {
		at = earlier(at, times.first)
		c.agenda.set(key, times.first, c.Len(), time.Time{})
	}
	if fn.expires() {
		on := times.first
		if now := time.Now(); on.After(now) {
			on = now // the time may be wrong
		}
		at = earlier(at, fn.onGrid(later(on, fn.woken).Add(fn.cfg.Expire/keyed.ExpiryParts)))
	}
	if at.IsZero() {
		return
	}
	// If its time is long past, another instance of the node may have seen the timer fire.
	set, known := fn.timersSet[cell]
	if !known || at.Before(set) || fn.memory == nil && fn.expires() && times.first.After(set.Add(fn.cfg.Expire)) {
		fn.setTimer(tp, cell, at)
	}
}

// deadline is when a key of a cell becomes silent, zero if that is not known.
func (fn *encodeFn) deadline(c *openCell, key string) (at time.Time) {
	if e := fn.keys[key]; e != nil {
		return e.Deadline()
	}
	if b := c.Get(key); b != nil {
		at, _ = fn.workers[0].Deadline(key, b)
	}
	return at
}

// setTimer sets the timer by which a cell is looked at.
func (fn *encodeFn) setTimer(tp timers.Provider, cell string, at time.Time) {
	if !at.IsZero() {
		fn.set(tp, cell, at, timerTag)
		fn.timersSet[cell] = at
	}
}

// awaitEnd sets the timer of a cell for the end of the input.
func (fn *encodeFn) awaitEnd(tp timers.Provider) {
	fn.Due.Set(tp, mtime.EndOfGlobalWindowTime.ToTime(), timers.WithTag(endTag))
}

// due are the keys of a cell that have to be looked at by now, sorted: the output has one order.
// At the end of the input they are those of which something waits, or that are silent by now, and
// with intervals all.
func (fn *encodeFn) dueIn(c *openCell, now time.Time, ends bool) ([]string, error) {
	var due []string
	if ends {
		silent := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
		for key, b := range c.All() {
			if fn.keys[key] != nil {
				continue
			}
			waits, _ := keyed.Waiting(b)
			at, _ := fn.workers[0].Deadline(key, b)
			if fn.cfg.Aggregate != nil || !waits.IsZero() || silent(at) {
				due = append(due, key)
			}
		}
		for e := range fn.openIn(c) {
			due = append(due, e.key)
		}
	} else {
		if c.agenda.first == nil || !c.agenda.until.IsZero() && !c.agenda.until.After(now) {
			if err := fn.plan(c, now); err != nil {
				return nil, err
			}
		}
		for key, at := range c.agenda.first {
			if !at.After(now) {
				due = append(due, key)
			}
		}
	}
	slices.Sort(due)
	return due, c.readable()
}

// emitSilence tells of a key that is silent by now.
func (fn *encodeFn) emitSilence(now time.Time, e *openKey) {
	s, silent := e.ReportSilence(now)
	if !silent {
		return
	}
	fn.report.Counts.Silences++
	w := fn.workers[0]
	w.encoder.Silent(&w.encoded, e.key, s)
	fn.put(w.encoded, Encoded{}, w.encoded)
	fn.flush()
}

// expired reports whether a key has expired, by the time that its logs have passed, and in a run
// that does not know them by the watermark. A watermark that follows the clock has passed what the
// logs have not.
func (fn *encodeFn) expired(e *openKey, now time.Time) bool {
	at := e.Expiry()
	if !fn.expires() || at.IsZero() || !at.Before(now) {
		return false
	}
	for _, p := range e.IncludedOffsets() {
		if passed, known := fn.account.LogTime(p.Log); known && !passed.After(at) {
			return false
		}
	}
	return true
}

// drop forgets a key that has expired. If it speaks again in this bundle, it begins anew. All keys
// of a topic may expire in one bundle: what is decoded of them must not wait for its end.
func (fn *encodeFn) drop(c *openCell, e *openKey) {
	w := fn.workers[0]
	w.encoder.Forgotten(&w.encoded, e.key)
	fn.put(w.encoded, Encoded{}, w.encoded)
	fn.flush()
	fn.report.Counts.ExpiredKeys++
	c.Put(e.key, nil)
	delete(fn.keys, e.key)
	delete(c.agenda.first, e.key)
	e.forgot, e.KeyState = true, keyed.KeyState{}
}

// resumeFn calls the cells whose states a run takes over, so that they get the timers that they
// had. It takes an impulse: the source begins when they have them, see package account.
type resumeFn struct{}

func (fn *resumeFn) ProcessElement(ctx context.Context, _ []byte, emit func(beam.EventTime, string, []byte)) {
	m := account.Value[*statestore.Memory](account.From(ctx), "")
	if m == nil {
		return // the runner has the timers
	}
	for _, name := range m.Names() {
		if m.Cell(name).Len() > 0 {
			emit(mtime.ZeroTimestamp, name, nil)
		}
	}
}
