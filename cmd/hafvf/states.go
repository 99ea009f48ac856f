package main

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"hafvf/pipeline"
)

func statesCommand() *cobra.Command {
	var set []string
	var key string
	cmd := &cobra.Command{
		Use:   "states CONFIG | states FILE",
		Short: "Show the states that a config's runs begin with",
		Long: `States reads a file of states, or the states of a config, from the changelog of its
source or from its file of states. It writes what each says, one JSON object per
key: observations so far, the latest time, how many observations wait, estimate,
weight, memory, levels and posterior. It changes nothing, and a run may go on
meanwhile. States of earlier versions do not say what they were written with: they
need the config that they were written with.

Exit: 0 fine, 1 a state cannot be read or there is none, 2 the config is wrong.`,
		Example: "  hafvf states pump.yaml\n  hafvf states pump.yaml --key pump-7\n  hafvf states pump.states",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("key") && key == "" {
				return usageError{errors.New("--key is empty: leave it out for the states of all keys")}
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if pipeline.IsStateFile(args[0]) {
				return errors.Join(pipeline.ListStatesIn(args[0], key, out), out.Flush())
			}
			_, graph, err := load(args[0], set)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return errors.Join(pipeline.ListStates(ctx, graph, key, out, slog.New(slog.DiscardHandler)), out.Flush())
		},
	}
	addSet(cmd, &set)
	cmd.Flags().StringVar(&key, "key", "", "show the state of one `key`")
	return cmd
}
