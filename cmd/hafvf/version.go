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
			version, beam := "unknown", "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						version += " " + s.Value
					}
				}
				for _, d := range info.Deps {
					if d.Path == "github.com/apache/beam/sdks/v2" {
						beam = d.Version
					}
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "hafvf %s, Beam %s, %s %s/%s\n", version, beam, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
