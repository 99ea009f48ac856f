package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hafvf/connectors"
	"hafvf/internal/times"
	"hafvf/pipeline/observe"
)

// lookRecords is how many records a look reads: of the beginning of a file, and of nine places spread
// over it. Of records that hold several observations, such as the lines of an export, it takes as
// many as hold lookObservations.
const (
	lookRecords      = 10_000
	lookObservations = 100_000
)

// A table is what is read of a file: columns, or the fields of JSON objects.
type table struct {
	preamble
	path    string
	format  connectors.Format
	columns []*column
	index   map[string]int // of the columns, by the path of a JSON field
	records int            // that were read
	pieces  []int          // the place in the file that a record is of
}

// maxCells bounds the texts of all columns: each has one of every record.
const maxCells = 1 << 24

// readTable reads records of a file, whose format its name tells.
func readTable(path string) (*table, error) {
	t := &table{path: path, format: connectors.FormatOfFile(path), index: map[string]int{}}
	src := connectors.Source{Format: t.format.Name, Path: path}
	if t.format.Delimited {
		head, err := connectors.Head(path)
		if err != nil {
			return nil, err
		}
		t.preamble = preambleOf(head)
		src.Delimiter, src.Skip, src.Comment = t.delimiter, t.skip, t.comment
	}
	found, err := connectors.Sample(src, lookRecords)
	if err != nil {
		return nil, err
	}
	if t.format.Delimited && len(found.Columns) > 0 && !slices.ContainsFunc(found.Columns, func(s string) bool { _, err := new(observe.Parser).Number(s); return err != nil }) {
		return nil, fmt.Errorf("%s begins with the numbers %s, where the names of the columns are due: put a header line before them", path, some(found.Columns, 8))
	}
	for piece, records := range found.Records {
		t.records += len(records)
		for range records {
			t.pieces = append(t.pieces, piece)
		}
	}
	for _, name := range found.Columns {
		t.columns = append(t.columns, &column{name: name, records: t.records})
	}
	n := 0
	for _, records := range found.Records {
		for _, r := range records {
			if !t.format.Columns {
				t.addObject(n, r.Raw)
			}
			for i, text := range r.Fields {
				t.columns[i].put(n, strings.TrimSpace(text))
			}
			n++
		}
	}
	for _, c := range t.columns {
		c.fill(t.records)
	}
	// Columns without a name cannot be read.
	t.columns = slices.DeleteFunc(t.columns, func(c *column) bool { return c.name == "" })
	return t, nil
}

// put makes s the text of a record. Records come in their order; the last text of one counts.
func (c *column) put(record int, s string) {
	c.fill(record)
	c.texts = append(c.texts[:record], s)
}

// fill adds the texts of the records before the n-th that do not have the column.
func (c *column) fill(n int) {
	for len(c.texts) < n {
		c.texts = append(c.texts, "")
	}
}

// String lists the columns.
func (t *table) String() string {
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return cmp.Or(some(names, 20), "none")
}

// named returns the column of a name, nil if there is none.
func (t *table) named(name string) *column {
	if i := slices.IndexFunc(t.columns, func(c *column) bool { return c.name == name && c.parts == nil }); i >= 0 {
		return t.columns[i]
	}
	return nil
}

// addObject adds the fields of the JSON object of a record.
func (t *table) addObject(record int, line []byte) {
	// A line that is no object is a rejected record for the look.
	_ = observe.Leaves(line, func(path, text string, scalar bool) {
		i, there := t.index[path]
		if !there {
			i = len(t.columns)
			if (i+1)*t.records > maxCells {
				return // records that have nothing in common
			}
			t.index[path] = i
			t.columns = append(t.columns, &column{name: path, records: t.records})
		}
		if c := t.columns[i]; scalar {
			c.put(record, text)
		} else {
			c.nested++
		}
	})
}

// A preamble is what stands before and around the header of a delimited file, as source.csv says it.
type preamble struct {
	delimiter string
	skip      int
	comment   string
}

