package flinktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness/init"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"hafvf/pipeline/flink/flinktest"
)

// TestMain makes the test's binary a worker if it is called as one.
func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

func init() {
	register.Function2x0(count)
	register.DoFn1x1[int, error](&write{})
	register.Emitter1[int]()
}

const elements = 100

func count(_ []byte, emit func(int)) {
	for i := range elements {
		emit(i)
	}
}

// write makes a file of each element's name, with the process's number.
type write struct{ Folder string }

func (w *write) ProcessElement(i int) error {
	return os.WriteFile(filepath.Join(w.Folder, strconv.Itoa(i)), []byte(strconv.Itoa(os.Getpid())), 0o600)
}

// submit submits the pipeline and returns the job's id.
func submit(t *testing.T, c *flinktest.Cluster, jobs jobpb.JobServiceClient, p *beam.Pipeline) string {
	t.Helper()
	edges, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	urn, config := c.Environment()
	env, err := graphx.CreateEnvironment(t.Context(), urn, func(context.Context) string { return config })
	if err != nil {
		t.Fatal(err)
	}
	model, err := graphx.Marshal(edges, &graphx.Options{Environment: env})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := runnerlib.UpdateGoEnvironmentWorker(self, model); err != nil {
		t.Fatal(err)
	}
	id, artifacts, session, err := runnerlib.Prepare(t.Context(), jobs, model, &runnerlib.JobOptions{Name: t.Name(), Parallelism: 2})
	if err != nil {
		t.Fatal(err)
	}
	token, err := runnerlib.Stage(t.Context(), id, artifacts, self, session)
	if err != nil {
		t.Fatal(err)
	}
	job, err := runnerlib.Submit(t.Context(), jobs, id, token)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func dial(t *testing.T, c *flinktest.Cluster) jobpb.JobServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(c.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return jobpb.NewJobServiceClient(conn)
}

// end waits for the job's end and returns its states.
func end(t *testing.T, jobs jobpb.JobServiceClient, job string) (states []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := jobs.GetMessageStream(ctx, &jobpb.JobMessagesRequest{JobId: job})
	if err != nil {
		t.Fatal(err)
	}
	for {
		msg, err := stream.Recv()
		if err != nil {
			t.Fatalf("awaiting the end of job %s, which was %v: %v", job, states, err)
		}
		if m := msg.GetMessageResponse(); m != nil {
			t.Log(m.GetMessageText())
		}
		switch s := msg.GetStateResponse().GetState(); s {
		case jobpb.JobState_UNSPECIFIED:
		case jobpb.JobState_DONE, jobpb.JobState_FAILED, jobpb.JobState_CANCELLED:
			return append(states, s.String())
		default:
			states = append(states, s.String())
		}
	}
}

func TestJob(t *testing.T) {
	begin := time.Now()
	c := flinktest.Start(t, flinktest.Config{})
	t.Logf("the cluster started within %.1f s", time.Since(begin).Seconds())
	jobs := dial(t, c)
	for range 2 {
		folder := t.TempDir()
		p, s := beam.NewPipelineWithRoot()
		numbers := beam.ParDo(s, count, beam.Impulse(s))
		beam.ParDo0(s, &write{folder}, beam.Reshuffle(s, numbers))
		begin = time.Now()
		job := submit(t, c, jobs, p)
		t.Logf("submitted within %.1f s", time.Since(begin).Seconds())
		states := end(t, jobs, job)
		t.Logf("the job went through %v within %.1f s", states, time.Since(begin).Seconds())
		if last := states[len(states)-1]; last != "DONE" {
			t.Fatalf("the job ended as %s", last)
		}
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != elements {
			t.Errorf("%d files in place of %d", len(files), elements)
		}
		pids := map[string]int{}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(folder, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			pids[string(text)]++
		}
		t.Logf("elements by worker: %v", pids)
	}
}

// taskManagers returns those that the JobManager shows, and how many slots
// they have.
func taskManagers(t *testing.T, c *flinktest.Cluster) (ids []string, slots int) {
	t.Helper()
	resp, err := http.Get(c.REST() + "/taskmanagers")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var known struct {
		TaskManagers []struct {
			ID          string
			SlotsNumber int
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&known); err != nil {
		t.Fatal(err)
	}
	for _, tm := range known.TaskManagers {
		ids = append(ids, tm.ID)
		slots += tm.SlotsNumber
	}
	slices.Sort(ids)
	return ids, slots
}

func TestKill(t *testing.T) {
	var children []int
	t.Run("cluster", func(t *testing.T) {
		c := flinktest.Start(t, flinktest.Config{TaskManagers: 2, Slots: 3})
		ids, slots := taskManagers(t, c)
		if diff := cmp.Diff([]string{"taskmanager0", "taskmanager1"}, ids); diff != "" || slots != 6 {
			t.Errorf("%d slots in place of 6; TaskManagers (-want +got):\n%s", slots, diff)
		}
		c.Kill(1)
		c.Kill(1)
		deadline := time.Now().Add(time.Minute)
		begin := time.Now()
		for {
			if ids, _ := taskManagers(t, c); len(ids) == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the JobManager does not miss a TaskManager that was killed")
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("missed within %.1f s", time.Since(begin).Seconds())
		c.StartTaskManager(t, 1)
		if ids, slots := taskManagers(t, c); len(ids) != 2 || slots != 6 {
			t.Errorf("after the restart %d slots in place of 6, and %v", slots, ids)
		}
		children = descendants(t, os.Getpid())
	})
	if len(children) < 4 {
		t.Errorf("the cluster had the processes %d, which are fewer than 4", children)
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// descendants returns the processes that a process has started.
func descendants(t *testing.T, pid int) (found []int) {
	t.Helper()
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range names {
		text, _ := os.ReadFile(name) // of threads that have ended there is none
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			found = append(append(found, child), descendants(t, child)...)
		}
	}
	return found
}
