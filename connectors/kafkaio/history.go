package kafkaio

import (
	"context"
	"errors"
	"maps"
	"time"
)

// isPast reports whether the run is one of the past; not without a ledger.
func (l *Ledger) isPast() bool { return l != nil && l.cfg.History }

// findChangelog has a run of the past have nothing to read if there is no changelog.
func (l *Ledger) findChangelog(ctx context.Context) error {
	_, err := l.cfg.Client.describe(ctx, []string{l.cfg.Changelog})
	if errors.As(err, new(*unknownTopicsError)) {
		l.cfg.Changelog, l.opening, err = "", nil, nil
	}
	return err
}

// OpeningOffsets are the offsets that the group had when the ledger was opened, by partition.
func (l *Ledger) OpeningOffsets() map[string]int64 {
	at := make(map[string]int64, len(l.opening))
	for log, c := range l.opening {
		at[log] = c.Offset
	}
	return at
}

// HistoryLen is how many offsets there are before OpeningOffsets in the topics, and how many were deleted before
// these.
func (l *Ledger) HistoryLen(ctx context.Context) (there, deleted int64, err error) {
	firsts, err := l.cfg.Client.offsets(ctx, partitionsOf(l.topics), atFirst, true)
	if err != nil {
		return 0, 0, err
	}
	for log, end := range l.OpeningOffsets() {
		first := min(firsts[log], end)
		there += end - first
		deleted += first
	}
	return there, deleted, nil
}

// reach notes that all of the past was taken, and the watermark there.
func (l *Ledger) reach(watermark time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = watermark
}

// CaughtUp reports whether the run, one of the past, has read all of it and dealt with it.
func (l *Ledger) CaughtUp() bool {
	if !l.isPast() {
		return false
	}
	l.mu.Lock()
	at := l.final
	l.mu.Unlock()
	return !at.IsZero() && l.idle() && !l.account.HasTimerBy(at)
}

// LearnedStates are the last states, by key, that settled in a run of the past. Those of filters are in the memory of
// the process instead.
func (l *Ledger) LearnedStates() map[string][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.ready)
}
