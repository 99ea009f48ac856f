package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hafvf/cmd/hafvf-lab/experiment"
	"hafvf/cmd/internal/cli"
	"hafvf/internal/message"
)

func experimentCommand() *cobra.Command {
	var seed uint32
	var out string
	cmd := &cobra.Command{
		Use:   "experiment NAME",
		Short: "Repeat an experiment of the paper, with its figure",
		Long: `Experiment simulates data as the paper (Moens 2018) describes them, filters them,
and draws the paper's figure. It writes to DIR

  NAME.csv   every series of the figure, for SEED
  NAME.svg   the figure, and as NAME.png
  NAME.txt   the paper's statements, each with what is measured here

and prints NAME.txt. The statements are measured on ` + fmt.Sprint(experiment.Seeds) + ` simulations (3 of sgd), SEED
and the seeds after it: one holds where at least nine in ten of them support it, and does
not hold where at most one in ten does.`,
		Example: "  hafvf-lab experiment binary\n  hafvf-lab experiment ar --seed 7 --out figures",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			var names []string
			for _, e := range experiment.All {
				names = append(names, e.Name)
			}
			names = append(names, "sgd", "recovery")
			return cli.UsageError(fmt.Errorf("no experiment %q; the nearest is %q", args[0], message.Closest(args[0], names)))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().Uint32Var(&seed, "seed", 1, "of the first simulation, which the figure shows, as `SEED`")
	cmd.PersistentFlags().StringVar(&out, "out", ".", "the folder for the files, `DIR`; it is made if it does not exist")
	cmd.AddCommand(sgdCommand(&seed, &out), recoveryCommand(&seed))
	for _, e := range experiment.All {
		cmd.AddCommand(&cobra.Command{
			Use:   e.Name,
			Short: e.Short,
			Long:  e.Long,
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				var progress func(int)
				terminal := term.IsTerminal(int(os.Stderr.Fd()))
				if terminal {
					progress = func(done int) {
						fmt.Fprintf(os.Stderr, "\r%d of %d simulations \x1b[K", done, experiment.Seeds)
					}
				}
				table, files, err := e.Run(cmd.Context(), uint64(seed), out, progress)
				if terminal {
					fmt.Fprint(os.Stderr, "\r\x1b[K")
				}
				if err != nil {
					return err
				}
				printOutcome(cmd, table, files)
				return nil
			},
		})
	}
	return cmd
}

func printOutcome(cmd *cobra.Command, table string, files []string) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s\n", table)
	for _, f := range files {
		fmt.Fprintln(w, "written:", f)
	}
}

// sgdCommand trains for long: it says how far it is, and can be stopped.
func sgdCommand(seed *uint32, out *string) *cobra.Command {
	var e experiment.SGD
	cmd := &cobra.Command{
		Use:   "sgd",
		Short: experiment.SGDShort,
		Long:  experiment.SGDLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the program
			e.Seed, e.Dir = uint64(*seed), *out
			table, files, err := e.Run(ctx, reportProgress("iterations"))
			if term.IsTerminal(int(os.Stderr.Fd())) {
				fmt.Fprint(os.Stderr, "\r\x1b[K")
			}
			switch {
			case errors.Is(err, context.Canceled):
				fmt.Fprintln(os.Stderr, "stopped; the same command goes on from here")
				return nil
			case err != nil:
				return err
			}
			printOutcome(cmd, table, files)
			return nil
		},
	}
	cmd.Flags().BoolVar(&e.Quick, "quick", false, "100 trials per subject in place of 500, and 3000 iterations in place of 10000")
	cmd.Flags().StringVar(&e.Checkpoint, "checkpoint", "", "the folder of the finished parts until all are finished, `DIR`; by default sgd.checkpoint next to the files")
	return cmd
}

// recoveryCommand is no experiment of the paper: it says what a fit can find.
func recoveryCommand(seed *uint32) *cobra.Command {
	var r experiment.Recovery
	cmd := &cobra.Command{
		Use:   "recovery",
		Short: experiment.RecoveryShort,
		Long:  experiment.RecoveryLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Subjects < 1 || r.Trials < 1 {
				return cli.UsageError(errors.New("--subjects and --trials: give at least 1"))
			}
			r.Seed = uint64(*seed)
			table, err := r.Run(cmd.Context(), reportProgress("subjects"))
			if err == nil {
				fmt.Fprint(cmd.OutOrStdout(), table)
			}
			return err
		},
	}
	cmd.Flags().IntVar(&r.Subjects, "subjects", 20, "of each mean and sum, `N`")
	cmd.Flags().IntVar(&r.Trials, "trials", 300, "of a subject, `N`")
	return cmd
}

// reportProgress writes to standard error how far a command is, in the unit: all the time
// on a terminal, else once for every twentieth. Several goroutines may call it.
func reportProgress(unit string) func(done, of int) {
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	begin, first, said := time.Now(), -1, 0
	var mu sync.Mutex
	return func(done, of int) {
		mu.Lock()
		defer mu.Unlock()
		if first < 0 {
			first, said = done, 20*done/of
			return
		}
		left := "…"
		if done > first {
			left = (time.Since(begin) / time.Duration(done-first) * time.Duration(of-done)).Round(time.Second).String()
		}
		text := fmt.Sprintf("%d of %d %s, %s left", done, of, unit, left)
		switch {
		case terminal:
			fmt.Fprintf(os.Stderr, "\r%s \x1b[K", text)
		case 20*done/of > said:
			said = 20 * done / of
			fmt.Fprintln(os.Stderr, text)
		}
	}
}
