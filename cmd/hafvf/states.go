package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/pipeline"
)

func statesCommand() *cobra.Command {
	var set []string
	var key, savepoint string
	cmd := &cobra.Command{
		Use:   "states CONFIG [--savepoint PATH] | states FILE | states SAVEPOINT",
		Short: "Show the states that a config's runs begin with",
		Long:  help("states"),
		Example: `  hafvf states pump.yaml
  hafvf states pump.yaml --key pump-7
  hafvf states pump.states
  hafvf states flink.yaml --savepoint /savepoints/savepoint-2a91f3-0d5b`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("key") && key == "" {
				return cli.Usage(errors.New("--key is empty: leave it out for the states of all keys"))
			}
			if cmd.Flags().Changed("savepoint") && savepoint == "" {
				return cli.Usage(errors.New("--savepoint is empty: leave it out for the states that runs of files and topics begin with"))
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if pipeline.HasStates(args[0]) {
				if savepoint != "" {
					return cli.Usage(fmt.Errorf("--savepoint is for a config, and %s holds states itself", args[0]))
				}
				return errors.Join(pipeline.ListStatesIn(args[0], key, out), out.Flush())
			}
			_, graph, err := cli.Load(args[0], set)
			if err != nil {
				return err
			}
			if savepoint != "" {
				return errors.Join(pipeline.ListSavepoint(graph, savepoint, key, out), out.Flush())
			}
			ctx, stop := stoppable(cmd.Context())
			defer stop()
			return errors.Join(pipeline.ListStates(ctx, graph, key, out, slog.New(slog.DiscardHandler)), out.Flush())
		},
	}
	cli.AddSet(cmd, &set)
	cmd.AddCommand(forgetCommand())
	cmd.Flags().StringVar(&key, "key", "", "show the state of one `key`")
	cmd.Flags().StringVar(&savepoint, "savepoint", "", "show the states in the savepoint at `path`")
	return cmd
}
