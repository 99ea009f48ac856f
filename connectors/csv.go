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
	open:    ofText(newCSVReader),
	encode:  newCSVEncoder,
}

// csvReader reads RFC 4180, strictly: a field is quoted as a whole or not at
// all, and every record has as many fields as the header. A record that breaks
// this is rejected and reading goes on with the next line.
//
// A quoted field may hold line ends. If a record of several lines is unusable (its quote
// is not closed within MaxRecord, or it is malformed further on), only its first line is
// rejected, and reading resumes at its second. A stray quote therefore costs one line, not
// the rest of the file. Each line is read only a few times: a line that opens a quote as
// the first line of a record closes it as a later one.
//
// A file may hold several tables, each below a header of its own. Between them are comments or
// empty lines. The fields of a record are those of the same names in each of them.
type csvReader struct {
	*lines
	delimiter string
	comment   []byte       // begins lines that are passed over; empty for none
	header    []string     // of this table
	index     []int        // of the fields that are wanted, in the header
	watch     columnFilter // what the next record may be
	spans     []fieldSpan  // of the fields of one record, in a string
	text      []byte       // the fields of one record with quotes, unquoted
	// Memory that records share, see shared: of the text of their fields, and of these.
	texts  strings.Builder
	fields []string

	src     Source
	skipped *skippedLines   // nil if nobody counts
	first   []string        // the header of the first table
	begins  [256]bool       // the first bytes of its names
	names   map[string]bool // of that, and those that are wanted, which are true
	wanted  int             // how many are
	refused string          // why the records of this table are rejected; "" if they are read
}

type fieldSpan struct{ from, to int }

// A columnFilter says which records are to be looked at.
type columnFilter uint8

const (
	belowHeader columnFilter = 1 << iota // the first one of a table
	behindGap                            // the first one behind comments or empty lines: maybe a header
	refusing                             // all, as their table is not read
)

func newCSVReader(r io.ReadCloser, path string, src Source, skipped *skippedLines) (*csvReader, error) {
	d, err := delimiter(src.Delimiter)
	if err != nil {
		return nil, err
	}
	c := &csvReader{lines: newLines(r, path), src: src, skipped: skipped, delimiter: string(d), comment: []byte(src.Comment)}
	c.begin()
	for range src.Skip {
		if !c.passLine() {
			break
		}
		c.skipped.add(1)
	}
	text, rec, err := c.read()
	switch {
	case err == io.EOF && (src.Skip > 0 || src.Comment != ""):
		return nil, fmt.Errorf("%s has no header: with skip and comment of the source nothing is left", fileName(path))
	case err == io.EOF:
		return nil, fmt.Errorf("%s is empty: a CSV begins with a header that names its columns", fileName(path))
	case err != nil:
		return nil, err
	case rec.Reason != "":
		hint := ""
		if d := src.otherDelimiter([]string{string(rec.Raw)}); d != "" && !strings.Contains(string(rec.Raw), c.delimiter) {
			hint = fmt.Sprintf("; it seems that the delimiter is %q", d)
		} else if bytes.IndexByte(rec.Raw, 0) >= 0 {
			hint = "; if this is UTF-16, set encoding: utf-16"
		}
		return nil, fmt.Errorf("%s, line %d: the header is not usable: %s%s", fileName(path), rec.Position, rec.Reason, hint)
	}
	if d, ok := strings.CutPrefix(strings.ToLower(strings.Trim(string(rec.Raw), `"`)), "sep="); ok && d != "" {
		_, n := utf8.DecodeRuneInString(d)
		return nil, fmt.Errorf("%s, line %d names a delimiter: set skip: %d and delimiter: %q", fileName(path), rec.Position, rec.Position, d[:n])
	}
	if err := checkWidth(path, len(c.spans)); err != nil {
		return nil, err
	}
	if err := c.table(c.cells(text)); err != nil {
		if hint := c.below(rec); hint != "" {
			err = errors.New(strings.TrimSuffix(err.Error(), ".") + "; " + hint)
		}
		return nil, err
	}
	return c, nil
}

// cells are the fields of one record.
func (c *csvReader) cells(text string) (cells []string) {
	for _, s := range c.spans {
		cells = append(cells, strings.Clone(text[s.from:s.to]))
	}
	return cells
}

// table begins a table with these names. The error says what they lack.
func (c *csvReader) table(names []string) error {
	src := c.src
	switch {
	case c.header == nil:
	case src.allColumns:
		c.header, c.index = names, nil
		for _, name := range c.first {
			c.index = append(c.index, slices.Index(names, name))
		}
		return nil
	case src.Wide:
		had, err := src.spread(c.path, c.first)
		if err != nil {
			return err
		}
		has, err := src.spread(c.path, names)
		if err != nil {
			return err
		}
		if slices.Sort(has); !slices.Equal(has, slices.Sorted(slices.Values(had))) {
			return fmt.Errorf("it has other columns of values than the first table: %s", list(has))
		}
		src.Wide, src.Values = false, had
	}
	index, err := src.locate(c.path, names)
	if err != nil {
		return err
	}
	c.header, c.index, c.watch = names, index, belowHeader
	if c.first == nil {
		named := src.named()
		wanted := setOf(named)
		c.first, c.names, c.wanted = names, map[string]bool{}, len(named)
		for _, name := range names {
			if name != "" {
				c.names[name], c.begins[name[0]] = wanted[name], true
			}
		}
	}
	return nil
}

