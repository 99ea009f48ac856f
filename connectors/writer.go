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

// A Sink describes a file to write.
type Sink struct {
	// Format is a name in Formats.
	Format string
	// Path is a file in an existing folder, or "-" for standard output (not for Parquet). A CSV or JSON Lines file
	// with the extension .gz or .zst is compressed.
	Path string
	// Columns are the columns of CSV and Parquet. An empty cell or null is empty in CSV and null in Parquet. An
	// object or array is written as its JSON text.
	Columns []tabular.Column
	// Append appends to an existing file at once, for data without an end. Without Append or Live, a file appears
	// when it is complete. Append is not possible for Parquet and compressed files. An incomplete last line is
	// removed first.
	Append bool
	// Live writes at once to a file that is emptied before the first line, for slow data with an end. A Parquet or
	// compressed file still appears when it is complete.
	Live bool
}

// Direct reports whether the output can be read at once, and not only when the file is complete.
func (s Sink) Direct() bool {
	return s.Append || s.Path == stdio || s.Path == Stderr || s.Live && !s.completeOnly()
}

// completeOnly reports whether the file is usable only when it is complete.
func (s Sink) completeOnly() bool {
	return FormatOf(s.Format).Whole || Unpacked(s.Path) != s.Path
}

// A Writer writes records to a sink. Its file has a temporary name in the same folder until Commit, so it appears
// complete or not at all. KeepPartial gives the file of an unfinished run a different name. Files that are not
// regular (standard output, a device, a named pipe) are written directly, and each Write is flushed.
type Writer struct {
	name string // for messages

	mu            sync.Mutex
	file          *os.File
	out           *deadlinewriter.Writer // writes to file; nil if file is regular
	atomic        *atomicfile.File       // contains file; nil if it is written directly
	buf           *bufio.Writer
	zip           io.WriteCloser
	enc           encoder
	direct        bool
	hasOldContent bool  // file has its old content until something is written
	written       bool  // Write got at least one byte
	finished      bool  // everything is written out, and nothing more can be written
	err           error // first failure, which is permanent
	closed        bool
}

// An encoder converts lines to a format.
type encoder interface {
	write(lines []byte) error
	// flush writes out complete data before the end.
	flush() error
	close() error
}

// ErrReaderGone means that the reader of standard output has closed it, as head does in a shell pipeline. Only
// programs that ignore SIGPIPE get this error; otherwise the signal ends them.
var ErrReaderGone = errors.New("its reader has closed it")

var errClosed = errors.New("the writer has been committed or aborted")

// Create opens a sink. Its errors are sentences with the path.
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

// open sets file, atomic and direct. fresh reports whether the file is empty.
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
		return false, fmt.Errorf("%s: a file of this kind needs an input with an end: use plain JSON Lines or CSV", path)
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

// openAppend opens a file to append to it. fresh reports whether the file is empty.
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

// cutPartialLine removes an incomplete last line of f, which a killed program has left. With quotes, a line end
// between quotes does not count. empty reports whether f is then empty.
func cutPartialLine(f *os.File, quotes bool) (empty bool, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return true, nil // not a regular file, or empty
	}
	end := int64(0) // of the last complete line
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

// lastLine returns the offset after the last line end of a file, or 0 if there is none. It searches backwards.
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

// lastRow returns the offset after the last complete row of a CSV, or 0 if there is none. It reads from the
// beginning, because only then quotes are unambiguous: a quote in a field is doubled.
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

// checkHeader returns an error if the header of a CSV differs from the columns of sink.
func checkHeader(f *os.File, sink Sink) error {
	header, err := csv.NewReader(io.NewSectionReader(f, 0, math.MaxInt64)).Read()
	if err != nil || !slices.EqualFunc(header, sink.Columns, func(name string, c tabular.Column) bool { return name == c.Path }) {
		return errors.New("its first line is not the header of this run's columns; move it away, or give another path")
	}
	return nil
}

// Write appends records, one per line, each ended by '\n'. A record is a JSON object or, for a table, a row of
// cells separated by tabs. Each cell is a JSON value or empty. Write is safe for concurrent use; the lines of one
// call stay together. After an error every further call returns the same error.
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

// truncateOld removes the old content of a file that is written directly.
func (w *Writer) truncateOld() error {
	if !w.hasOldContent {
		return nil
	}
	w.hasOldContent = false
	return w.file.Truncate(0)
}

// Hurry is called when the run is being stopped. A pipe or device without a reader then blocks for at most
// account.StopTimeout.
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

// Finish writes everything out. Commit or KeepPartial then names the file. If Finish or an earlier Write fails,
// there is no file.
func (w *Writer) Finish() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.finishOnce()
}

// finishOnce writes everything out unless that is done already, or returns the first failure.
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

// Commit finishes the file and gives it its name. It removes an older file of KeepPartial. If Commit or an earlier
// Write fails, there is no file.
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

// LeaveUnwritten closes the writer and keeps the sink's existing file, if there is one and nothing was written. It
// reports whether it did so.
func (w *Writer) LeaveUnwritten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.written || !(w.hasOldContent || w.atomic != nil && w.atomic.Replaces()) {
		return false
	}
	w.discard()
	return true
}

// KeepPartial finishes the file and names it like the sink's file with the suffix .partial. It returns that name.
// The sink's file is unchanged. The name is empty if there is no such file: nothing was written, the output was
// written directly, Commit was called before, or an error occurred.
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

// writeOut writes out all buffered data.
func (w *Writer) writeOut() error {
	for _, step := range []func() error{w.truncateOld, w.enc.close, w.zip.Close, w.buf.Flush, w.sync} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Whole reports whether the file appears only with Commit.
func (w *Writer) Whole() bool { return w.atomic != nil }

// Err returns the first failure, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Sync flushes a directly written file to disk.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.direct && !w.closed {
		w.setError(w.sync())
	}
	return w.err
}

// sync flushes a regular file to disk. It does nothing for pipes and devices, which cannot be synced.
func (w *Writer) sync() error {
	if info, err := w.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return w.file.Sync()
}

// Abort removes the temporary file. Directly written output is kept. After Commit it does nothing.
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
