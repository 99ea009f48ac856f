// Package sniff inspects the first records of a file. Draft writes a config for a file, for hafvf init. Inspect
// reports how a config reads its data, for hafvf check.
package sniff

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hafvf/connectors"
	"hafvf/internal/message"
	"hafvf/pipeline/decode"
)

// sampleRecords is the number of records that are read: from the start of a file, and from nine places spread over
// it. Where a record holds several observations, such as a line of an export, records are read until they hold
// sampleObservations.
const (
	sampleRecords      = 10_000
	sampleObservations = 100_000
)

// A table is the sample of a file: its columns, or the fields of its JSON objects.
type table struct {
	connectors.Preamble
	path     string
	encoding string // encoding of the text; empty means UTF-8
	format   connectors.Format
	columns  []*column
	notUTF8  bool           // some records are not UTF-8
	index    map[string]int // index of the column of each JSON path
	records  int            // number of records read
	types    []string       // columns with types that cannot be read
	pieces   []int          // index of the record's place in the file
	files    []int          // index of the record's file
	paths    []string       // paths of the files
}

// maxCells is the maximum number of texts in all columns together. Each column has one text per record.
const maxCells = 1 << 24

// fallbackEncoding is used for text files that are not UTF-8. It can decode all bytes.
const fallbackEncoding = "windows-1252"

// readTable reads records of a file. The file name selects the format. If the file is not UTF-8, it is read in the
// fallback encoding.
func readTable(path string) (*table, error) {
	t, err := readTableIn(path, "")
	if err == nil && !t.notUTF8 || err != nil && !strings.Contains(err.Error(), connectors.NotUTF8) {
		return t, err
	}
	return readTableIn(path, fallbackEncoding)
}

func readTableIn(path, encoding string) (*table, error) {
	t := &table{path: path, encoding: encoding, format: connectors.FormatOfFile(path), index: map[string]int{}}
	src := connectors.Source{Format: t.format.Name, Path: path, Encoding: encoding}
	var head []byte
	if !t.format.Whole {
		var err error
		if head, err = connectors.Head(firstOf(path), encoding); err != nil {
			return nil, err
		}
	}
	if t.format.Delimited {
		if err := connectors.Foreign(path, head); err != nil {
			return nil, err
		}
		t.Preamble = connectors.PreambleOf(head, decode.IsData, decode.Absent)
		src.Delimiter, src.Skip, src.Comment = t.Delimiter, t.Skip, t.Comment
	}
	found, err := connectors.Sample(src, sampleRecords)
	if err != nil {
		return nil, err
	}
	if t.format.Delimited && len(found.Columns) > 0 && !slices.ContainsFunc(found.Columns, func(s string) bool { return !isNumber(s) }) {
		return nil, fmt.Errorf("%s begins with the numbers %s, instead of the names of the columns: put a header line before them", path, message.Some(found.Columns, 8))
	}
	t.types = found.Unread
	for _, records := range found.Records {
		t.records += len(records)
	}
	for _, name := range found.Columns {
		t.columns = append(t.columns, &column{name: name, texts: make([]string, t.records)})
	}
	files := map[string]int{}
	for piece, records := range found.Records {
		for _, r := range records {
			n := len(t.pieces)
			if _, known := files[r.Path]; !known {
				files[r.Path], t.paths = len(files), append(t.paths, r.Path)
			}
			t.pieces, t.files = append(t.pieces, piece), append(t.files, files[r.Path])
			t.notUTF8 = t.notUTF8 || strings.HasPrefix(r.Reason, connectors.NotUTF8)
			if !t.format.Columns {
				t.addObject(n, r.Raw)
			}
			for i, text := range r.Fields {
				t.columns[i].texts[n] = strings.TrimSpace(text)
			}
		}
	}
	if t.format.Delimited && t.headless() {
		return nil, fmt.Errorf("%s begins with the record %s, instead of the names of the columns: put a header line before it", path, message.Some(found.Columns, 8))
	}
	if len(t.columns) == 0 && t.records > 0 && !bytes.HasPrefix(head, []byte("{")) {
		if err := connectors.Foreign(path, head); err != nil {
			return nil, err
		}
	}
	// Columns without a name cannot be used in a config.
	t.columns = slices.DeleteFunc(t.columns, func(c *column) bool { return c.name == "" })
	return t, nil
}

// headless reports whether the names of the columns look like a record: the name of the first column of times is a
// time or, if no column has times before it, a name above numbers is a fraction or occurs twice.
func (t *table) headless() bool {
	var numbers []string
	for _, c := range t.columns {
		switch {
		case c.timed():
			return isTime(c.name)
		case c.numeric() && isNumber(c.name):
			numbers = append(numbers, c.name)
		}
	}
	for i, name := range numbers {
		if strings.ContainsAny(name, ".,eE") || slices.Contains(numbers[:i], name) {
			return true
		}
	}
	return false
}

// firstOf returns the first file that matches a pattern, or the path itself.
func firstOf(path string) string {
	if found, err := filepath.Glob(path); err == nil && len(found) > 0 {
		return found[0]
	}
	return path
}

func isNumber(text string) bool {
	_, err := new(decode.Parser).Number(text)
	return err == nil
}

// String lists the names of the columns.
func (t *table) String() string {
	return cmp.Or(message.Some(namesOf(t.columns), 20), "none")
}

// named returns the column with a name, or nil.
func (t *table) named(name string) *column {
	return t.first(func(c *column) bool { return c.name == name && c.parts == nil })
}

// addObject adds the fields of a record's JSON object.
func (t *table) addObject(record int, line []byte) {
	// A line that is not a JSON object is counted later as a rejected record.
	_ = decode.Leaves(line, func(path, text string, scalar bool) {
		i, known := t.index[path]
		if !known {
			i = len(t.columns)
			if (i+1)*t.records > maxCells {
				return // the records have nothing in common
			}
			t.index[path] = i
			t.columns = append(t.columns, &column{name: path, texts: make([]string, t.records)})
		}
		if c := t.columns[i]; scalar {
			c.texts[record] = text
		} else {
			if c.nested++; c.list == "" {
				c.list = text
			}
		}
	})
}
