package connectors

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"hafvf/internal/account"
	"hafvf/internal/atomicfile"
	"hafvf/internal/deadlinewriter"
	"hafvf/internal/message"
	"hafvf/internal/tabular"
)

// A Sink says what file to write.
type Sink struct {
	// Format is a name in Formats.
	Format string
	// Path is a file in a folder that exists, or "-" for standard output (not
	// for Parquet). A CSV or JSON Lines file whose name ends in .gz or .zst is
	// compressed.
	Path string
	// Columns are those of CSV and Parquet. A cell of nothing or null is empty, or
	// null in Parquet; an object or array is given as its JSON text.
	Columns []tabular.Column
	// Delimiter separates the fields of a CSV, one rune. Default ",".
	Delimiter string
	// Append adds to the file as it is, at once, in place of a file that appears
	// when it is complete: for what has no end. Not for Parquet and compressed
	// files. A line that was cut off in the middle is taken out first.
	Append bool
	// Live writes at once too, to a file that is emptied before the first line: for what comes slowly
	// and has an end. A Parquet or compressed file appears when it is complete.
	Live bool
}

// Direct reports whether what is written can be read at once, and not only when
// the file is complete.
func (s Sink) Direct() bool {
	return s.Append || s.Path == stdio || s.Path == Stderr || s.Live && !s.completeOnly()
}

// whole reports whether the file is of use when it is complete only.
func (s Sink) completeOnly() bool {
	return FormatOf(s.Format).Whole || Unpacked(s.Path) != s.Path
}

// A Writer writes records to a sink. Its file has a temporary name in the
// same folder until Commit, so that it appears complete or not at all; Keep gives
// the part of a run that has not come to its end a name of its own. What is
// not a regular file (standard output, a device, a named pipe) is written
// directly, and each Write is passed on at once.
type Writer struct {
	name string // for messages

	mu            sync.Mutex
	file          *os.File
	out           *deadlinewriter.Writer // of file; nil if it is a regular one
	atomic        *atomicfile.File       // file, nil when written directly
	buf           *bufio.Writer
	zip           io.WriteCloser
	enc           encoder
	direct        bool
	hasOldContent bool  // the file has its old content until something is written
	written       bool  // something was
	finished      bool  // written out: nothing more can be written
	err           error // the first failure, which stays
	closed        bool
}

// An encoder turns lines into a format.
type encoder interface {
	write(lines []byte) error
	// flush passes on what can be passed on before the end.
	flush() error
	close() error
}

// ErrReaderGone says that nobody reads standard output any more, as behind | head. A program
// gets it if it ignores SIGPIPE, which ends it otherwise.
var ErrReaderGone = errors.New("its reader has gone")

var errClosed = errors.New("the writer has been committed or aborted")

