package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/outfile"
	"hafvf/cmd/hafvf/trials"
	"hafvf/cmd/internal/cli"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/settings"
)

func trialsCommand() *cobra.Command {
	var set []string
	var out, keys string
	var o operation
	cmd := &cobra.Command{
		Use:     "trials CONFIG -o FILE",
		Short:   "Write a table of all observations: predictions, learning rates, changes",
		Long:    help("trials"),
		Example: "  hafvf trials choices.yaml -o trials.csv\n  hafvf trials choices.yaml -o trials.parquet --keys subjects.csv",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.UsageError(errors.New("trials needs -o FILE.csv or -o FILE.parquet"))
			}
			cfg, _, err := loadPast(args[0], set, "trials run locally", "trials reads a file, not Kafka: give a config whose source is csv, jsonl or parquet")
			if err != nil {
				return err
			}
			if err := checkTrials(args[0], cfg, out, keys); err != nil {
				return cli.UsageError(err)
			}
			if err := cmp.Or(outfile.CheckFolder(out), outfile.CheckFolder(keys)); err != nil {
				return err
			}
			var table trials.Table
			for _, run := range []struct {
				transform string
				observer  pipeline.Observer
			}{
				{settings.Filter, pipeline.Observer{Estimate: func(key string, e *keyed.Estimate, _ []keyed.AlertEvent) { table.AddEstimate(key, e) }}},
				{settings.Smooth, pipeline.Observer{Smoothed: table.AddSmoothed}},
			} {
				graph, err := pipeline.Compose(cfg.ForTransform(run.transform))
				if err != nil {
					return cli.UsageError(fmt.Errorf("%s, with transform: %s: %w", args[0], run.transform, err))
				}
				s, err := o.observe(cmd.Context(), pipeline.Run{Graph: graph.Trial(), Observer: &run.observer})
				switch {
				case s.Stopped:
					return cli.Interrupted(o.signal, fmt.Errorf("%s is not written", out))
				case err != nil:
					return err
				}
			}
			if err := outfile.WriteTable(out, table.Trials(cfg.Clock())); err != nil {
				return err
			}
			if keys != "" {
				if err := outfile.WriteTable(keys, table.Keys()); err != nil {
					return err
				}
			}
			subjects, rows, changes := table.Counts()
			fmt.Fprintf(os.Stderr, "%s of %s, %s: %s\n", message.Count(rows, "trial", "trials"), message.Count(subjects, "key", "keys"), message.Count(changes, "change", "changes"), out)
			return o.rejected
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the table to write, `FILE`.csv or .parquet")
	cmd.Flags().StringVar(&keys, "keys", "", "also write a row per key to `FILE`.csv or .parquet")
	cli.AddSet(cmd, &set)
	o.flags(cmd)
	return cmd
}

// checkTrials returns an error if the tables of a config cannot be written.
func checkTrials(path string, cfg *config.Config, out, keys string) error {
	if cfg.Source.Unbounded() {
		return errors.New("trials needs a source that ends: read files, or set bounded: true in the source")
	}
	if cfg.Source.StandardInput() {
		return errors.New("trials reads the source twice, and standard input can be read once: give a file")
	}
	for _, table := range []string{out, keys} {
		if table == "" {
			continue
		}
		if err := cmp.Or(outfile.CheckTable(table), outfile.CheckInputs(table, path, inputOf(cfg))); err != nil {
			return err
		}
	}
	if out == keys {
		return fmt.Errorf("%s is given for both tables: use different files", out)
	}
	return nil
}
