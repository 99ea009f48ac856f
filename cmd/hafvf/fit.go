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
		Long:  help("fit"),
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
			if err := f.Read(); err != nil {
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
