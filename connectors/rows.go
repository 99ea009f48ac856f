package connectors

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hafvf/internal/tabular"
)

// A row of a table is a line of cells separated by tabs, one per column. A cell is a JSON value, which contains no
// tab, or empty.

var (
	null    = []byte("null")
	errJSON = errors.New("a cell is not JSON")
)

// checkColumns returns an error if there are no columns, or two with the same name.
func checkColumns(columns []tabular.Column) error {
	if len(columns) == 0 {
		return errors.New("there are no columns")
	}
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.Path] {
			return fmt.Errorf("column %q occurs twice", c.Path)
		}
		seen[c.Path] = true
	}
	return nil
}

// eachRow calls row with the cells of each line. The cells are valid only during the call.
func eachRow(lines []byte, columns int, row func(cells [][]byte) error) error {
	cells := make([][]byte, 0, columns)
	for line := range bytes.Lines(lines) {
		cells = slices.AppendSeq(cells[:0], bytes.SplitSeq(bytes.TrimSuffix(line, []byte("\n")), []byte("\t")))
		if len(cells) != columns {
			return fmt.Errorf("a row has %d cells, but the table has %d columns", len(cells), columns)
		}
		if err := row(cells); err != nil {
			return err
		}
	}
	return nil
}

// cellText returns the text of a cell: a string without its quotes, "" for null or an empty cell, and the JSON of
// any other value.
func cellText(v []byte) (string, error) {
	switch {
	case len(v) == 0 || bytes.Equal(v, null):
		return "", nil
	case v[0] != '"':
		return string(v), nil
	case bytes.IndexByte(v, '\\') < 0:
		return string(v[1 : len(v)-1]), nil
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", errJSON
	}
	return s, nil
}

// A rowText formats the fields of a record as CSV, for Record.Raw.
type rowText struct {
	text   strings.Builder
	csv    *csv.Writer
	buffer []byte // memory that the texts share, see sharedBytes
}

// encode returns the CSV of fields, cut at MaxRaw bytes.
func (t *rowText) encode(fields []string) []byte {
	size := len(fields)
	for _, f := range fields {
		if !plain(f) {
			return t.encodeQuoted(fields)
		}
		size += len(f)
	}
	if cap(t.buffer)-len(t.buffer) < size {
		t.buffer = make([]byte, 0, max(sharedBytes, size))
	}
	start := len(t.buffer)
	for i, f := range fields {
		if i > 0 {
			t.buffer = append(t.buffer, ',')
		}
		t.buffer = append(t.buffer, f...)
	}
	end := len(t.buffer)
	return t.buffer[start:min(end, start+MaxRaw):min(end, start+MaxRaw)]
}

// plain reports whether a CSV field certainly needs no quotes.
func plain(f string) bool {
	for i := range len(f) {
		if c := f[i]; c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == '\\' {
			return false
		}
	}
	return true
}

// encodeQuoted is encode for fields that may need quotes.
func (t *rowText) encodeQuoted(fields []string) []byte {
	if t.csv == nil {
		t.csv = csv.NewWriter(&t.text)
	}
	t.text.Reset()
	t.csv.Write(fields) // writing to a Builder cannot fail
	t.csv.Flush()
	raw := strings.TrimSuffix(t.text.String(), "\n")
	return []byte(raw[:min(len(raw), MaxRaw)])
}
