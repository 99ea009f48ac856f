package output

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"hafvf/internal/tabular"
)

// A Column is a column of a table with rows of type R. A cell that is nil or not finite is empty.
type Column[R any] struct {
	Name string
	Kind tabular.Kind
	Cell func(r R) any

	time func(r R) *time.Time // set for a column of times
}

// Number returns a column of numbers.
func Number[R any](name string, value func(r R) float64) Column[R] {
	return Column[R]{Name: name, Kind: tabular.Number, Cell: func(r R) any { return value(r) }}
}

// Time returns a column of times. value may return nil for an empty cell.
func Time[R any](name string, value func(r R) *time.Time) Column[R] {
	return Column[R]{Name: name, Kind: tabular.Time, time: value, Cell: func(r R) any {
		if t := value(r); t != nil {
			return *t
		}
		return nil
	}}
}

// Element returns v[i], or NaN beyond the end of v.
func Element(v []float64, i int) float64 {
	if i < len(v) {
		return v[i]
	}
	return math.NaN()
}

// ColumnName returns the column name of output o: with an index if there are several outputs.
func ColumnName(name string, o, outputs int) string {
	if outputs > 1 {
		return fmt.Sprintf("%s.%d", name, o)
	}
	return name
}

// A Table is a table as lines of JSON cells, separated by tabs and ended by a newline. A line is valid until the next one.
type Table struct {
	Columns []tabular.Column
	Lines   iter.Seq[[]byte]
}

// NewTable returns a table of rows, with times in zone.
func NewTable[R any](columns []Column[R], zone *time.Location, rows iter.Seq[R]) (t Table) {
	for _, c := range columns {
		t.Columns = append(t.Columns, tabular.Column{Path: c.Name, Kind: c.Kind})
	}
	t.Lines = func(yield func([]byte) bool) {
		layout := timeLayout(columns, rows)
		var line []byte
		for r := range rows {
			if line = appendRow(line[:0], columns, layout, zone, r); !yield(line) {
				return
			}
		}
	}
	return t
}

// timeLayout returns the layout of all times of a table: with the digits that its finest time needs. pandas takes the
// layout of a column from its first time, and reads the column as text if another time differs.
func timeLayout[R any](columns []Column[R], rows iter.Seq[R]) string {
	digits, unit := 0, int(1e9) // nanoseconds of the last digit
	for _, c := range columns {
		if c.time == nil {
			continue
		}
		for r := range rows {
			for t := c.time(r); t != nil && t.Nanosecond()%unit != 0; {
				digits, unit = digits+3, unit/1000
			}
		}
	}
	if digits == 0 {
		return "2006-01-02T15:04:05Z07:00"
	}
	return "2006-01-02T15:04:05." + strings.Repeat("0", digits) + "Z07:00"
}

// appendRow appends a row of JSON cells, separated by tabs.
func appendRow[R any](b []byte, columns []Column[R], layout string, zone *time.Location, r R) []byte {
	for i, c := range columns {
		if i > 0 {
			b = append(b, '\t')
		}
		v := c.Cell(r)
		if f, ok := v.(float64); v == nil || ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			continue
		}
		switch cell := v.(type) {
		case time.Time:
			v = cell.In(zone).Format(layout)
		case int64:
			b = strconv.AppendInt(b, cell, 10)
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // impossible: cells are texts or finite numbers
		}
		b = append(b, text...)
	}
	return append(b, '\n')
}
