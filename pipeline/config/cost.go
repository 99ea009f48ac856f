package config

import (
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// AtOnce is how many of most records a source may hand over at once. What was handed over is worked on to
// its end, also by a run that is asked to stop: filters whose records take long get fewer.
func (c *Config) AtOnce(limit int) int {
	const maxBundle, cutBundle = 5 * time.Second, time.Second // that a bundle may take, and to which one is cut that takes longer
	cost := c.recordCost()
	if cost*time.Duration(limit) <= maxBundle {
		return limit
	}
	return max(1, int(cutBundle/cost))
}

// recordCost is about what a record costs on one core, beside what all do: of each number of a sufficient
// statistic, of which mvnormal and regression have the square of their dimension, and of each pair of a
// season's regressors.
func (c *Config) recordCost() time.Duration {
	const perNumber, perPair = 300 * time.Nanosecond, 5 * time.Nanosecond
	m, err := expfam.New(c.Model.Family, c.Model.Prior, c.Model.Dim)
	if err != nil {
		return perNumber // which is said of the prior
	}
	cost := time.Duration(m.Len()) * perNumber
	add := func(seasons []usual.Season) {
		columns := 1
		for _, s := range seasons {
			columns += 2 * s.Harmonics
		}
		cost += time.Duration(columns*columns*m.Outputs()) * perPair
	}
	if c.Model.Season != nil {
		add(c.Model.Season.Seasons)
	}
	if c.Detect != nil {
		add(c.Detect.Seasons)
	}
	return cost
}
