package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/pipeline/flink"
	"hafvf/transforms"
)

// A Submission hands a graph to a Flink cluster.
type Submission struct {
	Graph *Graph // with the runner Flink
	// Savepoint is where the job resumes. Default: it starts anew.
	Savepoint string
	// Migrate carries states over that were written under another config, as Run.Migrate does.
	Migrate bool
	Version string // of this program, which the workers must have
	Log     *slog.Logger
}

// Start checks source, cluster and sinks, creates missing topics, and submits the graph. It
// returns when the job runs. flink.Job.Follow reports later errors; one of a state that
// does not fit the config wraps keyed.ErrOtherConfig.
func (s Submission) Start(ctx context.Context) (*flink.Job, error) {
	g, r := s.Graph, s.Graph.Runner
	if f, ok := g.transform.(filtering); ok {
		f.host.Migrate, f.host.Resumed = s.Migrate, s.resumes()
		clone := *g
		clone.transform, g = f, &clone
	}
	source := g.source.(topicSource)
	pool := &clients{}
	defer pool.close()
	if err := source.check(ctx, pool); err != nil {
		return nil, err
	}
	partitions, err := source.partitions(ctx, pool)
	if err != nil {
		return nil, err
	}
	prepared := func() (*beam.Pipeline, error) {
		for _, sink := range g.sinks() {
			if err := sink.prepare(ctx, pool, partitions, s.Log); err != nil {
				return nil, err
			}
		}
		return g.build(), nil
	}
	job, err := r.Cluster.Submit(ctx, prepared, flink.Options{
		Name: r.Job, Parallelism: r.Parallelism, MaxParallelism: r.MaxParallelism, CheckpointInterval: r.CheckpointInterval,
		Worker: r.Worker, Version: s.Version, Savepoint: s.Savepoint, Bounded: source.Bounded, Final: keyed.ErrOtherConfig,
	})
	if err != nil {
		return nil, err
	}
	s.Log.Info("Flink has the job", "job", job.Name, "id", job.ID)
	return job, job.Start(ctx)
}

// resumes reports whether the job goes on with states of which it says how many it keeps.
func (s Submission) resumes() bool {
	_, filters := s.Graph.transform.(filtering)
	return filters && s.Savepoint != "" && s.Graph.Runner.Cells > 0
}

// Follow is flink.Job.Follow. Of a job that resumes it logs, as soon as Flink tells, how many keys go on
// with their states, and how many begin anew.
func (s Submission) Follow(ctx context.Context, job *flink.Job) error {
	if s.resumes() {
		asking, cancel := context.WithCancel(ctx)
		defer cancel()
		go s.logKeys(asking, job)
	}
	return job.Follow(ctx, s.Log)
}

// logKeys asks for the counts of the workers until these have read all cells, as often as Flink fetches
// them by default.
func (s Submission) logKeys(ctx context.Context, job *flink.Job) {
	for every := time.Tick(10 * time.Second); ; {
		n, err := job.Counters(ctx, "hafvf")
		if err == nil && n[transforms.ResumedCells] >= int64(s.Graph.Runner.Cells) {
			s.Log.Info("the job goes on from the savepoint", "job", job.Name, "keys_kept", n[transforms.KeptKeys], "keys_that_begin_anew", n[transforms.LostKeys])
			return
		}
		select {
		case <-every:
		case <-ctx.Done():
			return
		}
	}
}

// Attend prepares this process to run the functions of submitted graphs, until release is
// called. They have to be called with the context that it returns.
func Attend(ctx context.Context, log *slog.Logger, metrics *Metrics) (_ context.Context, release func(), err error) {
	r := &run{log: log, metrics: metrics, account: account.Watch()}
	r.release = append(r.release, r.account.Close)
	if err := r.create("rejected", connectors.Sink{Format: connectors.JSONLines, Path: connectors.Stderr, Append: true}); err != nil {
		r.close(context.Background(), false)
		return nil, nil, err
	}
	r.register()
	return r.account.In(ctx), func() { r.close(context.Background(), false) }, nil
}
