package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/backtest"
	"hafvf/cmd/hafvf/report"
	"hafvf/cmd/internal/cli"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

func backtestCommand() *cobra.Command {
	var set []string
	var against, labelFile, markFile, out string
	var asJSON bool
	var o operation
	cmd := &cobra.Command{
		Use:   "backtest CONFIG",
		Short: "Report the alarms that a config would have raised on past data",
		Long:  help("backtest"),
		Example: `  hafvf backtest pump.yaml
  hafvf backtest pump.yaml --labels incidents.csv --json
  hafvf backtest pump.yaml --labels incidents.csv -o pump.html
  hafvf backtest pump.yaml --marks marks.jsonl
  hafvf backtest pump.yaml --set 'detect={budget: 336h}' --against pump.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if against == "-" && args[0] == "-" {
				return cli.UsageError(errors.New("both configs are read from standard input: use a file for one of them"))
			}
			if cmd.Flags().Changed("plot") {
				return cli.UsageError(errors.New("backtest has no --plot: write a page of its alarms with -o FILE.html, or draw the records of a run with hafvf plot"))
			}
			b := backtester{operation: o}
			cfg, graph, err := loadBacktest(args[0], set)
			if err != nil {
				return err
			}
			var page *report.Collector
			if out != "" {
				if err := checkPage(out, inputOf(cfg)); err != nil {
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
					return cli.UsageError(fmt.Errorf("%s and %s both read standard input: use a file for one of them", args[0], against))
				}
			}
			if err := b.read(labelFile, markFile); err != nil {
				return cli.UsageError(err)
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
				otherReport, err := b.run(cmd.Context(), against, other, nil)
				if err != nil {
					return fmt.Errorf("%s: %w", against, err)
				}
				tested.Compare(otherReport)
			}
			if page != nil {
				if err := writePage(page, out); err != nil {
					return err
				}
			}
			return cmp.Or(printReport(cmd.OutOrStdout(), tested, asJSON), b.rejected)
		},
	}
	cli.AddSet(cmd, &set)
	o.flags(cmd)
	cmd.Flags().StringVar(&against, "against", "", "another `CONFIG` to compare with: list the alerts that differ")
	cmd.Flags().StringVar(&labelFile, "labels", "", "`FILE` with the windows of known incidents: CSV or the JSON of NAB")
	cmd.Flags().StringVar(&markFile, "marks", "", "`FILE` with marks, as hafvf mark writes them")
	cmd.Flags().StringVarP(&out, "output", "o", "", "also write a page of the alarms, as hafvf report does, to `FILE`.html")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the report as JSON, with all keys")
	cmd.Flags().String("plot", "", "")
	cmd.Flags().MarkHidden("plot")
	return cmd
}

func printReport(w io.Writer, tested *backtest.Report, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprint(w, tested)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(tested)
}

// A backtester runs graphs and reports on them.
type backtester struct {
	operation
	labels backtest.Labels // nil without --labels
	marks  []records.Mark  // nil without --marks
}

// read reads the files of labels and marks. Empty names are ignored.
func (b *backtester) read(labels, marks string) (err error) {
	if labels != "" {
		b.labels, err = backtest.ReadLabels(labels)
	}
	if marks != "" && err == nil {
		if b.marks, err = records.ReadMarks(marks); err != nil {
			err = fmt.Errorf("--marks: %w", err)
		}
	}
	return err
}

// run runs a graph and returns its report. page may be nil.
func (b *backtester) run(ctx context.Context, name string, graph *pipeline.Graph, page *report.Collector) (*backtest.Report, error) {
	alarms, _ := graph.Alarms()
	c := backtest.NewCollector(backtest.Run{
		Clock: graph.Clock, Alarms: alarms, Sends: graph.Sends, Groups: graph.Groups(), Fleet: config.FewKeys, Alerts: page != nil,
	})
	single := func(string, keyed.AlertEvent) { c.AddSingle() }
	observer := &pipeline.Observer{Estimate: c.Add, Single: single, Assigned: c.Assign, Incident: c.AddIncident}
	if page != nil {
		observer.Estimate = func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
			page.AddObserved(key, e)
			c.Add(key, e, alerts)
		}
		observer.Incident = func(e *incidents.Event) {
			page.AddIncident(e)
			c.AddIncident(e)
		}
	}
	s, err := b.observe(ctx, pipeline.Run{Graph: graph.Trial(), Observer: observer})
	if err != nil {
		return nil, err
	}
	summary := backtest.Summary{Records: s.Records, Missing: s.Missing, Rejected: s.Rejected, Elapsed: s.Elapsed, Stopped: s.Stopped, Incidents: s.Incidents}
	r, err := c.Report(name, summary, b.labels, b.marks)
	if page != nil && err == nil {
		page.AddMarks(b.marks)
		page.AddReport(r, graph.Value)
	}
	return r, err
}

// loadBacktest composes a config. It fails if the config cannot be backtested.
func loadBacktest(path string, set []string) (*config.Config, *pipeline.Graph, error) {
	cfg, graph, err := loadPast(path, set, "a backtest runs locally", "a backtest reads a file, not Kafka: give a config whose source is csv, jsonl or parquet")
	if err != nil {
		return nil, nil, err
	}
	if _, alarms := graph.Alarms(); !alarms {
		return nil, nil, noAlarms(path)
	}
	return cfg, graph, nil
}

func noAlarms(path string) error {
	return cli.UsageError(fmt.Errorf("%s: there are no alarms without detect: add detect: true, or use --set detect=true", path))
}

// loadPast composes a config. It fails if the config cannot run over past data: on Flink, with an error that begins
// with notFlink, and with topics, with the error noTopics.
func loadPast(path string, set []string, notFlink, noTopics string) (*config.Config, *pipeline.Graph, error) {
	cfg, graph, err := cli.Load(path, set)
	if err != nil {
		return nil, nil, err
	}
	_, topics := graph.Topics()
	switch {
	case graph.Runner.Name == config.Flink:
		return nil, nil, cli.UsageError(fmt.Errorf("%s: %s, not on Flink: leave out runner, or use --set runner.name=direct", path, notFlink))
	case topics:
		return nil, nil, cli.UsageError(fmt.Errorf("%s: %s", path, noTopics))
	}
	return cfg, graph, nil
}
