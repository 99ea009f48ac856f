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
		Run: func(cmd *cobra.Command, _ []string) {
			version, beam := versions()
			fmt.Fprintf(cmd.OutOrStdout(), "hafvf %s, Beam %s, %s %s/%s\n", version, beam, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// source tells programs apart that were built without the history, as the image is.
// The linker sets it (deploy/Dockerfile).
var source string

// versions are the versions of the program and of Beam, "unknown" if the build lacks them.
func versions() (program, beam string) {
	program, beam = "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return program, beam
	}
	program = info.Main.Version
	if source != "" {
		program += " " + source
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			program += " " + s.Value
		}
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/apache/beam/sdks/v2" {
			beam = d.Version
		}
	}
	return program, beam
}
