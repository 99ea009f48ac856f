// Package tabular says what the columns of a table are.
package tabular

// A Kind is the type of a Parquet column. A CSV has no use for it.
type Kind string

const (
	String Kind = "string" // the default
	Number Kind = "number" // DOUBLE
	Bool   Kind = "bool"   // BOOLEAN
	Time   Kind = "time"   // TIMESTAMP in UTC, in microseconds: finer digits are cut off
)

// A Column is one column of a CSV or Parquet file.
type Column struct {
	// Path is the column's name: where a record has the value, by the names of fields
	// and the indices of arrays, as in "levels.0.alpha".
	Path string
	// Kind is for Parquet; a value that is not of this kind is an error. A
	// String column takes any value: one that is not a string as its JSON text.
	Kind Kind
}
