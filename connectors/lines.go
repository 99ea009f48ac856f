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

// errTooLong means that a record does not end within the maximum length.
var errTooLong = errors.New("record too long")

// lines is a window on a text. Its unread part can be inspected, and then consumed line by line.
type lines struct {
	r          io.ReadCloser
	path, name string
	maxLength  int   // of a record: MaxRecord, except in tests
	line       int64 // counts from 1 after the byte in after
	after      int64 // see Record.After
	buf        []byte
	start, end int    // the unread part is buf[start:end]
	read       int64  // bytes read from r
	err        error  // first error of r
	copied     []byte // shared memory for copies, see sharedBytes
}

const window = 256 << 10

func newLines(r io.ReadCloser, path, name string) *lines {
	return &lines{r: r, path: path, name: name, maxLength: MaxRecord, line: 1, buf: make([]byte, window)}
}

// begin must be called first. It consumes a byte order mark, and decodes UTF-16 if the mark is one of UTF-16. If
// the first window contains CR but no LF, CR is the line end.
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

// wrapReader replaces l.r, including the unread text, by the reader that wrap makes of it.
func (l *lines) wrapReader(wrap func(io.Reader) io.Reader) {
	src := l.r
	unread := bytes.Clone(l.buf[l.start:l.end])
	l.r = readStream{wrap(io.MultiReader(bytes.NewReader(unread), src)), src.Close}
	l.start, l.end, l.err = 0, 0, nil
}

// crReader replaces CR by LF.
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

// position returns the number of bytes that have been consumed.
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

// fill reads once, and makes room for it if necessary.
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

// lineEnd returns the length of the unread text up to and including the end of the line that begins at offset. The
// last line of a file may lack its line end. The error is io.EOF if nothing is left at offset, errTooLong if the
// length would exceed l.maxLength, or the reader's error.
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

// readError returns the error of the reader with file and line.
func (l *lines) readError() error {
	err := message.Cause(l.err)
	if errors.Is(l.err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the compressed data is cut off: %w", l.err)
	}
	return fmt.Errorf("%s, line %d: %w", fileName(l.path), l.line, err)
}

// consume drops the first n bytes of the unread text, which contain count lines.
func (l *lines) consume(n, count int) {
	l.start += n
	l.line += int64(count)
}

// skipLine consumes a line of any length without keeping it in memory. It returns its length without the line end,
// and its beginning.
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

// discardLine consumes a line of any length. It returns false at the end of the text or after a read error.
func (l *lines) discardLine() bool {
	if _, err := l.lineEnd(0); err != nil && err != errTooLong {
		return false // the next record reports the error
	}
	l.skipLine()
	return true
}

// tooLong consumes a line that is longer than l.maxLength, and rejects it.
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
	// bytes.HasSuffix is slow for a suffix of one byte that was just written.
	for _, end := range "\n\r" {
		if n := len(line); n > 0 && line[n-1] == byte(end) {
			line = line[:n-1]
		}
	}
	return line
}

// sharedBytes is the size of the memory that texts of records share. Records are kept about as long as their
// neighbours, and separate allocations would cost time.
const sharedBytes = 64 << 10

// copy returns a copy of b in memory that records share.
func (l *lines) copy(b []byte) []byte {
	if cap(l.copied)-len(l.copied) < len(b) {
		l.copied = make([]byte, 0, max(sharedBytes, len(b)))
	}
	start := len(l.copied)
	l.copied = append(l.copied, b...)
	return l.copied[start:len(l.copied):len(l.copied)]
}

// head returns a copy of the beginning of b for Record.Raw.
func (l *lines) head(b []byte) []byte { return l.copy(b[:min(len(b), MaxRaw)]) }

// NotUTF8 begins the reason of a record that is not UTF-8.
const NotUTF8 = "not UTF-8"

// textFault returns why b is not text, or "" if it is.
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
