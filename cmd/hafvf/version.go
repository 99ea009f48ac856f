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
		Short: "Print the versions of the program, Beam and Go",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), versionLine()) },
	}
}

func versionLine() string {
	program, beam := versions()
	return fmt.Sprintf("hafvf %s, Beam %s, %s %s/%s", program, beam, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is the version of the program. CHANGELOG.md has a heading for it.
const version = "0.1.0"

// source identifies programs that were built without the history, such as the image. The linker sets it
// (deploy/Dockerfile).
var source string

// versions returns the version of the program, with its commit if the build has it, and the version of Beam, or
// "unknown".
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
