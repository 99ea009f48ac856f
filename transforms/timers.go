package transforms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/clock"
)

// The tags of a cell's timers: for the key that has to be looked at next, for the last observation
// that waits, and for the end of the input. A timer may be too early, and never late.
const timerTag, lastTag, endTag = "look", "last", "end"

// plan makes the agenda of a cell, unless it covers the watermark.
func (fn *encodeFn) plan(c *openCell, watermark time.Time) error {
	if c.agenda.Covers(watermark) {
		return nil
	}
	c.agenda = agenda{first: map[string]time.Time{}}
	n, w := c.Len(), fn.workers[0]
	for key, b := range c.All() {
		if fn.keys[key] != nil {
			continue
		}
		waits, last := keyed.StateBytes(b).Waiting()
		deadline, err := w.Deadline(key, b)
		if fn.schedule.silences && errors.Is(err, keyed.ErrOtherConfig) || errors.Is(err, keyed.ErrNewer) {
			return fmt.Errorf("state %q: key %q: %w", c.name, key, err)
		}
		c.agenda.Set(key, fn.schedule.ofKey(waits, deadline, w.Expiry(b), c.woken), n, watermark)
		c.last = clock.Later(c.last, last)
	}
	for _, e := range c.order {
		if fn.keys[e.key] == e { // else it was dropped
			fn.note(e, watermark)
		}
	}
	return c.readable()
}

// note notes when an open key has to be looked at again, if its cell has an agenda.
func (fn *encodeFn) note(e *openKey, watermark time.Time) {
	if e.of.agenda.first == nil {
		return
	}
	waits, _ := e.Waiting()
	e.of.agenda.Set(e.key, fn.schedule.ofKey(waits, e.Deadline(), e.Expiry(), e.of.woken), e.of.Len(), watermark)
}

