// Package deadlinewriter writes to pipes and devices whose readers may have stopped reading.
package deadlinewriter

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// ErrStuck means that nobody has read for too long.
var ErrStuck = errors.New("nobody has read it")

// pieceBytes is the size of one write: the capacity of a pipe.
const pieceBytes = 64 << 10

// A Writer writes to a file and waits for the file's reader. After Hurry it waits for each piece at most the time
// given to New. It is safe for concurrent use.
type Writer struct {
	file    *os.File
	timeout time.Duration

	hurrying chan struct{}
	hurry    func()
	stuck    chan struct{}
	setStuck func()
}

// New returns a Writer for an open file. patience is the maximum time of a piece after Hurry.
func New(file *os.File, patience time.Duration) *Writer {
	w := &Writer{file: file, timeout: patience, hurrying: make(chan struct{}), stuck: make(chan struct{})}
	w.hurry = sync.OnceFunc(func() { close(w.hurrying) })
	w.setStuck = sync.OnceFunc(func() { close(w.stuck) })
	return w
}

// Hurry limits the time of writes from now on, including writes in progress.
func (w *Writer) Hurry() { w.hurry() }

// Write writes p. After ErrStuck a part of p may have been written, and all later writes fail.
func (w *Writer) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = w.write(p[n:min(len(p), n+pieceBytes)])
		n += k
	}
	return n, err
}

// write writes a piece. A blocked write cannot be cancelled, so it stays in a goroutine with its own copy of the
// bytes.
func (w *Writer) write(p []byte) (int, error) {
	select {
	case <-w.stuck:
		return 0, w.stuckError()
	default:
	}
	type result struct {
		n   int
		err error
	}
	done, copied := make(chan result, 1), slices.Clone(p)
	go func() {
		n, err := w.file.Write(copied)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-w.hurrying:
	}
	select {
	case r := <-done:
		return r.n, r.err
	case <-w.stuck:
	case <-time.After(w.timeout):
		w.setStuck()
	}
	return 0, w.stuckError()
}

func (w *Writer) stuckError() error {
	return fmt.Errorf("the run was stopped, and for %s %w", w.timeout, ErrStuck)
}
