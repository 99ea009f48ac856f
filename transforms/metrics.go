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
	iterationsDist = beam.NewDistribution("hafvf", "iterations")

	// counters are those of account.Counters.
	counters = func() (all []beam.Counter) {
		for _, c := range account.Counters {
			all = append(all, beam.NewCounter("hafvf", c.Name))
		}
		return all
	}()
)

// The counters of a job with Host.Resumed: cells that it has read for the first time, and their keys, those
// that go on and those of whose states nothing is kept.
const ResumedCells, KeptKeys, LostKeys = "resumed_cells", "kept_keys", "lost_keys"

// migratedKeys is the counter of states that Host.Migrate has carried over.
const migratedKeys = "migrated"

// countEstimate counts an estimate.
func countEstimate(c *account.Counts, e *keyed.Estimate) {
	c.Records++
	switch {
	case e.Quiet:
		c.Quiet++
	case e.Missing:
		c.Missing++
	}
	if !e.Converged {
		c.NotConverged++
	}
	if e.Falls != nil {
		c.Restarts += int64(e.Falls.Restarts)
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
			if d.Score > c.MutedScore { // which may be NaN
				c.MutedScore = d.Score
			}
		case d.Resting:
			c.Resting++
			if d.Score > c.RestingScore {
				c.RestingScore = d.Score
			}
		}
	}
	for _, t := range e.Alerts("") {
		switch {
		case t.Source != keyed.SourceAlarm:
		case t.Kind == string(usual.NoveltyAlarm):
			c.NoveltyAlarms++
		case t.Kind == string(usual.ChangeAlarm):
			c.ChangeAlarms++
		case t.Kind == keyed.SilentAlarm:
			c.Silences++
		}
	}
}

// addMetrics adds a bundle's counts to the metrics.
func addMetrics(ctx context.Context, c account.Counts) {
	for i, counter := range account.Counters {
		if n := *counter.Of(&c); n > 0 {
			counters[i].Inc(ctx, n)
		}
	}
}
