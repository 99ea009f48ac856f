package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/backtest"
	"hafvf/cmd/hafvf/report"
	"hafvf/cmd/internal/cli"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

func backtestCommand() *cobra.Command {
	var set []string
	var against, labelFile, out string
	var asJSON bool
	var o operation
	cmd := &cobra.Command{
		Use:   "backtest CONFIG",
		Short: "Report the alarms that a config would have raised on past data",
		Long: `Backtest runs a config with detect over its file, or the past of its query, and writes a
report to standard output: the messages a week to a webhook or an Alertmanager without
kinds, alerts by kind and week, the ten noisiest keys, the ten largest events, the alarms
that the budgets allow, the alarms that were raised and those that were muted, and records
per second. It writes none of the config's outputs: no records, no alerts, no dead letter, no state. Its filters begin without a state. Weeks begin on Monday.
Times and weeks are of aggregate.zone, or without aggregate of detect.zone; JSON writes
times in UTC.

--labels names a file of windows of known incidents: CSV with a header and the columns
key, start, end, or the JSON of the Numenta Anomaly Benchmark, lists of [start, end] by
file, whose base name without extension is the key. An alert in a window hits it; an
alert outside all windows of its key is a false alarm; the delay is from the start of a
window to its first alert.

--against runs another config too, and lists the alerts that differ. Two alerts are one
event if key and kind are the same, and the stretches from start to alert overlap.
--set overrides CONFIG alone, so that a config can be compared with itself.

-o writes the page of hafvf report CONFIG, too, of the same run.

The budget of a key is in observations: n observations allow n/P alarms. A key may be
ahead of that by nine alarms. An alarm of a key that has spent its budget is muted if its
score reaches the threshold that the key had without the alarms before it. An incident
counts as one muted alarm, and as one more after every rest. What comes back while an alarm of
its key lasts, or before its rest is over, is resting.

Exit: 0 done, also when records were rejected; 1 the run failed, or more than half of
the records were rejected; 2 usage or config.`,
		Example: `  hafvf backtest pump.yaml
  hafvf backtest pump.yaml --labels incidents.csv --json
  hafvf backtest pump.yaml --labels incidents.csv -o pump.html
  hafvf backtest pump.yaml --set 'detect={budget: 336h}' --against pump.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if against == "-" && args[0] == "-" {
				return cli.Usage(errors.New("standard input holds one config: give the other one as a file"))
			}
			if cmd.Flags().Changed("plot") {
				return cli.Usage(errors.New("backtest draws no picture: -o FILE.html writes a page of its alarms, and hafvf plot draws the records of a run"))
			}
			b := backtester{operation: o}
			cfg, graph, err := loadBacktest(args[0], set)
			if err != nil {
				return err
			}
			var page *report.Collector
			if out != "" {
				if err := checkPage(cfg, out); err != nil {
					return err
				}
				page = report.NewCollector(time.Time{}, graph.Clock)
			}
			var other *pipeline.Graph
			if against != "" {
				if _, other, err = loadBacktest(against, nil); err != nil {
					return err
				}
				if graph.StandardInput() && other.StandardInput() {
					return cli.Usage(fmt.Errorf("%s and %s both read standard input, which comes once: give a file", args[0], against))
				}
			}
			if labelFile != "" {
				if b.labels, err = backtest.ReadLabels(labelFile); err != nil {
					return cli.Usage(err)
				}
			}
			name := args[0]
			if len(set) > 0 {
				name += " with --set"
			}
			tested, err := b.run(cmd.Context(), name, graph, page)
			if err != nil {
				return err
			}
			if other != nil && !tested.Stopped {
				there, err := b.run(cmd.Context(), against, other, nil)
				if err != nil {
					return fmt.Errorf("%s: %w", against, err)
				}
				tested.Compare(there)
			}
			if page != nil {
				if err := writePage(page, out); err != nil {
					return err
				}
			}
			if asJSON {
				to := json.NewEncoder(cmd.OutOrStdout())
				to.SetIndent("", "  ")
				to.SetEscapeHTML(false)
				return cmp.Or(to.Encode(tested), b.rejected)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), tested)
			return cmp.Or(err, b.rejected)
		},
	}
	cli.AddSet(cmd, &set)
	o.flags(cmd)
	cmd.Flags().StringVar(&against, "against", "", "another `CONFIG`, to list the alerts that differ")
	cmd.Flags().StringVar(&labelFile, "labels", "", "a `FILE` of windows of known incidents: CSV or NAB's JSON")
	cmd.Flags().StringVarP(&out, "output", "o", "", "also write a page of the alarms, as hafvf report does, to `FILE`.html")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the report as JSON, with all keys")
	cmd.Flags().String("plot", "", "")
	cmd.Flags().MarkHidden("plot")
	return cmd
}

// A backtester runs graphs and reports on them.
type backtester struct {
	operation
	labels backtest.Labels // nil without --labels
}

// run runs a graph, of which the page may be nil.
func (b *backtester) run(ctx context.Context, name string, graph *pipeline.Graph, page *report.Collector) (*backtest.Report, error) {
	c := backtest.NewCollector(graph, page)
	s, err := b.observe(ctx, pipeline.Run{Graph: graph.Trial(), Observer: c.Observer()})
	if err != nil {
		return nil, err
	}
	return c.Report(name, s, b.labels)
}

// loadBacktest composes a config, and refuses what cannot be tested.
func loadBacktest(path string, set []string) (*config.Config, *pipeline.Graph, error) {
	return loadTrial(path, set, "a backtest runs here", "a backtest reads a file, not Kafka: give a config whose source is csv, jsonl or parquet")
}

// loadTrial is loadPast of a config that raises alarms.
func loadTrial(path string, set []string, here, of string) (*config.Config, *pipeline.Graph, error) {
	cfg, graph, err := loadPast(path, set, here, of)
	if err != nil {
		return nil, nil, err
	}
	if _, alarms := graph.Alarms(); !alarms {
		return nil, nil, cli.Usage(fmt.Errorf("%s: without detect there are no alarms: add detect: true, or give --set detect=true", path))
	}
	return cfg, graph, nil
}

// loadPast composes a config, and refuses what cannot be run over past data. The errors of runs on
// Flink and of topics say what runs here, and what of.
func loadPast(path string, set []string, here, of string) (*config.Config, *pipeline.Graph, error) {
	cfg, graph, err := cli.Load(path, set)
	if err != nil {
		return nil, nil, err
	}
	_, topics := graph.Topics()
	switch {
	case graph.Runner.Name == config.Flink:
		return nil, nil, cli.Usage(fmt.Errorf("%s: %s, not on Flink: leave out runner, or give --set runner.name=direct", path, here))
	case topics:
		return nil, nil, cli.Usage(fmt.Errorf("%s: %s", path, of))
	}
	return cfg, graph, nil
}
