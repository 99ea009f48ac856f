package connectors

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

var csvFormat = Format{
	Name: CSV, Title: "CSV", Extensions: []string{".csv"}, Columns: true, Delimited: true,
	Of:      "Delimited text with a header line.",
	Written: "Delimited text with a header line. A text that looks like a formula gets an apostrophe in front.",
	open:    textOpener(newCSVReader),
	encode:  newCSVEncoder,
}

// csvReader reads RFC 4180 strictly: a field is quoted as a whole or not at all, and every record has as many
// fields as the header. A record that violates this is rejected, and reading continues with the next line.
//
// A quoted field may contain line ends. If a record of several lines is unusable (its quote is not closed within
// MaxRecord, or it is malformed further on), only its first line is rejected, and reading resumes at its second. A
// stray quote therefore costs one line and not the rest of the file. Each line is read only a few times: a line
// that opens a quote as the first line of a record closes it as a later one.
//
// A file may contain several tables, each below its own header and separated by comments or empty lines. Records of
// all tables have the same fields, which are found by name in each header.
type csvReader struct {
	*lines
	delimiter string
	comment   []byte      // prefix of lines that are skipped; empty if there are none
	header    []string    // of the current table
	index     []int       // positions of the source's columns in header; −1 for a missing one
	watch     watchFlags  // what the next record may be
	spans     []fieldSpan // fields of one record, as offsets in a string
	text      []byte      // unquoted fields of a record with quotes
	// Memory that records share, see sharedBytes: the text of their fields, and the slices of fields.
	texts  strings.Builder
	fields []string

	src         Source
	skipped     *skippedLines   // nil if lines are not counted
	firstHeader []string        // of the first table
	firstBytes  [256]bool       // first bytes of the names in firstHeader
	names       map[string]bool // names in firstHeader; true for required columns
	nWanted     int             // number of required columns
	tableFault  string          // why the records of this table are rejected; "" if they are read
}

type fieldSpan struct{ start, end int }

// watchFlags say why the next record has to be inspected, see csvReader.inspect.
type watchFlags uint8

const (
	belowHeader   watchFlags = 1 << iota // first record of a table
	afterGap                             // first record after comments or empty lines, which may be a header
	refusingTable                        // the records of this table are rejected
)

func newCSVReader(r io.ReadCloser, path string, src Source, skipped *skippedLines) (*csvReader, error) {
	d, err := delimiter(src.Delimiter)
	if err != nil {
		return nil, err
	}
	c := &csvReader{lines: newLines(r, path, src.name(path)), src: src, skipped: skipped, delimiter: string(d), comment: []byte(src.Comment)}
	c.begin()
	head := bytes.Clone(c.buf[c.start:min(c.end, c.start+headBytes)])
	if err := c.startFile(); err != nil {
		return nil, cmp.Or(Foreign(fileName(path), head), err)
	}
	return c, nil
}

// startFile reads the header of the first table.
func (c *csvReader) startFile() error {
	src, path := c.src, c.path
	for range src.Skip {
		if !c.discardLine() {
			break
		}
		c.skipped.add(1)
	}
	text, rec, err := c.read()
	switch {
	case err == io.EOF && (src.Skip > 0 || src.Comment != ""):
		return fmt.Errorf("%s has no header: skip and comment of the source leave no line", fileName(path))
	case err == io.EOF:
		return fmt.Errorf("%s is empty: a CSV begins with a header that names its columns", fileName(path))
	case err != nil:
		return err
	case rec.Reason != "":
		hint := ""
		if d := src.otherDelimiter([]string{string(rec.Raw)}); d != "" && !strings.Contains(string(rec.Raw), c.delimiter) {
			hint = fmt.Sprintf("; it seems that the delimiter is %q", d)
		} else if bytes.IndexByte(rec.Raw, 0) >= 0 {
			hint = "; if this is UTF-16, set encoding: utf-16"
		}
		return fmt.Errorf("%s, line %d: the header is not usable: %s%s", fileName(path), rec.Position, rec.Reason, hint)
	}
	if d, ok := strings.CutPrefix(strings.ToLower(strings.Trim(string(rec.Raw), `"`)), "sep="); ok && d != "" {
		_, n := utf8.DecodeRuneInString(d)
		return fmt.Errorf("%s, line %d names a delimiter: set skip: %d and delimiter: %q", fileName(path), rec.Position, rec.Position, d[:n])
	}
	if err := checkWidth(path, len(c.spans)); err != nil {
		return err
	}
	if err := c.startTable(c.cells(text)); err != nil {
		if hint := c.headerHint(rec); hint != "" {
			err = errors.New(strings.TrimSuffix(err.Error(), ".") + "; " + hint)
		}
		return err
	}
	return nil
}