// named are the columns that every table has to have, by their names.
func (src Source) named() []string {
	if src.allColumns {
		return nil
	}
	if src.TimeOptional {
		src.Time = ""
	}
	src.CarryFound = nil
	return slices.DeleteFunc(src.columns(), func(name string) bool { return name == "" || src.Wide && IsPattern(name) })
}

// isHeader reports whether a record names the columns that are wanted, or most of the first table's.
func (c *csvReader) isHeader(text string) bool {
	found, wanted := 0, 0
	for _, s := range c.spans {
		if want, is := c.names[text[s.from:s.to]]; is {
			found++
			if want {
				wanted++
			}
		}
	}
	return c.wanted > 0 && wanted >= c.wanted || found*2 > len(c.names)
}

// isRepeated reports whether a record that follows others is a header: its cells are most of the names, from the first on, and no
// numbers.
func (c *csvReader) isRepeated(text string) bool {
	found := 0
	for i, s := range c.spans {
		_, is := c.names[text[s.from:s.to]]
		switch {
		case isNumber(text[s.from:s.to]) || i == 0 && !is:
			return false
		case is:
			found++
		}
	}
	return found*2 > len(c.names)
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// attend looks at a record that is watched for, has another number of fields than the header, or begins as a name of it
// does. It reports that the record is the header of another table.
func (c *csvReader) attend(text string, rec *Record) (header bool) {
	if c.header == nil {
		return false
	}
	was := c.watch
	c.watch &= refusing
	if was&behindGap != 0 && c.isHeader(text) || text != "" && c.begins[text[0]] && c.isRepeated(text) {
		c.skipped.add(1)
		names := c.cells(text)
		c.watch, c.refused = belowHeader, ""
		if err := c.table(names); err != nil {
			c.header, c.watch = names, refusing
			c.refused = fmt.Sprintf("the table that begins at line %d cannot be read: %s", rec.Position, err)
		}
		return true
	}
	if rec.Reason = c.refused; rec.Reason != "" {
		return false
	}
	if was&belowHeader != 0 && len(c.spans) == len(c.header)+1 {
		c.unnamed(text)
	}
	if len(c.spans) != len(c.header) {
		rec.Reason = fmt.Sprintf("%d fields where the header has %d", len(c.spans), len(c.header))
		if was&belowHeader != 0 {
			rec.Reason += "; if the header is further down, set skip to the number of lines above it"
		}
	}
	return false
}

// unnamed adds a column without a name to a header with one name fewer than the first record has
// fields: that of R's names of rows, or, where lines end with a delimiter, the last.
func (c *csvReader) unnamed(text string) {
	last := c.spans[len(c.spans)-1]
	trails := last.from == last.to
	n := 0
	for line := range bytes.Lines(c.buf[c.start:c.end]) {
		if n++; n > 10 || !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		trails = trails && (len(chomp(line)) == 0 || bytes.HasSuffix(chomp(line), []byte(c.delimiter)))
	}
	names := slices.Concat([]string{""}, c.header)
	if trails {
		names = append(slices.Clone(c.header), "")
	}
	if isFirst := slices.Equal(c.first, c.header); isFirst {
		c.first, c.header = nil, nil
	}
	_ = c.table(names) // what it was with the other names
	c.watch = 0
}

// below says how to come to the names that the header lacks, if that is known.
func (c *csvReader) below(header Record) string {
	if bytes.HasPrefix(header.Raw, []byte("#")) {
		return fmt.Sprintf("line %d begins with #: if it is no header, set comment: \"#\"", header.Position)
	}
	wanted, line := c.src.named(), c.line
	for text := range bytes.Lines(c.buf[c.start:c.end]) {
		cells := strings.Split(strings.ReplaceAll(string(chomp(text)), `"`, ""), c.delimiter)
		if len(wanted) > 0 && !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(cells, name) }) {
			return fmt.Sprintf("line %d has these names: set skip: %d", line, line-1)
		}
		line++
	}
	return ""
}

func (c *csvReader) columns() []string { return slices.Clone(c.first) }

func (c *csvReader) next() (Record, error) {
	text, rec, err := c.read()
	if err != nil || rec.Reason != "" {
		return rec, err
	}
	if n := len(c.index); len(c.fields) < n {
		c.fields = make([]string, max(n, shared/100))
	}
	rec.Fields, c.fields = c.fields[:len(c.index):len(c.index)], c.fields[len(c.index):]
	for i, at := range c.index {
		if at < 0 {
			continue
		}
		f := text[c.spans[at].from:c.spans[at].to]
		if len(f) > MaxField {
			if !c.src.allColumns {
				rec.Fields, rec.Reason = nil, tooLong(c.header[at], len(f))
				return rec, nil
			}
			f = strings.ToValidUTF8(f[:MaxField], "")
		}
		rec.Fields[i] = f
	}
	return rec, nil
}