// setTimers sets the timers of a cell to which a block comes. When its key has to be looked at is known when
// the block is processed. Until then all its observations may wait, and the key may be silent as soon as
// it has shown the first. A key that is known to be looked at later only puts that off.
func (fn *encodeFn) setTimers(tp timers.Provider, a queuedBlock, times waitSpan) error {
	c, w := a.of, fn.workers[0]
	if fn.schedule.silences || fn.schedule.waits {
		if err := fn.read(); err != nil {
			return err
		}
		if err := fn.plan(c, time.Time{}); err != nil {
			return err
		}
	}
	if fn.schedule.waits {
		if last := w.IntervalEnd(times.last); last.After(c.last) {
			c.last = last
			fn.set(tp, c.name, last.Add(fn.schedule.patience), lastTag)
		}
	}
	var silent time.Time
	if fn.schedule.silences && !fn.deadline(c, a.key).After(times.first) {
		silent = times.first
		c.agenda.Set(a.key, silent, c.Len(), time.Time{})
	}
	at := fn.schedule.ofBlock(times.first, w.IntervalEnd(times.first), silent, fn.woken, time.Now())
	// If its time is long past, another instance of the node may have seen the timer fire.
	set, known := fn.timersSet[c.name]
	if !known || at.Before(set) || fn.memory == nil && fn.schedule.expire > 0 && times.first.After(set.Add(fn.schedule.expire)) {
		fn.setTimer(tp, c.name, at)
	}
	return nil
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

// set sets a timer of the cell at hand.
func (fn *encodeFn) set(tp timers.Provider, cell string, t time.Time, tag string) {
	fn.Due.Set(tp, fn.account.NextStep(wholeMillis(t)), timers.WithTag(tag))
}

// wholeMillis is the end of the millisecond that t is in: timers count milliseconds, and are never
// too early.
func wholeMillis(t time.Time) time.Time {
	return t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// resume sets the timers of a cell of a run before.
func (fn *encodeFn) resume(tp timers.Provider, c *openCell) error {
	if fn.memory == nil {
		return nil // the runner has them
	}
	if fn.cfg.AtEnd {
		fn.awaitEnd(tp)
	}
	if err := fn.plan(c, time.Time{}); err != nil {
		return err
	}
	fn.setTimer(tp, c.name, c.agenda.Next())
	if fn.schedule.waits && !c.last.IsZero() {
		fn.set(tp, c.name, c.last.Add(fn.schedule.patience), lastTag)
	}
	return nil
}

// OnTimer looks at the keys of a cell when a timer fires: it releases the observations that the
// watermark has passed, tells of the keys that are silent, and forgets those that have expired.
func (fn *encodeFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, cell string, timer timers.Context, _, _ func([]byte), _ func(keyed.Rejected)) error {
	ends, stopped, aggregates := timer.Tag == endTag, fn.account.IsStopped(), fn.cfg.Aggregate != nil
	switch {
	case fn.account.Suspended(): // asked after IsStopped: it is not a run whose input ends
		return nil
	case ends && stopped && !aggregates && !fn.cfg.IgnoresWatermark:
		return nil // the input ends, and no key is silent for that
	}
	c := fn.cellOf(cell, sp)
	if err := fn.drain(); err != nil { // which reads the cell
		return err
	}
	now := clock.Later(ts.ToTime(), fn.account.Watermark()) // all at once that it has passed
	horizon := now.Add(-fn.schedule.patience)
	if ends {
		now = fn.account.Latest()
	}
	due, err := fn.due(c, now, ends)
	if err != nil {
		return err
	}
	if !ends {
		fn.woken, c.woken = clock.Later(fn.woken, now), clock.Later(c.woken, now) // what is due by now is known
	}
	for part := range slices.Chunk(due, batchBlocks) {
		active, err := fn.open(part)
		if err != nil {
			return err
		}
		for _, e := range active {
			switch {
			case !aggregates || !ends && !stopped:
				e.Release(horizon)
			case stopped: // the input ends there, and nothing is known of the time after it
				e.End(time.Time{})
			case fn.cfg.Continues:
				e.Release(now.Add(-fn.schedule.patience))
			default:
				e.End(now)
			}
		}
		if err := fn.work(slices.Clone(active)); err != nil {
			return err
		}
		for _, e := range active {
			if !stopped && (ends || fn.schedule.silences) {
				fn.emitSilence(now, e)
			}
		}
		if ends && aggregates {
			// Intervals without events go on after a silence that is not told. In an input without an
			// end a timer sees to that.
			if err := fn.work(slices.Clone(active)); err != nil {
				return err
			}
		}
		for _, e := range active {
			switch {
			case stopped:
				c.agenda.Set(e.key, time.Time{}, c.Len(), now)
			case fn.expired(e, now):
				fn.drop(c, e)
			default:
				fn.note(e, time.Time{})
			}
		}
		fn.storeStates()
	}
	if !stopped {
		delete(fn.timersSet, cell)
		fn.setTimer(tp, cell, c.agenda.Next())
	}
	return c.readable()
}

// due are the keys of a cell that have to be looked at by now, sorted: the output has one order.
// At the end of the input they are those of which something waits, or that are silent by now, and
// with intervals all.
func (fn *encodeFn) due(c *openCell, now time.Time, ends bool) (all []queuedBlock, err error) {
	var due []string
	if ends {
		for key, b := range c.All() {
			if fn.keys[key] != nil {
				continue
			}
			waits, _ := keyed.StateBytes(b).Waiting()
			at, _ := fn.workers[0].Deadline(key, b)
			if fn.cfg.Aggregate != nil || !waits.IsZero() || !at.IsZero() && !at.After(now) {
				due = append(due, key)
			}
		}
		for _, e := range c.order {
			if fn.keys[e.key] == e { // else it was dropped
				due = append(due, e.key)
			}
		}
	} else {
		if err := fn.plan(c, now); err != nil {
			return nil, err
		}
		due = c.agenda.Due(now)
	}
	slices.Sort(due)
	for _, key := range due {
		all = append(all, queuedBlock{of: c, key: key})
	}
	return all, c.readable()
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
	if fn.schedule.expire == 0 || at.IsZero() || !at.Before(now) {
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
	c.agenda.Set(e.key, time.Time{}, c.Len(), time.Time{})
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
