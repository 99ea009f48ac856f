package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/fit"
	"hafvf/cmd/hafvf/outfile"
	"hafvf/cmd/internal/cli"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/settings"
)

func fitCommand() *cobra.Command {
	var out, over, against, responseKind string
	var set []string
	var pooled bool
	var response fit.Response
	o := operation{level: "info"}
	cmd := &cobra.Command{
		Use:   "fit CONFIG --over PATHS -o FILE",
		Short: "Fit the parameters of a learner to each key's outcomes, or to participants' choices",
		Long:  help("fit"),
		Example: `  hafvf fit subjects.yaml --over "levels[0].alpha, levels[0].beta" -o fit.csv
  hafvf fit subjects.yaml --over top --set 'levels=[]' -o decay.csv --against fit.csv
  hafvf fit subjects.yaml --over "levels[0].alpha, levels[0].beta" --pooled -o all.parquet
  hafvf fit subjects.yaml --set 'levels=[]' --over top --response choice --choice key_resp.keys -o people.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case out == "":
				return cli.UsageError(errors.New("fit needs -o FILE.csv or -o FILE.parquet"))
			case over == "":
				return cli.UsageError(errors.New(`fit needs the parameters to search: --over "levels[0].alpha, levels[0].beta"`))
			case responseKind == "choice" && response.Choice == "", responseKind != "choice" && (responseKind != "" || response.Choice != "" || response.Subject != nil || response.Offered != "" || response.Stay):
				return cli.UsageError(errors.New("--response choice is the only response and needs --choice COLUMN; --subject, --offered and --stay need both"))
			}
			if err := outfile.CheckTable(out); err != nil {
				return cli.UsageError(err)
			}
			if err := outfile.CheckFolder(out); err != nil {
				return err
			}
			cfg, graph, err := cli.Load(args[0], set)
			if err != nil {
				return err
			}
			f, graph, err := newFit(cfg, graph, over, response)
			if err != nil {
				return cli.UsageError(fmt.Errorf("%s: %w", args[0], err))
			}
			if err := outfile.CheckInputs(out, args[0], against, cfg.Source.Files().Path); err != nil {
				return cli.UsageError(err)
			}
			var earlier *fit.Earlier
			if against != "" {
				if earlier, err = readEarlier(against, response.Choice != ""); err != nil {
					return cli.UsageError(fmt.Errorf("--against: %w", err))
				}
			}
			if err := o.readFit(cmd.Context(), f, graph, args[0], out); err != nil {
				return err
			}
			fmt.Fprint(stderr, f.Notes())
			if earlier != nil {
				if err := f.Compare(earlier); err != nil {
					return cli.UsageError(err)
				}
			}
			t := f.Table(pooled, reportFits())
			if earlier != nil {
				fmt.Fprint(cmd.OutOrStdout(), t.Against(earlier))
			}
			if err := outfile.WriteTable(out, t.Output()); err != nil {
				return err
			}
			fmt.Fprintf(stderr, "%s%s: %s\n", t.Turned(), t.Tally(), out)
			return o.rejected
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the table to write, `FILE`.csv or .parquet")
	cmd.Flags().StringVar(&over, "over", "", "the parameters to search, `PATHS` separated by commas")
	cmd.Flags().StringVar(&responseKind, "response", "", "`choice` fits participants' choices; by default fit uses the outcomes only")
	cmd.Flags().StringVar(&response.Choice, "choice", "", "`COLUMN` of the choices; COLUMN=WORD gives the word of outcome 1 of two words (default: the second in sorted order)")
	cmd.Flags().StringSliceVar(&response.Subject, "subject", nil, "`COLUMNS` of the key that identify a subject (default: all but the choice)")
	cmd.Flags().StringVar(&response.Offered, "offered", "", "`COLUMN` with the options on offer in a trial, separated by spaces (default: all options)")
	cmd.Flags().BoolVar(&response.Stay, "stay", false, "also search the weight of repeating the last choice")
	cmd.Flags().BoolVar(&pooled, "pooled", false, "fit one set of parameters to all keys")
	cmd.Flags().StringVar(&against, "against", "", "`FILE` with the table of an earlier fit of the same keys and trials, to compare with")
	cli.AddSet(cmd, &set)
	return cmd
}

// newFit returns a fit, and the graph that reads its data. For a fit of choices it changes the config to carry the
// choice, instead of having it in the key. Its error is a usage error.
func newFit(c *config.Config, g *pipeline.Graph, over string, r fit.Response) (*fit.Fit, *pipeline.Graph, error) {
	files := c.Source.Files()
	switch {
	case c.Transform == settings.Smooth: // fit.New returns the error
		files = &config.Files{}
	case files == nil:
		return nil, nil, errors.New("fit reads files, whose input ends: give a config whose source is csv, jsonl or parquet")
	case g.Runner.Name == config.Flink:
		return nil, nil, errors.New("fit runs here, not on Flink: leave out runner, or give --set runner.name=direct")
	}
	f, err := fit.New(&c.Settings, fit.Source{Key: files.Key, Missing: files.Missing, NotLong: files.Layout != config.Long}, over, r)
	if err != nil || r.Choice == "" {
		return f, g, err
	}
	names, lacksChoice := f.Key()
	if files.Key = names; lacksChoice {
		c.Keys = nil // exceptions match keys that include the choice
	}
	for _, column := range f.Carried() {
		if !slices.Contains(files.Carry, column) {
			files.Carry = append(slices.Clone(files.Carry), column)
		}
	}
	g, err = pipeline.Compose(c)
	return f, g, err
}

// readFit runs the config of a fit to read its data. The error of an interrupted run has the exit code of the signal.
func (o *operation) readFit(ctx context.Context, f *fit.Fit, graph *pipeline.Graph, config, out string) error {
	observer := pipeline.Observer{Estimate: func(key string, e *keyed.Estimate, _ []keyed.AlertEvent) { f.Add(key, e) }}
	s, err := o.observe(ctx, pipeline.Run{Graph: graph.Trial(), Observer: &observer})
	switch {
	case s.Stopped:
		return cli.Interrupted(o.signal, fmt.Errorf("%s is not written: not all trials were read", out))
	case err != nil:
		return err
	}
	if err := f.Read(); err != nil {
		return cli.UsageError(fmt.Errorf("%s: %w", config, err))
	}
	return nil
}

// reportFits returns a function that writes the progress of a fit to standard error, at most every ten seconds. A
// total of 0 means a pooled fit.
func reportFits() func(done, total int) {
	const every = 10 * time.Second
	var mu sync.Mutex
	last := time.Now()
	return func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < every {
			return
		}
		last = time.Now()
		if total == 0 {
			fmt.Fprintf(stderr, "hafvf: all keys filtered %d times\n", done)
			return
		}
		fmt.Fprintf(stderr, "hafvf: %d of %d keys\n", done, total)
	}
}
