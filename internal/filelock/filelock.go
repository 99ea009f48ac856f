// Package filelock locks files against other processes. A lock ends with its process, whatever
// ends that.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Lock is a lock that this process holds.
type Lock struct{ file *os.File }

// Held is the error of a lock that another run holds. Holder says which: its process, host, and
// since when; it is empty if the other one has not said so yet.
type Held struct{ Holder string }

func (h *Held) Error() string {
	if h.Holder == "" {
		return "another run holds it"
	}
	return "another run holds it: " + h.Holder
}

// maxHolder bounds what is read of a holder.
const maxHolder = 1 << 10

// Acquire takes the lock of which path is the file, until Release or the end of the process. It
// does not wait: the error is a *Held if somebody has it, also within this process. It wraps
// errors.ErrUnsupported if the file system has no locks.
func Acquire(path string) (*Lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		ok, err := Try(f)
		if err == nil && !ok {
			text, _ := io.ReadAll(io.LimitReader(f, maxHolder))
			err = &Held{strings.TrimSpace(string(text))}
		}
		if errors.Is(err, errors.ErrUnsupported) {
			os.Remove(path)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		if !At(f, path) { // the holder before has removed it since
			f.Close()
			continue
		}
		host, _ := os.Hostname()
		holder := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(holder), 0)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return &Lock{f}, nil
	}
}

// Release gives the lock back, and removes its file.
func (l *Lock) Release() {
	if RemovesOpen {
		os.Remove(l.file.Name()) // first: whoever has opened it sees in At that it is gone
		l.file.Close()
		return
	}
	l.file.Close()
	os.Remove(l.file.Name()) // does nothing if somebody has opened it
}

// At reports whether f is the file that path leads to.
func At(f *os.File, path string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(is, there)
}
