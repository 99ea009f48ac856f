package prism

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"hafvf/internal/portable"
)

func init() {
	maps.Copy(roles, map[string]func() (string, error){
		"program":           func() (string, error) { return foreignJob(process) },
		"program, denied":   func() (string, error) { return denied(process) },
		"container, denied": func() (string, error) { return denied(container) },
		"without seccomp":   withoutSeccomp,
	})
}

const (
	process   = "beam:env:process:v1"
	container = "beam:env:docker:v1"
)

// Whatever job gets into the runner, no program and no container is started for it.
func TestDenyPrograms(t *testing.T) {
	if said := play(t, "program"); said != started {
		t.Errorf("the job of the test starts no program even where it could: %s", said)
	}
	if said := play(t, "program, denied"); !strings.Contains(said, "operation not permitted") {
		t.Error(said)
	}
	if said := play(t, "container, denied"); !strings.Contains(said, "unix:///dev/null") {
		t.Error(said)
	}
}

func denied(environment string) (string, error) {
	if err := DenyPrograms(); err != nil {
		return "", err
	}
	return foreignJob(environment)
}

const started = "started"

// foreignJob hands Prism a job that asks for a worker in an environment of its own,
// as somebody would who got past the guard, and says what came of it.
func foreignJob(environment string) (said string, err error) {
	dir, err := os.MkdirTemp("", "hafvf-test-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	script, mark, log := filepath.Join(dir, "script"), filepath.Join(dir, "mark"), filepath.Join(dir, "log")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o700); err != nil {
		return "", err
	}
	f, err := os.Create(log)
	if err != nil {
		return "", err
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(f, nil))) // which Prism takes over when it starts

	at, err := endpoint(false)
	if err != nil {
		return "", err
	}
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &waitFn{}, beam.Impulse(s))
	pb, err := portable.Marshal(p, "nowhere", nil)
	if err != nil {
		return "", err
	}
	payload, err := proto.Marshal(&pipepb.ProcessPayload{Command: script})
	if environment == container {
		payload, err = proto.Marshal(&pipepb.DockerPayload{ContainerImage: "none"})
	}
	if err != nil {
		return "", err
	}
	for _, e := range pb.GetComponents().GetEnvironments() {
		e.Urn, e.Payload = environment, payload
	}
	ctx := context.Background()
	conn, err := grpcx.Dial(ctx, at, dialTimeout)
	if err != nil {
		return "", err
	}
	client := jobpb.NewJobServiceClient(conn)
	prepared, err := client.Prepare(ctx, &jobpb.PrepareJobRequest{Pipeline: pb, JobName: "foreign", PipelineOptions: &structpb.Struct{}})
	if err != nil {
		return "", err
	}
	if _, err := client.Run(ctx, &jobpb.RunJobRequest{PreparationId: prepared.GetPreparationId()}); err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(mark); err == nil {
			return started, nil
		}
		text, err := os.ReadFile(log)
		if err != nil || strings.Contains(string(text), "failed") {
			return string(text), err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Where the kernel gives no protection, a pipeline runs only for who accepts that.
func TestUnprotected(t *testing.T) {
	if said := play(t, "without seccomp"); said != "refused, then accepted" {
		t.Error(said)
	}
}

func withoutSeccomp() (string, error) {
	filter, err := assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SECCOMP, SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	})
	if err != nil {
		return "", err
	}
	if _, err := seccomp(filter, unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
		return "", err
	}
	if err := DenyPrograms(); !errors.As(err, new(*UnprotectedError)) {
		return "programs are not denied, and nobody is told", err
	}
	p, s := beam.NewPipelineWithRoot()
	beam.Impulse(s)
	if _, err := Execute(context.Background(), p); !errors.As(err, new(*UnprotectedError)) {
		return "not refused", err
	}
	if _, err := (Runner{AcceptOpenPort: true}).Execute(context.Background(), p); err != nil {
		return "not accepted", err
	}
	return "refused, then accepted", nil
}

// play runs the test binary in a role and returns what it says.
func play(t *testing.T, role string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Programs of one machine, each with a pool of its own, are not in each other's way.
func TestListenPoolTwice(t *testing.T) {
	var addresses []string
	for range 2 {
		l, address, err := listenPool()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses = append(addresses, address)
	}
	if addresses[0] == addresses[1] {
		t.Errorf("both are at %s", addresses[0])
	}
}
