//go:build !windows

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// open opens a file that is not a link. create is 0, or the flags to create it.
func open(path string, create int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|create|unix.O_NOFOLLOW, 0o666)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) { // the latter on FreeBSD
		return nil, notLock(path)
	}
	return f, err
}