// read reads a record. If it has no Reason, c.spans are its fields in text.
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
			c.watch |= behindGap
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
		from := 0
		for field := range strings.SplitSeq(text, c.delimiter) {
			c.spans = append(c.spans, fieldSpan{from, from + len(field)})
			from += len(field) + len(c.delimiter)
		}
		if c.isWatched(text) && c.attend(text, &rec) {
			continue
		}
		return text, rec, nil
	}
}

// isWatched reports whether a record is for attend.
func (c *csvReader) isWatched(text string) bool {
	return c.watch != 0 || len(c.spans) != len(c.header) || text != "" && c.begins[text[0]]
}

// readQuoted is read for a record with quotes. Its first line is the first n bytes of the
// unread text. header reports that it is that of another table.
func (c *csvReader) readQuoted(n int, rec *Record) (text string, header bool, _ error) {
	end, count, err := c.unquote(n)
	f, rejects := errors.AsType[rejection](err)
	if err != nil && !rejects {
		return "", false, err
	}
	rec.Reason = cmp.Or(string(f), textFault(c.buf[c.start:c.start+end]))
	if rec.Reason == "" {
		text = c.string(c.text)
		header = c.isWatched(text) && c.attend(text, rec)
	}
	if rec.Reason != "" {
		end, count = n, 1
	}
	rec.Raw = c.head(chomp(c.buf[c.start : c.start+end]))
	c.consume(end, count)
	return text, header, nil
}

// string returns a copy of b.
func (c *csvReader) string(b []byte) string {
	if c.texts.Cap()-c.texts.Len() < len(b) {
		c.texts.Reset()
		c.texts.Grow(max(shared, len(b)))
	}
	from := c.texts.Len()
	c.texts.Write(b)
	return c.texts.String()[from:]
}

// A rejection is a reason to reject a record.
type rejection string

func (f rejection) Error() string { return string(f) }

// unquote splits the first record of the unread text into c.text and c.spans. The record's
// first line ends at end. unquote returns the record's end and its number of lines. The
// error is a fault or comes from reading.
func (c *csvReader) unquote(end int) (_, count int, _ error) {
	c.text, c.spans = c.text[:0], c.spans[:0]
	b := c.buf[c.start : c.start+end]
	at, count := 0, 1
	for {
		from := len(c.text)
		if at < len(b) && b[at] == '"' {
			at++
			for {
				i := bytes.IndexByte(b[at:], '"')
				if i < 0 {
					c.text = append(c.text, b[at:]...)
					at = end
					var err error
					end, err = c.lineEnd(end)
					switch err {
					case nil:
					case io.EOF:
						return 0, 0, rejection("a quote is opened and not closed before the end of the file")
					case errTooLong:
						return 0, 0, rejection(fmt.Sprintf("a quote is opened and not closed within %d bytes", c.longest))
					default:
						return 0, 0, err
					}
					b = c.buf[c.start : c.start+end]
					count++
					continue
				}
				c.text = append(c.text, b[at:at+i]...)
				at += i + 1
				if at == len(b) || b[at] != '"' {
					break
				}
				c.text = append(c.text, '"')
				at++
			}
		} else {
			field, _, _ := bytes.Cut(chomp(b[at:]), []byte(c.delimiter))
			if i := bytes.IndexByte(field, '"'); i >= 0 {
				return 0, 0, rejection(fmt.Sprintf("a quote inside a field without quotes, at byte %d of the record", at+i+1))
			}
			c.text = append(c.text, field...)
			at += len(field)
		}
		c.spans = append(c.spans, fieldSpan{from, len(c.text)})
		rest := b[at:]
		switch {
		case len(chomp(rest)) == 0:
			return end, count, nil
		case bytes.HasPrefix(rest, []byte(c.delimiter)):
			at += len(c.delimiter)
		default:
			return 0, 0, rejection(fmt.Sprintf("text after a closing quote, at byte %d of the record", at+1))
		}
	}
}

// csvEncoder writes rows. A text that a spreadsheet would take for a formula, such as a key of
// somebody else's making, has an apostrophe in front.
type csvEncoder struct {
	csv *csv.Writer
	row []string
}

func newCSVEncoder(out io.Writer, sink Sink, header bool) (encoder, error) {
	if err := checkColumns(sink.Columns); err != nil {
		return nil, err
	}
	comma, err := delimiter(sink.Delimiter)
	if err != nil {
		return nil, err
	}
	e := &csvEncoder{csv: csv.NewWriter(out), row: make([]string, len(sink.Columns))}
	e.csv.Comma = comma
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
			s, err := text(v)
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

// isFormula reports whether a spreadsheet would take a text for a formula. A number is none.
func isFormula(s string) bool {
	return s != "" && strings.IndexByte("=+-@\t\r", s[0]) >= 0 && !isNumber(s)
}

// Unguarded is a text of a CSV without the apostrophe that a sink puts in front of a formula.
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
