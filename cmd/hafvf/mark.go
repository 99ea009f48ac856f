package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/output"
	"hafvf/cmd/internal/cli"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

func markCommand() *cobra.Command {
	var set []string
	var key, note, outputPath, configPath string
	cmd := &cobra.Command{
		Use:   "mark ALERTS ID false|true|expected",
		Short: "Mark an alarm as false, true or expected",
		Long:  help("mark"),
		Example: `  hafvf mark alerts.jsonl in-0-4711 false --config pump.yaml
  hafvf mark alerts.jsonl pump.csv:812 true --key pump-7 --note "the bearing broke" -o marks.jsonl
  kcat -b localhost -t alerts -e | hafvf mark - in-0-4711 false`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && slices.Contains(records.Marks(), args[1]) {
				return cli.UsageError(fmt.Errorf("the alerts are missing: use hafvf mark ALERTS %s %s, where ALERTS is the file of alerts, or - for lines of alerts on standard input", message.ShellWord(args[0]), args[1]))
			}
			return cobra.ExactArgs(3)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			mark := records.Mark{Mark: args[2], Note: note}
			if cmd.Flags().Changed("key") {
				mark.Key = &key
			}
			var sink *config.Sink
			switch {
			case !slices.Contains(records.Marks(), mark.Mark):
				return cli.UsageError(fmt.Errorf("unknown mark %q: use %s after the ID", mark.Mark, message.Choice(records.Marks())))
			case outputPath != "" && configPath != "":
				return cli.UsageError(errors.New("use either -o or --config, not both"))
			case outputPath != "":
				sink = &config.Sink{File: &config.File{Path: outputPath}}
			case configPath != "":
				cfg, _, err := cli.Load(configPath, set)
				if err != nil {
					return err
				}
				if sink = cfg.Marks; sink == nil {
					return cli.UsageError(fmt.Errorf("%s has no marks: add marks: {jsonl: {path: marks.jsonl}}, and restart its run", configPath))
				}
			}
			ctx, stop := stoppable(cmd.Context())
			defer stop()
			marks, err := output.Marks(ctx, args[0], args[1], mark)
			if _, ambiguous := errors.AsType[output.AmbiguousID](err); ambiguous {
				return cli.UsageError(err)
			}
			if err != nil {
				return err
			}
			if sink != nil {
				return pipeline.SendMarks(ctx, sink, marks, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			}
			for _, m := range marks {
				if _, err := cmd.OutOrStdout().Write(m.Line()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cli.AddSet(cmd, &set)
	cmd.Flags().StringVar(&key, "key", "", "the `key` of the alarm, if alarms of several keys have this ID")
	cmd.Flags().StringVar(&note, "note", "", "a comment")
	cmd.Flags().StringVarP(&outputPath, "output", "o", "", "append the lines to `FILE`")
	cmd.Flags().StringVar(&configPath, "config", "", "write the lines to the marks of `CONFIG`")
	return cmd
}