// cells returns copies of the fields of one record.
func (c *csvReader) cells(text string) (cells []string) {
	for _, s := range c.spans {
		cells = append(cells, strings.Clone(text[s.start:s.end]))
	}
	return cells
}

// startTable starts a table with this header. The error names the missing columns.
func (c *csvReader) startTable(names []string) error {
	src := c.src
	switch {
	case c.header == nil:
	case src.allColumns:
		c.header, c.index = names, nil
		for _, name := range c.firstHeader {
			c.index = append(c.index, slices.Index(names, name))
		}
		return nil
	case src.Wide:
		firstValues, err := src.valueColumns(c.path, c.firstHeader)
		if err != nil {
			return err
		}
		values, err := src.valueColumns(c.path, names)
		if err != nil {
			return err
		}
		if slices.Sort(values); !slices.Equal(values, slices.Sorted(slices.Values(firstValues))) {
			return fmt.Errorf("its value columns differ from those of the first table: %s", quoteNames(values))
		}
		src.Wide, src.Values = false, firstValues
	}
	index, err := src.locate(c.path, names)
	if err != nil {
		return err
	}
	c.header, c.index, c.watch = names, index, belowHeader
	if c.firstHeader == nil {
		named := src.requiredColumns()
		wanted := setOf(named)
		c.firstHeader, c.names, c.nWanted = names, map[string]bool{}, len(named)
		for _, name := range names {
			if name != "" {
				c.names[name], c.firstBytes[name[0]] = wanted[name], true
			}
		}
	}
	return nil
}

// requiredColumns returns the names of the columns that every table must have.
func (src Source) requiredColumns() []string {
	if src.allColumns {
		return nil
	}
	if src.TimeOptional {
		src.Time = ""
	}
	src.CarryFound = nil
	return slices.DeleteFunc(src.columns(), func(name string) bool { return name == "" || src.Wide && IsPattern(name) })
}

// isHeader reports whether a record contains all required columns, more than half of the names of the first header, or
// half of them and no number.
func (c *csvReader) isHeader(text string) bool {
	found, wanted, number := 0, 0, 0
	for _, s := range c.spans {
		if isNumber(text[s.start:s.end]) {
			number = 1
		}
		if want, known := c.names[text[s.start:s.end]]; known {
			found++
			if want {
				wanted++
			}
		}
	}
	return c.nWanted > 0 && wanted >= c.nWanted || found > 0 && found*2 >= len(c.names)+number
}

// isRepeated reports whether a record that follows others is a header: it has no numbers, its first cell is a name
// of the first header, and its cells contain more than half of these names.
func (c *csvReader) isRepeated(text string) bool {
	found := 0
	for i, s := range c.spans {
		_, known := c.names[text[s.start:s.end]]
		switch {
		case isNumber(text[s.start:s.end]) || i == 0 && !known:
			return false
		case known:
			found++
		}
	}
	return found*2 > len(c.names)
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// inspect checks a record for which needsInspection is true. header reports whether the record is the header of a
// new table. Otherwise inspect sets rec.Reason if the record is rejected.
func (c *csvReader) inspect(text string, rec *Record) (header bool) {
	if c.header == nil {
		return false
	}
	prev := c.watch
	c.watch &= refusingTable
	if prev&afterGap != 0 && c.isHeader(text) || text != "" && c.firstBytes[text[0]] && c.isRepeated(text) {
		c.skipped.add(1)
		names := c.cells(text)
		c.watch, c.tableFault = belowHeader, ""
		if err := c.startTable(names); err != nil {
			c.header, c.watch = names, refusingTable
			c.tableFault = fmt.Sprintf("the table that begins at line %d cannot be read: %s", rec.Position, err)
		}
		return true
	}
	if rec.Reason = c.tableFault; rec.Reason != "" {
		return false
	}
	if prev&belowHeader != 0 && len(c.spans) == len(c.header)+1 {
		c.addUnnamedColumn()
	}
	if len(c.spans) != len(c.header) {
		rec.Reason = fmt.Sprintf("%d fields where the header has %d", len(c.spans), len(c.header))
		if prev&belowHeader != 0 {
			rec.Reason += "; if the header is further down, set skip to the number of lines above it"
		}
	}
	return false
}

// addUnnamedColumn adds a column without a name to a header that has one name fewer than the first record has
// fields. The column is the first one, as in tables of R with row names, or the last one if the lines end with a
// delimiter.
func (c *csvReader) addUnnamedColumn() {
	last := c.spans[len(c.spans)-1]
	trailing := last.start == last.end
	n := 0
	for line := range bytes.Lines(c.buf[c.start:c.end]) {
		if n++; n > 10 || !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		trailing = trailing && (len(chomp(line)) == 0 || bytes.HasSuffix(chomp(line), []byte(c.delimiter)))
	}
	names := slices.Concat([]string{""}, c.header)
	if trailing {
		names = append(slices.Clone(c.header), "")
	}
	if isFirst := slices.Equal(c.firstHeader, c.header); isFirst {
		c.firstHeader, c.header = nil, nil
	}
	_ = c.startTable(names) // cannot fail: the header with other names was accepted
	c.watch = 0
}

// headerHint returns how to reach a header with the missing columns, or "" if there is none in the first window.
func (c *csvReader) headerHint(header Record) string {
	if bytes.HasPrefix(header.Raw, []byte("#")) {
		return fmt.Sprintf("line %d begins with #: if it is not a header, set comment: \"#\"", header.Position)
	}
	wanted, line := c.src.requiredColumns(), c.line
	for text := range bytes.Lines(c.buf[c.start:c.end]) {
		cells := strings.Split(strings.ReplaceAll(string(chomp(text)), `"`, ""), c.delimiter)
		if len(wanted) > 0 && !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(cells, name) }) {
			return fmt.Sprintf("line %d has these names: set skip: %d", line, line-1)
		}
		line++
	}
	return ""
}

