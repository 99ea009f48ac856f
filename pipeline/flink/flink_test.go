package flink

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hafvf/internal/testing/badserver"
	"hafvf/internal/testing/expect"
)

// keyGroups are results of KeyGroupRangeAssignment.assignToKeyGroup of Flink 1.19.3, with 128 groups, for keys in the
// encoding of Beam's FlinkKeyUtils.
var keyGroups = map[string]int{
	"":                          123,
	"0/0":                       106,
	"1/0":                       7,
	"1/17":                      127,
	"a longer name of a reader": 59,
}

// Names are distributed evenly over the subtasks.
func TestNames(t *testing.T) {
	for _, parallelism := range []int{1, 2, 3, 7, 64} {
		for _, groups := range []int{64, 128, 1000} {
			seen := map[int]int{}
			for i, name := range Names(2*parallelism, parallelism, groups) {
				subtask := keyGroup(name, groups) * parallelism / groups
				expect.Same(t, i%parallelism, subtask, "parallelism ", parallelism, " of ", groups, ": subtask of ", name)
				seen[subtask]++
			}
			expect.Same(t, parallelism, len(seen), "subtasks of ", groups, " groups: ", seen)
		}
	}
	for key, group := range keyGroups {
		expect.Same(t, group, keyGroup(key, 128), "the group of ", key)
	}
}

func TestWords(t *testing.T) {
	for _, test := range []struct{ trace, want string }{
		{"java.lang.RuntimeException: Failed to finish remote bundle\n\tat org.apache.beam.X.close(X.java:660)\nCaused by: java.util.concurrent.ExecutionException: java.lang.RuntimeException: Error received from SDK harness for instruction 12: process bundle failed for instruction 12 using plan 1-6 : while executing Process for Plan[1-6]:\n1: DataSource[S]\n\tcaused by:\nkey \"k1\": the state is of another configuration\n\tat org.apache.beam.Y.get(Y.java:1)\n\t... 7 more",
			`key "k1": the state is of another configuration`},
		{"java.lang.RuntimeException: Error received from SDK harness for instruction 12: process bundle failed: while executing FinishBundle for Plan[1-6]:\n1: DataSource[S]\n\tcaused by:\nDoFn[UID:24, PID:e6, Name: a/b.fn] failed:\nstate \"0\": it is corrupt\n\tat org.apache.beam.Y.get(Y.java:1)", `state "0": it is corrupt`},
		{"org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoffTimeStrategy\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: disk full\n\tat a.B.c(B.java:1)", "disk full"},
		{"<Exception on server side:\norg.apache.flink.util.FlinkException: it is so\n\tat a.B.c(B.java:1)", "it is so"},
		{"org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: Could not acquire the minimum required resources.", "the cluster has no slots"},
		{"java.lang.RuntimeException: Cannot load user class\n\tat a.B.c(B.java:1)\nCaused by: java.lang.ClassNotFoundException: org.apache.beam.Z", "runner into their lib (org.apache.beam.Z)"},
		{"java.io.InvalidClassException: org.apache.beam.Z; local class incompatible", "different releases"},
		{"plain words", "plain words"},
	} {
		got := explain(test.trace)
		if !strings.HasPrefix(got, test.want) && !strings.Contains(got, test.want) || strings.Contains(got, "\tat ") {
			t.Errorf("%q means %q, not %q", test.trace, got, test.want)
		}
	}
}

// follow follows a job whose JobManager gives these answers. An empty answer stands for "[]" or "{}".
func follow(t *testing.T, final error, answer func(r *http.Request) (code int, text string)) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, text := answer(r)
		if text == "" && strings.HasSuffix(r.URL.Path, "/metrics") {
			text = "[]"
		}
		w.WriteHeader(cmp.Or(code, http.StatusOK))
		io.WriteString(w, cmp.Or(text, "{}"))
	}))
	t.Cleanup(server.Close)
	job := &Job{ID: "1", Name: "one", cluster: &Cluster{REST: server.URL}, final: final}
	return job.Follow(t.Context(), slog.New(slog.DiscardHandler))
}

// A failure that no restart can fix ends the job at once. Follow returns an error that wraps it.
func TestFollowCancelsFinalFailure(t *testing.T) {
	final := errors.New("it is of another config")
	cancelled := false
	err := follow(t, final, func(r *http.Request) (int, string) {
		switch {
		case r.Method == http.MethodPatch:
			cancelled = true
		case r.URL.Path == "/jobs/1" && cancelled:
			return 0, `{"state": "CANCELED"}`
		case r.URL.Path == "/jobs/1":
			return 0, `{"state": "RESTARTING"}`
		case r.URL.Path == "/jobs/1/exceptions":
			return 0, `{"exceptionHistory": {"entries": [{"timestamp": 1, "stacktrace": "java.lang.RuntimeException: x\n\tcaused by:\nkey \"k\": it is of another config: levels"}]}}`
		}
		return 0, ""
	})
	expect.Error(t, err, `the job one fails: key "k": it is of another config: levels`)
	if !errors.Is(err, final) || errors.Is(err, ErrOtherSteps) || !cancelled {
		t.Errorf("cancelled %t, error %v", cancelled, err)
	}
}

