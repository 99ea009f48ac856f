// Package filelock locks files against other processes. A lock ends with its process, whatever
// ends that.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"
)

// A Lock is a lock that this process holds.
type Lock struct{ file *os.File }

// LockedError is the error of a lock that another run holds. Holder says which: its process, host, and
// since when; it is empty if the other one has not said so yet.
type LockedError struct{ Holder string }

func (h *LockedError) Error() string {
	if h.Holder == "" {
		return "another run holds it"
	}
	return "another run holds it: " + h.Holder
}

// maxHolder bounds what is read of a holder.
const maxHolder = 1 << 10

// A lock's file says who holds it. A beginning of such a text is that of a process which was killed
// while it wrote.
const begins = "process "

var holders = regexp.MustCompile(`^process [0-9]+ on [^\s[:cntrl:]]* since [-+.:0-9TZ]+$`)

// notOurs is the error of a file that no lock is: a link, or one with other content.
func notOurs(path string) error {
	return fmt.Errorf("%s is no lock of this program, but a link or a file of something else: remove it if nobody needs it, or give the state another name", path)
}

// maxTries is how often Acquire tries to open a file that others make and remove.
const maxTries = 1000

// Acquire takes the lock of which path is the file, until Release or the end of the process. It
// does not wait: the error is a *LockedError if somebody has it, also within this process. It wraps
// errors.ErrUnsupported if the file system has no locks. It opens no link, and changes no file
// but a lock's.
func Acquire(path string) (*Lock, error) {
	for range maxTries {
		f, made, err := openLock(path)
		if errors.Is(err, fs.ErrExist) {
			continue // somebody has made it since
		}
		if err != nil {
			return nil, err
		}
		ok, err := Try(f)
		if errors.Is(err, errors.ErrUnsupported) && made {
			os.Remove(path)
		}
		if err == nil && ok && !At(f, path) { // the holder before has removed it since
			f.Close()
			continue
		}
		var text string
		if err == nil {
			text, err = textOf(f, path)
		}
		if err == nil && !ok {
			if !holders.MatchString(text) {
				text = ""
			}
			err = &LockedError{text}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		l := &Lock{f}
		host, _ := os.Hostname()
		holder := fmt.Sprintf("%s%d on %s since %s\n", begins, os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(holder), 0)
		}
		if err != nil {
			l.Release() // an empty file would stay on a full disk
			return nil, err
		}
		return l, nil
	}
	return nil, fmt.Errorf("%s is made and removed by others all the time", path)
}

// openLock opens the file of a lock, or makes it.
func openLock(path string) (f *os.File, made bool, err error) {
	f, err = open(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = open(path, os.O_CREATE|os.O_EXCL)
		return f, true, err
	}
	if err != nil {
		return nil, false, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notOurs(path)
	}
	if err != nil {
		f.Close()
		return nil, false, err
	}
	return f, false, nil
}

// textOf is what a lock's file says. The error says that the file is none.
func textOf(f *os.File, path string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(f, maxHolder))
	if err != nil {
		return "", err
	}
	text := string(b)
	if !strings.HasPrefix(text, begins) && !strings.HasPrefix(begins, text) {
		return "", notOurs(path)
	}
	return strings.TrimSpace(text), nil
}

// Release gives the lock back, and removes its file.
func (l *Lock) Release() {
	if At(l.file, l.file.Name()) {
		Remove(l.file)
	} else {
		l.file.Close()
	}
}

// Remove removes an open file and closes it. A lock is held until the name is gone, where possible.
func Remove(f *os.File) {
	if RemovesOpen {
		os.Remove(f.Name()) // first: whoever has opened it sees in At that it is gone
	}
	f.Close()
	if !RemovesOpen {
		os.Remove(f.Name()) // does nothing if somebody has opened it
	}
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
