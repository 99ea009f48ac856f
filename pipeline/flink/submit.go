// Package flink runs Beam pipelines on a Flink cluster. It submits them through Beam's job server, watches and stops
// them through Flink's REST interface, and provides the worker next to each TaskManager. It works with any pipeline.
package flink

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"hafvf/internal/pipelineproto"
)

// versionParam is the parameter with the submitter's version for the worker.
const versionParam = "hafvf_version"

// Options say how a pipeline runs on a cluster.
type Options struct {
	Name string // of the job; no other job with this name may run
	// Parallelism is the number of slots of the job. MaxParallelism is the number of key groups. It limits all later
	// parallelisms, and is fixed for the lifetime of a state.
	Parallelism, MaxParallelism int
	// CheckpointInterval is the time between the starts of two checkpoints.
	CheckpointInterval time.Duration
	// Worker is the address of a Worker as a TaskManager sees it.
	Worker string
	// Version is the version that a Worker must have; empty if it is unknown.
	Version string
	// Savepoint is the path of the savepoint at which the job resumes. If it is empty, the job starts without states.
	Savepoint string
	// Final is an error of the pipeline's functions that a restart cannot fix, recognized by its text. Follow cancels a
	// job that fails with it. It may be nil.
	Final error
	// Bounded means that the input ends. The job then ends too, and takes no checkpoints.
	Bounded bool
}

// Limits of a bundle. The next call of the source waits until the bundle is finished.
const (
	bundleSize = 20_000
	bundleTime = 50 * time.Millisecond
)

// flinkOptions returns the options under Beam's names. Bundles end before a checkpoint. Otherwise the checkpoint would
// contain their outputs, and a restore at another parallelism would give these to other subtasks, where later records
// overtake them.
func (o Options) flinkOptions() (*structpb.Struct, error) {
	options := map[string]any{
		"streaming": true, "attached_mode": false, "job_name": o.Name, "app_name": o.Name,
		"parallelism": o.Parallelism, "max_parallelism": o.MaxParallelism,
		"operator_chaining":                  false, // so that a savepoint fits another parallelism
		"finish_bundle_before_checkpointing": true,
		"max_bundle_size":                    bundleSize,
		"max_bundle_time_mills":              bundleTime.Milliseconds(),
		"experiments":                        []any{"beam_fn_api"},
	}
	if o.Bounded {
		options["shutdown_sources_after_idle_ms"] = 0
	} else {
		options["checkpointing_interval"] = o.CheckpointInterval.Milliseconds()
		options["externalized_checkpoints_enabled"] = true
		options["retain_externalized_checkpoints_on_cancellation"] = true
	}
	if o.Savepoint != "" {
		options["savepoint_path"] = o.Savepoint
	}
	named := map[string]any{}
	for name, v := range options {
		named["beam:option:"+name+":v1"] = v
	}
	return structpb.NewStruct(named)
}

// marshal encodes p for a job server. Flink finds an operator's state by the name of the operator's input. marshal
// builds this name from the names of the steps, which change less often than their numbers.
func marshal(p *beam.Pipeline, o Options) (*pipepb.Pipeline, error) {
	pb, err := pipelineproto.Marshal(p, o.Worker, map[string]string{versionParam: o.Version})
	if err != nil {
		return nil, err
	}
	components := pb.GetComponents()
	for _, t := range components.GetTransforms() {
		if len(t.GetSubtransforms()) > 0 {
			continue
		}
		for tag, id := range t.GetOutputs() {
			components.Pcollections[id].UniqueName = t.GetUniqueName() + "." + tag
		}
	}
	return pb, nil
}

// submitTimeout is the maximum time for the job server to submit a job to Flink.
const submitTimeout = 2 * time.Minute

// Submit submits a pipeline, and returns when Flink has the job. Follow reports errors of the running job. Submit
// builds the pipeline only after it has checked that the cluster can run the job.
func (c *Cluster) Submit(ctx context.Context, pipeline func() (*beam.Pipeline, error), o Options) (*Job, error) {
	known, err := c.check(ctx, o)
	if err != nil {
		return nil, err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	options, err := o.flinkOptions()
	if err != nil {
		return nil, err
	}
	p, err := pipeline()
	if err != nil {
		return nil, err
	}
	pb, err := marshal(p, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, submitTimeout)
	defer cancel()
	server := jobpb.NewJobServiceClient(conn)
	prepared, err := server.Prepare(ctx, &jobpb.PrepareJobRequest{Pipeline: pb, PipelineOptions: options, JobName: o.Name})
	if err != nil {
		return nil, c.refused(err)
	}
	running, err := server.Run(ctx, &jobpb.RunJobRequest{PreparationId: prepared.GetPreparationId(), RetrievalToken: prepared.GetStagingSessionToken()})
	if err != nil {
		return nil, c.refused(err)
	}
	return c.handedOver(ctx, server, running.GetJobId(), o, known)
}

// dialTimeout is the maximum time for the first answer of a job server.
const dialTimeout = 10 * time.Second

func (c *Cluster) dial(ctx context.Context) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(c.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("the job server's address %s: %w", c.Endpoint, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// Unlike a wait for the connection, a call fails immediately if nobody listens.
	_, err = jobpb.NewJobServiceClient(conn).GetJobs(ctx, &jobpb.GetJobsRequest{})
	if err != nil {
		conn.Close()
		return nil, c.refused(err)
	}
	return conn, nil
}

// refused describes the error of a call to the job server.
func (c *Cluster) refused(err error) error {
	s, _ := status.FromError(err)
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return fmt.Errorf("no Beam job server answers at %s (runner.endpoint): %s", c.Endpoint, s.Message())
	case codes.Unimplemented:
		return fmt.Errorf("%s (runner.endpoint) is not a Beam job server: %s", c.Endpoint, s.Message())
	}
	return fmt.Errorf("the job server at %s refuses the job: %s", c.Endpoint, rootCause(s.Message()))
}

// handedOver waits until Flink has the job: a job with this name that is not in known.
func (c *Cluster) handedOver(ctx context.Context, server jobpb.JobServiceClient, id string, o Options, known []jobInfo) (*Job, error) {
	for range every(ctx, poll) {
		jobs, err := c.jobs(ctx)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			if j.Name == o.Name && !slices.ContainsFunc(known, func(k jobInfo) bool { return k.ID == j.ID }) {
				return &Job{ID: j.ID, Name: o.Name, cluster: c, final: o.Final}, nil
			}
		}
		state, err := server.GetState(ctx, &jobpb.GetJobStateRequest{JobId: id})
		if err != nil {
			return nil, c.refused(err)
		}
		if state.GetState() == jobpb.JobState_FAILED {
			return nil, c.failure(ctx, server, id)
		}
	}
	return nil, fmt.Errorf("the job server has not submitted the job to Flink after %v: %w", submitTimeout, context.Cause(ctx))
}

// failure returns the job server's last error message.
func (c *Cluster) failure(ctx context.Context, server jobpb.JobServiceClient, id string) error {
	stream, err := server.GetMessageStream(ctx, &jobpb.JobMessagesRequest{JobId: id})
	last := "the job server gives no reason"
	for err == nil {
		var in *jobpb.JobMessagesResponse
		in, err = stream.Recv()
		if m := in.GetMessageResponse(); m.GetImportance() >= jobpb.JobMessage_JOB_MESSAGE_ERROR {
			last = m.GetMessageText()
		}
	}
	return clusterError("Flink did not take the job: "+explain(last), nil)
}