func (c *csvReader) columns() []string { return slices.Clone(c.firstHeader) }

func (c *csvReader) next() (Record, error) {
	text, rec, err := c.read()
	if err != nil || rec.Reason != "" {
		return rec, err
	}
	if n := len(c.index); len(c.fields) < n {
		c.fields = make([]string, max(n, sharedBytes/100))
	}
	rec.Fields, c.fields = c.fields[:len(c.index):len(c.index)], c.fields[len(c.index):]
	for i, column := range c.index {
		if column < 0 {
			continue
		}
		f := text[c.spans[column].start:c.spans[column].end]
		if len(f) > MaxField {
			if !c.src.allColumns {
				rec.Fields, rec.Reason = nil, fieldTooLong(c.header[column], len(f))
				return rec, nil
			}
			f = strings.ToValidUTF8(f[:MaxField], "")
		}
		rec.Fields[i] = f
	}
	return rec, nil
}

// read reads a record. If its Reason is empty, c.spans are its fields in text.
func (c *csvReader) read() (text string, rec Record, err error) {
	for {
		n, err := c.lineEnd(0)
		if err == errTooLong {
			return "", c.tooLong(), nil
		}
		if err != nil {
			return "", Record{}, err
		}
		line := chomp(c.buf[c.start : c.start+n])
		if len(line) == 0 || len(c.comment) > 0 && bytes.HasPrefix(line, c.comment) {
			if len(line) > 0 {
				c.skipped.add(1)
			}
			c.watch |= afterGap
			c.consume(n, 1)
			continue
		}
		rec = c.record()
		header := false
		if bytes.IndexByte(line, '"') >= 0 {
			if text, header, err = c.readQuoted(n, &rec); header {
				continue
			}
			return text, rec, err
		}
		text = c.string(line)
		rec.Raw = c.head(line)
		rec.Reason = textFault(line)
		c.consume(n, 1)
		if rec.Reason != "" {
			return "", rec, nil
		}
		c.spans = c.spans[:0]
		start := 0
		for field := range strings.SplitSeq(text, c.delimiter) {
			c.spans = append(c.spans, fieldSpan{start, start + len(field)})
			start += len(field) + len(c.delimiter)
		}
		if c.needsInspection(text) && c.inspect(text, &rec) {
			continue
		}
		return text, rec, nil
	}
}

// needsInspection reports whether inspect has to check a record.
func (c *csvReader) needsInspection(text string) bool {
	return c.watch != 0 || len(c.spans) != len(c.header) || text != "" && c.firstBytes[text[0]]
}

// readQuoted is read for a record with quotes. The record's first line is the first n bytes of the unread text.
// header reports whether the record is the header of a new table.
func (c *csvReader) readQuoted(n int, rec *Record) (text string, header bool, _ error) {
	end, count, err := c.unquote(n)
	fault, rejected := errors.AsType[rejection](err)
	if err != nil && !rejected {
		return "", false, err
	}
	rec.Reason = cmp.Or(string(fault), textFault(c.buf[c.start:c.start+end]))
	if rec.Reason == "" {
		text = c.string(c.text)
		header = c.needsInspection(text) && c.inspect(text, rec)
	}
	if rec.Reason != "" {
		end, count = n, 1
	}
	rec.Raw = c.head(chomp(c.buf[c.start : c.start+end]))
	c.consume(end, count)
	return text, header, nil
}

