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

// The rows of a table come as lines of cells with a tab between them, as many as the
// table has columns. A cell is a JSON value, which contains no tab, or nothing.

var (
	null    = []byte("null")
	errJSON = errors.New("a cell is not JSON")
)

// checkColumns says why columns are not those of a table.
func checkColumns(columns []tabular.Column) error {
	if len(columns) == 0 {
		return errors.New("there are no columns")
	}
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.Path] {
			return fmt.Errorf("column %q is there twice", c.Path)
		}
		seen[c.Path] = true
	}
	return nil
}

// eachRow calls row with the cells of each line, valid during the call.
func eachRow(lines []byte, columns int, row func(cells [][]byte) error) error {
	cells := make([][]byte, 0, columns)
	for line := range bytes.Lines(lines) {
		cells = slices.AppendSeq(cells[:0], bytes.SplitSeq(bytes.TrimSuffix(line, []byte("\n")), []byte("\t")))
		if len(cells) != columns {
			return fmt.Errorf("a row has %d cells, and the table %d columns", len(cells), columns)
		}
		if err := row(cells); err != nil {
			return err
		}
	}
	return nil
}

// text returns the text of a cell: a string without its quotes, nothing for
// null, anything else as its JSON.
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

// A rowText writes the fields of a record as CSV, for Record.Raw.
type rowText struct {
	text   strings.Builder
	csv    *csv.Writer
	buffer []byte // memory that the texts share, see shared
}

// of is the text of the fields, cut at MaxRaw bytes.
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

// plain reports whether a field of a CSV surely needs no quotes.
func plain(f string) bool {
	for i := range len(f) {
		if c := f[i]; c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == '\\' {
			return false
		}
	}
	return true
}

// quoted is of for fields that may need quotes.
func (t *rowText) encodeQuoted(fields []string) []byte {
	if t.csv == nil {
		t.csv = csv.NewWriter(&t.text)
	}
	t.text.Reset()
	t.csv.Write(fields) // to a Builder, which does not fail
	t.csv.Flush()
	raw := strings.TrimSuffix(t.text.String(), "\n")
	return []byte(raw[:min(len(raw), MaxRaw)])
}