// Create opens a sink. Its errors are sentences that name the path.
func Create(sink Sink) (*Writer, error) {
	w := &Writer{name: sink.Path}
	format, ext := FormatOf(sink.Format), filepath.Ext(sink.Path)
	switch {
	case format.encode == nil:
		return nil, fmt.Errorf("%s cannot be written: %w", sink.Path, errNoFormat(sink.Format, ""))
	case sink.Path == "":
		return nil, errors.New("the sink has no path: give a file, or \"-\" for standard output")
	case format.Whole && sink.Path == stdio:
		return nil, fmt.Errorf("%s cannot be written to standard output: give a file", sink.Format)
	case format.Whole && Unpacked(sink.Path) != sink.Path:
		return nil, fmt.Errorf("%s: %s is compressed inside the file already: leave out %s", sink.Path, sink.Format, ext)
	}
	fresh, err := w.open(sink)
	if err != nil {
		return nil, err
	}
	var dst io.Writer = w.file
	if info, err := w.file.Stat(); err == nil && !info.Mode().IsRegular() {
		w.out = deadlinewriter.New(w.file, account.StopTimeout)
		dst = w.out
	}
	w.buf = bufio.NewWriterSize(dst, 256<<10)
	if w.zip, err = compressor(w.buf, sink.Path); err != nil {
		w.Abort()
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	if w.enc, err = format.encode(w.zip, sink, fresh); err != nil {
		w.Abort()
		return nil, fmt.Errorf("%s cannot be written: %w", w.name, message.Cause(err))
	}
	return w, nil
}

// open sets file, whole and direct. It reports whether the file is empty.
func (w *Writer) open(sink Sink) (fresh bool, err error) {
	path := sink.Path
	info, statErr := os.Stat(path)
	fresh, w.direct = true, true
	switch {
	case path == stdio:
		w.name, w.file = "standard output", os.Stdout
	case path == Stderr:
		w.name, w.file = "standard error", os.Stderr
	case sink.Append && sink.completeOnly():
		return false, fmt.Errorf("%s: a file of this kind has to come to an end, and the input has none: give plain JSON Lines or CSV", path)
	case sink.Append:
		fresh, err = w.openAppend(sink)
	case sink.Live && !sink.completeOnly():
		w.hasOldContent = statErr == nil && info.Mode().IsRegular()
		w.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	case statErr == nil && info.IsDir():
		err = errors.New("it is a folder")
	case statErr == nil && !info.Mode().IsRegular():
		w.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	default:
		w.direct = false
		if w.atomic, err = atomicfile.Create(path); err == nil {
			w.file = w.atomic.File
		}
	}
	if err != nil {
		return false, message.CannotWrite(path, err)
	}
	return fresh, nil
}

// extend opens a file to add to it. It reports whether the file is empty.
func (w *Writer) openAppend(sink Sink) (fresh bool, err error) {
	if w.file, err = os.OpenFile(sink.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666); err != nil {
		return false, err
	}
	delimited := FormatOf(sink.Format).Delimited
	if fresh, err = cutPartialLine(w.file, delimited); err == nil && !fresh && delimited {
		err = checkHeader(w.file, sink)
	}
	if err != nil {
		w.Abort()
	}
	return fresh, err
}

// cutTorn removes an incomplete last line of f, which a killed program has left. With
// quotes, a line end between quotes does not count. It reports whether f is empty then.
func cutPartialLine(f *os.File, quotes bool) (empty bool, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return true, nil // no regular file, or an empty one
	}
	end := int64(0) // of the last line
	if quotes {
		end, err = lastRow(io.NewSectionReader(f, 0, size))
	} else {
		end, err = lastLine(f, size)
	}
	if err == nil && end < size {
		err = f.Truncate(end)
	}
	return end == 0, err
}

