package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/fit"
	"hafvf/cmd/hafvf/output"
	"hafvf/cmd/internal/cli"
	"hafvf/pipeline"
)

func fitCommand() *cobra.Command {
	var out, over, against string
	var set []string
	var pooled bool
	o := operation{level: "info"}
	cmd := &cobra.Command{
		Use:   "fit CONFIG --over PATHS -o FILE",
		Short: "Find the parameters of the filter that maximise the evidence of each key",
		Long: `Fit finds, for each key, the numbers of a config under which the log evidence of the
key's trials is greatest: the sum of log_predictive over the trials that are not
missing. It runs over the config's file, writes none of the config's outputs, and writes
a table, FILE.csv or FILE.parquet, with a row for each key: key, trials (that are not
missing), for each path its value, PATH_lower and PATH_upper, then log_evidence, aic,
bic, default_log_evidence (that of the config as it stands) and converged.

PATHS are separated by commas, as --set has them: levels[0].alpha, levels[0].beta, of
any level; top; numbers of the prior, as model.prior.alpha or model.prior.mu[0]. The
config is the start of the search, and what no path names stays as the config has it.

The search is by simplex from three starts; the same data give the same table. alpha and
beta of one level are searched as the logit of the mean alpha/(alpha+beta), within .001
and .999, and the log of the sum, within .1 and 1000; one of them alone as its log,
within .0001 and 999; top as its logit, where .0001 counts as 0 and .999999 as 1; a
number of the prior that has to be above 0 as its log, within 1e-6 and 1e6, another one
within ±1e6. A start that is near such a bound moves the bound out.

Lower and upper bound an interval of 95 %: there the profile likelihood, the other paths
searched again, is 1.92 nats below the maximum. converged is true; bound if a number is
at a bound, or the evidence does not fall that far up to it (that side of the interval
is empty then); or false, if the search came to no end.

--pooled searches numbers for all keys together. The first row, with an empty key, has
them; the rows of the keys have their part of the evidence.

--against names the table of an earlier fit of the same keys and trials.
against_log_evidence, delta_aic and delta_bic (this fit less that one: below 0 this one
is better) are further columns, and the sums, and for how many keys each fit is better,
go to standard output.

Exit: 0 done, also when records were rejected; 1 the run failed, or more than half of
the records were rejected, and the table has the others; 2 usage or config; 128 and its
number if a signal ended it, and the table is as it was.`,
		Example: `  hafvf fit subjects.yaml --over "levels[0].alpha, levels[0].beta" -o fit.csv
  hafvf fit subjects.yaml --over top --set 'levels=[]' -o decay.csv --against fit.csv
  hafvf fit subjects.yaml --over "levels[0].alpha, levels[0].beta" --pooled -o all.parquet`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case out == "":
				return cli.Usage(errors.New("fit needs -o FILE.csv or -o FILE.parquet"))
			case over == "":
				return cli.Usage(errors.New(`fit needs --over, the numbers that it searches: --over "levels[0].alpha, levels[0].beta"`))
			}
			if err := output.CheckTable(out); err != nil {
				return cli.Usage(err)
			}
			if err := output.CheckFolder(out); err != nil {
				return err
			}
			cfg, graph, err := cli.Load(args[0], set)
			if err != nil {
				return err
			}
			f, err := fit.New(cfg, graph, over)
			if err != nil {
				return cli.Usage(fmt.Errorf("%s: %w", args[0], err))
			}
			if err := output.CheckInputs(out, args[0], against, cfg.Source.Files().Path); err != nil {
				return cli.Usage(err)
			}
			var earlier *fit.Earlier
			if against != "" {
				if earlier, err = fit.ReadEarlier(against); err != nil {
					return cli.Usage(fmt.Errorf("--against: %w", err))
				}
			}
			s, err := o.observe(cmd.Context(), pipeline.Run{Graph: graph.Trial(), Observer: f.Observer()})
			switch {
			case s.Stopped:
				return cli.Ended(o.signal, fmt.Errorf("%s is not written: a part of the trials is not read", out))
			case err != nil:
				return err
			}
			if err := f.Read(s.Unmatched); err != nil {
				return cli.Usage(fmt.Errorf("%s: %w", args[0], err))
			}
			if earlier != nil {
				if err := f.Compare(earlier); err != nil {
					return cli.Usage(err)
				}
			}
			f.Progress = reportFits()
			t := f.Table(pooled)
			if earlier != nil {
				fmt.Fprint(cmd.OutOrStdout(), t.Against(earlier))
			}
			if err := t.Write(out); err != nil {
				return err
			}
			fmt.Fprintf(stderr, "%s: %s\n", t.Tally(), out)
			return o.rejected
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the table to write, `FILE`.csv or .parquet")
	cmd.Flags().StringVar(&over, "over", "", "the numbers that are searched, `PATHS` separated by commas")
	cmd.Flags().BoolVar(&pooled, "pooled", false, "search numbers for all keys together")
	cmd.Flags().StringVar(&against, "against", "", "the table of an earlier fit of the same keys and trials, `FILE`")
	cli.AddSet(cmd, &set)
	return cmd
}

// reportFits says on standard error, every ten seconds, how far a fit is.
func reportFits() func(done, of int) {
	const every = 10 * time.Second
	var mu sync.Mutex
	last := time.Now()
	return func(done, of int) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < every {
			return
		}
		last = time.Now()
		if of == 0 {
			fmt.Fprintf(stderr, "hafvf: all keys filtered %d times\n", done)
			return
		}
		fmt.Fprintf(stderr, "hafvf: %d of %d keys\n", done, of)
	}
}
