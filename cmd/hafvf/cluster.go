package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/flink"
)

// A submission holds the flags for running a graph on a Flink cluster.
type submission struct {
	detach    bool
	savepoint string
	migrate   bool // migrate the states of another config
}

func (s *submission) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.detach, "detach", false, "flink: return when the job is running, without waiting for its end")
	cmd.Flags().StringVar(&s.savepoint, "savepoint", "", "flink: `path` of the savepoint to resume from, as hafvf stop printed it")
}

// check returns a usage error if the flags do not apply to the graph.
func (s submission) check(graph *pipeline.Graph, migrate bool) error {
	switch {
	case graph.Runner.Name != config.Flink:
		if s != (submission{}) {
			return cli.UsageError(errors.New("--detach and --savepoint are for runner: {name: flink}"))
		}
	case migrate && s.savepoint == "":
		return cli.UsageError(errors.New("--migrate on Flink needs a savepoint: give --savepoint too"))
	case migrate && graph.Runner.Cells == 0:
		return cli.UsageError(errors.New("--migrate on Flink needs states in cells, but runner.cells is 0: set runner.cells"))
	}
	return nil
}

// submit runs a graph on a cluster. Without --detach it follows the job until the job ends or the user interrupts.
func (s submission) submit(ctx context.Context, graph *pipeline.Graph, log *slog.Logger) error {
	ctx, stop := stoppable(ctx)
	defer stop()
	version, _ := versions()
	submitted := pipeline.Submission{Graph: graph, Savepoint: s.savepoint, Migrate: s.migrate, Version: version, Log: log}
	job, err := submitted.Start(ctx)
	if err != nil {
		return s.withRemedy(ctx, graph, job, err)
	}
	log.Info("the job runs", "job", job.Name)
	if s.detach {
		return nil
	}
	err = submitted.Follow(ctx, job)
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "hafvf: the job %s keeps running: see hafvf status, end it with hafvf stop\n", job.Name)
		return nil
	}
	return s.withRemedy(ctx, graph, job, err)
}

// withRemedy adds a remedy to the error of a job whose states were written under another config. The states are in
// the last checkpoint or, without one, in the savepoint.
func (s submission) withRemedy(ctx context.Context, graph *pipeline.Graph, job *flink.Job, err error) error {
	if s.migrate || graph.Runner.Cells == 0 || !errors.Is(err, keyed.ErrOtherConfig) {
		return err
	}
	path := s.savepoint
	if status, err := job.Status(ctx); err == nil && status.Checkpoint != nil {
		path = cmp.Or(status.Checkpoint.Path, path)
	}
	return fmt.Errorf("%w; keep compatible states with hafvf run CONFIG --savepoint %s --migrate, or resume from there with the previous config", err, path)
}

func statusCommand() *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:     "status CONFIG",
		Short:   "Report the state of a config's job on a Flink cluster",
		Long:    help("status"),
		Example: "  hafvf status flink.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := find(cmd.Context(), args[0], set)
			if err != nil {
				return err
			}
			s, err := job.Status(cmd.Context())
			if err != nil {
				return err
			}
			counts, err := job.Counters(cmd.Context(), "hafvf")
			if err != nil {
				return err
			}
			writeStatus(cmd.OutOrStdout(), job, s, counts)
			if s.State != "RUNNING" && s.State != "FINISHED" {
				return fmt.Errorf("the job %s is %s", job.Name, s.State)
			}
			return nil
		},
	}
	cli.AddSet(cmd, &set)
	return cmd
}

func writeStatus(w io.Writer, job *flink.Job, s flink.Status, counts map[string]int64) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("job", "%s, %s", job.Name, job.ID)
	line("state", "%s since %s", s.State, s.Since.UTC().Format(time.RFC3339))
	line("failures", "%d restarts, restored %d times", s.Restarts, s.Restored)
	if s.Cause != "" {
		line("last", "%s: %s", s.CausedAt.UTC().Format(time.RFC3339), s.Cause)
	}
	line("checkpoints", "%d complete, %d failed", s.Completed, s.Failed)
	if p := s.Checkpoint; p != nil {
		line("latest", "%d at %s: %d bytes in %v, %s", p.ID, p.At.UTC().Format(time.RFC3339), p.Bytes, p.Took, cmp.Or(p.Path, "kept by the JobManager"))
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		line(name, "%d", counts[name])
	}
}

func stopCommand() *cobra.Command {
	var set []string
	var savepoint, folder = false, ""
	cmd := &cobra.Command{
		Use:   "stop CONFIG",
		Short: "End a config's job on a Flink cluster",
		Long:  help("stop"),
		Example: `  hafvf stop flink.yaml --savepoint
  hafvf stop flink.yaml --savepoint --to s3://bucket/savepoints
  hafvf run flink.yaml --savepoint s3://bucket/savepoints/savepoint-2a91f3-0d5b`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if folder != "" && !savepoint {
				return cli.UsageError(errors.New("--to is the folder of the savepoint: give --savepoint too"))
			}
			job, err := find(cmd.Context(), args[0], set)
			if err != nil {
				return err
			}
			if !savepoint {
				return job.Cancel(cmd.Context())
			}
			path, err := job.Stop(cmd.Context(), folder)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	cli.AddSet(cmd, &set)
	cmd.Flags().BoolVar(&savepoint, "savepoint", false, "write a savepoint first, and print its path")
	cmd.Flags().StringVar(&folder, "to", "", "`folder` of the savepoint, which all TaskManagers can access (default: execution.checkpointing.savepoint-dir of the cluster)")
	return cmd
}

// find returns the job of the config at path.
func find(ctx context.Context, path string, set []string) (*flink.Job, error) {
	_, graph, err := cli.Load(path, set)
	if err != nil {
		return nil, err
	}
	if graph.Runner.Name != config.Flink {
		return nil, cli.UsageError(fmt.Errorf("%s: runner.name is %s: status and stop are for jobs on Flink; end a local run with Ctrl-C", path, graph.Runner.Name))
	}
	return graph.Runner.Cluster.Find(ctx, graph.Runner.Job)
}
