// Package prism runs pipelines on Prism, Beam's runner inside this process, for
// this process alone.
//
// Beam's own prism.Execute opens its job service on all network interfaces and asks
// for no login (Beam 2.77.0, prism/internal/jobservices/server.go:71). Whoever
// reaches that port can cancel the pipeline, read and feed its data, and start
// programs as the user of this process. Execute here has no such port: the service
// listens on loopback and takes connections of this process only, and the worker
// pool is a Unix socket that does the same. It needs Linux 5.0 or newer.
//
// Execute also switches off the runner's splitting of bundles. A stateful function
// otherwise runs twice at once for a key and loses updates of its state.
package prism

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/metricsx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hafvf/internal/portable"
)

// ErrCancelled is returned for a job that was cancelled while its context had not
// ended: somebody else did it.
var ErrCancelled = errors.New("the job was cancelled, and not by this program")

// An UnprotectedError says why the job service cannot be closed to others here.
type UnprotectedError struct{ Reason error }

func (e *UnprotectedError) Error() string {
	return fmt.Sprintf("the embedded runner's port cannot be closed to other programs and machines: %v", e.Reason)
}

func (e *UnprotectedError) Unwrap() error { return e.Reason }

// A Runner executes pipelines. Its zero value is ready for use.
type Runner struct {
	// AcceptOpenPort runs pipelines also where the job service cannot be closed to
	// others, as on an operating system other than Linux: it then listens on all
	// interfaces without login. Default: an UnprotectedError.
	AcceptOpenPort bool
}

// Execute is Runner.Execute of the zero Runner.
func Execute(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
	return Runner{}.Execute(ctx, p)
}

// Execute runs p to its end. When ctx ends first, the job is cancelled and the
// error is ctx's cause. It panics if beam.Init has not been called.
func (r Runner) Execute(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
	if !beam.Initialized() {
		panic("prism: Execute before beam.Init")
	}
	endpoint, err := endpoint(r.AcceptOpenPort)
	if err != nil {
		return nil, err
	}
	pool, err := newPool()
	if err != nil {
		return nil, err
	}
	defer pool.stop()
	pb, err := portable.Marshal(p, pool.address, nil)
	if err != nil {
		return nil, err
	}
	conn, err := grpcx.Dial(ctx, endpoint, dialTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := jobpb.NewJobServiceClient(conn)
	portable.KeepBundlesWhole()
	id, _, token, err := runnerlib.Prepare(ctx, client, pb, &runnerlib.JobOptions{Name: jobopts.GetJobName(), Experiments: jobopts.GetExperiments()})
	if err != nil {
		return nil, err
	}
	if id, err = runnerlib.Submit(ctx, client, id, token); err != nil {
		return nil, err
	}
	if err := follow(ctx, client, id); err != nil {
		return nil, err
	}
	infos, err := client.GetJobMetrics(ctx, &jobpb.GetJobMetricsRequest{JobId: id})
	if err != nil {
		return nil, err
	}
	return result{id, metricsx.FromMonitoringInfos(pb, infos.GetMetrics().GetAttempted(), infos.GetMetrics().GetCommitted())}, nil
}

// follow waits for the end of a job, and cancels it when ctx ends.
func follow(ctx context.Context, client jobpb.JobServiceClient, id string) error {
	err := runnerlib.WaitForCompletion(ctx, client, id)
	if ctx.Err() != nil {
		// The job has a context of its own.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		client.Cancel(late, &jobpb.CancelJobRequest{JobId: id}) // best effort: the workers end in any case
		return context.Cause(ctx)
	}
	if err != nil {
		return plain(err)
	}
	s, err := client.GetState(ctx, &jobpb.GetJobStateRequest{JobId: id})
	if err != nil {
		return err
	}
	if s.GetState() != jobpb.JobState_DONE {
		return ErrCancelled
	}
	return nil
}

// plain takes the runner's layers off an error, which say where in the runner it
// passed.
func plain(err error) error {
	text := err.Error()
	for _, layer := range []string{"caused by:\n", " failed:\n"} {
		if i := strings.LastIndex(text, layer); i >= 0 {
			text = text[i+len(layer):]
		}
	}
	return errors.New(strings.TrimSpace(text))
}

// A result is what Beam's own runners return.
type result struct {
	id      string
	metrics *metrics.Results
}

func (r result) Metrics() metrics.Results { return *r.metrics }
func (r result) JobID() string            { return r.id }

// dialTimeout bounds how long the server of this process may take to answer.
const dialTimeout = time.Minute

// One server works for all pipelines of the process: Prism gives no way to end it.
var server struct {
	sync.Mutex
	endpoint string // empty before it runs
	guard    *guard // nil where the port is open to all
}

// endpoint is the address of this process's Prism, which it starts at first.
func endpoint(acceptOpenPort bool) (string, error) {
	server.Lock()
	defer server.Unlock()
	if server.endpoint != "" && (server.guard != nil || acceptOpenPort) {
		return server.endpoint, nil
	}
	g, err := newGuard()
	if err == nil {
		err = g.around(func() error { return serve(0) })
	}
	if err == nil {
		server.endpoint, server.guard = g.endpoint(), g
		return server.endpoint, nil
	}
	if !acceptOpenPort {
		return "", &UnprotectedError{err}
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	if err := serve(port); err != nil {
		return "", err
	}
	server.endpoint = fmt.Sprintf("localhost:%d", port)
	return server.endpoint, nil
}

// serve starts Prism's server. It comes with a client whose connection would be
// one of the first at the door: a context that has ended spares it.
func serve(port int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the embedded runner does not start: %v", p)
		}
	}()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = prism.CreateJobServer(ended, prism.Options{Port: port})
	if errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		return nil
	}
	return cmp.Or(err, errors.New("the embedded runner answered a client that had ended"))
}
