package connectors

import (
	"bytes"
	"errors"
	"fmt"
	"hafvf/internal/message"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// errTooLong says that a record does not end within the longest one allowed.
var errTooLong = errors.New("record too long")

// lines is a window on a text. The unread part can be inspected and then consumed, line by
// line.
type lines struct {
	r          io.ReadCloser
	path, name string
	maxLength  int   // MaxRecord
	line       int64 // behind after
	after      int64 // see Record.After
	buf        []byte
	start, end int   // unread: buf[start:end]
	read       int64 // bytes of r
	err        error // of r, once it came
	copied     []byte
}

const window = 256 << 10

func newLines(r io.ReadCloser, path string) *lines {
	return &lines{r: r, path: path, name: sourceName(path), maxLength: MaxRecord, line: 1, buf: make([]byte, window)}
}

// begin sees what the text begins with, and must be called first: it consumes a byte order mark, of
// UTF-16 too, and if the first window has no LF, CR is the line end.
func (l *lines) begin() {
	const bom = "\ufeff"
	for l.end < len(bom) && l.err == nil {
		l.fill()
	}
	switch b := l.buf[:l.end]; {
	case bytes.HasPrefix(b, []byte(bom)):
		l.start = len(bom)
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}), bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		utf16 := unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM)
		l.wrapReader(func(r io.Reader) io.Reader { return transform.NewReader(r, utf16.NewDecoder()) })
	}
	for l.err == nil && l.end < len(l.buf) && bytes.IndexByte(l.buf[:l.end], '\n') < 0 {
		l.fill()
	}
	b := l.buf[l.start:l.end]
	if i := bytes.IndexByte(b, '\r'); i >= 0 && i < len(b)-1 && bytes.IndexByte(b, '\n') < 0 {
		l.wrapReader(func(r io.Reader) io.Reader { return crReader{r} })
	}
}

// through has the text go through another reader.
func (l *lines) wrapReader(wrap func(io.Reader) io.Reader) {
	src := l.r
	unread := bytes.Clone(l.buf[l.start:l.end])
	l.r = readStream{wrap(io.MultiReader(bytes.NewReader(unread), src)), src.Close}
	l.start, l.end, l.err = 0, 0, nil
}

// oldLineEnds reads CR as LF.
type crReader struct{ io.Reader }

