//go:build !windows && !plan9

// Package anyuser lets the program run as a user that no table of users knows, or says why it
// cannot. Beam looks the user up while its package expansionx is initialised, and crashes if
// there is none (Beam 2.77.0, xlangx/expansionx/download.go). This package is initialised before
// that one: Go takes the packages that are ready by their import paths, and expansionx has to wait
// for net/http, which comes later in that order. A test holds it.
package anyuser

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

func init() {
	uid := strconv.Itoa(os.Getuid())
	if !asksSystem {
		// Of a user whom no table knows, package os/user takes these. It keeps what it has found.
		for name, value := range map[string]string{"USER": "uid" + uid, "HOME": os.TempDir()} {
			if os.Getenv(name) == "" {
				os.Setenv(name, value)
				defer os.Unsetenv(name)
			}
		}
	}
	if _, err := user.Current(); err != nil {
		fmt.Fprintf(os.Stderr, "hafvf: the system knows no user of the id %s, and a program that was built with cgo cannot run as one: build it with CGO_ENABLED=0 or -tags osusergo\n", uid)
		os.Exit(1)
	}
}
