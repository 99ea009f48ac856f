package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

func markCommand() *cobra.Command {
	var set []string
	var key, note, at, out, of string
	cmd := &cobra.Command{
		Use:   "mark ID false|true|expected",
		Short: "Say of an alarm that it was false, true or expected",
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
				if m.Time, err = time.Parse(time.RFC3339Nano, at); err != nil {
					return cli.Usage(fmt.Errorf("--time: %q is not a time such as 2026-01-02T03:04:05Z", at))
				}
			}
			if err := m.Check(); err != nil {
				if !slices.Contains(records.Marks(), m.Mark) {
					err = fmt.Errorf("%q is none of %s: give one of them behind the id", m.Mark, strings.Join(records.Marks(), ", "))
				}
				return cli.Usage(err)
			}
			switch {
			case out != "" && of != "":
				return cli.Usage(errors.New("-o and --config both say where the mark goes: give one of them"))
			case out != "":
				return pipeline.SendMark(cmd.Context(), &config.Sink{File: &config.File{Path: out}}, m, slog.New(slog.DiscardHandler))
			case of != "":
				cfg, _, err := cli.Load(of, set)
				if err != nil {
					return err
				}
				if cfg.Marks == nil {
					return cli.Usage(fmt.Errorf("%s has no marks: add marks: {jsonl: {path: marks.jsonl}}, and start its run anew", of))
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
	cmd.Flags().StringVar(&key, "key", "", "the `key` of the alarm, if alarms of several keys have its id")
	cmd.Flags().StringVar(&note, "note", "", "what else there is to say")
	cmd.Flags().StringVar(&at, "time", "", "`when` the mark begins to act, as records' times are (default now)")
	cmd.Flags().StringVarP(&out, "output", "o", "", "append the line to `FILE`")
	cmd.Flags().StringVar(&of, "config", "", "send it to where `CONFIG` has its marks")
	return cmd
}
