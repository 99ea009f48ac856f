package kafkaio

import (
	"context"
	"errors"
	"maps"
	"time"
)

// isHistory reports whether the run replays the history; false without a ledger.
func (l *Ledger) isHistory() bool { return l != nil && l.cfg.History }

// findChangelog clears the changelog and the offsets if the changelog does not exist, so that the run has nothing to
// replay.
func (l *Ledger) findChangelog(ctx context.Context) error {
	_, err := l.cfg.Client.describe(ctx, []string{l.cfg.Changelog})
	if errors.As(err, new(*unknownTopicsError)) {
		l.cfg.Changelog, l.opening, err = "", nil, nil
	}
	return err
}

// OpeningOffsets returns the offsets, by partition, that the group had when the ledger was opened.
func (l *Ledger) OpeningOffsets() map[string]int64 {
	offsets := make(map[string]int64, len(l.opening))
	for log, c := range l.opening {
		offsets[log] = c.Offset
	}
	return offsets
}

// HistoryLen returns the number of offsets before OpeningOffsets that are still in the topics, and the number that
// were deleted.
func (l *Ledger) HistoryLen(ctx context.Context) (available, deleted int64, err error) {
	firsts, err := l.cfg.Client.offsets(ctx, partitionsOf(l.topics), atFirst, true)
	if err != nil {
		return 0, 0, err
	}
	for log, end := range l.OpeningOffsets() {
		first := min(firsts[log], end)
		available += end - first
		deleted += first
	}
	return available, deleted, nil
}

// setFinalWatermark records that the whole history was taken, and the watermark at its end.
func (l *Ledger) setFinalWatermark(watermark time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finalWatermark = watermark
}

// CaughtUp reports whether a run with LedgerConfig.History has read and processed the whole history.
func (l *Ledger) CaughtUp() bool {
	if !l.isHistory() {
		return false
	}
	l.mu.Lock()
	watermark := l.finalWatermark
	l.mu.Unlock()
	return !watermark.IsZero() && l.idle() && !l.account.HasTimerBy(watermark)
}

// LearnedStates returns the last settled states, by key, of a run with LedgerConfig.History. The states of filters are
// not included: they are in the memory of the process.
func (l *Ledger) LearnedStates() map[string][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.ready)
}
