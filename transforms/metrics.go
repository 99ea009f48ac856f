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

	// counters has a Beam counter for each element of account.Counters.
	counters = func() (list []beam.Counter) {
		for _, c := range account.Counters {
			list = append(list, beam.NewCounter("hafvf", c.Name))
		}
		return list
	}()
)

// ResumedCells, KeptKeys and LostKeys are the counters of a job with Host.Resumed: the cells that it read for the
// first time, their keys that kept at least a part of their state, and their keys whose state was dropped.
const ResumedCells, KeptKeys, LostKeys = "resumed_cells", "kept_keys", "lost_keys"

// migratedKeys is the counter of states that Host.Migrate converted.
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
			if d.Score > c.MutedScore { // false if Score is NaN
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
		case t.Source != keyed.SourceAlarm || t.IsWorse():
		case t.Kind == string(usual.NoveltyAlarm):
			c.NoveltyAlarms++
		case t.Kind == string(usual.ChangeAlarm):
			c.ChangeAlarms++
		case t.Kind == keyed.SilentAlarm:
			c.Silences++
		}
	}
}

// addMetrics adds the counts of a bundle to the metrics.
func addMetrics(ctx context.Context, c account.Counts) {
	for i, counter := range account.Counters {
		if n := *counter.Of(&c); n > 0 {
			counters[i].Inc(ctx, n)
		}
	}
}