// string returns a copy of b in memory that records share.
func (c *csvReader) string(b []byte) string {
	if c.texts.Cap()-c.texts.Len() < len(b) {
		c.texts.Reset()
		c.texts.Grow(max(sharedBytes, len(b)))
	}
	start := c.texts.Len()
	c.texts.Write(b)
	return c.texts.String()[start:]
}

// A rejection is the reason why a record is rejected.
type rejection string

func (r rejection) Error() string { return string(r) }

// unquote splits the first record of the unread text into c.text and c.spans. The record's first line ends at end.
// unquote returns the end of the record and its number of lines. The error is a rejection or a read error.
func (c *csvReader) unquote(end int) (_, count int, _ error) {
	c.text, c.spans = c.text[:0], c.spans[:0]
	b := c.buf[c.start : c.start+end]
	pos, count := 0, 1
	for {
		start := len(c.text)
		if pos < len(b) && b[pos] == '"' {
			pos++
			for {
				i := bytes.IndexByte(b[pos:], '"')
				if i < 0 {
					c.text = append(c.text, b[pos:]...)
					pos = end
					var err error
					end, err = c.lineEnd(end)
					switch err {
					case nil:
					case io.EOF:
						return 0, 0, rejection("a quote is opened and not closed before the end of the file")
					case errTooLong:
						return 0, 0, rejection(fmt.Sprintf("a quote is opened and not closed within %d bytes", c.maxLength))
					default:
						return 0, 0, err
					}
					b = c.buf[c.start : c.start+end]
					count++
					continue
				}
				c.text = append(c.text, b[pos:pos+i]...)
				pos += i + 1
				if pos == len(b) || b[pos] != '"' {
					break
				}
				c.text = append(c.text, '"')
				pos++
			}
		} else {
			field, _, _ := bytes.Cut(chomp(b[pos:]), []byte(c.delimiter))
			if i := bytes.IndexByte(field, '"'); i >= 0 {
				return 0, 0, rejection(fmt.Sprintf("a quote inside a field without quotes, at byte %d of the record", pos+i+1))
			}
			c.text = append(c.text, field...)
			pos += len(field)
		}
		c.spans = append(c.spans, fieldSpan{start, len(c.text)})
		rest := b[pos:]
		switch {
		case len(chomp(rest)) == 0:
			return end, count, nil
		case bytes.HasPrefix(rest, []byte(c.delimiter)):
			pos += len(c.delimiter)
		default:
			return 0, 0, rejection(fmt.Sprintf("text after a closing quote, at byte %d of the record", pos+1))
		}
	}
}

// csvEncoder writes rows. A text that a spreadsheet would read as a formula, for example a key from an untrusted
// source, gets a leading apostrophe.
type csvEncoder struct {
	csv *csv.Writer
	row []string
}

func newCSVEncoder(out io.Writer, sink Sink, header bool) (encoder, error) {
	if err := checkColumns(sink.Columns); err != nil {
		return nil, err
	}
	e := &csvEncoder{csv: csv.NewWriter(out), row: make([]string, len(sink.Columns))}
	for i, c := range sink.Columns {
		e.row[i] = c.Path
	}
	if !header {
		return e, nil
	}
	return e, e.csv.Write(e.row)
}

func (e *csvEncoder) write(lines []byte) error {
	return eachRow(lines, len(e.row), func(cells [][]byte) error {
		for i, v := range cells {
			s, err := cellText(v)
			if err != nil {
				return err
			}
			if len(v) > 0 && v[0] == '"' && isFormula(s) {
				s = "'" + s
			}
			e.row[i] = s
		}
		return e.csv.Write(e.row)
	})
}

// isFormula reports whether a spreadsheet would read a text as a formula. Numbers are not formulas.
func isFormula(s string) bool {
	return s != "" && strings.IndexByte("=+-@\t\r", s[0]) >= 0 && !isNumber(s)
}

// Unguarded returns a text of a CSV without the apostrophe that a sink puts before a formula.
func Unguarded(s string) string {
	if rest, guarded := strings.CutPrefix(s, "'"); guarded && isFormula(rest) {
		return rest
	}
	return s
}

func (e *csvEncoder) flush() error {
	e.csv.Flush()
	return e.csv.Error()
}

func (e *csvEncoder) close() error { return e.flush() }
