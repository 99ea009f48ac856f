package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

// maxNamedKeys is the maximum number of forgotten keys that are listed.
const maxNamedKeys = 10

func forgetCommand() *cobra.Command {
	var set, keys []string
	cmd := &cobra.Command{
		Use:   "forget WHERE --key KEY",
		Short: "Remove the stored states of keys",
		Long:  help("forget"),
		Example: `  hafvf states forget pump.yaml --key pump-7
  hafvf states forget pump.states --key 'hall-2/*' --key pump-7`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(keys, "") {
				return cli.UsageError(errors.New("--key is empty: give a key, or '*' for all keys"))
			}
			forgotten, err := forget(cmd, args[0], keys, set)
			if err != nil {
				return err
			}
			if len(forgotten.Keys) <= maxNamedKeys {
				for _, key := range forgotten.Keys {
					fmt.Fprintln(cmd.ErrOrStderr(), "forgot", message.Printable(key))
				}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), forgotten)
			return err
		},
	}
	cli.AddSet(cmd, &set)
	cmd.Flags().StringArrayVar(&keys, "key", nil, "forget this `key`, or the keys that match this pattern; may be repeated")
	cmd.MarkFlagRequired("key")
	return cmd
}

// onFlink describes how to make a job on Flink forget a key.
const onFlink = "set source.kafka.tombstones: forget, and write a record of the key with a null value to the topic"

func forget(cmd *cobra.Command, where string, keys, set []string) (f pipeline.Forgotten, err error) {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	switch {
	case statestore.IsFile(where):
		return pipeline.ForgetKeysIn(where, keys, log)
	case isSavepoint(where):
		return f, cli.UsageError(fmt.Errorf("%s is a savepoint, which only a job on Flink can change: %s", where, onFlink))
	}
	_, graph, err := cli.Load(where, set)
	if err != nil {
		return f, err
	}
	if graph.Runner.Name == config.Flink {
		return f, cli.UsageError(fmt.Errorf("%s: a job on Flink keeps its states itself: %s", where, onFlink))
	}
	ctx, stop := stoppable(cmd.Context())
	defer stop()
	return pipeline.ForgetKeys(ctx, graph, keys, log)
}
