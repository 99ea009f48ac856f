// Package records declares the records that a pipeline writes. Each kind has one table
// of fields, of which its JSON, its columns in CSV and Parquet, and the reference are
// made.
package records

import (
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// A Layout is the form that the estimates of one model take as records.
type Layout struct {
	Params   []expfam.Param
	Vector   bool // means are lists, also of one entry
	Levels   int  // of the filter that has most
	Bank     int  // filters of the largest bank, 0 where there is none
	Detect   bool
	WarmUp   bool
	Quiet    bool // there are quiet times
	Interval bool // lower and upper
	Segments bool // of smoothed records: outlier and segment
	Passes   bool // of smoothed records: forward and backward
	Events   bool // of aggregated observations
	// Incidents has alerts say which incident they belong to, and tables of alerts what incidents have.
	Incidents bool
	Revises   bool     // of smoothed records: changed
	Trials    bool     // of smoothed records: places are numbers of trials, not times
	Brief     bool     // without the fields that few people read
	Carry     []string `json:",omitempty"` // what records carry, where they become columns
}

// has reports whether the records have a field.
func (l *Layout) has(full bool) bool { return !full || !l.Brief }

// NewLayout is the layout of estimates by any of the filters, which have one
// family and dimension.
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
