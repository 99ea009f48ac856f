// Package decode converts records of files and topics into observations of keys, as the source of a config describes
// them.
//
// A Parser reads one record: a table row, or a JSON object. A Decoder reads many in parallel, and sets the ID of
// each. Leaves lists the fields of a JSON object.
package decode

import (
	"slices"

	"hafvf/connectors"
	"hafvf/pipeline/config"
	"hafvf/pipeline/settings"
)

// Files returns the source of a config that reads files, and the description of its records.
func Files(c *config.Config) (connectors.Source, config.Fields) {
	s := c.Source.Files()
	src := connectors.Source{Format: s.Format, Path: s.Path, Delimiter: string(s.Delimiter), Skip: s.Skip, Comment: s.Comment, Encoding: s.Encoding}
	f := s.Fields
	f.Carry = slices.DeleteFunc(slices.Clone(f.Carry), connectors.IsPattern) // CarriedColumns finds the names that match
	if connectors.FormatOf(s.Format).Columns {
		dates, last := timeNames(f)
		key, _ := splitKey(f.Key)
		src.Key, src.Time, src.Values, src.Carry = slices.Concat(dates, f.By, key), last, f.Values, f.Carry
		src.TimeOptional = c.Order == settings.Arrival && f.TimeFormat != config.Trial
		if f.Layout == config.Wide {
			src.Wide, src.Values = true, f.Columns
		}
	} else if s.Layout != config.Long {
		// A line may contain very many observations, and a run stops only between bundles.
		src.BundleBytes = 1 << 20
	}
	if c.Aggregate != nil {
		// An event costs less than the state of its key, which is read and stored once per bundle.
		src.BundleRecords = 8 * connectors.BundleRecords
	} else if c.Transform == settings.Filter {
		src.BundleRecords = c.MaxBatchRecords(connectors.BundleRecords)
	}
	return src, f
}