// Follow survives a JobManager that is unreachable for a while or returns an error.
func TestFollowSurvivesFailures(t *testing.T) {
	t.Parallel()
	asked := 0
	err := follow(t, nil, func(r *http.Request) (int, string) {
		if r.URL.Path != "/jobs/1" {
			return 0, ""
		}
		switch asked++; asked {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			return http.StatusInternalServerError, `{"errors": ["java.util.concurrent.CancellationException"]}`
		}
		return 0, `{"state": "FINISHED"}`
	})
	expect.OK(t, err)
	expect.Same(t, 3, asked, "requests")
}

// Follow returns an error for a cancelled job: with exit code 0, nothing would start the job again.
func TestFollowReportsCancel(t *testing.T) {
	err := follow(t, nil, func(r *http.Request) (int, string) {
		return 0, map[string]string{"/jobs/1": `{"state": "CANCELED"}`}[r.URL.Path]
	})
	expect.Error(t, err, "the job one was cancelled")
}

// A restarted JobManager has lost its jobs. TestFlink/savepoints uses a real one.
func TestFollowNamesTheLastCheckpoint(t *testing.T) {
	t.Parallel()
	rounds := 0
	err := follow(t, nil, func(r *http.Request) (int, string) {
		if r.URL.Path == "/jobs/1" {
			rounds++
		}
		if rounds > 1 {
			return http.StatusNotFound, `{"errors": ["org.apache.flink.runtime.rest.NotFoundException: Job 1 not found"]}`
		}
		return 0, map[string]string{
			"/jobs/1":             `{"state": "RUNNING"}`,
			"/jobs/1/checkpoints": `{"latest": {"completed": {"id": 7, "external_path": "file:/c/1/chk-7"}}}`,
		}[r.URL.Path]
	})
	expect.Error(t, err, "no longer knows the job one")
	expect.Error(t, err, "file:/c/1/chk-7")
}

// JSON that no JobManager sends is an error. It causes neither an endless wait nor a crash.
func TestForeignAnswer(t *testing.T) {
	text := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case text != "metrics":
			io.WriteString(w, text)
		case strings.HasSuffix(r.URL.Path, "/metrics") && r.FormValue("agg") == "":
			io.WriteString(w, `[null, {"id": "0.hafvf_taken"}]`)
		case strings.HasSuffix(r.URL.Path, "/metrics") && r.FormValue("agg") != "":
			io.WriteString(w, `[null, {"id": "x"}, {"id": "0.hafvf_taken", "sum": 3}]`)
		case r.URL.Path == "/jobs/1":
			io.WriteString(w, `{"state": "RUNNING", "vertices": [{"id": "v"}]}`)
		default:
			io.WriteString(w, "null")
		}
	}))
	t.Cleanup(server.Close)
	c := &Cluster{REST: server.URL}
	job := &Job{ID: "1", Name: "one", cluster: c}
	for _, text = range []string{"{}", "null", `{"message": "starting"}`} {
		const foreign = "is not a Flink JobManager"
		expect.Error(t, job.Cancel(t.Context()), foreign)
		_, err := job.Stop(t.Context(), "")
		expect.Error(t, err, foreign)
		_, err = job.Counters(t.Context(), "hafvf")
		expect.Error(t, err, foreign)
		_, err = c.check(t.Context(), Options{})
		expect.Error(t, err, foreign)
	}
	text = "metrics"
	counters, err := job.Counters(t.Context(), "hafvf")
	expect.OK(t, err)
	expect.Same(t, map[string]int64{"taken": 3}, counters)
}

// A job waits for the slots of a job that has just ended. It is refused at once if the cluster has too few.
func TestAwaitSlots(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		free := 0
		if asked == 3 {
			free = 2
		}
		fmt.Fprintf(w, `{"taskmanagers": 1, "slots-total": 2, "slots-available": %d}`, free)
	}))
	t.Cleanup(server.Close)
	c := &Cluster{REST: server.URL}
	expect.OK(t, c.awaitSlots(t.Context(), 2))
	expect.Same(t, 3, asked)
	expect.Error(t, c.awaitSlots(t.Context(), 3), "0 free slots of 2, on 1 TaskManagers, and the job needs 3")
	expect.Same(t, 4, asked)
}

// A redirect is an error that names its target. An endless answer is cut.
func TestRedirectAndEndlessAnswer(t *testing.T) {
	url, other := badserver.Start(t)
	for path, want := range map[string]string{
		"/redirect": "redirect to " + other + " was not followed", "": "the answer is longer than 64 MB",
	} {
		c := &Cluster{REST: strings.Replace(url, "http://", "http://user:token@", 1) + path}
		if _, err := c.Find(t.Context(), "one"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "token") {
			t.Errorf("%v, want %q", err, want)
		}
		if err := (&Job{ID: "1", Name: "one", cluster: c}).lost(Status{}); strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), url) {
			t.Error(err)
		}
	}
}
