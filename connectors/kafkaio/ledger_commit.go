package kafkaio

import (
	"context"
	"fmt"
	"maps"
	"time"

	"hafvf/internal/account"
	"hafvf/internal/jsontext"
)

// setProcessed records the positions of the partitions when nothing is in flight.
func (l *Ledger) setProcessed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.processed, l.handedOver)
}

// setCommittable records states and positions when nothing is in flight and no step buffers results. start is the time
// since which something was in flight, zero if nothing was.
func (l *Ledger) setCommittable(states map[string]account.EncodedState, start time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !start.IsZero() {
		l.stage("process", start)
	}
	for key, s := range states {
		if len(s.Waiting) > 0 {
			l.waiting[key] = s.Waiting
		} else {
			delete(l.waiting, key)
		}
		if l.owner != nil || l.cfg.History {
			l.ready[key] = s.State
		}
	}
	l.committableBeyondStep, l.dirty = l.beyondStep, false
	for _, step := range l.pendingSteps {
		l.watermark, l.oldSteps = step.Watermark, append(l.oldSteps, step.id)
	}
	l.pendingSteps = nil
	maps.Copy(l.committable, l.handedOver)
}

// commitLoop commits every commitEvery, and on request, until the ledger is closed.
func (l *Ledger) commitLoop() {
	defer close(l.done)
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !l.cfg.CommitAtEnd && !l.tryCommit(commitRequest{}) {
				return
			}
		case req := <-l.stepper.requests:
			if !l.tryCommit(req) {
				return
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// commitNow commits what setCommittable has recorded. It does nothing without a changelog, or with CommitAtEnd.
func (l *Ledger) commitNow() error {
	if l.owner == nil || l.cfg.CommitAtEnd {
		return nil
	}
	return l.requestCommit(context.Background(), commitRequest{}) // ends when the ledger is closed
}

// tryCommit commits, and reports whether later commits are possible.
func (l *Ledger) tryCommit(req commitRequest) bool {
	err := l.commit(l.commits, req)
	if req.done != nil {
		req.done <- err
	}
	if err == nil || l.commits.Err() != nil {
		return true
	}
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	return false
}

// A commitment is the content of one commit.
type commitment struct {
	states, values  map[string][]byte // values of StoreValue are in values
	offsets         map[string]partitionProgress
	step            *pendingStep // nil for none
	oldSteps        []string     // to delete
	watermark       int64        // for the head, like beyond
	beyond          bool
	allOffsets      bool  // commits all offsets, changed or not
	writes          bool  // writes to the changelog even without changes
	watermarkBefore int64 // of the ledger, for restoreUncommitted
}

func (c *commitment) empty() bool {
	return len(c.states) == 0 && len(c.values) == 0 && len(c.offsets) == 0 && len(c.oldSteps) == 0 && !c.writes
}

// commit stores, after the outputs, the states that are ready, the offsets, and the changes that req asks for. It
// fails if another run has become the owner.
func (l *Ledger) commit(ctx context.Context, req commitRequest) error {
	if l.cfg.History {
		return nil
	}
	start := time.Now()
	c := l.gather(req, start)
	if c.empty() {
		return nil
	}
	defer l.stage("commit", start)
	err := l.checkGroup(ctx)
	if err == nil && l.cfg.Sync != nil {
		err = l.cfg.Sync()
	}
	if err == nil && len(l.initialStates) > 0 {
		for key := range c.states {
			delete(l.initialStates, key)
		}
		if err = l.storeInPortions(ctx, l.initialStates); err == nil {
			l.initialStates, l.head.Unfinished = nil, ""
		}
	}
	if err == nil {
		err = l.store(ctx, c, req)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.restoreUncommitted(c, req)
		return err
	}
	for id, value := range c.values {
		if l.storedIDs[id] = true; value == nil {
			delete(l.storedIDs, id)
		}
	}
	maps.Copy(l.committed, c.offsets)
	if c.allOffsets {
		l.renewed = start
	}
	return nil
}

// gather collects the content of the next commit, with the changes that req asks for.
func (l *Ledger) gather(req commitRequest, now time.Time) *commitment {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &commitment{states: l.ready, values: l.pendingValues, watermarkBefore: l.watermark, allOffsets: now.Sub(l.renewed) >= renewEvery}
	l.ready, l.pendingValues = map[string][]byte{}, map[string][]byte{}
	switch {
	case req.watermark == 0:
	case l.dirty:
		c.step = &pendingStep{Watermark: req.watermark, Offsets: req.offsets, id: fmt.Sprintf("%016x", l.head.Commit+1)}
		l.addPendingStep(*c.step)
	default:
		l.watermark, l.beyondStep, l.committableBeyondStep, l.dirty = req.watermark, false, false, true
	}
	c.watermark, c.beyond = l.watermark, l.committableBeyondStep
	c.oldSteps, l.oldSteps = l.oldSteps, nil
	c.offsets, c.writes = l.offsets(c.allOffsets), (c.allOffsets || !req.empty()) && l.owner != nil
	return c
}

// restoreUncommitted makes the content of a failed commit pending again. Newer values win.
func (l *Ledger) restoreUncommitted(c *commitment, req commitRequest) {
	maps.Copy(c.states, l.ready)
	maps.Copy(c.values, l.pendingValues)
	l.ready, l.pendingValues, l.oldSteps = c.states, c.values, append(c.oldSteps, l.oldSteps...)
	if req.watermark != 0 && c.step == nil {
		l.watermark = c.watermarkBefore
	}
}

// store writes the commitment to the changelog and the group. If this fails, store resets the fields of the head that
// describe states and offsets: they must not reach the changelog when the run ends. Without a changelog, nothing
// fences a run that another run has replaced. Such a run moves offsets, which repeats records, but it has no states to
// damage.
func (l *Ledger) store(ctx context.Context, c *commitment, req commitRequest) (err error) {
	defer func(prev changelogHead) {
		if err != nil {
			l.head.Watermark, l.head.Beyond, l.head.Until = prev.Watermark, prev.Beyond, prev.Until
		}
	}(l.head)
	l.head.Watermark, l.head.Beyond, l.head.Until = c.watermark, c.beyond, maps.Clone(l.head.Until)
	maps.DeleteFunc(l.head.Until, func(log string, until int64) bool { return c.offsets[log].Offset >= until })
	if req.until != 0 {
		if l.head.Until == nil {
			l.head.Until = map[string]int64{}
		}
		l.head.Until[req.log] = req.until
	}
	notes := map[string]partitionProgress{}
	if l.cfg.Group != "" {
		for log, p := range c.offsets {
			t := l.topics[p.Topic]
			n := note{identity: l.run, Topic: t.id, Epoch: t.epochs[p.Partition], Changelog: l.head.ID, pace: p.pace}
			if l.owner != nil {
				n.Commit = l.head.Commit + 1
			}
			p.metadata = jsontext.Of(n)
			notes[log] = p
		}
	}
	switch {
	case len(c.states) == 0 && len(c.values) == 0 && len(notes) == 0 && len(c.oldSteps) == 0 && !c.writes:
		return nil
	case l.owner == nil:
		return l.persist(ctx, "committed", func(ctx context.Context) error { return l.cfg.Client.commit(ctx, l.cfg.Group, notes) })
	}
	return l.commitOwned(ctx, func(e *commitEntries) {
		for id, value := range c.values {
			e.putOwn(outputKeyPrefix+id, value)
		}
		for log, p := range c.offsets {
			e.putOwn(paceKey+log, []byte(jsontext.Of(p.pace)))
		}
		for _, id := range c.oldSteps {
			e.putOwn(stepKey+id, nil)
		}
		if c.step != nil {
			e.putOwn(stepKey+c.step.id, []byte(jsontext.Of(c.step)))
		}
		l.entries(c.states)(e)
	}, notes)
}

// offsets returns the offsets to commit: the results of all records before them are stored. Without a changelog, no
// offset is after a record that is still waiting. Unchanged offsets are left out unless unchanged is set.
func (l *Ledger) offsets(unchanged bool) map[string]partitionProgress {
	changed := maps.Clone(l.committable)
	if l.owner == nil {
		for _, offsets := range l.waiting {
			for _, w := range offsets {
				if p, ok := changed[w.Log]; ok && w.Seq < p.Offset {
					p.Offset = w.Seq
					changed[w.Log] = p
				}
			}
		}
	}
	if !unchanged {
		maps.DeleteFunc(changed, func(log string, p partitionProgress) bool {
			prev, ok := l.committed[log]
			return ok && prev.Offset == p.Offset
		})
	}
	return changed
}
