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
	migratedCounter = beam.NewCounter("hafvf", "migrated")
	resumedCounter  = beam.NewCounter("hafvf", ResumedCells)
	keptCounter     = beam.NewCounter("hafvf", KeptKeys)
	lostCounter     = beam.NewCounter("hafvf", LostKeys)
	iterationsDist  = beam.NewDistribution("hafvf", "iterations")

	// counters are those of account.Counters.
	counters = func() (all []beam.Counter) {
		for _, c := range account.Counters {
			all = append(all, beam.NewCounter("hafvf", c.Name))
		}
		return all
	}()
)

// The counters of a job with Host.Resumed: cells that it has read for the first time, and their keys
// that go on, and that begin anew.
const ResumedCells, KeptKeys, LostKeys = "resumed_cells", "kept_keys", "lost_keys"

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
		switch {
		case d.Muted:
			c.Muted++
			c.MutedScore = larger(c.MutedScore, d.Score)
		case d.Resting:
			c.Resting++
			c.RestingScore = larger(c.RestingScore, d.Score)
		}
	}
	for _, t := range e.Alerts("") {
		switch {
		case t.Basis != keyed.AlarmBasis:
		case t.Kind == string(usual.NoveltyAlarm):
			c.NoveltyAlarms++
		case t.Kind == string(usual.ChangeAlarm):
			c.ChangeAlarms++
		case t.Kind == keyed.SilentAlarm:
			c.Silences++
		}
	}
}

// larger is the larger one of a score and another, which may be NaN.
func larger(score, other float64) float64 {
	if other > score {
		return other
	}
	return score
}

// addMetrics adds a bundle's counts to the metrics.
func addMetrics(ctx context.Context, c account.Counts) {
	for i, counter := range account.Counters {
		if n := *counter.Of(&c); n > 0 {
			counters[i].Inc(ctx, n)
		}
	}
}
