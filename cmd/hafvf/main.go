// Hafvf filters streams of observations, one small Bayesian filter per key, and
// tells what changed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // for detect.zone, where the machine has none

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/spf13/cobra"

	"hafvf/connectors"
	"hafvf/internal/account"
	_ "hafvf/internal/anyuser" // before Beam looks the user up
	"hafvf/internal/outlet"
)

// Exit codes.
const (
	exitFailed = 1 // the run failed
	exitUsage  = 2 // usage or config
	// exitReaderGone is what a shell makes of a program that SIGPIPE has ended.
	exitReaderGone = 128 + 13
)

// stderr is standard error. Once a run is to stop, it waits for nobody who does not read.
var stderr = outlet.New(os.Stderr, account.Patience)

// A usageError is the user's: it exits with 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	flag.CommandLine.Parse(nil) // Beam asks for its flags, of which the program has none
	beam.Init()
	// Beam logs each error at every layer. What is wrong with a run reaches the user once, as
	// the command's error.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	boundGarbage()
	os.Exit(run(os.Args[1:]))
}

// reportReaderGone makes a write to standard output whose reader has gone return
// connectors.ErrReaderGone. Without it SIGPIPE ends the process, and no file is closed.
func reportReaderGone() { signal.Ignore(syscall.SIGPIPE) }

func run(args []string) int {
	root := &cobra.Command{
		Use:   "hafvf",
		Short: "Separate lasting changes from single odd values, per key, in streams",
		Long: `hafvf runs one small Bayesian filter per key over streams of observations. Each
filter follows the distribution of its key's values and learns how fast to
forget. For each observation it gives a prediction with its uncertainty, an
estimate, and the share of the past that still counts.`,
		Example: `  hafvf run                      filter the bundled series and draw the changes
  hafvf run pump.yaml            filter the source of a config
  hafvf init pressure.csv        write a config for a file
  hafvf check pump.yaml          list the mistakes of a config, and look at its data
  hafvf backtest pump.yaml       report the alarms that past data would have raised
  hafvf compare --quick          compare the filter with other methods
  hafvf states pump.yaml         show the states of the filters
  hafvf plot out.jsonl -o a.svg  draw the records of a run
  hafvf report alerts.jsonl -o week.html  one page of what happened to all keys
  hafvf sessions s.jsonl -o a.csv  tabulate the segments of smoothed sessions
  hafvf experiment binary        repeat an experiment of the paper`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(runCommand(), initCommand(), checkCommand(), backtestCommand(), compareCommand(), statesCommand(), plotCommand(), reportCommand(), sessionsCommand(), experimentCommand(), workerCommand(), statusCommand(), stopCommand(), versionCommand())
	root.SetArgs(args)

	cmd, err := root.ExecuteContextC(context.Background())
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)) || isCobraUsage(err):
		fmt.Fprintf(stderr, "hafvf: %v\n", err)
		if isCobraUsage(err) {
			fmt.Fprintf(stderr, "see: %s --help\n", cmd.CommandPath())
		}
		return exitUsage
	case errors.Is(err, connectors.ErrReaderGone):
		return exitReaderGone
	}
	fmt.Fprintf(stderr, "hafvf: %v\n", err)
	return exitFailed
}

// isCobraUsage reports whether cobra itself refused the command line; it has no
// type for that.
func isCobraUsage(err error) bool {
	for _, start := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "required flag", "flag needs", "invalid argument"} {
		if strings.HasPrefix(err.Error(), start) {
			return true
		}
	}
	return false
}
