package flink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hafvf/internal/httpclient"
	"hafvf/internal/message"
	"hafvf/internal/secret"
)

// A Cluster is a Flink cluster behind Beam's job server.
type Cluster struct {
	Endpoint string // of the job server, host:port
	REST     string // of the JobManager, such as http://flink:8081
}

// A Job is a job of the cluster.
type Job struct {
	ID, Name string

	cluster *Cluster
	final   error // see Options.Final
}

// Status is the state of a job.
type Status struct {
	State      string // Flink's name: RUNNING, RESTARTING, FINISHED, …
	Since      time.Time
	Vertices   []Vertex
	Completed  int // checkpoints
	Failed     int // checkpoints
	Restored   int // number of restores from a checkpoint or savepoint
	Restarts   int
	Checkpoint *Checkpoint
	Cause      string    // of the last failure, in words; "" for none
	CausedAt   time.Time // time of the last failure
}

// A Vertex is a stage of a job.
type Vertex struct {
	ID, Name    string
	Parallelism int
	Tasks       map[string]int // number of tasks by state
}

// runs reports whether every task of the job runs or has finished.
func (s Status) runs() bool {
	return s.State == "RUNNING" && !slices.ContainsFunc(s.Vertices, func(v Vertex) bool {
		return v.Tasks["RUNNING"]+v.Tasks["FINISHED"] < v.Parallelism
	})
}

// A Checkpoint is a complete checkpoint.
type Checkpoint struct {
	ID    int64
	Bytes int64 // size of the state
	Took  time.Duration
	At    time.Time
	Path  string
}

// ended are the final states of a job.
var ended = []string{"FINISHED", "FAILED", "CANCELED", "SUSPENDED"}

// Ended reports whether the job has ended.
func (s Status) Ended() bool { return slices.Contains(ended, s.State) }

// answerTimeout and maxAnswer (in bytes) limit an answer of the JobManager. A job with many tasks has many metrics.
const (
	answerTimeout = 10 * time.Second
	maxAnswer     = 64 << 20
)

// clients has one *httpclient.Client for each address of a JobManager, so that requests share connections.
var clients sync.Map

func (c *Cluster) client() (*httpclient.Client, error) {
	if known, ok := clients.Load(c.REST); ok {
		return known.(*httpclient.Client), nil
	}
	made, err := httpclient.New("runner", httpclient.Server{URL: secret.Text{Text: c.REST}}, httpclient.Bounds{Answer: maxAnswer}, nil)
	if err != nil {
		return nil, fmt.Errorf("the JobManager's address (runner.rest) is invalid: %w", errors.Unwrap(err))
	}
	known, _ := clients.LoadOrStore(c.REST, made)
	return known.(*httpclient.Client), nil
}

// call sends a request to the JobManager, and decodes the answer into out. If out is nil, it ignores the answer.
func (c *Cluster) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.REST, "/")+path, body)
	if err != nil {
		return fmt.Errorf("the JobManager's address (runner.rest): %w", httpclient.Bare(err))
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.HTTP().Do(req)
	if err != nil {
		err = httpclient.Bare(err)
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op
		}
		return fmt.Errorf("no Flink JobManager answers at %s (runner.rest): %w", client.Place(), err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("the JobManager at %s stopped answering: %w", client.Place(), err)
	}
	if res.StatusCode/100 == 3 {
		return c.otherServer(fmt.Sprintf("%s %s: %s: %s", method, path, res.Status, message.Line(string(b))))
	}
	if res.StatusCode >= 300 {
		var refusal struct{ Errors []string }
		if json.Unmarshal(b, &refusal) != nil || len(refusal.Errors) == 0 {
			return c.otherServer(fmt.Sprintf("%s %s: %s", method, path, res.Status))
		}
		return &restError{res.StatusCode, rootCause(refusal.Errors[len(refusal.Errors)-1])}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return c.otherServer(err.Error())
	}
	return nil
}

// otherServer returns the error for an answer that no JobManager gives.
func (c *Cluster) otherServer(why string) error {
	return fmt.Errorf("%s (runner.rest) is not a Flink JobManager: %s", c.place(), why)
}

// place returns the JobManager's address for messages, without a login.
func (c *Cluster) place() string {
	client, err := c.client()
	if err != nil {
		return "runner.rest"
	}
	return client.Place()
}

// A restError is an error answer of the JobManager.
type restError struct {
	code int
	text string
}

func (e *restError) Error() string { return "Flink: " + e.text }

// Flink is the required release of job server and cluster: the job server's jar is built for one release.
const Flink = "1.19"

