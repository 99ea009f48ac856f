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

// Tags of a cell's timers: for the key that must be checked next, for the last waiting observation, and for the end
// of the input. A timer may be too early, but is never late.
const timerTag, lastTag, endTag = "look", "last", "end"

// buildAgenda builds the agenda of a cell, unless it covers the watermark.
func (fn *encodeFn) buildAgenda(c *openCell, watermark time.Time) error {
	if c.agenda.Covers(watermark) {
		return nil
	}
	c.agenda = agenda{first: map[string]time.Time{}}
	n, w := c.Len(), fn.workers[0]
	for key, b := range c.All() {
		if fn.keys[key] != nil {
			continue
		}
		firstWaiting, last := keyed.StateBytes(b).Waiting()
		deadline, err := w.Deadline(key, b)
		if fn.schedule.silences && errors.Is(err, keyed.ErrOtherConfig) || errors.Is(err, keyed.ErrNewer) {
			return fmt.Errorf("state %q: key %q: %w", c.name, key, err)
		}
		c.agenda.Set(key, fn.schedule.keyDue(firstWaiting, deadline, w.Expiry(b), c.lastCheck), n, watermark)
		c.last = clock.Later(c.last, last)
	}
	for _, e := range c.order {
		if fn.keys[e.key] == e { // otherwise it was dropped
			fn.updateAgenda(e, watermark)
		}
	}
	return c.readable()
}

// updateAgenda sets the time at which an open key must be checked again, if its cell has an agenda.
func (fn *encodeFn) updateAgenda(e *openKey, watermark time.Time) {
	if e.cell.agenda.first == nil {
		return
	}
	firstWaiting, _ := e.Waiting()
	e.cell.agenda.Set(e.key, fn.schedule.keyDue(firstWaiting, e.Deadline(), e.Expiry(), e.cell.lastCheck), e.cell.Len(), watermark)
}

