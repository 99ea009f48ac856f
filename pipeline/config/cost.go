package config

import (
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// MaxBatchRecords returns how many records a source may hand over at once, at most limit. A run that is asked to stop
// first processes all records handed over, so filters with expensive records get fewer.
func (c *Config) MaxBatchRecords(limit int) int {
	const maxBundle, cutBundle = 5 * time.Second, time.Second // limit of a bundle, and target above it
	cost := c.recordCost()
	if cost*time.Duration(limit) <= maxBundle {
		return limit
	}
	return max(1, int(cutBundle/cost))
}

// recordCost estimates the cost of a record on one core, in addition to the cost that all records have. It is
// proportional to the numbers in a sufficient statistic, which grow with the square of the dimension for mvnormal and
// regression, and to the pairs of a season's regressors.
func (c *Config) recordCost() time.Duration {
	const perNumber, perPair = 300 * time.Nanosecond, 5 * time.Nanosecond
	m, err := expfam.New(c.Model.Family, c.Model.Prior, c.Model.Dim)
	if err != nil {
		return perNumber // CheckPriors reports the error
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
