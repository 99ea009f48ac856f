package output

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"

	"hafvf/connectors"
)

// A Column is one of a table with such rows. A cell that is nil, or not finite, is empty.
type Column[R any] struct {
	Name string
	Kind connectors.Kind
	Cell func(r R) any
}

// TableFormat returns the format of a table by the ending of its name.
func TableFormat(path string) (string, error) {
	f, is := TableOf(path)
	if !is {
		return "", fmt.Errorf("%s: a table is a .csv or a .parquet file", path)
	}
	return f.Name, nil
}

// WriteTable writes rows to a table, which appears complete or not at all.
func WriteTable[R any](path string, columns []Column[R], rows iter.Seq[R]) error {
	format, err := TableFormat(path)
	if err != nil {
		return err
	}
	sink := connectors.Sink{Format: format, Path: path}
	for _, c := range columns {
		sink.Columns = append(sink.Columns, connectors.Column{Path: c.Name, Kind: c.Kind})
	}
	w, err := connectors.Create(sink)
	if err != nil {
		return err
	}
	defer w.Abort()
	var line []byte
	for r := range rows {
		line = appendRow(line[:0], columns, r)
		if err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Commit()
}

// appendRow appends a row of JSON cells with a tab between two.
func appendRow[R any](b []byte, columns []Column[R], r R) []byte {
	for i, c := range columns {
		if i > 0 {
			b = append(b, '\t')
		}
		v := c.Cell(r)
		if f, ok := v.(float64); v == nil || ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // texts and finite numbers
		}
		b = append(b, text...)
	}
	return append(b, '\n')
}