func (r crReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	for i, b := range p[:n] {
		if b == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}

// position is how many bytes were read and consumed.
func (l *lines) position() int64 { return l.read - int64(l.end-l.start) }

func (l *lines) extent() int64 {
	if f, plain := l.r.(*os.File); plain {
		if info, err := f.Stat(); err == nil {
			return info.Size()
		}
	}
	return 0
}

func (l *lines) moveTo(pos int64) bool {
	f, plain := l.r.(*os.File)
	if !plain || pos <= l.position() {
		return false
	}
	// The byte before may be the line end.
	if _, err := f.Seek(pos-1, io.SeekStart); err != nil {
		return false
	}
	l.start, l.end, l.err, l.read = 0, 0, nil, pos-1
	l.skipLine()
	l.after, l.line = pos, 1
	return true
}

// fill reads more, once, making room for it.
func (l *lines) fill() {
	if l.end == len(l.buf) {
		if l.start > 0 {
			l.end = copy(l.buf, l.buf[l.start:l.end])
			l.start = 0
		} else {
			l.buf = append(l.buf, make([]byte, min(len(l.buf), l.maxLength+window-len(l.buf)))...)
		}
	}
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.read += int64(n)
		l.err = err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// lineEnd returns the length of the unread text up to and with the end of the
// line that begins at offset from in it. The last line of a file may lack its
// line end. Errors: io.EOF when nothing is left at from, errTooLong when the
// text would be longer than l.longest, or the reader's.
func (l *lines) lineEnd(offset int) (int, error) {
	for seen := offset; ; l.fill() {
		unread := l.buf[l.start:l.end]
		i := bytes.IndexByte(unread[seen:], '\n')
		switch {
		case i >= 0 && seen+i+1 <= l.maxLength:
			return seen + i + 1, nil
		case i >= 0 || len(unread) > l.maxLength:
			return 0, errTooLong
		case l.err == io.EOF && len(unread) > offset:
			return len(unread), nil
		case l.err == io.EOF:
			return 0, io.EOF
		case l.err != nil:
			return 0, l.readError()
		}
		seen = len(unread)
	}
}

// readFault is the error of the reader.
func (l *lines) readError() error {
	err := message.Cause(l.err)
	if errors.Is(l.err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the compressed data is cut off: %w", l.err)
	}
	return fmt.Errorf("%s, line %d: %w", fileName(l.path), l.line, err)
}

// consume drops the first n bytes of the unread text, which are count lines.
func (l *lines) consume(n, count int) {
	l.start += n
	l.line += int64(count)
}

// skipLine consumes a line without holding it in memory and returns its length
// without line end, and its beginning.
func (l *lines) skipLine() (length int64, head []byte) {
	head, _, _ = bytes.Cut(l.buf[l.start:min(l.end, l.start+MaxRaw)], []byte("\n"))
	head = bytes.Clone(head)
	for {
		unread := l.buf[l.start:l.end]
		if i := bytes.IndexByte(unread, '\n'); i >= 0 {
			l.consume(i+1, 1)
			return length + int64(i), head
		}
		length += int64(len(unread))
		l.start, l.end = 0, 0
		if l.err != nil {
			l.line++
			return length, head
		}
		l.fill()
	}
}

// passLine consumes a line, however long. It reports false at the end of the text.
func (l *lines) discardLine() bool {
	if _, err := l.lineEnd(0); err != nil && err != errTooLong {
		return false // and the next record says so
	}
	l.skipLine()
	return true
}

// tooLong consumes a line that is longer than l.longest and rejects it.
func (l *lines) tooLong() Record {
	rec := l.record()
	var length int64
	length, rec.Raw = l.skipLine()
	rec.Reason = fmt.Sprintf("the line has %d bytes; at most %d are allowed", length, l.maxLength)
	return rec
}

func (l *lines) record() Record {
	return Record{Source: l.name, Path: l.path, Position: l.line, After: l.after}
}

func (l *lines) close() error { return l.r.Close() }

// chomp returns line without its line end.
func chomp(line []byte) []byte {
	// A suffix in memory of one byte, which has just been written, is slow to compare.
	for _, end := range "\n\r" {
		if n := len(line); n > 0 && line[n-1] == byte(end) {
			line = line[:n-1]
		}
	}
	return line
}

// shared is the size of the memory that the texts of records share. A record is kept for
// about as long as those beside it, and memory of its own would cost time.
const sharedBytes = 64 << 10

// copy returns a copy of b.
func (l *lines) copy(b []byte) []byte {
	if cap(l.copied)-len(l.copied) < len(b) {
		l.copied = make([]byte, 0, max(sharedBytes, len(b)))
	}
	start := len(l.copied)
	l.copied = append(l.copied, b...)
	return l.copied[start:len(l.copied):len(l.copied)]
}

// head returns a copy of the beginning of b that goes into Record.Raw.
func (l *lines) head(b []byte) []byte { return l.copy(b[:min(len(b), MaxRaw)]) }

// NotUTF8 begins the reason of a record that is not.
const NotUTF8 = "not UTF-8"

// textFault says what keeps b from being text, or "".
func textFault(b []byte) string {
	if !utf8.Valid(b) {
		for i := 0; i < len(b); {
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n == 1 {
				return fmt.Sprintf("%s: byte %#02x at byte %d of the record; set encoding, such as windows-1252", NotUTF8, b[i], i+1)
			}
			i += n
		}
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return fmt.Sprintf("a NUL at byte %d of the record", i+1)
	}
	return ""
}