// setTimers sets the timers of a cell that gets a block. The exact time for the block's key is known only after the
// block is processed. Until then, all its observations may wait, and the key may become silent at its first
// observation. If processing shows a later time, the timer is early.
func (fn *encodeFn) setTimers(tp timers.Provider, b queuedBlock, times waitSpan) error {
	c, w := b.cell, fn.workers[0]
	if fn.schedule.silences || fn.schedule.waits {
		if err := fn.read(); err != nil {
			return err
		}
		if err := fn.buildAgenda(c, time.Time{}); err != nil {
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
	if fn.schedule.silences && !fn.deadline(c, b.key).After(times.first) {
		silent = times.first
		c.agenda.Set(b.key, silent, c.Len(), time.Time{})
	}
	due := fn.schedule.blockDue(times.first, w.IntervalEnd(times.first), silent, fn.lastCheck, time.Now())
	// If set is long past, the timer may have fired in another instance of the node.
	set, known := fn.timersSet[c.name]
	if !known || due.Before(set) || fn.memory == nil && fn.schedule.expire > 0 && times.first.After(set.Add(fn.schedule.expire)) {
		fn.setTimer(tp, c.name, due)
	}
	return nil
}

// deadline returns the time at which a key of a cell becomes silent; zero if it is not known.
func (fn *encodeFn) deadline(c *openCell, key string) (t time.Time) {
	if e := fn.keys[key]; e != nil {
		return e.Deadline()
	}
	if b := c.Get(key); b != nil {
		t, _ = fn.workers[0].Deadline(key, b)
	}
	return t
}

// setTimer sets the timer for the next check of a cell, unless t is zero.
func (fn *encodeFn) setTimer(tp timers.Provider, cell string, t time.Time) {
	if !t.IsZero() {
		fn.set(tp, cell, t, timerTag)
		fn.timersSet[cell] = t
	}
}

// setEndTimer sets the timer of a cell for the end of the input.
func (fn *encodeFn) setEndTimer(tp timers.Provider) {
	fn.Due.Set(tp, mtime.EndOfGlobalWindowTime.ToTime(), timers.WithTag(endTag))
}

// set sets a timer of the current cell.
func (fn *encodeFn) set(tp timers.Provider, cell string, t time.Time, tag string) {
	fn.Due.Set(tp, fn.account.NextStep(wholeMillis(t)), timers.WithTag(tag))
}

// wholeMillis rounds t up to a millisecond: timers have milliseconds, and must not be too early.
func wholeMillis(t time.Time) time.Time {
	return t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// resume sets the timers of a cell of the previous run.
func (fn *encodeFn) resume(tp timers.Provider, c *openCell) error {
	if fn.memory == nil {
		return nil // the runner has stored them
	}
	if fn.cfg.AtEnd {
		fn.setEndTimer(tp)
	}
	if err := fn.buildAgenda(c, time.Time{}); err != nil {
		return err
	}
	fn.setTimer(tp, c.name, c.agenda.Next())
	if fn.schedule.waits && !c.last.IsZero() {
		fn.set(tp, c.name, c.last.Add(fn.schedule.patience), lastTag)
	}
	return nil
}

// OnTimer checks the keys of a cell when a timer fires. It releases the observations that the watermark has passed,
// reports silent keys, and forgets expired ones.
func (fn *encodeFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, cell string, timer timers.Context, _, _ func([]byte), _ func(keyed.Rejected)) error {
	ends, stopped, aggregates := timer.Tag == endTag, fn.account.IsStopped(), fn.cfg.Aggregate != nil
	switch {
	case fn.account.Suspended(): // asked after IsStopped: a suspended run's input does not end
		return nil
	case ends && stopped && !aggregates && !fn.cfg.IgnoresWatermark:
		return nil // the run was stopped, which makes no key silent
	}
	c := fn.cellOf(cell, sp)
	if err := fn.drain(); err != nil { // reads the cell
		return err
	}
	now := clock.Later(ts.ToTime(), fn.account.Watermark()) // process all that the watermark has passed
	horizon := now.Add(-fn.schedule.patience)
	if ends {
		now = fn.account.Latest()
	}
	due, err := fn.due(c, now, ends)
	if err != nil {
		return err
	}
	if !ends {
		fn.lastCheck, c.lastCheck = clock.Later(fn.lastCheck, now), clock.Later(c.lastCheck, now) // all keys that are due at now are known
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
			case stopped: // the input ends there: nothing is known about the time after it
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
			// Intervals without events continue after a silence that is not reported. For an input without an end,
			// a timer does this.
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
				fn.updateAgenda(e, time.Time{})
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

// due returns the keys of a cell that are due at now, sorted so that the output order is fixed. At the end of the
// input, these are the keys with waiting observations and the keys that are silent at now; with intervals, all
// keys.
func (fn *encodeFn) due(c *openCell, now time.Time, ends bool) (blocks []queuedBlock, err error) {
	var due []string
	if ends {
		for key, b := range c.All() {
			if fn.keys[key] != nil {
				continue
			}
			firstWaiting, _ := keyed.StateBytes(b).Waiting()
			deadline, _ := fn.workers[0].Deadline(key, b)
			if fn.cfg.Aggregate != nil || !firstWaiting.IsZero() || !deadline.IsZero() && !deadline.After(now) {
				due = append(due, key)
			}
		}
		for _, e := range c.order {
			if fn.keys[e.key] == e { // otherwise it was dropped
				due = append(due, e.key)
			}
		}
	} else {
		if err := fn.buildAgenda(c, now); err != nil {
			return nil, err
		}
		due = c.agenda.Due(now)
	}
	slices.Sort(due)
	for _, key := range due {
		blocks = append(blocks, queuedBlock{cell: c, key: key})
	}
	return blocks, c.readable()
}

// emitSilence reports a key that is silent at now.
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

// expired reports whether a key has expired, according to the times that its logs have passed, or to the watermark
// if the run does not know these. A watermark that follows the clock may pass times that the logs have not passed.
func (fn *encodeFn) expired(e *openKey, now time.Time) bool {
	expiry := e.Expiry()
	if fn.schedule.expire == 0 || expiry.IsZero() || !expiry.Before(now) {
		return false
	}
	for _, p := range e.IncludedOffsets() {
		if passed, known := fn.account.LogTime(p.Log); known && !passed.After(expiry) {
			return false
		}
	}
	return true
}

// drop forgets an expired key. If another observation of it follows in this bundle, the key is reset. All keys of a
// topic may expire in one bundle, so drop frees their decoded states at once.
func (fn *encodeFn) drop(c *openCell, e *openKey) {
	w := fn.workers[0]
	w.encoder.Forgotten(&w.encoded, e.key)
	fn.put(w.encoded, Encoded{}, w.encoded)
	fn.flush()
	fn.report.Counts.ExpiredKeys++
	c.Put(e.key, nil)
	delete(fn.keys, e.key)
	c.agenda.Set(e.key, time.Time{}, c.Len(), time.Time{})
	e.forgotten, e.KeyState = true, keyed.KeyState{}
}

// resumeFn calls the cells whose states a run takes over, so that they set their timers. Its input is an impulse:
// the source waits until the timers are set, see package account.
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
