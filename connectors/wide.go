package connectors

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hafvf/internal/domain"
)

// A wide table has a series in each column of values, and a row for each time. It is read as the equivalent long
// table: a row makes a record for every series, with the Fields key, column name, time and value.

// sniffRows is the number of rows that are read to find columns of numbers.
const sniffRows = 1000

// Reading the first rows of a file stops after these numbers of fields or bytes.
const (
	sniffFields = 1 << 20
	sniffBytes  = 64 << 20
)

// valueColumns returns the columns in names that are named in Values or match its patterns. Patterns never match
// key, time or a column without a name.
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

// IsPattern reports whether a column name is a pattern, see Matcher.
func IsPattern(s string) bool { return strings.ContainsAny(s, "*?") }

// Matcher returns a function that reports whether a column has the name pattern or matches it. In a pattern, *
// matches any text and ? matches one character. Brackets are literal, because they enclose units.
func Matcher(pattern string) func(column string) bool {
	pattern = bracketEscaper.Replace(pattern)
	return func(column string) bool { return domain.Matches(pattern, column) }
}

var bracketEscaper = strings.NewReplacer(`\`, `\\`, "[", `\[`)

// A wideReader converts the rows of a wide table to long records.
type wideReader struct {
	recordReader
	src    Source
	file   string
	values []string // names of the value columns
	series []int    // positions in values of the columns to read; nil until they are known

	ahead []Record // rows that are read but not returned
	err   error    // error after ahead

	row        Record
	nextSeries int // position in series of the row's next record
	raw        rowText

	fields []string // memory that records share, see sharedBytes
}

// newWideReader returns a reader of the long records of rr.
func newWideReader(rr recordReader, src Source, file string) (*wideReader, error) {
	values, err := src.valueColumns(file, rr.columns())
	if err != nil {
		return nil, err
	}
	w := &wideReader{recordReader: rr, src: src, file: file, values: values}
	if readsOnce(file) {
		return w, nil // the rows can be read only once: next chooses the columns
	}
	return w, w.chooseSeries(sniffRows)
}

// chooseSeries chooses the columns that Values names, and those that match a pattern and contain numbers in the
// first rows.
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

// numeric reports whether a value column has at least as many numbers as other texts in the rows ahead. An empty
// column counts as numeric.
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
	long.Raw = w.raw.encode(long.Fields) // not the row, which each series would copy
	return long, nil
}
