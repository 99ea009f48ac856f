// Package records declares the records that a pipeline writes. Each kind has one table of fields. Its JSON, its
// columns in CSV and Parquet, and the reference are derived from the table.
package records

import (
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
)

// A Layout is the form of one model's estimates as records.
type Layout struct {
	Params   []expfam.Param
	Vector   bool // means are lists, even with one entry
	Levels   int  // maximum number of levels of the filters
	Bank     int  // number of filters in the largest bank; 0 without a bank
	Detect   bool
	WarmUp   bool
	Quiet    bool // with quiet times
	Interval bool // with lower and upper
	Segments bool // smoothed records: with outlier and segment
	Passes   bool // smoothed records: with forward and backward
	Events   bool // with events of aggregated observations
	// Incidents adds the incident id to alerts, and the columns of incidents to tables of alerts.
	Incidents bool
	Revises   bool     // smoothed records: with changed
	Trials    bool     // smoothed records: positions are trial numbers, not times
	Brief     bool     // without the rarely used fields
	Carry     []string `json:",omitempty"` // names of carried fields that become columns
}

// includes reports whether the records have a field.
func (l *Layout) includes(full bool) bool { return !full || !l.Brief }

// NewLayout returns the layout of estimates by any of the filters, which must have the same family and dimension.
func NewLayout(filters ...hafvf.Config) (l Layout, err error) {
	for _, cfg := range filters {
		bank, err := cfg.NewBank()
		if err != nil {
			return Layout{}, err
		}
		m := bank.Model()
		l.Params, l.Vector = m.Params(), cfg.Family == "mvnormal" || m.Outputs() > 1
		l.Detect, l.WarmUp = bank.Detects(), l.WarmUp || cfg.WarmUp > 0
		l.Bank = max(l.Bank, len(cfg.Bank))
		for i := range bank.Members() {
			l.Levels = max(l.Levels, bank.Filter(i).Levels())
		}
	}
	return l, nil
}

// Smoothes sets the layout of smoothed records by filters. trials says that sessions have no times, and revises that
// late records revise them.
func (l *Layout) Smoothes(filters []hafvf.Config, trials, revises bool) {
	l.Revises, l.Trials, l.Levels = revises, trials, 0
	for _, f := range filters {
		if (keyed.SmoothConfig{Filter: f}).Segments() {
			l.Segments = true
		} else {
			l.Passes, l.Levels = true, max(l.Levels, len(f.Members()[0].Levels))
		}
	}
}
