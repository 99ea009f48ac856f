package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf-lab/ablate"
	"hafvf/cmd/internal/cli"
	"hafvf/internal/message"
)

func ablateCommand() *cobra.Command {
	var dir string
	var names, off []string
	var seed, seeds uint32
	var asCSV bool
	var about strings.Builder
	for _, m := range ablate.Mechanisms {
		fmt.Fprintf(&about, "\n  %-16s %s", m.Name, m.About)
	}
	cmd := &cobra.Command{
		Use:   "ablate",
		Short: "Switch off the mechanisms of the alarms one by one, and count hits and false alarms",
		Long: `Ablate measures what each mechanism of the alarms is worth. It raises alarms on sets of
series with known incidents, as the program does for model {family: normal, prior: auto}
and detect: true: first with nothing off, then with each mechanism off alone. A row has the
F1 of each set, or how much F1 changes, in thousandths. F1 is the harmonic mean of the share
of incidents with an alarm, and the share of alarms that are in an incident.

The program itself has no switches. Ablate adds them to a copy of its sources and builds it:
it needs the tool go, and has to run in the sources. A row on all sets takes about 20 s of
processor time.

Sets that are read from the folder DIR, each from SET.csv.gz, SET-keys.csv and SET-labels.csv
with a header and times in Unix seconds, and simulated sets:

  ` + strings.Join(ablate.SetNames(), "\n  ") + `

The simulated sets are services_ and plans_: two keys of each kind of service and four keys of
each weekly plan, for each seed. The budget of planted_1d is 2400h, and the zone of plans_ is
Europe/Berlin.

Mechanisms:
` + about.String() + `

Exit: 0 done; 1 the run failed; 2 usage.`,
		Example: `  hafvf-lab ablate --data series
  hafvf-lab ablate --sets plans_1h,plans_5min --off Spikes --off Reserve,Gross
  hafvf-lab ablate --csv > ablation.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := ablationJob(dir, names, off)
			if err != nil {
				return cli.UsageError(err)
			}
			for i := range uint64(seeds) {
				job.Seeds = append(job.Seeds, uint64(seed)+i)
			}
			if len(job.Seeds) == 0 {
				return cli.UsageError(errors.New("--seeds 0: give at least 1"))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runAblation(ctx, job, cmd.OutOrStdout(), asCSV)
		},
	}
	cmd.Flags().StringVar(&dir, "data", "", "`DIR` of the sets that are read; without it, only simulated sets are measured")
	cmd.Flags().StringSliceVar(&names, "sets", nil, "only these `SETS`, separated by commas")
	cmd.Flags().StringArrayVar(&off, "off", nil, "only the row with these `MECHANISMS` off together, separated by commas; may be repeated")
	cmd.Flags().Uint32Var(&seed, "seed", 1, "first `SEED` of the simulated sets")
	cmd.Flags().Uint32Var(&seeds, "seeds", 2, "number of seeds of the simulated sets, `N`")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write a line of CSV for each row and set, with hits and false alarms")
	return cmd
}

// ablationJob returns the job of the flags of the command. An error is about usage.
func ablationJob(dir string, names, off []string) (ablate.Job, error) {
	job := ablate.Job{Dir: dir, Rows: [][]string{{}}}
	for _, name := range ablate.SetNames() {
		if len(names) == 0 && (dir != "" || ablate.Simulated(name)) || slices.Contains(names, name) {
			job.Sets = append(job.Sets, name)
		}
	}
	for _, name := range names {
		if err := ablate.CheckSet(name); err != nil {
			return job, fmt.Errorf("--sets: %w", err)
		}
		if dir == "" && !ablate.Simulated(name) {
			return job, fmt.Errorf("--sets: %s is not simulated: give its folder with --data", name)
		}
	}
	var known []string
	for _, m := range ablate.Mechanisms {
		known = append(known, m.Name)
		if len(off) == 0 {
			job.Rows = append(job.Rows, []string{m.Name})
		}
	}
	for _, list := range off {
		row := strings.Split(list, ",")
		for _, name := range row {
			if !slices.Contains(known, name) {
				return job, fmt.Errorf("--off: no mechanism %q; the nearest is %q", name, message.Closest(name, known))
			}
		}
		job.Rows = append(job.Rows, row)
	}
	return job, nil
}

// runAblation builds the worker, runs the job and writes the rows to w as they are measured.
func runAblation(ctx context.Context, job ablate.Job, w io.Writer, asCSV bool) error {
	folder, err := os.MkdirTemp("", "hafvf-ablate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program, err := ablate.Build(ctx, folder)
	if err != nil {
		return err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	worker := exec.CommandContext(ctx, program)
	worker.Stdin, worker.Stderr = bytes.NewReader(text), os.Stderr
	results, err := worker.StdoutPipe()
	if err != nil {
		return err
	}
	if err := worker.Start(); err != nil {
		return err
	}
	err = writeAblation(w, json.NewDecoder(results), job, asCSV)
	if waitErr := worker.Wait(); err == nil {
		err = waitErr
	}
	if err == nil {
		used := worker.ProcessState.UserTime() + worker.ProcessState.SystemTime()
		fmt.Fprintf(os.Stderr, "%.1f s of processor time for each of %d rows\n", used.Seconds()/float64(len(job.Rows)), len(job.Rows))
	}
	return err
}

// writeAblation writes the results of a job. The first row has nothing off.
func writeAblation(w io.Writer, results *json.Decoder, job ablate.Job, asCSV bool) error {
	if asCSV {
		fmt.Fprintln(w, "off,set,f1,difference,incidents,hit,true_alarms,false_alarms,false_first_week,false_later")
	} else {
		fmt.Fprintf(w, "%-20s", "off")
		for _, name := range job.Sets {
			fmt.Fprintf(w, " %*s", max(4, len(name)), name)
		}
		fmt.Fprintln(w)
	}
	whole := make([]float64, len(job.Sets))
	for i, row := range job.Rows {
		if !asCSV {
			fmt.Fprintf(w, "%-20s", strings.Join(row, "+"))
		}
		for k, name := range job.Sets {
			var r ablate.Result
			if err := results.Decode(&r); err != nil {
				return fmt.Errorf("the worker has stopped: %w", err)
			}
			s, f1 := r.Score, r.Score.F1()
			if i == 0 {
				whole[k] = f1
			}
			switch {
			case asCSV:
				fmt.Fprintf(w, "%s,%s,%.4f,%+.4f,", strings.Join(row, "+"), name, f1, f1-whole[k])
				fmt.Fprintf(w, "%d,%d,%d,%d,%.3f,%.3f\n", s.Incidents, s.Hit, s.True, s.False, s.FirstWeek, s.Later)
			case i == 0:
				fmt.Fprintf(w, " %*.3f", max(4, len(name)), f1)
			default:
				fmt.Fprintf(w, " %+*.0f", max(4, len(name)), 1000*(f1-whole[k]))
			}
		}
		if !asCSV {
			fmt.Fprintln(w)
		}
	}
	return nil
}
