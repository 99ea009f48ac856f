package connectors

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hafvf/internal/domain"
)

// A wide table has a series in each column of values, and a row for each time. It is read as
// the long table that says the same: a row makes a record for every series, whose Fields are
// the key's, the name of the column, the time and the value.

// sniffRows is how many rows are looked at to tell columns of numbers.
const sniffRows = 1000

// A look at the first rows of a file ends when it has seen so many fields or bytes.
const (
	sniffFields = 1 << 20
	sniffBytes  = 64 << 20
)

// spread returns the columns of values that are among the names: those that Values name, and
// those that match its patterns. Key and time are never among the latter, nor a column without a name.
func (src Source) valueColumns(file string, names []string) (values []string, err error) {
	present, added := setOf(names), map[string]bool{}
	for _, want := range src.Values {
		if present[want] || !IsPattern(want) {
			values = append(values, want)
			added[want] = true
			continue
		}
		matched := false
		matches := Matcher(want)
		for _, name := range names {
			if name == "" || name == src.Time || slices.Contains(src.Key, name) || !matches(name) {
				continue
			}
			if matched = true; !added[name] {
				values = append(values, name)
				added[name] = true
			}
		}
		if !matched {
			return nil, fmt.Errorf("%s has no column of values that matches %q; its columns are %s", fileName(file), want, quoteNames(names))
		}
	}
	return values, nil
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// IsPattern reports whether a name of a column is a pattern, see Matcher.
func IsPattern(s string) bool { return strings.ContainsAny(s, "*?") }

// Matcher returns what reports whether a column has the name, or matches it as a pattern, in which
// * stands for any text and ? for a character. Brackets are those of a unit.
func Matcher(pattern string) func(column string) bool {
	pattern = bracketEscaper.Replace(pattern)
	return func(column string) bool { return domain.Matches(pattern, column) }
}

var bracketEscaper = strings.NewReplacer(`\`, `\\`, "[", `\[`)

// A wideReader makes long records of the rows of a wide table.
type wideReader struct {
	recordReader
	src    Source
	file   string
	values []string // the columns of values
	series []int    // which of them are read; nil until that is known

	ahead []Record // that were looked at
	err   error    // after them

	row        Record
	nextSeries int // which series of the row comes next
	raw        rowText

	fields []string // memory that records share, see shared
}

// newWide makes a reader of the long records of rr, which reads the columns of src.
func newWideReader(rr recordReader, src Source, file string) (*wideReader, error) {
	values, err := src.valueColumns(file, rr.columns())
	if err != nil {
		return nil, err
	}
	w := &wideReader{recordReader: rr, src: src, file: file, values: values}
	if readsOnce(file) {
		return w, nil // what is looked at cannot be looked at again
	}
	return w, w.chooseSeries(sniffRows)
}

// choose looks at the first rows, and reads the columns that Values name, and those that match
// a pattern and are of numbers.
func (w *wideReader) chooseSeries(rows int) error {
	if slices.ContainsFunc(w.src.Values, IsPattern) {
		w.ahead, w.err = readRecords(w.recordReader, rows, 1, math.MaxInt64)
	}
	named := setOf(w.src.Values)
	for i, name := range w.values {
		if named[name] || w.numeric(i) {
			w.series = append(w.series, i)
		}
	}
	if len(w.series) == 0 {
		return fmt.Errorf("%s has no column of numbers that matches %s; its columns are %s", fileName(w.file), quoteNames(w.src.Values), quoteNames(w.columns()))
	}
	return nil
}

// numeric reports whether most of what was looked at in a column of values is numbers. Of a
// column without anything nothing is known: it may be one of numbers.
func (w *wideReader) numeric(i int) bool {
	texts, numbers := 0, 0
	for _, r := range w.ahead {
		if r.Reason != "" {
			continue
		}
		s := strings.TrimSpace(r.Fields[len(w.src.Key)+1+i])
		if s == "" {
			continue
		}
		if isNumber(strings.Replace(s, ",", ".", 1)) {
			numbers++
		} else {
			texts++
		}
	}
	return numbers >= texts
}

func (w *wideReader) position() int64 {
	if len(w.ahead) > 0 {
		return 0
	}
	return w.recordReader.position()
}

func (w *wideReader) moveTo(pos int64) bool {
	w.ahead, w.row = nil, Record{}
	return w.err == nil && w.recordReader.moveTo(pos)
}

func (w *wideReader) nextRow() (r Record, err error) {
	if len(w.ahead) > 0 {
		r, w.ahead = w.ahead[0], w.ahead[1:]
		return r, nil
	}
	if w.err != nil {
		return Record{}, w.err
	}
	return w.recordReader.next()
}

func (w *wideReader) next() (Record, error) {
	if w.series == nil {
		if err := w.chooseSeries(1); err != nil {
			return Record{}, err
		}
	}
	if w.nextSeries == len(w.series) || w.row.Fields == nil {
		r, err := w.nextRow()
		if err != nil || r.Reason != "" {
			w.row = Record{}
			r.Series = len(w.series)
			return r, err
		}
		w.row, w.nextSeries = r, 0
	}
	keys, i := len(w.src.Key), w.series[w.nextSeries]
	w.nextSeries++
	long := w.row
	if n := keys + 3; len(w.fields) < n {
		w.fields = make([]string, max(n, sharedBytes/100))
	}
	long.Fields, w.fields = w.fields[:keys+3:keys+3], w.fields[keys+3:]
	copy(long.Fields, w.row.Fields[:keys])
	long.Fields[keys], long.Fields[keys+1], long.Fields[keys+2] = w.values[i], w.row.Fields[keys], w.row.Fields[keys+1+i]
	long.Raw = w.raw.encode(long.Fields) // not the row, of which each series would have a copy
	return long, nil
}
