// Package tabular describes the columns of a table.
package tabular

// A Kind is the type of a Parquet column. CSV ignores it.
type Kind string

const (
	String Kind = "string" // the default
	Number Kind = "number" // DOUBLE
	Bool   Kind = "bool"   // BOOLEAN
	Time   Kind = "time"   // TIMESTAMP in UTC, in microseconds; finer digits are cut off
)

// A Column is one column of a CSV or Parquet file.
type Column struct {
	// Path is the column's name and the path of its value in a record: names of fields and indices of arrays, as in
	// "levels.0.alpha".
	Path string
	// Kind is used for Parquet; a value of another kind is an error. A String column accepts any value: a value that is
	// not a string becomes its JSON text.
	Kind Kind
}
