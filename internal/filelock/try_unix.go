//go:build !windows

package filelock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// RemovesOpen is true if an open file can be removed and renamed.
const RemovesOpen = true

// Try locks an open file until it is closed. It returns false if the file is locked already. The error wraps
// errors.ErrUnsupported and means that the file system has no locks.
func Try(f *os.File) (ok bool, err error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return false, nil
		default:
			return false, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
	}
}
