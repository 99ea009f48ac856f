package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program and of what it is built from",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), versionLine()) },
	}
}

func versionLine() string {
	program, beam := versions()
	return fmt.Sprintf("hafvf %s, Beam %s, %s %s/%s", program, beam, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is that of the program. CHANGELOG.md has a heading for it.
const version = "0.1.0"

// source tells programs apart that were built without the history, as the image is.
// The linker sets it (deploy/Dockerfile).
var source string

// versions are the versions of the program, with the commit that it is built from where the
// build knows it, and of Beam, "unknown" if the build lacks it.
func versions() (program, beam string) {
	program, beam = version, "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return program, beam
	}
	if source != "" {
		program += " " + source
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			program += " " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			program += "+dirty"
		}
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/apache/beam/sdks/v2" {
			beam = d.Version
		}
	}
	return program, beam
}
