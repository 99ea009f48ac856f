package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/connectors/promio"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/sniff"
)

func checkCommand() *cobra.Command {
	var set []string
	var keys, noData bool
	var states string
	cmd := &cobra.Command{
		Use:     "check CONFIG [--states WHERE] | check --keys",
		Short:   "List the mistakes of a config, or its steps",
		Long:    help("check"),
		Example: "  hafvf check pump.yaml\n  hafvf check pump.yaml --no-data --set top=0.99\n  hafvf check pump.yaml --states pump.states\n  hafvf check --keys",
		Args: func(cmd *cobra.Command, args []string) error {
			if keys {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if keys {
				fmt.Fprint(cmd.OutOrStdout(), config.Reference())
				return nil
			}
			if isSavepoint(states) {
				return errSavepoint(states)
			}
			cfg, graph, err := cli.Load(args[0], set)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), graph)
			printWarnings(cmd.ErrOrStderr(), graph)
			if cmd.Flags().Changed("states") {
				ctx, stop := stoppable(cmd.Context())
				defer stop()
				retained, err := pipeline.CheckStates(ctx, graph, states, slog.New(slog.DiscardHandler))
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "states   %s\n", retained)
			}
			for _, remark := range cfg.HolidayRemarks() {
				fmt.Fprintf(cmd.OutOrStdout(), "remark   %s\n", remark)
			}
			if noData {
				return nil
			}
			sniffed, err := sniff.Inspect(cfg)
			switch {
			case errors.Is(err, sniff.ErrNoData):
				return nil
			case errors.Is(err, fs.ErrNotExist) || errors.Is(err, promio.ErrAway):
				// A config may be checked on a machine without its data.
				fmt.Fprintf(cmd.OutOrStdout(), "data     not checked: %v\n", err)
				return nil
			case err != nil:
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), sniffed)
			return sniffed.Err()
		},
	}
	cli.AddSet(cmd, &set)
	cmd.Flags().BoolVar(&keys, "keys", false, "list the keys of a config instead of checking one")
	cmd.Flags().StringVar(&states, "states", "", "list the parts of states that --migrate keeps; `WHERE` is a state file or a changelog")
	cmd.Flags().BoolVar(&noData, "no-data", false, "do not check the data")
	return cmd
}

// printWarnings writes the warnings of a graph, one per line.
func printWarnings(w io.Writer, g *pipeline.Graph) {
	for _, warning := range g.Warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
}
