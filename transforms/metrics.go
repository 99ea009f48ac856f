package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/account"
)

var (
	recordsCounter      = beam.NewCounter("hafvf", "records")
	rejectedCounter     = beam.NewCounter("hafvf", "rejected")
	lateCounter         = beam.NewCounter("hafvf", "late")
	lateIdleCounter     = beam.NewCounter("hafvf", "late_idle")
	turnedBackCounter   = beam.NewCounter("hafvf", "turned_back")
	missingCounter      = beam.NewCounter("hafvf", "missing")
	notConvergedCounter = beam.NewCounter("hafvf", "not_converged")
	keysCounter         = beam.NewCounter("hafvf", "keys")
	sessionsCounter     = beam.NewCounter("hafvf", "sessions")
	changesCounter      = beam.NewCounter("hafvf", "changes")
	outliersCounter     = beam.NewCounter("hafvf", "outliers")
	noveltyCounter      = beam.NewCounter("hafvf", "novelty_alarms")
	changeAlarmCounter  = beam.NewCounter("hafvf", "change_alarms")
	mutedCounter        = beam.NewCounter("hafvf", "muted_alarms")
	silencesCounter     = beam.NewCounter("hafvf", "silences")
	expiredCounter      = beam.NewCounter("hafvf", "expired_keys")
	resetCounter        = beam.NewCounter("hafvf", "reset_keys")
	panicsCounter       = beam.NewCounter("hafvf", "panics")
	migratedCounter     = beam.NewCounter("hafvf", "migrated")
	iterationsDist      = beam.NewDistribution("hafvf", "iterations")
)

// countEstimate counts an estimate.
func countEstimate(c *account.Counts, e *keyed.Estimate) {
	c.Records++
	if e.Missing {
		c.Missing++
	}
	if !e.Converged {
		c.NotConverged++
	}
	if d := e.Detection; d != nil {
		switch d.Kind {
		case hafvf.Outlier:
			c.Outliers++
		case hafvf.Change:
			c.Changes++
		}
		if d.Muted {
			c.Muted++
		}
	}
	if e.Silence != nil && !e.Silence.Told {
		c.Silences++
	}
	if a := e.Alarm; a != nil {
		switch usual.AlarmKind(a.Kind) {
		case usual.NoveltyAlarm:
			c.NoveltyAlarms++
		case usual.ChangeAlarm:
			c.ChangeAlarms++
		}
	}
}

// addMetrics adds a bundle's counts to the metrics.
func addMetrics(ctx context.Context, c account.Counts) {
	for _, m := range []struct {
		counter beam.Counter
		n       int64
	}{
		{recordsCounter, c.Records}, {rejectedCounter, c.Rejected}, {lateCounter, c.Late}, {lateIdleCounter, c.LateIdle}, {turnedBackCounter, c.TurnedBack},
		{missingCounter, c.Missing}, {notConvergedCounter, c.NotConverged}, {keysCounter, c.Keys},
		{sessionsCounter, c.Sessions}, {changesCounter, c.Changes}, {outliersCounter, c.Outliers},
		{noveltyCounter, c.NoveltyAlarms}, {changeAlarmCounter, c.ChangeAlarms}, {mutedCounter, c.Muted}, {silencesCounter, c.Silences},
		{resetCounter, c.Reset}, {expiredCounter, c.ExpiredKeys}, {panicsCounter, c.Panics},
	} {
		if m.n > 0 {
			m.counter.Inc(ctx, m.n)
		}
	}
}
