package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hafvf/cmd/hafvf/experiment"
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

and prints the last. The statements are measured on ` + fmt.Sprint(experiment.Seeds) + ` simulations, SEED and the
seeds after it: one holds where at least nine in ten of them support it, and does
not hold where at most one in ten does.`,
		Example: "  hafvf experiment binary\n  hafvf experiment ar --seed 7 --out figures",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			var names []string
			for _, e := range experiment.All {
				names = append(names, e.Name)
			}
			return usageError{fmt.Errorf("no experiment %q; the nearest is %q", args[0], nearestKey(args[0], names))}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().Uint32Var(&seed, "seed", 1, "of the first simulation, which the figure shows, as `SEED`")
	cmd.PersistentFlags().StringVar(&out, "out", ".", "the folder for the files, `DIR`; it is made where there is none")
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
				w := cmd.OutOrStdout()
				fmt.Fprintf(w, "%s\n", table)
				for _, f := range files {
					fmt.Fprintln(w, "written:", f)
				}
				return nil
			},
		})
	}
	return cmd
}
