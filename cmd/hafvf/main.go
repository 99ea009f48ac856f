// Hafvf filters streams of observations, one small Bayesian filter per key, and
// tells what changed.
package main

// A release is built with -pgo=deploy/hafvf.pgo: the compiler inlines what takes time in a benchmark. This
// command renews the profile.
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
	_ "time/tzdata" // for detect.zone, where the machine has none

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/internal/account"
	_ "hafvf/internal/anyuser" // before Beam looks the user up
	"hafvf/internal/deadlinewriter"
)

// stderr is standard error. Once a run is to stop, it waits for nobody who does not read.
var stderr = deadlinewriter.New(os.Stderr, account.StopTimeout)

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

// stoppable returns a context that Ctrl-C or SIGTERM ends.
func stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

func run(args []string) int {
	root := &cobra.Command{
		Use:   "hafvf",
		Short: "Separate lasting changes from single odd values, per key, in streams",
		Long:  help("hafvf"),
		Example: `  hafvf run                      filter the bundled series and draw the changes
  hafvf run pump.yaml            filter the source of a config
  hafvf init pressure.csv        write a config for a file
  hafvf check pump.yaml          list the mistakes of a config, and look at its data
  hafvf backtest pump.yaml       report the alarms that past data would have raised
  hafvf states pump.yaml         show the states of the filters
  hafvf mark ID false -o m.jsonl say of an alarm that it was false
  hafvf plot out.jsonl -o a.svg  draw the records of a run
  hafvf report alerts.jsonl -o week.html  one page of what happened to all keys
  hafvf sessions s.jsonl -o a.csv  tabulate the segments of smoothed sessions
  hafvf trials c.yaml -o trials.csv  tabulate all observations: predictions, learning rates, changes
  hafvf fit s.yaml --over top -o fit.csv  find the numbers of a learner of each key`,
		Version: versionLine(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(runCommand(), initCommand(), checkCommand(), backtestCommand(), statesCommand(), markCommand(), plotCommand(), reportCommand(), sessionsCommand(), trialsCommand(), fitCommand(), workerCommand(), statusCommand(), stopCommand(), versionCommand(), moved("compare"), moved("experiment"))
	return cli.Run(root, args, stderr)
}

//go:embed help
var helpFiles embed.FS

// help is the long text of a command.
func help(command string) string {
	text, err := helpFiles.ReadFile("help/" + command + ".txt")
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// moved is a command that has left the program.
func moved(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(fmt.Errorf("%s is in a program of its own: in the sources, go run ./cmd/hafvf-lab %[1]s", name))
		},
	}
}
