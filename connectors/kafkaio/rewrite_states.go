package kafkaio

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"
)

// RewriteStates changes states in a changelog between two runs. It calls change with the states of the changelog,
// ordered by position. change returns the new states by key; nil deletes the state of a key. All changes are stored in
// one transaction, or none. The group's offsets do not change.
//
// RewriteStates fails if the last run has not recorded its end in the changelog: becoming the owner, which writing
// requires, would end that run. A run that was killed has not recorded its end.
func (client *Client) RewriteStates(ctx context.Context, changelog string, log *slog.Logger, change func([]StoredState) (map[string][]byte, error)) error {
	l := &Ledger{cfg: LedgerConfig{Client: client, Changelog: changelog, Log: log}, run: newIdentity()}
	defer func() {
		if l.owner != nil {
			l.owner.close()
		}
	}()
	var changed map[string][]byte
	for begun := time.Now(); ; {
		before, err := l.changelogEnds(ctx, true)
		if err != nil {
			return err
		}
		s, err := readStored(ctx, client, changelog, nil, log)
		if err != nil {
			return err
		}
		if err := s.check(changelog); err != nil {
			return &ResumeError{err}
		}
		l.head, l.parts = s.head, s.parts
		if err := l.refuseUnfinished(); err != nil {
			return err
		}
		if err := l.refuseRunning(); err != nil {
			// The end of a run becomes visible a moment after the run.
			if time.Since(begun) < answerTime && l.otherOwnerActive(ctx, before) {
				continue
			}
			return err
		}
		if changed, err = change(byPosition(changelog, &s.states)); err != nil || len(changed) == 0 {
			return err
		}
		if l.owner == nil {
			batch, err := l.largestBatch(ctx)
			if err != nil {
				return err
			}
			now, err := l.changelogEnds(ctx, true)
			if err != nil {
				return err
			}
			if !maps.Equal(before, now) {
				continue // a run may have started meanwhile: do not end it either
			}
			if l.owner, err = takeOwnership(ctx, client.cluster, changelog, "", int32(batch)); err != nil {
				return err
			}
		}
		after, err := l.changelogEnds(ctx, true)
		if err != nil {
			return err
		}
		if maps.Equal(before, after) {
			break // otherwise a run has started meanwhile, or an open transaction was aborted
		}
	}
	l.head.Run = &l.run // head.Ended stays true: no run continues after this commit
	return l.commitOwned(ctx, l.entries(changed), nil)
}

// refuseRunning returns an error if the last run has not recorded its end.
func (l *Ledger) refuseRunning() error {
	if l.head.Ended {
		return nil
	}
	owner := "a run"
	if l.head.Run != nil {
		owner = l.head.Run.String()
	}
	return fmt.Errorf("the changelog %s is in use: %s has not ended; stop it first, and start it again afterwards; if it was killed, start and stop it once more, so that it records its end in the changelog", l.cfg.Changelog, owner)
}

// A run tries for endTime to record its end in the changelog. A failed run tries for failedTime, because its brokers
// may be away. A failed run that was also stopped tries for stuckTime.
const (
	endTime    = 30 * time.Second
	failedTime = 5 * time.Second
	stuckTime  = time.Second
)

// markEnded records in the changelog that the run has ended. If a commit has failed, it does nothing: another run may
// own the changelog.
func (l *Ledger) markEnded(ctx context.Context, well bool) {
	if l.owner == nil || l.owner.err != nil || l.head.Ended {
		return
	}
	within := endTime
	if !well {
		ctx, within = context.WithoutCancel(ctx), failedTime // a cancelled ctx may be the reason of the failure
		if l.account.IsStopped() {
			within = stuckTime // Stop has already waited for an output
		}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	l.head.Ended = true
	if err := l.commitOwned(ctx, func(*commitEntries) {}, nil); err != nil {
		l.cfg.Log.Warn("the end of this run could not be recorded in the changelog: its states can be changed by hand after another run has ended", "changelog", l.cfg.Changelog, "error", err)
	}
}