// check returns the jobs of the cluster. It returns an error if the cluster cannot run the job.
func (c *Cluster) check(ctx context.Context, o Options) ([]jobInfo, error) {
	var config struct {
		Version string `json:"flink-version"`
	}
	if err := c.call(ctx, "GET", "/config", nil, &config); err != nil {
		return nil, err
	}
	if config.Version == "" {
		return nil, c.otherServer("the answer has no flink-version")
	}
	if !strings.HasPrefix(config.Version, Flink+".") {
		return nil, fmt.Errorf("the cluster at %s has Flink %s, and the job server is for Flink %s", c.place(), config.Version, Flink)
	}
	jobs, err := c.jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.Name == o.Name && !slices.Contains(ended, j.State) {
			return nil, fmt.Errorf("a job %s runs already, %s: stop it first (hafvf stop), or give this one another name (runner.job)", o.Name, j.ID)
		}
	}
	return jobs, c.awaitSlots(ctx, o.Parallelism)
}

// slotsTimeout is how long a job waits for occupied slots. TaskManagers free the slots of a job shortly after its end.
const slotsTimeout = 20 * time.Second

// awaitSlots waits until the cluster has free slots for a job with the given parallelism. It returns an error if there
// are none after slotsTimeout, and immediately if the cluster has too few slots in total.
func (c *Cluster) awaitSlots(ctx context.Context, parallelism int) error {
	deadline := time.Now().Add(slotsTimeout)
	for range every(ctx, poll) {
		var slots struct {
			TaskManagers int
			Total        int `json:"slots-total"`
			Free         int `json:"slots-available"`
		}
		if err := c.call(ctx, "GET", "/overview", nil, &slots); err != nil {
			return err
		}
		if slots.Free >= parallelism {
			return nil
		}
		if slots.Total < parallelism || time.Now().After(deadline) {
			return fmt.Errorf("the cluster at %s has %d free slots of %d, on %d TaskManagers, and the job needs %d (runner.parallelism): start more TaskManagers or stop another job",
				c.place(), slots.Free, slots.Total, slots.TaskManagers, parallelism)
		}
	}
	return context.Cause(ctx)
}

type jobInfo struct {
	ID      string `json:"jid"`
	Name    string
	State   string
	Started int64 `json:"start-time"`
}

// jobs returns the jobs of the cluster, latest first.
func (c *Cluster) jobs(ctx context.Context) ([]jobInfo, error) {
	var overview struct{ Jobs []jobInfo }
	if err := c.call(ctx, "GET", "/jobs/overview", nil, &overview); err != nil {
		return nil, err
	}
	slices.SortFunc(overview.Jobs, func(a, b jobInfo) int { return int(b.Started - a.Started) })
	return overview.Jobs, nil
}

// Find returns the latest job with the given name.
func (c *Cluster) Find(ctx context.Context, name string) (*Job, error) {
	jobs, err := c.jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.Name == name {
			return &Job{ID: j.ID, Name: name, cluster: c}, nil
		}
	}
	return nil, fmt.Errorf("the cluster at %s has no job %s", c.place(), name)
}

func (j *Job) call(ctx context.Context, method, path string, in, out any) error {
	return j.cluster.call(ctx, method, "/jobs/"+j.ID+path, in, out)
}

// Status requests the state of the job. It repeats the request if the JobManager returns a server error, which happens
// while a job starts or ends.
func (j *Job) Status(ctx context.Context) (Status, error) {
	deadline := time.Now().Add(answerTimeout)
	for range every(ctx, poll) {
		s, err := j.status(ctx)
		refused, ok := errors.AsType[*restError](err)
		if !ok {
			return s, err
		}
		if strings.Contains(refused.text, "initializing") {
			return Status{State: "INITIALIZING"}, nil
		}
		if refused.code < 500 || time.Now().After(deadline) {
			return s, err
		}
	}
	return Status{}, context.Cause(ctx)
}

