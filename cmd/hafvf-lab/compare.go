package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hafvf/cmd/hafvf-lab/compare"
	"hafvf/cmd/hafvf-lab/compare/methods"
	"hafvf/cmd/hafvf/backtest"
	"hafvf/cmd/hafvf/plot"
	"hafvf/cmd/internal/cli"
	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/settings"
)

// Length and number of the synthetic streams, in full and with --quick. The full length is the length that the
// volatile kinds need.
const (
	compareLength, compareSeeds           = 10000, 6
	compareQuickLength, compareQuickDraws = 5000, 2
)

func compareCommand() *cobra.Command {
	var set, names []string
	var labelFile, picture string
	var asJSON, asMarkdown, quick bool
	var seeds int
	var seed uint32
	cmd := &cobra.Command{
		Use:   "compare [CONFIG]",
		Short: "Compare the filter with other methods, on streams, bundled series, or your data",
		Long: `Compare follows streams with HAFVF and with other methods, each with one setting. For each
method it reports the prediction (mean log predictive), the estimates (RMSE), the detection
(F1, false changes, delay) and the cost (processor time of an update, bytes to keep between
observations): means, standard errors and ranks.

Without CONFIG the streams are of ` + fmt.Sprint(len(compare.Streams(1, 1, compareQuickLength).Cases)) + ` synthetic kinds whose changes are known, and the
bundled series with the windows of the Numenta Anomaly Benchmark. For each kind it draws
` + fmt.Sprintf("%d streams of %d observations, with --quick %d of %d", compareSeeds, compareLength, compareQuickDraws, compareQuickLength) + `. With CONFIG the
streams are the keys of its source, a file. The family of the model applies; its prior
and most other keys of CONFIG do not.

All methods are causal and see one observation at a time, except methods marked
"(hindsight)", which have seen the whole stream. The first ` + fmt.Sprint(compare.WarmUp) + ` observations set the units of all methods
and are not scored. A change is found if a method reports it in the 100 observations after
it. A report without a change in the 100 observations before it is false. F1 counts the
first observation as a change that was found. If windows are known, a report in a window
hits it, and other reports are false. If the true means are unknown, RMSE is the error of
the prediction, in standard deviations of the series.

Methods for normal values (kalman, smoother, hgf2, hgf3) run unchanged on coins and
counts. They have no log predictive there, because a density cannot be compared with a
probability. Methods without a predictive distribution (adwin, page-hinkley, cusum, ewma,
naive) never have one.

Methods; particle-10000 runs only if --methods names it:

  ` + strings.Join(methods.Names(), "\n  ") + `

Exit: 0 done, also when stopped by Ctrl-C; 1 the run failed; 2 usage or config.`,
		Example: `  hafvf-lab compare --quick
  hafvf-lab compare --markdown --plot compare.svg > compare.md
  hafvf-lab compare --methods hafvf,bocpd,kalman --json
  hafvf-lab compare pump.yaml --labels incidents.csv`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := methods.Select(names, quick)
			switch {
			case err != nil:
				return cli.UsageError(fmt.Errorf("--methods: %w", err))
			case asJSON && asMarkdown:
				return cli.UsageError(errors.New("use either --json or --markdown, not both"))
			case seeds < 0 || cmd.Flags().Changed("seeds") && seeds == 0:
				return cli.UsageError(fmt.Errorf("--seeds %d: give at least 1", seeds))
			case labelFile != "" && len(args) == 0:
				return cli.UsageError(errors.New("--labels: the bundled series have their own labels: give a CONFIG"))
			case len(set) > 0 && len(args) == 0:
				return cli.UsageError(errors.New("--set overrides values of a CONFIG: give a CONFIG"))
			case len(args) > 0 && (quick || seeds > 0 || cmd.Flags().Changed("seed")):
				return cli.UsageError(errors.New("--quick, --seeds and --seed are for synthetic streams: leave out CONFIG"))
			}
			if picture != "" {
				if err := plot.CheckFile(picture); err != nil {
					return cli.UsageError(err)
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the program
			c := compare.Comparison{Methods: chosen}
			if len(args) > 0 {
				group, err := readKeys(ctx, args[0], set, labelFile)
				switch {
				case errors.Is(err, context.Canceled):
					return stopped()
				case err != nil:
					return err
				}
				c.Groups = []compare.Group{group}
			} else {
				n, draws := compareLength, compareSeeds
				if quick {
					n, draws = compareQuickLength, compareQuickDraws
				}
				if seeds > 0 {
					draws = seeds
				}
				bundled, err := compare.Bundled()
				if err != nil {
					return err
				}
				c.Groups = slices.Concat([]compare.Group{compare.Streams(uint64(seed), draws, n)}, bundled)
			}
			c.Progress = reportProgress("runs")
			report, err := c.Run(ctx)
			if term.IsTerminal(int(os.Stderr.Fd())) {
				fmt.Fprint(os.Stderr, "\r\x1b[K")
			}
			switch {
			case errors.Is(err, context.Canceled):
				return stopped()
			case err != nil:
				return err
			}
			if picture != "" {
				if err := report.Picture().Write(picture); err != nil {
					return err
				}
			}
			w := cmd.OutOrStdout()
			switch {
			case asJSON:
				encoder := json.NewEncoder(w)
				encoder.SetIndent("", "  ")
				encoder.SetEscapeHTML(false)
				return encoder.Encode(report)
			case asMarkdown:
				_, err = fmt.Fprint(w, report.Markdown())
			default:
				_, err = fmt.Fprint(w, report)
			}
			return err
		},
	}
	cli.AddSet(cmd, &set)
	cmd.Flags().StringSliceVar(&names, "methods", nil, "only these `METHODS`, separated by commas")
	cmd.Flags().StringVar(&labelFile, "labels", "", "`FILE` with the windows of known incidents, as for backtest: CSV or the JSON of NAB")
	cmd.Flags().StringVar(&picture, "plot", "", "also draw skill against cost to `FILE`.svg or .png")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the report as JSON, with all standard errors")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "write the report as Markdown")
	cmd.Flags().BoolVar(&quick, "quick", false, "fewer and shorter streams, without the slow methods unless --methods names them: about a minute")
	cmd.Flags().IntVar(&seeds, "seeds", 0, fmt.Sprintf("number of streams of each kind, `N` (default %d, with --quick %d)", compareSeeds, compareQuickDraws))
	cmd.Flags().Uint32Var(&seed, "seed", 1, "`SEED` of the first stream of each kind")
	return cmd
}

// stopped writes to standard error that the comparison was stopped without a report. It returns nil.
func stopped() error {
	fmt.Fprintln(os.Stderr, "hafvf-lab: stopped before the end: there is no report")
	return nil
}

// readKeys reads the values of the keys of a config. labelFile, unless empty, names a file with the windows of known
// incidents. The error is context.Canceled if ctx ends before the end of the source.
func readKeys(ctx context.Context, path string, set []string, labelFile string) (group compare.Group, err error) {
	var labels backtest.Labels
	if labelFile != "" {
		if labels, err = backtest.ReadLabels(labelFile); err != nil {
			return group, cli.UsageError(err)
		}
	}
	cfg, graph, err := cli.Load(path, set)
	if err != nil {
		return group, err
	}
	_, topics := graph.Topics()
	families := []string{"bernoulli", "poisson", "exponential", "normal"}
	switch {
	case cfg.Transform != settings.Filter:
		err = errors.New("a comparison is only for filters: leave out transform: smooth, or use --set transform=filter")
	case graph.Runner.Name == config.Flink:
		err = errors.New("a comparison runs locally, not on Flink: leave out runner, or use --set runner.name=direct")
	case topics:
		err = errors.New("a comparison reads a file, not Kafka: give a config whose source is csv, jsonl or parquet")
	case !slices.Contains(families, cfg.Model.Family):
		err = fmt.Errorf("methods take single values of the families %s, not %s", strings.Join(families, ", "), cfg.Model.Family)
	}
	if err != nil {
		return group, cli.UsageError(fmt.Errorf("%s: %w", path, err))
	}
	// Only the source of the config and the order of its records matter: the run neither forgets nor detects.
	cfg.Levels, cfg.Top, cfg.Bank, cfg.Detect, cfg.Silence, cfg.Alerts, cfg.Keys = []hafvf.Beta{}, 1, nil, nil, nil, nil, nil
	cfg.Model.Season, cfg.Model.Scale, cfg.TimeUnit, cfg.Interval = nil, hafvf.Linear, 0, 0
	if graph, err = pipeline.Compose(cfg); err != nil {
		return group, cli.UsageError(fmt.Errorf("%s: %w", path, err))
	}
	var mu sync.Mutex
	records := map[string][]compare.Record{}
	multiValueKey := ""
	estimate := func(key string, e *keyed.Estimate, _ []keyed.AlertEvent) {
		if e == nil || e.Missing {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if len(e.X) != 1 {
			multiValueKey = key
		}
		for _, x := range e.X {
			records[key] = append(records[key], compare.Record{Time: e.Time, X: x[0]})
		}
	}
	s, err := pipeline.Run{Graph: graph.Trial(), Observer: &pipeline.Observer{Estimate: estimate}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}.Execute(context.WithoutCancel(ctx), ctx.Done())
	if err == nil {
		fmt.Fprint(os.Stderr, s)
		err = s.Err()
	}
	switch {
	case err != nil:
		return group, err
	case s.Stopped:
		return group, context.Canceled
	case multiValueKey != "":
		return group, cli.UsageError(fmt.Errorf("%s: key %s has several values in one record: methods take one value", path, message.Printable(multiValueKey)))
	}
	var unknown []string
	for key := range labels {
		if records[key] == nil {
			unknown = append(unknown, key)
		}
	}
	if labels != nil && slices.ContainsFunc(slices.Collect(maps.Values(records)), func(series []compare.Record) bool { return series[0].Time.IsZero() }) {
		return group, errors.New("--labels: the records have no times: labels need times")
	}
	if n := len(unknown); n > 0 {
		fmt.Fprintf(os.Stderr, "hafvf-lab: not in the data: %s, first %s\n", message.Count(n, "labelled key", "labelled keys"), message.Printable(slices.Min(unknown)))
	}
	group, skipped := compare.Keys(path, cfg.Model.Family, records, labels)
	if skipped > 0 {
		fmt.Fprintf(os.Stderr, "hafvf-lab: left out %s with fewer than %d values\n", message.Count(skipped, "key", "keys"), 2*compare.WarmUp)
	}
	if len(group.Cases) == 0 {
		return group, fmt.Errorf("%s: no key has %d values, which a comparison needs", path, 2*compare.WarmUp)
	}
	return group, nil
}
