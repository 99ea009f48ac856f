package kafkaio

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// The watermark of a run with a changelog decides what a repeat has to decide alike: which
// observations no longer wait, that a key is silent, that an interval, an incident or a digest is
// over. It depends on the clock, and on how far a batch of records reaches. So it moves in steps, and
// a step is stored before it is used:
//
//   - A step is made if a node waits for it, see account.Run.HasTimerBy, and nothing is in flight. A commit
//     has the watermark beside the states and the offsets. Then the source emits it, and hands nothing
//     over before the nodes have done what it asks for.
//   - A run that resumes emits the stored watermark first. It makes no step before it has come as far
//     as the run before may have come after its last commit: what was written there was written without
//     a step, and so it is again. That is lead offsets, or what the commit says.
//   - What a step has done is settled only when nothing is in flight and no step of the pipeline keeps anything
//     back, as a grouping does. Until then the commit has the last watermark that is settled, and beside it
//     each step since then with the offsets at which it was made. A run that resumes makes these at the
//     same offsets, one after the other.
//   - A timer that records after a step set for a time up to it waits for the next step, see
//     account.Run.NextStep. The commit says if there were such records.

// lead is how many offsets of a partition a run goes beyond its last commit, unless that says more.
// Until a run that resumes has come so far, no key expires.
const lead = 1 << 15

// A stepper is what a ledger knows of the steps of the watermark. Of its fields the source has all,
// and the goroutine that commits sees an order.
type stepper struct {
	at     time.Time        // the watermark of the last step, zero before the first
	resent bool             // the stored one was emitted
	done   bool             // what the last step asks for was done
	when   time.Time        // of the last step
	until  map[string]int64 // by partition, the offset before which the run before may have been
	allows map[string]int64 // by partition, the offset that a commit allows, if that is more than lead
	repeat []pendingStep    // steps of the run before that this one has to make
	orders chan commitOrder
}

// A pendingStep is a step that was made before what came before it was settled.
type pendingStep struct {
	Watermark int64            `json:"watermark"` // in Unix milliseconds
	At        map[string]int64 `json:"at"`        // the offsets of the partitions, by Position.Log

	id string // in the changelog
}

// reached reports whether the partitions have come to where the step was made.
func (m pendingStep) reached(progress []partitionProgress) bool {
	return !slices.ContainsFunc(progress, func(p partitionProgress) bool { return p.Offset < m.At[p.Log()] })
}

// makes notes a step that was made before what came before it was settled. l.mu is locked.
func (l *Ledger) makes(m pendingStep) {
	l.made, l.beyond = append(l.made, m), false
}

// A commitOrder is a commit at once, which says something new.
type commitOrder struct {
	watermark int64            // in Unix milliseconds; 0: as it is
	at        map[string]int64 // the offsets there, by partition
	log       string
	until     int64 // of log, see head.Until; 0: as it is
	done      chan error
}

func (o commitOrder) empty() bool { return o.watermark == 0 && o.until == 0 }

// steps reports whether the watermark moves in steps.
func (l *Ledger) steps() bool { return l != nil && l.owner != nil && !l.cfg.AtEnd }

// step is called by the source before its consumer takes anything. If it reports true, the source takes
// nothing, and emits stepper.at.
func (l *Ledger) step(ctx context.Context, c *consumer) (stepped bool, err error) {
	if !l.steps() {
		return false, nil
	}
	s := &l.stepper
	if !s.resent {
		if s.resent = true; !s.at.IsZero() {
			return true, nil
		}
	}
	if !s.done {
		if s.done, err = l.waitIdle(ctx, func() bool { return !l.account.HasTimerBy(s.at) }); !s.done {
			return false, err
		}
	}
	progress := c.progress()
	repeats := l.repeats(progress)
	if c.until = nil; len(s.repeat) > 0 {
		next := s.repeat[0]
		if c.until = next.At; !next.reached(progress) {
			return false, nil
		}
		if committable, err := l.waitIdle(ctx, func() bool { return true }); !committable {
			return false, err
		}
		s.repeat, c.until = s.repeat[1:], nil
		l.mu.Lock()
		l.dirty = true
		l.makes(next)
		l.mu.Unlock()
		return l.steppedTo(time.UnixMilli(next.Watermark)), nil
	}
	to := c.watermark(time.Now()).Truncate(time.Millisecond) // as watermarks and timers are
	if repeats || !to.After(s.at) || !l.account.HasTimerBy(to) || time.Since(s.when) < commitEvery {
		return false, nil
	}
	if committable, err := l.waitIdle(ctx, func() bool { return true }); !committable {
		return false, err
	}
	o := commitOrder{watermark: to.UnixMilli(), at: map[string]int64{}}
	for _, p := range progress {
		o.at[p.Log()] = p.Offset
	}
	if err := l.order(ctx, o); err != nil {
		return false, err
	}
	return l.steppedTo(to), nil
}

// steppedTo notes a step that was made, for which the source emits its watermark. It returns true.
func (l *Ledger) steppedTo(to time.Time) bool {
	s := &l.stepper
	s.at, s.when, s.done = to, time.Now(), false
	l.account.Advance(to, false)
	return true
}

// waitIdle waits until something holds and nothing is in flight. It reports false if the run ends or
// stops before.
func (l *Ledger) waitIdle(ctx context.Context, holds func() bool) (bool, error) {
	var pause <-chan time.Time
	for idle := l.account.Idle(); ; {
		select {
		case <-idle:
			if holds() && l.idle() {
				return true, nil
			}
			idle, pause = nil, time.After(time.Millisecond)
		case <-pause:
			idle, pause = l.account.Idle(), nil
		case <-l.account.Stopped():
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-l.ctx.Done():
			return false, errClosed
		}
	}
}

// repeats reports whether the run before may have come farther than this one.
func (l *Ledger) repeats(progress []partitionProgress) (repeats bool) {
	for _, p := range progress {
		until, known := l.stepper.until[p.Log()]
		if !known {
			until = max(p.Offset+lead, l.stepper.allows[p.Log()])
			l.stepper.until[p.Log()] = until
		}
		repeats = repeats || p.Offset < until && (p.High < 0 || p.Offset < p.High)
	}
	return repeats
}

// allow is called before records of a partition are taken, with the offset after them. If they are too
// far from the last commit, another one says so first.
func (l *Ledger) allow(ctx context.Context, at Position) error {
	if !l.steps() {
		return nil
	}
	log, s := at.Log(), &l.stepper
	l.mu.Lock()
	last, stored := l.stored[log]
	l.mu.Unlock()
	from := last.Offset
	if !stored {
		from = s.until[log] - lead // where it began, at least
	}
	if at.Offset <= max(from+lead, s.allows[log]) {
		return nil
	}
	until := at.Offset + lead // not before each batch
	if err := l.order(ctx, commitOrder{log: log, until: until}); err != nil {
		return err
	}
	s.allows[log] = until
	return nil
}

// order has the goroutine that commits do it now.
func (l *Ledger) order(ctx context.Context, o commitOrder) error {
	o.done = make(chan error, 1)
	select {
	case l.stepper.orders <- o:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return l.reportError(errClosed)
	}
	select {
	case err := <-o.done:
		return l.reportError(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reportError returns the error of a commit, or else err, and notes that the source has it.
func (l *Ledger) reportError(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = cmp.Or(l.err, err)
	l.errReported = l.errReported || err != nil
	return err
}
