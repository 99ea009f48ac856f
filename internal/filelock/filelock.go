// Package filelock locks files against other processes. The operating system releases a lock when its process ends.
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

// A Lock is a lock of this process.
type Lock struct{ file *os.File }

// A LockedError means that another run holds a lock. Holder names its process, its host and the start of the lock;
// it is empty if the other run has not written them yet.
type LockedError struct{ Holder string }

func (h *LockedError) Error() string {
	if h.Holder == "" {
		return "another run holds it"
	}
	return "another run holds it: " + h.Holder
}

// maxHolder is the maximum number of bytes that are read from a lock file.
const maxHolder = 1 << 10

// holderPrefix starts the text of a lock file, which names the holder. A file with only a part of it was left by a
// process that was killed while it wrote.
const holderPrefix = "process "

var holderText = regexp.MustCompile(`^process [0-9]+ on [^\s[:cntrl:]]* since [-+.:0-9TZ]+$`)

// notLock returns the error for a file that is not a lock file: a link, or a file with other content.
func notLock(path string) error {
	return fmt.Errorf("%s is not a lock file of this program, but a link or another file: remove it if it is not needed, or use another name for the state", path)
}

// maxTries is the maximum number of attempts of Acquire to open a file that other processes create and remove.
const maxTries = 1000

// Acquire locks the file at path until Release or the end of the process. It does not wait: if the lock is held,
// also by this process, the error is a *LockedError. The error wraps errors.ErrUnsupported if the file system has
// no locks. Acquire follows no link, and changes only lock files.
func Acquire(path string) (*Lock, error) {
	for range maxTries {
		f, created, err := openLock(path)
		if errors.Is(err, fs.ErrExist) {
			continue // another process has created it meanwhile
		}
		if err != nil {
			return nil, err
		}
		ok, err := Try(f)
		if errors.Is(err, errors.ErrUnsupported) && created {
			os.Remove(path)
		}
		if err == nil && ok && !At(f, path) { // the previous holder has removed it meanwhile
			f.Close()
			continue
		}
		var text string
		if err == nil {
			text, err = readHolder(f, path)
		}
		if err == nil && !ok {
			if !holderText.MatchString(text) {
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
		holder := fmt.Sprintf("%s%d on %s since %s\n", holderPrefix, os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(holder), 0)
		}
		if err != nil {
			l.Release() // otherwise an empty file would stay on a full disk
			return nil, err
		}
		return l, nil
	}
	return nil, fmt.Errorf("%s is repeatedly created and removed by other processes", path)
}

// openLock opens the lock file, or creates it.
func openLock(path string) (f *os.File, created bool, err error) {
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
		err = notLock(path)
	}
	if err != nil {
		f.Close()
		return nil, false, err
	}
	return f, false, nil
}

// readHolder returns the text of a lock file. It fails if the file is not a lock file.
func readHolder(f *os.File, path string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(f, maxHolder))
	if err != nil {
		return "", err
	}
	text := string(b)
	if !strings.HasPrefix(text, holderPrefix) && !strings.HasPrefix(holderPrefix, text) {
		return "", notLock(path)
	}
	return strings.TrimSpace(text), nil
}

// Release releases the lock and removes its file.
func (l *Lock) Release() {
	if At(l.file, l.file.Name()) {
		Remove(l.file)
	} else {
		l.file.Close()
	}
}

// Remove removes an open file and closes it. If the system allows, it removes the file before the lock ends.
func Remove(f *os.File) {
	if RemovesOpen {
		os.Remove(f.Name()) // first: a process that has opened it notices with At
	}
	f.Close()
	if !RemovesOpen {
		os.Remove(f.Name()) // does nothing if another process has opened it
	}
}

// At reports whether path still names the open file f.
func At(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}
