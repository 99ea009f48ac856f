// Hafvf-lab compares the filter with other methods, measures what the mechanisms of the alarms are worth, and repeats
// the experiments of the paper.
package main

import (
	"flag"
	"log/slog"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	_ "hafvf/internal/anyuser" // before Beam looks the user up
)

func main() {
	flag.CommandLine.Parse(nil) // Beam requires parsed flags; the program has none for it
	beam.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	root := &cobra.Command{
		Use:   "hafvf-lab",
		Short: "Compare the filter of hafvf with other methods, measure its alarms, or repeat the experiments of the paper",
	}
	root.AddCommand(ablateCommand(), compareCommand(), experimentCommand())
	os.Exit(cli.Run(root, os.Args[1:], os.Stderr))
}
