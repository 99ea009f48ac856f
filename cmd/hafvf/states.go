package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/pipeline"
)

func statesCommand() *cobra.Command {
	var set []string
	var key, savepoint string
	cmd := &cobra.Command{
		Use:   "states CONFIG | states FILE",
		Short: "Show the states that the next run of a config starts with",
		Long:  help("states"),
		Example: `  hafvf states pump.yaml
  hafvf states pump.yaml --key pump-7
  hafvf states pump.states`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("key") && key == "" {
				return cli.UsageError(errors.New("--key is empty: leave it out for the states of all keys"))
			}
			if cmd.Flags().Changed("savepoint") || isSavepoint(args[0]) {
				return errSavepoint(cmp.Or(savepoint, args[0]))
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if statestore.IsFile(args[0]) {
				return errors.Join(pipeline.ListStatesIn(args[0], key, out), out.Flush())
			}
			_, graph, err := cli.Load(args[0], set)
			if err != nil {
				return err
			}
			ctx, stop := stoppable(cmd.Context())
			defer stop()
			return errors.Join(pipeline.ListStates(ctx, graph, key, out, slog.New(slog.DiscardHandler)), out.Flush())
		},
	}
	cli.AddSet(cmd, &set)
	cmd.AddCommand(forgetCommand())
	cmd.Flags().StringVar(&key, "key", "", "show the state of one `key`")
	cmd.Flags().StringVar(&savepoint, "savepoint", "", "")
	cmd.Flags().MarkHidden("savepoint") // the flag is refused
	return cmd
}

// isSavepoint reports whether a path or URL looks like a savepoint or a checkpoint of Flink.
func isSavepoint(place string) bool {
	if place == "" {
		return false
	}
	if strings.Contains(place, "://") || strings.HasPrefix(place, "file:") || filepath.Base(place) == "_metadata" {
		return true
	}
	_, err := os.Stat(filepath.Join(place, "_metadata"))
	return err == nil
}

func errSavepoint(place string) error {
	return cli.UsageError(fmt.Errorf("%s: hafvf does not read savepoints of Flink: start a job from it with hafvf run CONFIG --savepoint PATH, which reports how many keys resume and how many are reset", place))
}
