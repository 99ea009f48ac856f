package connectors

import (
	"bytes"
	"fmt"
	"io"
)

var jsonlFormat = Format{
	Name: JSONLines, Title: "JSON Lines", Extensions: []string{".jsonl", ".ndjson", ".json"},
	Of:      "JSON Lines, or a JSON array.",
	Written: "One JSON object per line.",
	open: textOpener(func(r io.ReadCloser, path string, src Source, _ *skippedLines) (*jsonlReader, error) {
		return newJSONLReader(r, path, src.name(path)), nil
	}),
	encode: func(out io.Writer, _ Sink, _ bool) (encoder, error) { return &jsonlEncoder{out: out}, nil },
}

// jsonlReader reads one Record per line that is not blank, or per element if the file begins with an array. It does
// not parse JSON: it only checks that a record is text, and finds the end of an element.
type jsonlReader struct {
	*lines
	array   bool   // the next text is an element, or a bracket of the array
	inArray bool   // between the brackets of the array
	lost    bool   // after an element without an end
	number  int64  // of the last element
	closers []byte // closing brackets of the current element, innermost last
}

func newJSONLReader(r io.ReadCloser, path, name string) *jsonlReader {
	l := newLines(r, path, name)
	l.begin()
	return &jsonlReader{lines: l, array: bytes.HasPrefix(bytes.TrimSpace(l.buf[l.start:l.end]), []byte("["))}
}

func (j *jsonlReader) columns() []string { return nil }

func (j *jsonlReader) moveTo(pos int64) bool { return !j.array && j.lines.moveTo(pos) }

func (j *jsonlReader) next() (Record, error) {
	if j.array {
		rec, err := j.element()
		if err != nil || j.array {
			return rec, err
		}
	}
	for {
		n, err := j.lineEnd(0)
		if err == errTooLong {
			return j.tooLong(), nil
		}
		if err != nil {
			return Record{}, err
		}
		line := chomp(j.buf[j.start : j.start+n])
		rec := j.record()
		j.consume(n, 1)
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		rec.Raw, rec.Reason = j.raw(line)
		return rec, nil
	}
}

// raw returns a copy of a record's text. If the text is unusable, reason says why, and the copy is cut.
func (j *jsonlReader) raw(text []byte) (raw []byte, reason string) {
	if reason = textFault(text); reason != "" {
		return j.head(text), reason
	}
	return j.copy(text), ""
}

// element reads the next element of the array. After the array there may be another array, or lines. For lines,
// element sets j.array to false and returns no record.
func (j *jsonlReader) element() (Record, error) {
	for {
		if j.start == j.end {
			switch {
			case j.err == nil:
				j.fill()
				continue
			case j.err != io.EOF:
				return Record{}, j.readError()
			case !j.inArray || j.lost:
				return Record{}, io.EOF
			}
			j.inArray = false
			rec := j.elementRecord()
			rec.Reason = fmt.Sprintf("the array is not closed: the file ends at line %d", j.line)
			return rec, nil
		}
		switch b := j.buf[j.start]; {
		case b == '\n':
			j.consume(1, 1)
		case b == ' ' || b == '\t' || b == '\r':
			j.consume(1, 0)
		case j.lost && b != '{':
			j.skipLine()
		case b == ',' && j.inArray:
			j.consume(1, 0)
		case b == '[' && !j.inArray:
			j.inArray = true
			j.consume(1, 0)
		case b == ']' && j.inArray:
			j.inArray = false
			j.consume(1, 0)
		case !j.inArray:
			j.array = false
			return Record{}, nil
		default:
			j.lost = false
			return j.scan()
		}
	}
}

// elementRecord returns the Record of the next element, without its text.
func (j *jsonlReader) elementRecord() Record {
	j.number++
	rec := j.record()
	rec.Position = j.number
	return rec
}

// scan reads the element at the start of the unread text. If the element does not end, its first line is rejected,
// and reading continues at the next line that begins with an object.
func (j *jsonlReader) scan() (Record, error) {
	rec := j.elementRecord()
	quoted, end := false, -1
	j.closers = j.closers[:0]
	fault := ""
	for i := 0; end < 0 && fault == ""; i++ {
		if i >= j.maxLength {
			fault = fmt.Sprintf("does not end within %d bytes", j.maxLength)
			break
		}
		for i >= j.end-j.start && j.err == nil {
			j.fill()
		}
		switch {
		case i < j.end-j.start:
		case j.err != io.EOF:
			return Record{}, j.readError()
		case len(j.closers) == 0 && !quoted:
			end = j.end - j.start
			continue
		default:
			fault = "does not end before the end of the file"
			continue
		}
		depth := len(j.closers)
		switch b := j.buf[j.start+i]; {
		case quoted && b == '\\':
			i++
		case quoted && b == '\n':
			fault = "has a text without a closing quote"
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			j.closers = append(j.closers, b+2) // the closing bracket
		case depth == 0 && (b == ',' || b == ']' || b == '\n'):
			end = i
		case depth == 0 || b != '}' && b != ']':
		case b != j.closers[depth-1]:
			fault = fmt.Sprintf("has a %q instead of a %q", b, j.closers[depth-1])
		default:
			if j.closers = j.closers[:depth-1]; depth == 1 {
				end = i + 1
			}
		}
	}
	if fault != "" {
		rec.Reason = fmt.Sprintf("the element of the array that begins at line %d %s", j.line, fault)
		_, rec.Raw = j.skipLine()
		j.lost = true
		return rec, nil
	}
	text := j.buf[j.start : j.start+end]
	rec.Raw, rec.Reason = j.raw(text)
	j.consume(end, bytes.Count(text, []byte("\n")))
	return rec, nil
}

// jsonlEncoder writes lines unchanged.
type jsonlEncoder struct{ out io.Writer }

func (e *jsonlEncoder) write(lines []byte) error {
	_, err := e.out.Write(lines)
	return err
}

func (e *jsonlEncoder) flush() error { return nil }
func (e *jsonlEncoder) close() error { return nil }
