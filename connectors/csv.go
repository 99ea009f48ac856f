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
)

var csvFormat = Format{
	Name: CSV, Title: "CSV", Extensions: []string{".csv"}, Columns: true, Delimited: true,
	Of:      "Delimited text with a header line.",
	Written: "Delimited text with a header line. A text like a formula has an apostrophe in front.",
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
type csvReader struct {
	*lines
	delimiter string
	comment   []byte // begins lines that are passed over; empty for none
	header    []string
	index     []int // of the fields that are wanted, in the header
	noTime    bool
	every     bool   // only a look, see Source.every
	spans     []span // of the fields of one record, in a string
	text      []byte // the fields of one record with quotes, unquoted
	// Memory that records share, see shared: of the text of their fields, and of these.
	texts  strings.Builder
	fields []string
}

type span struct{ from, to int }

func newCSVReader(r io.ReadCloser, path string, src Source) (*csvReader, error) {
	d, err := delimiter(src.Delimiter)
	if err != nil {
		return nil, err
	}
	c := &csvReader{lines: newLines(r, path), delimiter: string(d), comment: []byte(src.Comment)}
	c.begin()
	for range src.Skip {
		if !c.passLine() {
			break
		}
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
		}
		return nil, fmt.Errorf("%s, line %d: the header is not usable: %s%s", fileName(path), rec.Position, rec.Reason, hint)
	}
	if err := checkWidth(path, len(c.spans)); err != nil {
		return nil, err
	}
	for _, s := range c.spans {
		c.header = append(c.header, strings.Clone(text[s.from:s.to]))
	}
	if c.index, err = src.locate(path, c.header); err != nil {
		return nil, err
	}
	c.every = src.every
	c.noTime = !src.every && c.index[len(src.Key)] < 0
	return c, nil
}

func (c *csvReader) columns() []string { return slices.Clone(c.header) }

func (c *csvReader) next() (Record, error) {
	text, rec, err := c.read()
	if err != nil || rec.Reason != "" {
		return rec, err
	}
	rec.NoTime = c.noTime
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
			if !c.every {
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
			c.consume(n, 1)
			continue
		}
		rec = c.record()
		if bytes.IndexByte(line, '"') >= 0 {
			text, err = c.readQuoted(n, &rec)
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
			c.spans = append(c.spans, span{from, from + len(field)})
			from += len(field) + len(c.delimiter)
		}
		rec.Reason = c.countFault()
		return text, rec, nil
	}
}

func (c *csvReader) countFault() string {
	if c.header == nil || len(c.spans) == len(c.header) {
		return ""
	}
	return fmt.Sprintf("%d fields where the header has %d", len(c.spans), len(c.header))
}

// readQuoted is read for a record with quotes. Its first line is the first n bytes of the
// unread text.
func (c *csvReader) readQuoted(n int, rec *Record) (string, error) {
	end, count, err := c.unquote(n)
	f, rejects := errors.AsType[fault](err)
	if err != nil && !rejects {
		return "", err
	}
	reason := cmp.Or(string(f), textFault(c.buf[c.start:c.start+end]), c.countFault())
	if reason != "" {
		end, count = n, 1
	}
	rec.Raw = c.head(chomp(c.buf[c.start : c.start+end]))
	rec.Reason = reason
	c.consume(end, count)
	return c.string(c.text), nil
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

// A fault is a reason to reject a record.
type fault string

func (f fault) Error() string { return string(f) }

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
						return 0, 0, fault("a quote is opened and not closed before the end of the file")
					case errTooLong:
						return 0, 0, fault(fmt.Sprintf("a quote is opened and not closed within %d bytes", c.longest))
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
				return 0, 0, fault(fmt.Sprintf("a quote inside a field without quotes, at byte %d of the record", at+i+1))
			}
			c.text = append(c.text, field...)
			at += len(field)
		}
		c.spans = append(c.spans, span{from, len(c.text)})
		rest := b[at:]
		switch {
		case len(chomp(rest)) == 0:
			return end, count, nil
		case bytes.HasPrefix(rest, []byte(c.delimiter)):
			at += len(c.delimiter)
		default:
			return 0, 0, fault(fmt.Sprintf("text after a closing quote, at byte %d of the record", at+1))
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
	if s == "" || strings.IndexByte("=+-@\t\r", s[0]) < 0 {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err != nil
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
