package filelock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// RemovesOpen is true if an open file can be removed and renamed.
const RemovesOpen = false

// Try locks an open file until it is closed. It returns false if the file is locked already. The error wraps
// errors.ErrUnsupported and means that the file system has no locks.
func Try(f *os.File) (ok bool, err error) {
	// No other process can read a locked byte, so this byte is after the end of the file.
	pastEnd := windows.Overlapped{OffsetHigh: 1 << 30}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &pastEnd)
	switch err {
	case nil:
		return true, nil
	case windows.ERROR_LOCK_VIOLATION, windows.ERROR_IO_PENDING:
		return false, nil
	}
	return false, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}
