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
	watermark     time.Time        // of the last step; zero before the first
	resent        bool             // the stored watermark was emitted
	done          bool             // the last step was processed
	steppedAt     time.Time        // time at which the last step was made
	previousUntil map[string]int64 // by partition, the offset before which the previous run may have read
	allowedUntil  map[string]int64 // by partition, an offset that a commit allows beyond lead
	repeat        []pendingStep    // steps of the previous run that this run has to repeat
	requests      chan commitRequest
}

// A pendingStep is a step that was made before the records before it were settled.
type pendingStep struct {
	Watermark int64            `json:"watermark"` // in Unix milliseconds
	Offsets   map[string]int64 `json:"at"`        // of the partitions, by Position.Log

	id string // its ID in the changelog
}

// reached reports whether the partitions have reached the offsets of the step.
func (step pendingStep) reached(progress []partitionProgress) bool {
	return !slices.ContainsFunc(progress, func(p partitionProgress) bool { return p.Offset < step.Offsets[p.Log()] })
}

// addPendingStep records a step that is not settled. The caller holds l.mu.
func (l *Ledger) addPendingStep(step pendingStep) {
	l.pendingSteps, l.beyondStep = append(l.pendingSteps, step), false
}

// A commitRequest asks for an immediate commit with additional content.
type commitRequest struct {
	watermark int64            // in Unix milliseconds; 0 for no step
	offsets   map[string]int64 // offsets of the step, by partition
	log       string
	until     int64 // new changelogHead.Until of log; 0 for no change
	done      chan error
}

func (req commitRequest) empty() bool { return req.watermark == 0 && req.until == 0 }

// stepsWatermark reports whether the watermark moves in steps.
func (l *Ledger) stepsWatermark() bool { return l != nil && l.owner != nil && !l.cfg.CommitAtEnd }

// step makes the next step if one is due. The source calls it before its consumer takes records. If step reports true,
// the source takes nothing and emits stepper.watermark.
func (l *Ledger) step(ctx context.Context, c *consumer) (stepped bool, err error) {
	if !l.stepsWatermark() {
		return false, nil
	}
	s := &l.stepper
	if !s.resent {
		if s.resent = true; !s.watermark.IsZero() {
			return true, nil
		}
	}
	if !s.done {
		if s.done, err = l.waitIdle(ctx, func() bool { return !l.account.HasTimerBy(s.watermark) }); !s.done {
			return false, err
		}
	}
	progress := c.progress()
	mayRepeat := l.mayRepeat(progress)
	if c.until = nil; len(s.repeat) > 0 {
		next := s.repeat[0]
		if c.until = next.Offsets; !next.reached(progress) {
			return false, nil
		}
		if committable, err := l.waitIdle(ctx, func() bool { return true }); !committable {
			return false, err
		}
		s.repeat, c.until = s.repeat[1:], nil
		l.mu.Lock()
		l.dirty = true
		l.addPendingStep(next)
		l.mu.Unlock()
		return l.recordStep(time.UnixMilli(next.Watermark)), nil
	}
	target := c.watermark(time.Now()).Truncate(time.Millisecond) // watermarks and timers are in milliseconds
	if mayRepeat || !target.After(s.watermark) || !l.account.HasTimerBy(target) || time.Since(s.steppedAt) < commitEvery {
		return false, nil
	}
	if committable, err := l.waitIdle(ctx, func() bool { return true }); !committable {
		return false, err
	}
	req := commitRequest{watermark: target.UnixMilli(), offsets: map[string]int64{}}
	for _, p := range progress {
		req.offsets[p.Log()] = p.Offset
	}
	if err := l.requestCommit(ctx, req); err != nil {
		return false, err
	}
	return l.recordStep(target), nil
}

// recordStep records a step, after which the source emits its watermark. It returns true.
func (l *Ledger) recordStep(watermark time.Time) bool {
	s := &l.stepper
	s.watermark, s.steppedAt, s.done = watermark, time.Now(), false
	l.account.Advance(watermark, false)
	return true
}

// waitIdle waits until condition is true and nothing is in flight. It reports false if the run ends or stops first.
func (l *Ledger) waitIdle(ctx context.Context, condition func() bool) (bool, error) {
	var pause <-chan time.Time
	for idle := l.account.Idle(); ; {
		select {
		case <-idle:
			if condition() && l.idle() {
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
func (l *Ledger) mayRepeat(progress []partitionProgress) (mayRepeat bool) {
	for _, p := range progress {
		until, known := l.stepper.previousUntil[p.Log()]
		if !known {
			until = max(p.Offset+lead, l.stepper.allowedUntil[p.Log()])
			l.stepper.previousUntil[p.Log()] = until
		}
		mayRepeat = mayRepeat || p.Offset < until && (p.High < 0 || p.Offset < p.High)
	}
	return mayRepeat
}

// allow is called before records of a partition are taken. next is the position after them. If next is too far after
// the last commit, allow first commits a new limit.
func (l *Ledger) allow(ctx context.Context, next Position) error {
	if !l.stepsWatermark() {
		return nil
	}
	log, s := next.Log(), &l.stepper
	l.mu.Lock()
	last, stored := l.committed[log]
	l.mu.Unlock()
	base := last.Offset
	if !stored {
		base = s.previousUntil[log] - lead // at least the offset where this run started
	}
	if next.Offset <= max(base+lead, s.allowedUntil[log]) {
		return nil
	}
	until := next.Offset + lead // additional room, to avoid a commit for each batch
	if err := l.requestCommit(ctx, commitRequest{log: log, until: until}); err != nil {
		return err
	}
	s.allowedUntil[log] = until
	return nil
}

// requestCommit makes the committing goroutine commit now, and returns its error.
func (l *Ledger) requestCommit(ctx context.Context, req commitRequest) error {
	req.done = make(chan error, 1)
	select {
	case l.stepper.requests <- req:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return l.reportError(errClosed)
	}
	select {
	case err := <-req.done:
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
