package kafkaio

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"
)

// AmendStates changes states in a changelog between two runs. change is given what the changelog holds,
// by positions, and returns what is to be stored instead, by key; nil deletes the state of a key.
// All of it is stored in one transaction, or nothing. The group's offsets stay.
//
// AmendStates refuses a changelog whose run has not ended, and does not disturb that run: to own the
// changelog, as whoever writes to it has to, would end it. A run that was killed could not say
// that it has ended.
func (client *Client) AmendStates(ctx context.Context, changelog string, log *slog.Logger, change func([]StoredState) (map[string][]byte, error)) error {
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
			// That a run has ended shows a moment after the run.
			if time.Since(begun) < answerTime && l.moves(ctx, before) {
				continue
			}
			return err
		}
		if changed, err = change(inOrder(changelog, &s.states)); err != nil || len(changed) == 0 {
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
				continue // a run that has started since is not to be disturbed either
			}
			if l.owner, err = own(ctx, client.cluster, changelog, "", int32(batch)); err != nil {
				return err
			}
		}
		after, err := l.changelogEnds(ctx, true)
		if err != nil {
			return err
		}
		if maps.Equal(before, after) {
			break // else a run has come meanwhile, or an open transaction was aborted
		}
	}
	l.head.Run = &l.run // and it has ended when this is stored
	return l.commitOwned(ctx, l.entries(changed), nil)
}

// refuseRunning refuses a changelog whose run has not ended.
func (l *Ledger) refuseRunning() error {
	if l.head.Ended {
		return nil
	}
	of := "a run"
	if l.head.Run != nil {
		of = l.head.Run.String()
	}
	return fmt.Errorf("the changelog %s is in use: %s has not ended; stop it first, and start it again afterwards; if it was killed, start it once more and stop it, so that it says in the changelog that it has ended", l.cfg.Changelog, of)
}

// endTime is how long a run tries to say in the changelog that it has ended, and failedTime is that
// of one that has failed, whose brokers may be away; stuckTime if it was stopped, too.
const (
	endTime    = 30 * time.Second
	failedTime = 5 * time.Second
	stuckTime  = time.Second
)

// markEnded says in the changelog that the run has ended, unless a commit has failed: then another
// run may own the changelog.
func (l *Ledger) markEnded(ctx context.Context, well bool) {
	if l.owner == nil || l.owner.err != nil || l.head.Ended {
		return
	}
	within := endTime
	if !well {
		ctx, within = context.WithoutCancel(ctx), failedTime // it may have failed by being cancelled
		if l.account.IsStopped() {
			within = stuckTime // an output has been waited for before
		}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	l.head.Ended = true
	if err := l.commitOwned(ctx, func(*commitEntries) {}, nil); err != nil {
		l.cfg.Log.Warn("the changelog does not say that this run has ended: its states cannot be changed by hand before another run has ended", "changelog", l.cfg.Changelog, "error", err)
	}
}