func (j *Job) status(ctx context.Context) (s Status, err error) {
	var job struct {
		State      string
		Timestamps map[string]int64
		Vertices   []Vertex
	}
	if err := j.call(ctx, "GET", "", nil, &job); err != nil {
		return s, err
	}
	if job.State == "" {
		return s, j.cluster.otherServer("the answer has no state of a job")
	}
	s.State, s.Since, s.Vertices = job.State, time.UnixMilli(job.Timestamps[job.State]), job.Vertices
	var points struct {
		Counts struct{ Completed, Failed, Restored int }
		Latest struct {
			Completed *struct {
				ID   int64
				Size int64  `json:"state_size"`
				Took int64  `json:"end_to_end_duration"`
				At   int64  `json:"latest_ack_timestamp"`
				Path string `json:"external_path"`
			}
		}
	}
	if err := j.call(ctx, "GET", "/checkpoints", nil, &points); err != nil {
		return s, err
	}
	s.Completed, s.Failed, s.Restored = points.Counts.Completed, points.Counts.Failed, points.Counts.Restored
	if p := points.Latest.Completed; p != nil {
		s.Checkpoint = &Checkpoint{p.ID, p.Size, time.Duration(p.Took) * time.Millisecond, time.UnixMilli(p.At), p.Path}
	}
	var restarts []struct{ Value string }
	if err := j.call(ctx, "GET", "/metrics?get=numRestarts", nil, &restarts); err != nil {
		return s, err
	}
	for _, m := range restarts {
		s.Restarts, _ = strconv.Atoi(m.Value)
	}
	var failures struct {
		History struct {
			Entries []struct {
				Trace string `json:"stacktrace"`
				At    int64  `json:"timestamp"`
			}
		} `json:"exceptionHistory"`
	}
	if err := j.call(ctx, "GET", "/exceptions?maxExceptions=1", nil, &failures); err != nil {
		return s, err
	}
	for _, e := range failures.History.Entries {
		s.Cause, s.CausedAt = explain(e.Trace), time.UnixMilli(e.At)
	}
	return s, nil
}

// Counters returns the sums of Beam's counters in a namespace, by name.
func (j *Job) Counters(ctx context.Context, namespace string) (map[string]int64, error) {
	s, err := j.Status(ctx)
	if err != nil {
		return nil, err
	}
	sums := map[string]int64{}
	for _, v := range s.Vertices {
		var known []struct{ ID string }
		path := "/vertices/" + v.ID + "/subtasks/metrics"
		if err := j.call(ctx, "GET", path, nil, &known); err != nil {
			return nil, err
		}
		var ids []string
		for _, m := range known {
			if strings.Contains(m.ID, "."+namespace+"_") {
				ids = append(ids, m.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		var values []struct {
			ID  string
			Sum float64
		}
		if err := j.call(ctx, "GET", path+"?agg=sum&get="+url.QueryEscape(strings.Join(ids, ",")), nil, &values); err != nil {
			return nil, err
		}
		for _, v := range values {
			if i := strings.LastIndex(v.ID, "."+namespace+"_"); i >= 0 {
				sums[v.ID[i+len(namespace)+2:]] += int64(v.Sum)
			}
		}
	}
	return sums, nil
}

// Cancel ends the job, and waits until it has ended. Its last checkpoint stays.
func (j *Job) Cancel(ctx context.Context) error {
	if err := j.call(ctx, "PATCH", "?mode=cancel", nil, nil); err != nil {
		return err
	}
	return j.end(ctx)
}

func (j *Job) end(ctx context.Context) error {
	for range every(ctx, poll) {
		if s, err := j.Status(ctx); err != nil || s.Ended() {
			return err
		}
	}
	return context.Cause(ctx)
}

// Stop ends the job with a savepoint, and returns the path of the savepoint: in folder or, if folder is empty, in the
// cluster's state.savepoints.dir.
func (j *Job) Stop(ctx context.Context, folder string) (savepoint string, err error) {
	in := map[string]any{"drain": false}
	if folder != "" {
		in["targetDirectory"] = folder
	}
	var trigger struct {
		ID string `json:"request-id"`
	}
	if err := j.call(ctx, "POST", "/stop", in, &trigger); err != nil {
		return "", err
	}
	for range every(ctx, poll) {
		var answer struct {
			Status    struct{ ID string }
			Operation struct {
				Location string
				Failure  *struct {
					Trace string `json:"stack-trace"`
				} `json:"failure-cause"`
			}
		}
		if err := j.call(ctx, "GET", "/savepoints/"+trigger.ID, nil, &answer); err != nil {
			return "", err
		}
		switch {
		case answer.Status.ID == "":
			return "", j.cluster.otherServer("the answer has no status of a savepoint")
		case answer.Operation.Failure != nil:
			return "", fmt.Errorf("the savepoint failed, and the job continues: %s", explain(answer.Operation.Failure.Trace))
		case answer.Status.ID == "COMPLETED":
			return answer.Operation.Location, j.end(ctx)
		}
	}
	return "", context.Cause(ctx)
}

// poll is the time between two requests for a job's status.
const poll = 250 * time.Millisecond

// every repeats a loop with a pause between iterations, until ctx ends.
func every(ctx context.Context, pause time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		for yield() {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}
}