// headLines is how many lines are looked at for a header.
const headLines = 200

// preambleOf finds the header in the beginning of a file: the first line that has texts where the
// next one has numbers or times.
func preambleOf(head []byte) (p preamble) {
	lines := strings.Split(strings.TrimPrefix(string(head), "\ufeff"), "\n")
	lines = lines[:min(len(lines), headLines)]
	delimiters := connectors.Delimiters
	if rest, ok := strings.CutPrefix(strings.Trim(lines[0], "\""), "sep="); ok && rest != "" {
		delimiters = []string{rest[:1]}
	}
	found, header := 0., 0
	for _, d := range delimiters {
		if at, score := headerAt(lines, d); score > found {
			p.delimiter, found, header = d, score, at
		}
	}
	if found == 0 { // by the columns of the first line
		for _, d := range delimiters {
			if n := float64(len(cellsOf(lines[0], d))); n > found {
				p.delimiter, found = d, n
			}
		}
		return p
	}
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	for i, s := range lines {
		switch {
		case blank(s):
		case i < header && !strings.HasPrefix(s, "#"):
			p.skip = header
		case i != header && strings.HasPrefix(s, "#") && !isData(cellsOf(s, p.delimiter)):
			p.comment = "#"
		}
	}
	if strings.HasPrefix(lines[header], "#") { // which a comment would be
		p.comment, p.skip = "", header
	}
	return p
}

// headerAt is the line of the header, and how sure it is: the number of columns that tell it from the
// next line, of any number of columns 0.
func headerAt(lines []string, delimiter string) (at int, score float64) {
	var rows [][]string
	var numbers []int
	for i, s := range lines {
		if strings.TrimSpace(s) == "" {
			continue
		}
		// A comment may be the header itself, and nothing else.
		rows, numbers = append(rows, cellsOf(s, delimiter)), append(numbers, i)
	}
	for i := range len(rows) - 1 {
		header, next := rows[i], rows[i+1]
		shift := len(next) - len(header)
		trailing := shift == 1 && next[len(next)-1] == ""
		after := rows[min(i+2, len(rows)-1)]
		if shift != 0 && shift != 1 || len(after) != len(next) {
			continue
		}
		n := 0
		for k, name := range header {
			cell := k + shift
			if trailing {
				cell = k
			}
			a, b := next[cell], after[cell]
			if name != "" && !dataCell(name) && (dataCell(a) && (dataCell(b) || absent(b)) || absent(a) && dataCell(b)) {
				n++
			}
		}
		if n > 0 {
			// A header as wide as its rows is surer than one of row names.
			return numbers[i], float64(n) + .5*float64(1-shift) + float64(len(next))/1e6
		}
	}
	return 0, 0
}

func isData(cells []string) bool { return slices.ContainsFunc(cells, dataCell) }

// dataCell reports whether a text is as those below a header: a number or a time.
func dataCell(s string) bool {
	if !strings.ContainsAny(s, "0123456789") {
		return false
	}
	if numbersOf([]string{s}).share == 1 || clockTime.MatchString(s) {
		return true
	}
	if _, err := times.Parse(s); err == nil {
		return true
	}
	return slices.ContainsFunc(timeForms, func(f timeForm) bool { return f.parser.Fits(s) })
}

// cellsOf splits a line. Quotes stand around whole cells.
func cellsOf(line, delimiter string) (cells []string) {
	line = strings.TrimSuffix(line, "\r")
	for {
		if rest, quoted := strings.CutPrefix(line, `"`); quoted {
			if end := strings.Index(strings.ReplaceAll(rest, `""`, "\x00\x00"), `"`); end >= 0 {
				cells = append(cells, strings.ReplaceAll(rest[:end], `""`, `"`))
				if line, quoted = strings.CutPrefix(rest[end+1:], delimiter); !quoted {
					return cells
				}
				continue
			}
		}
		cell, rest, more := strings.Cut(line, delimiter)
		if cells = append(cells, strings.TrimSpace(cell)); !more {
			return cells
		}
		line = rest
	}
}
