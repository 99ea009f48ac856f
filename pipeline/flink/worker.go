//go:build flink

package flink

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"google.golang.org/grpc"
)

// A Worker runs the functions of a pipeline in this process, for the TaskManagers that request it. It is Beam's
// external worker pool. No code is staged: this process must be the program that submits the job.
type Worker struct {
	Version string // of this program; jobs of another version are refused
	Log     *slog.Logger

	fnpb.UnimplementedBeamFnExternalWorkerPoolServer
	root context.Context
	wg   sync.WaitGroup
}

// Serve answers TaskManagers until ctx ends, and then stops the functions that run here.
func (w *Worker) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.root = ctx
	server := grpc.NewServer()
	fnpb.RegisterBeamFnExternalWorkerPoolServer(server, w)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	server.Stop()
	w.wg.Wait()
	return nil
}

// StartWorker implements Beam's interface.
func (w *Worker) StartWorker(_ context.Context, req *fnpb.StartWorkerRequest) (*fnpb.StartWorkerResponse, error) {
	id := req.GetWorkerId()
	if v := req.GetParams()[versionParam]; v != w.Version {
		err := fmt.Sprintf("the job was submitted by hafvf %s, and the worker is hafvf %s: run the same version on both sides", v, w.Version)
		w.Log.Warn("job refused", "reason", err)
		return &fnpb.StartWorkerResponse{Error: err}, nil
	}
	// Two TaskManagers may use the same worker ID.
	ctx := grpcx.WriteWorkerID(w.root, id)
	w.wg.Go(func() {
		w.Log.Info("started work for a TaskManager", "worker", id, "at", req.GetControlEndpoint().GetUrl())
		// The harness ends when the TaskManager closes the connection.
		err := harness.MainWithOptions(ctx, req.GetLoggingEndpoint().GetUrl(), req.GetControlEndpoint().GetUrl(), harness.Options{})
		if err != nil && ctx.Err() == nil {
			w.Log.Warn("lost a TaskManager", "worker", id, "error", err)
			return
		}
		w.Log.Info("finished work for a TaskManager", "worker", id)
	})
	return &fnpb.StartWorkerResponse{}, nil
}

// StopWorker implements Beam's interface. It does nothing, because the TaskManager has closed the connection.
func (w *Worker) StopWorker(context.Context, *fnpb.StopWorkerRequest) (*fnpb.StopWorkerResponse, error) {
	return &fnpb.StopWorkerResponse{}, nil
}
