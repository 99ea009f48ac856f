package filelock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// RemovesOpen reports whether an open file can be removed and renamed.
const RemovesOpen = false

// Try locks an open file until it is closed. It reports false if somebody else has locked it.
// The error wraps errors.ErrUnsupported: the file system has no locks.
func Try(f *os.File) (ok bool, err error) {
	// A locked byte can be read by nobody else: this one is behind the end of the file.
	beyond := windows.Overlapped{OffsetHigh: 1 << 30}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &beyond)
	switch err {
	case nil:
		return true, nil
	case windows.ERROR_LOCK_VIOLATION, windows.ERROR_IO_PENDING:
		return false, nil
	}
	return false, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}
