package prism

import (
	"context"
	"net"
	"sync"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"google.golang.org/grpc"
)

// A pool runs the functions of one job in this process. It is Beam's external
// worker pool, as extworker.Loopback, whose TCP port any user of the machine could
// have functions run at.
type pool struct {
	fnpb.UnimplementedBeamFnExternalWorkerPoolServer
	address string
	server  *grpc.Server
	ctx     context.Context // of the workers
	cancel  context.CancelFunc

	mu      sync.Mutex
	workers map[string]context.CancelFunc // by id
}

func newPool() (*pool, error) {
	l, address, err := listenPool()
	if err != nil {
		return nil, err
	}
	p := &pool{address: address, server: grpc.NewServer(), workers: map[string]context.CancelFunc{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	fnpb.RegisterBeamFnExternalWorkerPoolServer(p.server, p)
	go p.server.Serve(l)
	return p, nil
}

// stop ends the workers.
func (p *pool) stop() {
	p.cancel()
	p.server.Stop()
}

// StartWorker implements Beam's interface.
func (p *pool) StartWorker(_ context.Context, req *fnpb.StartWorkerRequest) (*fnpb.StartWorkerResponse, error) {
	ctx, cancel := context.WithCancel(grpcx.WriteWorkerID(p.ctx, req.GetWorkerId()))
	p.mu.Lock()
	p.workers[req.GetWorkerId()] = cancel
	p.mu.Unlock()
	info, err := tools.ProvisionInfo(ctx, req.GetProvisionEndpoint().GetUrl())
	if err != nil {
		return &fnpb.StartWorkerResponse{Error: err.Error()}, nil
	}
	options := harness.Options{RunnerCapabilities: info.GetRunnerCapabilities(), StatusEndpoint: info.GetStatusEndpoint().GetUrl()}
	go harness.MainWithOptions(ctx, req.GetLoggingEndpoint().GetUrl(), req.GetControlEndpoint().GetUrl(), options)
	return &fnpb.StartWorkerResponse{}, nil
}

// StopWorker implements Beam's interface.
func (p *pool) StopWorker(_ context.Context, req *fnpb.StopWorkerRequest) (*fnpb.StopWorkerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel, ok := p.workers[req.GetWorkerId()]; ok {
		cancel()
	}
	return &fnpb.StopWorkerResponse{}, nil
}

// freePort returns a port that nobody listens at.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
