//go:build !windows && !plan9

// Package anyuser lets the program run as a user that is missing in the system's user table, or exits with an
// error. Beam looks up the user while its package expansionx is initialised, and panics if there is none (Beam
// 2.77.0, xlangx/expansionx/download.go). This package is initialised before expansionx: Go initialises ready
// packages in the order of their import paths, and expansionx has to wait for net/http, which is later in that
// order. A test checks this.
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
		// For a user that is not in the table, package os/user uses these variables. It caches the result.
		for name, value := range map[string]string{"USER": "uid" + uid, "HOME": os.TempDir()} {
			if os.Getenv(name) == "" {
				os.Setenv(name, value)
				defer os.Unsetenv(name)
			}
		}
	}
	if _, err := user.Current(); err != nil {
		fmt.Fprintf(os.Stderr, "hafvf: user ID %s is not in the user table, and a program built with cgo cannot run as it: build hafvf with CGO_ENABLED=0 or -tags osusergo\n", uid)
		os.Exit(1)
	}
}