// lastLine is the end of the last line of a file that has one, searched from the
// end of the file.
func lastLine(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		start := max(0, end-int64(len(buf)))
		n, err := f.ReadAt(buf[:end-start], start)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// lastRow is the end of the last row of a CSV that has one. Only from the
// beginning can be told what is in quotes: a quote within a field is two.
func lastRow(r io.Reader) (end int64, err error) {
	buf := make([]byte, 256<<10)
	quoted := false
	for offset := int64(0); ; {
		n, err := r.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			part, after, more := bytes.Cut(rest, []byte{'"'})
			if i := bytes.LastIndexByte(part, '\n'); i >= 0 && !quoted {
				end = offset + int64(i) + 1
			}
			offset += int64(len(part))
			if rest = after; more {
				quoted, offset = !quoted, offset+1
			}
		}
		if err == io.EOF {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// sameHeader refuses to add rows to a CSV of other columns.
func checkHeader(f *os.File, sink Sink) error {
	comma, err := delimiter(sink.Delimiter)
	if err != nil {
		return err
	}
	r := csv.NewReader(io.NewSectionReader(f, 0, math.MaxInt64))
	r.Comma = comma
	header, err := r.Read()
	if err != nil || !slices.EqualFunc(header, sink.Columns, func(name string, c tabular.Column) bool { return name == c.Path }) {
		return errors.New("its first line is not the header of this run's columns; move it away, or give another path")
	}
	return nil
}

// Write appends records, one per line, each ended by '\n': JSON objects, or for a
// table rows, whose cells are JSON values, or nothing, with tabs between them. It
// may be called from several goroutines; the lines of one call stay together.
// After an error every further call returns the same one.
func (w *Writer) Write(lines []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.finished {
		return fmt.Errorf("%s: %w", w.name, errClosed)
	}
	if w.err != nil {
		return w.err
	}
	w.written = w.written || len(lines) > 0
	err := w.truncateOld()
	if err == nil {
		err = w.enc.write(lines)
	}
	if err == nil && w.direct {
		err = w.flush()
	}
	if errors.Is(err, deadlinewriter.ErrStuck) {
		err = fmt.Errorf("%w: not all of the last %s are written, and none after them", err, message.Count(bytes.Count(lines, []byte("\n")), "record", "records"))
	}
	w.setError(err)
	return w.err
}

// empty removes the old content of a file that is written directly.
func (w *Writer) truncateOld() error {
	if !w.hasOldContent {
		return nil
	}
	w.hasOldContent = false
	return w.file.Truncate(0)
}

// Hurry says that the run is being stopped: a pipe or a device that nobody reads is waited for no
// longer than account.StopTimeout.
func (w *Writer) Hurry() {
	if w.out != nil {
		w.out.Hurry()
	}
}

func (w *Writer) flush() error {
	if err := w.enc.flush(); err != nil {
		return err
	}
	if f, ok := w.zip.(interface{ Flush() error }); ok {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	return w.buf.Flush()
}

func (w *Writer) setError(err error) {
	if w.file == os.Stdout && errors.Is(err, syscall.EPIPE) {
		err = ErrReaderGone
	}
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("%s cannot be written: %w", w.name, message.Cause(err))
	}
}

// Finish writes everything out, and leaves to Commit or Keep the name of the file. When it, or
// an earlier Write, failed there is no file and the error is returned.
func (w *Writer) Finish() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.finishOnce()
}

// end is Finish, if that was not done yet.
func (w *Writer) finishOnce() error {
	if w.closed {
		return fmt.Errorf("%s: %w", w.name, errClosed)
	}
	if w.err == nil && !w.finished {
		w.finished = true
		w.setError(w.writeOut())
	}
	if w.err != nil {
		w.discard()
	}
	return w.err
}

// Commit finishes the file and gives it its name. A part that Keep has left before is removed.
// When it, or an earlier Write, failed there is no file and the error is returned.
func (w *Writer) Commit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.finishOnce(); err != nil {
		return err
	}
	w.closed = true
	switch {
	case w.atomic != nil:
		w.setError(w.atomic.Commit())
	case w.file != os.Stdout && w.file != os.Stderr:
		w.setError(w.file.Close())
	}
	return w.err
}

// LeaveUnwritten closes the writer and leaves the file of the sink as it is, if nothing was written and there is such a file.
// It reports whether it did.
func (w *Writer) LeaveUnwritten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.written || !(w.hasOldContent || w.atomic != nil && w.atomic.Replaces()) {
		return false
	}
	w.discard()
	return true
}

// KeepPartial finishes the file and gives it the name of its sink with .partial behind it, which it
// returns. The file of the sink stays as it is. The name is empty if there is no such part:
// nothing was written, or it was written directly, or Commit was called. After an error there is
// none either.
func (w *Writer) KeepPartial() (name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.atomic == nil || !w.written {
		w.discard()
		return "", nil
	}
	if err := w.finishOnce(); err != nil {
		return "", err
	}
	w.closed = true
	name, err = w.atomic.Keep()
	w.setError(err)
	return name, w.err
}

// finish writes out what is still held.
func (w *Writer) writeOut() error {
	for _, step := range []func() error{w.truncateOld, w.enc.close, w.zip.Close, w.buf.Flush, w.sync} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Whole reports whether the file appears with Commit alone.
func (w *Writer) Whole() bool { return w.atomic != nil }

// Err is the first failure, nil where there was none.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Sync has what was written directly to a file outlast a loss of power.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.direct && !w.closed {
		w.setError(w.sync())
	}
	return w.err
}

// sync does nothing of what is no file, such as a pipe, which refuses it.
func (w *Writer) sync() error {
	if info, err := w.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return w.file.Sync()
}

// Abort removes the temporary file. What was written directly stays. After
// Commit it does nothing.
func (w *Writer) Abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.discard()
}

func (w *Writer) discard() {
	if w.closed {
		return
	}
	w.closed = true
	switch {
	case w.atomic != nil:
		w.atomic.Discard()
	case w.file != os.Stdout && w.file != os.Stderr:
		w.file.Close()
	}
}
