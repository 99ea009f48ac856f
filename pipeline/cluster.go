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

// A Submission submits a graph to a Flink cluster.
type Submission struct {
	Graph *Graph // its runner is Flink
	// Savepoint is the path of the savepoint at which the job resumes. If it is empty, the job starts without states.
	Savepoint string
	// Migrate keeps states that were written under another config, see Run.Migrate.
	Migrate bool
	Version string // version of this program; workers must have the same
	Log     *slog.Logger
}

// Start checks source, cluster and sinks, creates missing topics, and submits the graph. It returns when the job runs.
// Later errors are reported by flink.Job.Follow. If a state does not fit the config, that error wraps
// keyed.ErrOtherConfig.
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
	s.Log.Info("job submitted to Flink", "job", job.Name, "id", job.ID)
	return job, job.Start(ctx)
}

// resumes reports whether the job resumes states whose workers count kept and reset keys.
func (s Submission) resumes() bool {
	_, filters := s.Graph.transform.(filtering)
	return filters && s.Savepoint != "" && s.Graph.Runner.Cells > 0
}

// Follow calls flink.Job.Follow. For a job that resumes, it also logs how many keys kept their states and how many were
// reset, as soon as Flink reports the counts.
func (s Submission) Follow(ctx context.Context, job *flink.Job) error {
	if s.resumes() {
		asking, cancel := context.WithCancel(ctx)
		defer cancel()
		go s.logKeys(asking, job)
	}
	return job.Follow(ctx, s.Log)
}

// logKeys polls the workers' counters until the workers have read all cells. The period is Flink's default for fetching
// metrics.
func (s Submission) logKeys(ctx context.Context, job *flink.Job) {
	for every := time.Tick(10 * time.Second); ; {
		n, err := job.Counters(ctx, "hafvf")
		if err == nil && n[transforms.ResumedCells] >= int64(s.Graph.Runner.Cells) {
			s.Log.Info("job resumed from the savepoint", "job", job.Name, "keys_kept", n[transforms.KeptKeys], "keys_reset", n[transforms.LostKeys])
			return
		}
		select {
		case <-every:
		case <-ctx.Done():
			return
		}
	}
}

// ServeWorker prepares this process to run the functions of submitted graphs until release is called. The functions
// must be called with the context that it returns.
func ServeWorker(ctx context.Context, log *slog.Logger, metrics *Metrics) (_ context.Context, release func(), err error) {
	r := &run{log: log, metrics: metrics, account: account.Watch()}
	r.release = append(r.release, r.account.Close)
	if err := r.create("rejected", connectors.Sink{Format: connectors.JSONLines, Path: connectors.Stderr, Append: true}); err != nil {
		r.close(context.Background(), false)
		return nil, nil, err
	}
	r.register()
	return r.account.In(ctx), func() { r.close(context.Background(), false) }, nil
}
