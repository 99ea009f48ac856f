// Package deadlinewriter writes to pipes and devices, whose readers may have stopped to read.
package deadlinewriter

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// ErrStuck says that nobody has read for too long.
var ErrStuck = errors.New("nobody has read it")

// pieceBytes is how much is written at a time: what a pipe holds.
const pieceBytes = 64 << 10

// A Writer writes to a file, and waits for its reader until Hurry is called. Then it waits for
// each piece no longer than its patience. It is safe for concurrent use.
type Writer struct {
	file    *os.File
	timeout time.Duration

	hurries chan struct{}
	hurry   func()
	stuck   chan struct{}
	stick   func()
}

// New returns an outlet of an open file.
func New(file *os.File, patience time.Duration) *Writer {
	o := &Writer{file: file, timeout: patience, hurries: make(chan struct{}), stuck: make(chan struct{})}
	o.hurry = sync.OnceFunc(func() { close(o.hurries) })
	o.stick = sync.OnceFunc(func() { close(o.stuck) })
	return o
}

// Hurry bounds the time of writes from now on, also of those that wait.
func (o *Writer) Hurry() { o.hurry() }

// Write writes p. After ErrStuck a part of it may have been written, and the outlet takes no more.
func (o *Writer) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = o.write(p[n:min(len(p), n+pieceBytes)])
		n += k
	}
	return n, err
}

// write writes a piece. A write that waits cannot be given up; therefore it is left alone, with
// bytes of its own.
func (o *Writer) write(p []byte) (int, error) {
	select {
	case <-o.stuck:
		return 0, o.stuckError()
	default:
	}
	type result struct {
		n   int
		err error
	}
	done, own := make(chan result, 1), slices.Clone(p)
	go func() {
		n, err := o.file.Write(own)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-o.hurries:
	}
	select {
	case r := <-done:
		return r.n, r.err
	case <-o.stuck:
	case <-time.After(o.timeout):
		o.stick()
	}
	return 0, o.stuckError()
}

func (o *Writer) stuckError() error {
	return fmt.Errorf("the run was stopped, and for %s %w", o.timeout, ErrStuck)
}
