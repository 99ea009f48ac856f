package flinktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"google.golang.org/grpc"

	"hafvf/connectors/javatest"
)

// A pool starts workers for TaskManagers, by the protocol of the pool that
// Beam's boot program is with --worker_pool, and by that boot program. It differs
// in what that lacks on one machine: a port of choice, a folder for each worker,
// and that workers end when they are to.
type pool struct {
	fnpb.UnimplementedBeamFnExternalWorkerPoolServer
	boot, folder string

	mu      sync.Mutex
	closed  bool
	started int
	workers map[string]*worker // by the id that the TaskManager gives
}

// A worker is a group of processes: a shell, boot, and what boot runs.
type worker struct {
	shell *javatest.Process
	// life is the shell's input. When it is closed, as it is when the
	// test's process dies, the group kills itself.
	life io.Closer
	// gone is closed when no process of the group is left and its files are
	// removed.
	gone chan struct{}
}

// group runs its arguments and kills all processes of its group, itself
// included, when they end or its input does.
const group = `exec 3<&0 </dev/null
{ cat <&3 >/dev/null; kill -9 0; } &
"$@" 3<&-
kill -9 0`

func startPool(t testing.TB, boot, folder, addr string) *pool {
	t.Helper()
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the worker pool cannot listen: %v", err)
	}
	p := &pool{boot: boot, folder: folder, workers: map[string]*worker{}}
	server := grpc.NewServer()
	fnpb.RegisterBeamFnExternalWorkerPoolServer(server, p)
	served := make(chan struct{})
	go func() {
		server.Serve(listener) // ends when it is stopped
		close(served)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.stop()
	})
	return p
}

// StartWorker starts a worker that connects to the given addresses.
func (p *pool) StartWorker(_ context.Context, req *fnpb.StartWorkerRequest) (*fnpb.StartWorkerResponse, error) {
	if err := p.start(req); err != nil {
		return &fnpb.StartWorkerResponse{Error: err.Error()}, nil
	}
	return &fnpb.StartWorkerResponse{}, nil
}

func (p *pool) start(req *fnpb.StartWorkerRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := req.GetWorkerId()
	if p.closed {
		return errors.New("the worker pool is closed")
	}
	if p.workers[id] != nil {
		return fmt.Errorf("worker %q is started twice", id)
	}
	p.started++
	folder := filepath.Join(p.folder, fmt.Sprint(p.started))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	log, err := os.Create(folder + ".log")
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", group, "sh", p.boot,
		"--id="+id,
		"--control_endpoint="+req.GetControlEndpoint().GetUrl(),
		"--artifact_endpoint="+req.GetArtifactEndpoint().GetUrl(),
		"--provision_endpoint="+req.GetProvisionEndpoint().GetUrl(),
		"--logging_endpoint="+req.GetLoggingEndpoint().GetUrl(),
		"--semi_persist_dir="+folder)
	cmd.Dir = folder
	// Not being a file, the log is copied from a pipe that all processes of the
	// group hold: only when all are gone is the shell said to have exited.
	cmd.Stdout = struct{ io.Writer }{log}
	cmd.Stderr = cmd.Stdout
	ownGroup(cmd)
	life, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	w := &worker{life: life, gone: make(chan struct{})}
	if w.shell, err = javatest.Spawn(cmd); err != nil {
		return err
	}
	p.workers[id] = w
	go func() {
		defer close(w.gone)
		defer log.Close()
		w.clean()
	}()
	return nil
}

// clean waits for the worker's end and removes the binary that boot puts into a
// folder of the system, as it would stay there.
func (w *worker) clean() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for program := ""; ; {
		if program == "" {
			_, program = w.harness()
		}
		select {
		case <-w.shell.Exited():
			if program != "" {
				os.Remove(program)
				os.Remove(filepath.Dir(program))
			}
			return
		case <-tick.C:
		}
	}
}

// harness finds the process that runs the job's code, and its program, or is 0
// if there is none.
func (w *worker) harness() (pid int, program string) {
	for pid, program := range groupMembers(w.shell.PID()) {
		if name := filepath.Base(program); name == "worker" { // as boot calls it
			return pid, program
		}
	}
	return 0, ""
}

// StopWorker ends a worker.
func (p *pool) StopWorker(_ context.Context, req *fnpb.StopWorkerRequest) (*fnpb.StopWorkerResponse, error) {
	p.mu.Lock()
	w := p.workers[req.GetWorkerId()]
	delete(p.workers, req.GetWorkerId())
	p.mu.Unlock()
	if w == nil {
		return &fnpb.StopWorkerResponse{Error: fmt.Sprintf("there is no worker %q", req.GetWorkerId())}, nil
	}
	w.stop()
	return &fnpb.StopWorkerResponse{}, nil
}

func (w *worker) stop() {
	w.life.Close() // fails only when it is closed
	<-w.gone
}

// stop ends all workers.
func (p *pool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, w := range p.workers {
		w.stop()
		delete(p.workers, id)
	}
}

// pids returns the processes that run jobs' code.
func (p *pool) pids() (pids []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if pid, _ := w.harness(); pid != 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill ends one of the processes that run jobs' code and returns its number, or
// 0 if there is none.
func (p *pool) kill() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		pid, _ := w.harness()
		if pid == 0 {
			continue
		}
		process, err := os.FindProcess(pid) // holds on to it, as its number can be given anew
		if err != nil {
			continue
		}
		again, _ := w.harness()
		if again != pid || process.Kill() != nil {
			process.Release()
			continue
		}
		process.Release()
		<-w.gone // boot ends when it does
		return pid
	}
	return 0
}
