package kafkaio

import (
	"cmp"
	"context"
	"time"
)

// The watermark of a run with a changelog decides what a repeat has to decide alike: which
// observations no longer wait, that a key is silent, that an interval, an incident or a digest is
// over. It depends on the clock, and on how far a batch of records reaches. So it moves in steps, and
// a step is stored before it is used:
//
//   - A step is made if a node waits for it, see account.Run.Await, and nothing is in flight. A commit
//     has the watermark beside the states and the offsets. Then the source emits it, and hands nothing
//     over before the nodes have done what it asks for.
//   - A run that resumes emits the stored watermark first. It makes no step before it has come as far
//     as the run before may have come after its last commit, which is lead offsets at most: what was
//     written there was written without a step, and so it is again.

// lead is how many offsets of a partition a run goes beyond its last commit.
const lead = 1 << 17

// A stepper is what a ledger knows of the steps of the watermark. Of its fields the source has all,
// and the goroutine that commits sees an order.
type stepper struct {
	at     time.Time        // the watermark of the last step, zero before the first
	resent bool             // the stored one was emitted
	when   time.Time        // of the last step
	until  map[string]int64 // by partition, the offset before which the run before may have been
	orders chan order
}

// An order is a commit at once, with a watermark in Unix milliseconds; 0: as it is.
type order struct {
	watermark int64
	done      chan error
}

// steps reports whether the watermark moves in steps.
func (l *Ledger) steps() bool { return l != nil && l.owner != nil && !l.cfg.AtEnd }

// step is called by the source before it takes anything, with the watermark that its records and the
// clock show, and where it is. If it reports true, the source takes nothing, and emits stepper.at.
func (l *Ledger) step(ctx context.Context, to time.Time, progress []Progress) (stepped bool, err error) {
	if !l.steps() {
		return false, nil
	}
	s := &l.stepper
	if !s.resent {
		s.resent = true
		return !s.at.IsZero(), nil
	}
	for l.account.Awaits(s.at) || !l.idle() {
		select {
		case <-time.After(time.Millisecond):
		case <-l.account.Stopped():
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-l.ctx.Done():
			return false, errClosed
		}
	}
	to = to.Truncate(time.Millisecond) // as watermarks and timers are
	if l.repeats(progress) || !to.After(s.at) || !l.account.Awaits(to) || time.Since(s.when) < commitEvery {
		return false, nil
	}
	if err := l.order(ctx, to.UnixMilli()); err != nil {
		return false, err
	}
	s.at, s.when = to, time.Now()
	l.account.Advance(to)
	return true, nil
}

// repeats reports whether the run before may have come farther than this one.
func (l *Ledger) repeats(progress []Progress) (repeats bool) {
	for _, p := range progress {
		until, known := l.stepper.until[p.Log()]
		if !known {
			until = p.Offset + lead
			l.stepper.until[p.Log()] = until
		}
		repeats = repeats || p.Offset < until && (p.High < 0 || p.Offset < p.High)
	}
	return repeats
}

// allow is called before records of a partition are taken, with the offset after them. It commits if
// they are too far from the last commit.
func (l *Ledger) allow(ctx context.Context, at Position) error {
	if !l.steps() {
		return nil
	}
	l.mu.Lock()
	from, stored := l.stored[at.Log()]
	if !stored {
		from = l.stepper.until[at.Log()] - lead
	}
	l.mu.Unlock()
	if at.Offset <= from+lead {
		return nil
	}
	return l.order(ctx, 0)
}

// order has the goroutine that commits do it now.
func (l *Ledger) order(ctx context.Context, watermark int64) error {
	o := order{watermark, make(chan error, 1)}
	select {
	case l.stepper.orders <- o:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.told = true
		return cmp.Or(l.err, errClosed)
	}
	select {
	case err := <-o.done:
		if err != nil {
			l.mu.Lock()
			l.told = true
			l.mu.Unlock()
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
