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
  NAME.svg   the figure, also as NAME.png
  NAME.txt   the paper's statements, each with its measurement here

and prints NAME.txt. The statements are measured on ` + fmt.Sprint(experiment.Seeds) + ` simulations (sgd: 3), with SEED
and the seeds after it. A statement holds if at least nine in ten simulations support it,
and does not hold if at most one in ten does.`,
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
	cmd.PersistentFlags().Uint32Var(&seed, "seed", 1, "`SEED` of the first simulation, which the figure shows")
	cmd.PersistentFlags().StringVar(&out, "out", ".", "write the files to the folder `DIR`; it is created if it is missing")
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

// sgdCommand returns the command of the experiment sgd. Its training takes long: the command reports the progress,
// and saves checkpoints when a signal stops it.
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
				fmt.Fprintln(os.Stderr, "stopped: the same command resumes from here")
				return nil
			case err != nil:
				return err
			}
			printOutcome(cmd, table, files)
			return nil
		},
	}
	cmd.Flags().BoolVar(&e.Quick, "quick", false, "100 trials per subject instead of 500, and 3000 iterations instead of 10000")
	cmd.Flags().StringVar(&e.Checkpoint, "checkpoint", "", "keep the state of unfinished training in the folder `DIR`; by default sgd.checkpoint next to the files")
	return cmd
}

// recoveryCommand returns the command of the parameter recovery, which is not an experiment of the paper. It measures
// how well a fit finds known parameters.
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
	cmd.Flags().IntVar(&r.Subjects, "subjects", 20, "`N` subjects for each mean and sum")
	cmd.Flags().IntVar(&r.Trials, "trials", 300, "`N` trials of each subject")
	return cmd
}

// reportProgress returns a function that writes the progress of a command, in the given unit, to standard error: on a
// terminal at every call, else once for every twentieth. The first call writes nothing. The function is safe for
// concurrent use.
func reportProgress(unit string) func(done, total int) {
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	start, firstDone, reported := time.Now(), -1, 0
	var mu sync.Mutex
	return func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if firstDone < 0 {
			firstDone, reported = done, 20*done/total
			return
		}
		remaining := "…"
		if done > firstDone {
			remaining = (time.Since(start) / time.Duration(done-firstDone) * time.Duration(total-done)).Round(time.Second).String()
		}
		text := fmt.Sprintf("%d of %d %s, %s left", done, total, unit, remaining)
		switch {
		case terminal:
			fmt.Fprintf(os.Stderr, "\r%s \x1b[K", text)
		case 20*done/total > reported:
			reported = 20 * done / total
			fmt.Fprintln(os.Stderr, text)
		}
	}
}
