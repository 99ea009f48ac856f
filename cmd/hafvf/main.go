// Hafvf filters streams of observations with a small Bayesian filter per key, and reports changes.
package main

// A release is built with -pgo=deploy/hafvf.pgo, so that the compiler inlines the functions that take most time in a
// benchmark. This command updates the profile.
//
//go:generate go test ../../pipeline -run - -bench Cost -benchtime 1x -cost-records 600000 -cost-like ", detect$" -trimpath -o /dev/null -cpuprofile ../../deploy/hafvf.pgo

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // for detect.zone on machines without time zone data

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/internal/account"
	_ "hafvf/internal/anyuser" // must be initialized before Beam looks up the user
	"hafvf/internal/deadlinewriter"
)

// stderr is standard error. After a signal, a write to it waits at most account.StopTimeout for the reader.
var stderr = deadlinewriter.New(os.Stderr, account.StopTimeout)

func main() {
	flag.CommandLine.Parse(nil) // Beam requires parsed flags; the program has none for it
	beam.Init()
	// Beam logs each error at every layer. The user sees an error of a run once, as the command's error.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	boundGarbage()
	os.Exit(run(os.Args[1:]))
}

// reportReaderGone makes writes return connectors.ErrReaderGone if the reader of standard output has closed it.
// Otherwise SIGPIPE would end the process without closing its files.
func reportReaderGone() { signal.Ignore(syscall.SIGPIPE) }

// stoppable returns a context that is cancelled by Ctrl-C or SIGTERM.
func stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

func run(args []string) int {
	root := &cobra.Command{
		Use:   "hafvf",
		Short: "Separate lasting changes from single outliers, per key, in streams",
		Long:  help("hafvf"),
		Example: `  hafvf run                      filter the bundled series and draw the changes
  hafvf run pump.yaml            filter the source of a config
  hafvf init pressure.csv        write a config for a file
  hafvf check pump.yaml          list the mistakes of a config, and check its data
  hafvf backtest pump.yaml       report the alarms that past data would have raised
  hafvf states pump.yaml         show the states of the filters
  hafvf mark alerts.jsonl ID false  mark an alarm as false
  hafvf plot out.jsonl -o a.svg  draw the records of a run
  hafvf report alerts.jsonl -o week.html  write a page about the alarms of all keys
  hafvf sessions s.jsonl -o a.csv  tabulate the segments of smoothed sessions
  hafvf trials c.yaml -o trials.csv  tabulate all observations: predictions, learning rates, changes
  hafvf fit s.yaml --over top -o fit.csv  fit the parameters of a learner to each key`,
		Version: versionLine(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(runCommand(), initCommand(), checkCommand(), backtestCommand(), statesCommand(), markCommand(), plotCommand(), reportCommand(), sessionsCommand(), trialsCommand(), fitCommand(), workerCommand(), statusCommand(), stopCommand(), versionCommand(), moved("compare"), moved("experiment"))
	return cli.Run(root, args, stderr)
}

//go:embed help
var helpFiles embed.FS

// help returns the long help text of a command.
func help(command string) string {
	text, err := helpFiles.ReadFile("help/" + command + ".txt")
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// moved returns a hidden command that points to the program that has it now.
func moved(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError(fmt.Errorf("%s is in a separate program: in the source tree, run go run ./cmd/hafvf-lab %[1]s", name))
		},
	}
}
