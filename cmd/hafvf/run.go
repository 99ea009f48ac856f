package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hafvf/cmd/hafvf/plot"
	"hafvf/cmd/internal/cli"
	"hafvf/connectors"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/testdata"
)

func runCommand() *cobra.Command {
	var set []string
	var explain bool
	var o operation
	var flinkFlags submission
	var resume resumeFlags
	cmd := &cobra.Command{
		Use:   "run [CONFIG]",
		Short: "Run the pipeline of a config, or the bundled demo",
		Long:  help("run"),
		Example: `  hafvf run
  hafvf run pump.yaml
  hafvf run pump.yaml --set top=0.99 --set 'levels=[{alpha: 9, beta: 1}]'
  hafvf run pump.yaml --explain
  hafvf run kafka.yaml --listen :9090     # the live page, /incidents, /events, /metrics, /healthz`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if err := resume.check(nil); err != nil {
					return err
				}
				return demo(cmd.Context(), o, set, explain)
			}
			_, graph, err := cli.Load(args[0], set)
			if err != nil {
				return err
			}
			printWarnings(stderr, graph)
			if err := resume.check(graph); err != nil {
				return err
			}
			if err := flinkFlags.check(graph, resume.migrate); err != nil {
				return err
			}
			if explain {
				fmt.Fprint(cmd.OutOrStdout(), graph)
				return nil
			}
			if graph.Runner.Name == config.Flink {
				log, err := o.logger()
				if err != nil {
					return err
				}
				flinkFlags.migrate = resume.migrate
				return flinkFlags.submit(cmd.Context(), graph, log)
			}
			if args[0] != "-" {
				o.config = filepath.Base(args[0])
				if graph.TakesMarks() {
					o.markTo = args[0]
				}
			}
			_, err = o.execute(cmd.Context(), pipeline.Run{Graph: graph, Reset: resume.beginAnew, Migrate: resume.migrate})
			return err
		},
	}
	cli.AddSet(cmd, &set)
	o.flags(cmd)
	flinkFlags.flags(cmd)
	resume.flags(cmd)
	cmd.Flags().BoolVar(&explain, "explain", false, "print the steps of the pipeline and run nothing")
	return cmd
}

// resumeFlags are the flags for a run that does not resume exactly where the previous run ended.
type resumeFlags struct {
	beginAnew bool
	migrate   bool
}

func (r *resumeFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.beginAnew, "begin-anew", false, "kafka: discard the states in the changelog, ignore the offsets of the group, and read from the beginning; use it once, not in a service that restarts with it")
	cmd.Flags().BoolVar(&r.migrate, "migrate", false, "keep the parts of states of another config that are compatible, and relearn the rest from the past of the source without writing records or alerts (not on Flink); also accept another group, other topics and outputs; hafvf check CONFIG --states WHERE lists the parts; flink: the states of --savepoint")
}

// check returns a usage error if the flags do not apply to the graph. A nil graph means the demo.
func (r *resumeFlags) check(graph *pipeline.Graph) error {
	switch {
	case r.migrate && r.beginAnew:
		return cli.UsageError(errors.New("--begin-anew discards all states: leave out --migrate"))
	case r.migrate && (graph == nil || !graph.KeepsStates()):
		return cli.UsageError(errors.New("--migrate is for a config that stores states: set source.kafka.changelog or state"))
	case !r.beginAnew:
		return nil
	}
	if graph != nil && graph.Runner.Name != config.Flink {
		if _, kafka := graph.Topics(); kafka {
			return nil
		}
	}
	return cli.UsageError(errors.New("--begin-anew is for a source of Kafka that this process reads: leave it out; a job on Flink without a savepoint starts without states"))
}

// execute runs a graph. It shows progress on a terminal, and the summary at the end.
func (o *operation) execute(ctx context.Context, r pipeline.Run) (pipeline.Summary, error) {
	log, err := o.logger()
	if err != nil {
		return pipeline.Summary{}, err
	}
	observed := r.Observer != nil
	metrics, live, done, err := o.serve(log, !observed, r.Graph.Clock)
	if err != nil {
		return pipeline.Summary{}, err
	}
	defer done()
	reportReaderGone()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, release := o.stopOnSignal(ctx, cancel)
	defer release()

	r.Log, r.Metrics, r.Example = log, metrics, example
	if live != nil {
		r.Observer = live
	}
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	start := time.Now()
	if terminal {
		r.Progress = func(p pipeline.Progress) {
			rate := float64(max(p.Read, p.Records)) / time.Since(start).Seconds()
			fmt.Fprintf(stderr, "\r%d read, %d written, %d rejected, %.0f records/s \x1b[K", p.Read, p.Records, p.Rejected, rate)
		}
	}
	s, err := r.Execute(ctx, stop)
	if terminal {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if !errors.Is(err, connectors.ErrReaderGone) {
			fmt.Fprint(stderr, s.UnchangedOutputs())
		}
		return s, err
	}
	if observed { // the observing command reports the findings itself
		s.Largest, s.Moving, s.PoorFits = nil, nil, nil
	}
	fmt.Fprint(stderr, s)
	return s, s.Err()
}

