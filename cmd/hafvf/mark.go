package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

func markCommand() *cobra.Command {
	var set []string
	var key, note, timeText, outputPath, configPath string
	cmd := &cobra.Command{
		Use:   "mark ID false|true|expected",
		Short: "Mark an alarm as false, true or expected",
		Long:  help("mark"),
		Example: `  hafvf mark in-0-4711 false -o marks.jsonl
  hafvf mark in-0-4711 false --key pump-7 --config pump.yaml
  hafvf mark pump.csv:812 true --note "the bearing broke" --time 2026-03-01T12:00:00Z`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			m := records.Mark{ID: args[0], Mark: args[1], Time: time.Now().UTC().Truncate(time.Second), Note: note}
			if cmd.Flags().Changed("key") {
				m.Key = &key
			}
			if cmd.Flags().Changed("time") {
				var err error
				if m.Time, err = time.Parse(time.RFC3339Nano, timeText); err != nil {
					return cli.UsageError(fmt.Errorf("--time: %q is not a time such as 2026-01-02T03:04:05Z", timeText))
				}
			}
			if err := m.Check(); err != nil {
				if !slices.Contains(records.Marks(), m.Mark) {
					err = fmt.Errorf("unknown mark %q: use %s after the ID", m.Mark, message.Choice(records.Marks()))
				}
				return cli.UsageError(err)
			}
			switch {
			case outputPath != "" && configPath != "":
				return cli.UsageError(errors.New("use either -o or --config, not both"))
			case outputPath != "":
				return pipeline.SendMark(cmd.Context(), &config.Sink{File: &config.File{Path: outputPath}}, m, slog.New(slog.DiscardHandler))
			case configPath != "":
				cfg, _, err := cli.Load(configPath, set)
				if err != nil {
					return err
				}
				if cfg.Marks == nil {
					return cli.UsageError(fmt.Errorf("%s has no marks: add marks: {jsonl: {path: marks.jsonl}}, and restart its run", configPath))
				}
				ctx, stop := stoppable(cmd.Context())
				defer stop()
				return pipeline.SendMark(ctx, cfg.Marks, m, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			}
			_, err := cmd.OutOrStdout().Write(m.Line())
			return err
		},
	}
	cli.AddSet(cmd, &set)
	cmd.Flags().StringVar(&key, "key", "", "the `key` of the alarm, if alarms of several keys have this ID")
	cmd.Flags().StringVar(&note, "note", "", "a comment")
	cmd.Flags().StringVar(&timeText, "time", "", "`time` from which the mark applies, on the clock of the records (default now)")
	cmd.Flags().StringVarP(&outputPath, "output", "o", "", "append the line to `FILE`")
	cmd.Flags().StringVar(&configPath, "config", "", "write the mark to the marks of `CONFIG`")
	return cmd
}
