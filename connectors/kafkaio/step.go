package kafkaio

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// The watermark of a run with a changelog decides which observations no longer wait, that a key is silent, and that an
// interval, an incident or a digest has ended. A run that repeats records must decide the same. But the watermark
// depends on the clock, and on how many records a batch holds. Therefore it moves in steps, and each step is stored
// before it is used:
//
//   - A step is made if a node has a timer for it (account.Run.HasTimerBy) and nothing is in flight. A commit stores
//     the watermark with the states and the offsets. Then the source emits the watermark, and hands over nothing until
//     the nodes have processed it.
//   - A run that resumes emits the stored watermark first. It makes no new step until it reaches the offset that the
//     previous run may have reached after its last commit: those outputs were written without a step, and are repeated
//     without one. That offset is the committed one plus lead, or the one that the commit names.
//   - The effects of a step are settled only when nothing is in flight and no step of the pipeline buffers results, as
//     a grouping does. Until then the commits contain the last settled watermark, and each later step with its
//     offsets. A run that resumes makes these steps at the same offsets, one after the other.
//   - If records were handed over after a step, a timer that they set for a time before the step waits for the next
//     step (account.Run.NextStep). The commit stores whether there were such records.

// lead is the number of offsets by which a run may pass its last commit in a partition, unless the commit allows more.
// Until a run that resumes has read that far, it makes no new step, and so no key expires.
const lead = 1 << 15

// A stepper is the part of a ledger that makes the steps. Its fields belong to the source. The goroutine that commits
// only receives requests.
type stepper struct {
	at     time.Time        // of the last step; zero before the first
	resent bool             // the stored watermark was emitted
	done   bool             // the last step was processed
	when   time.Time        // time at which the last step was made
	until  map[string]int64 // by partition, the offset before which the previous run may have read
	allows map[string]int64 // by partition, an offset that a commit allows beyond lead
	repeat []pendingStep    // steps of the previous run that this run has to repeat
	orders chan commitOrder
}

// A pendingStep is a step that was made before the records before it were settled.
type pendingStep struct {
	Watermark int64            `json:"watermark"` // in Unix milliseconds
	At        map[string]int64 `json:"at"`        // of the partitions, by Position.Log

	id string // its ID in the changelog
}

// reached reports whether the partitions have reached the offsets of the step.
func (m pendingStep) reached(progress []partitionProgress) bool {
	return !slices.ContainsFunc(progress, func(p partitionProgress) bool { return p.Offset < m.At[p.Log()] })
}

// addPendingStep records a step that is not settled. The caller holds l.mu.
func (l *Ledger) makes(m pendingStep) {
	l.made, l.beyond = append(l.made, m), false
}

// A commitRequest asks for an immediate commit with additional content.
type commitOrder struct {
	watermark int64            // in Unix milliseconds; 0 for no step
	at        map[string]int64 // offsets of the step, by partition
	log       string
	until     int64 // new changelogHead.Until of log; 0 for no change
	done      chan error
}

func (o commitOrder) empty() bool { return o.watermark == 0 && o.until == 0 }

// stepsWatermark reports whether the watermark moves in steps.
func (l *Ledger) steps() bool { return l != nil && l.owner != nil && !l.cfg.AtEnd }

// step makes the next step if one is due. The source calls it before its consumer takes records. If step reports true,
// the source takes nothing and emits stepper.watermark.
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
	to := c.watermark(time.Now()).Truncate(time.Millisecond) // watermarks and timers are in milliseconds
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

// recordStep records a step, after which the source emits its watermark. It returns true.
func (l *Ledger) steppedTo(to time.Time) bool {
	s := &l.stepper
	s.at, s.when, s.done = to, time.Now(), false
	l.account.Advance(to, false)
	return true
}

// waitIdle waits until condition is true and nothing is in flight. It reports false if the run ends or stops first.
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

// mayRepeat reports whether the previous run may have read further than this one.
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

// allow is called before records of a partition are taken. next is the position after them. If next is too far after
// the last commit, allow first commits a new limit.
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
		from = s.until[log] - lead // at least the offset where this run started
	}
	if at.Offset <= max(from+lead, s.allows[log]) {
		return nil
	}
	until := at.Offset + lead // additional room, to avoid a commit for each batch
	if err := l.order(ctx, commitOrder{log: log, until: until}); err != nil {
		return err
	}
	s.allows[log] = until
	return nil
}

// requestCommit makes the committing goroutine commit now, and returns its error.
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

// reportError returns the error of an earlier commit, or else err. It marks the error as returned to the source.
func (l *Ledger) reportError(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = cmp.Or(l.err, err)
	l.errReported = l.errReported || err != nil
	return err
}