// stopOnSignal closes stop at the first signal, and cancels the run at the second. It ignores SIGHUP if the process
// started with SIGHUP ignored, as under nohup.
func (o *operation) stopOnSignal(ctx context.Context, cancel context.CancelCauseFunc) (stop chan struct{}, release func()) {
	stop = make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		select {
		case s := <-signals:
			o.signal = s
			stderr.Hurry()
			warned := make(chan struct{})
			go func() {
				defer close(warned)
				fmt.Fprintln(stderr, "\nhafvf: stopping: finishing the records already read; a second signal aborts")
			}()
			select {
			case <-warned:
			case <-time.After(100 * time.Millisecond): // standard error is blocked
			}
			close(stop)
		case <-ctx.Done():
			return
		}
		select {
		case <-signals:
			cancel(errGivenUp)
			// The runner may end late. Exiting is safe: the files are temporary until the end.
			time.AfterFunc(time.Second, func() {
				time.AfterFunc(time.Second/4, func() { os.Exit(cli.ExitFailed) }) // in case standard error is blocked
				fmt.Fprintf(stderr, "hafvf: %v\n", errGivenUp)
				os.Exit(cli.ExitFailed)
			})
		case <-ctx.Done():
		}
	}()
	return stop, func() { signal.Stop(signals) }
}

// observe is execute for a command that uses the results of a run. If most records were rejected, but not all,
// observe sets o.rejected instead of returning the error. The command uses the other records, and returns o.rejected
// at its end.
func (o *operation) observe(ctx context.Context, r pipeline.Run) (pipeline.Summary, error) {
	s, err := o.execute(ctx, r)
	if rejected := (*pipeline.RejectedError)(nil); errors.As(err, &rejected) && !rejected.NoneUsable {
		o.rejected, err = err, nil
	}
	return s, err
}

var errGivenUp = errors.New("aborted: records in flight are not written")

// The files that the demo writes.
const (
	demoResults = "hafvf-demo.jsonl"
	demoAlerts  = "hafvf-demo-alerts.jsonl"
	demoPicture = "hafvf-demo.svg"
)

// demoKeys are the keys that the demo draws: series that vary around a level. The other four jump between values or
// have spikes every few hours, which are outliers of a normal distribution.
var demoKeys = []string{"ec2_cpu_ac20cd", "rds_cpu_e47b3b", "ec2_cpu_5f5533", "ec2_cpu_825cc2"}

func demo(ctx context.Context, o operation, set []string, explain bool) error {
	dir, err := os.MkdirTemp("", "hafvf-demo-")
	if err != nil { // on a read-only root file system only the current folder may be writable
		dir, err = os.MkdirTemp(".", "hafvf-demo-")
	}
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "cloud.csv")
	if err := os.WriteFile(data, testdata.CloudCSV, 0o600); err != nil {
		return err
	}
	set = append([]string{"source.csv.path=" + data, "sink={jsonl: {path: " + demoResults + "}}", "alerts={jsonl: {path: " + demoAlerts + "}}", "records=full"}, set...)
	_, graph, err := cli.Compose("the bundled config", testdata.CloudYAML, set)
	if err != nil {
		return err
	}
	if explain {
		fmt.Print(graph)
		return nil
	}
	fmt.Fprintln(os.Stderr, "filtering the bundled series: CPU utilisation of cloud servers, from the Numenta Anomaly Benchmark")
	if _, err := o.execute(ctx, pipeline.Run{Graph: graph}); err != nil {
		return err
	}
	if err := plot.Results(ctx, demoResults, demoPicture, plot.Choice{Keys: demoKeys, Odds: defaultOdds, Title: "CPU utilisation of cloud servers, in percent"}); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "estimates:", demoResults)
	fmt.Fprintln(os.Stderr, "alerts:   ", demoAlerts)
	fmt.Fprintf(os.Stderr, "picture:   %s, %d keys; all keys: hafvf plot %s -o all.svg\n", demoPicture, len(demoKeys), demoResults)
	return nil
}
