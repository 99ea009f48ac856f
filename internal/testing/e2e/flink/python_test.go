package flink_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/flinktest"
)

var python = flag.String("python", "", "Python with the package, Beam and pytest, by which its node runs on Flink")

// The node of the Python package has the same outputs on Flink as the program, even if a TaskManager is killed.
func TestPython(t *testing.T) {
	if *python == "" {
		t.Skip("needs an environment of Python: give -python")
	}
	c := flinktest.Start(t, flinktest.Config{Properties: map[string]string{
		"taskmanager.memory.segment-size": "8kb", // a job in Python has many stages, with a buffer for each connection
		"restart-strategy.type":           "fixed-delay", "restart-strategy.fixed-delay.attempts": "10", "restart-strategy.fixed-delay.delay": "1 s",
	}})
	for _, kills := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d kills", kills), func(t *testing.T) {
			cmd := exec.Command(*python, "-m", "pytest", "--quiet", "-s", "-p", "no:cacheprovider", "-k", "whole or shuffled", "test_beam.py")
			cmd.Dir = expect.Get(filepath.Abs("../../../../connectors/python/tests"))(t)
			log := expect.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
			cmd.Stdout, cmd.Stderr = log, log
			cmd.Env = append(os.Environ(), "HAFVF_FLINK="+c.Endpoint())
			expect.OK(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			for range kills {
				expect.Soon(t, "a job that runs", func() bool { return strings.Contains(get(t, c.REST()+"/jobs"), "RUNNING") })
				time.Sleep(5 * time.Second) // the job is running then
				c.Kill(0)
				c.StartTaskManager(t, 0)
			}
			if err := <-ended; err != nil {
				t.Fatalf("%v\n%s", err, expect.Get(os.ReadFile(log.Name()))(t))
			}
			expect.Same(t, kills, restarts(t, c), "jobs that have begun again without a TaskManager")
		})
	}
}

// restarts returns the number of jobs of the cluster that lost a TaskManager and restarted.
func restarts(t *testing.T, c *flinktest.Cluster) (n int) {
	t.Helper()
	var list struct{ Jobs []struct{ ID string } }
	expect.OK(t, json.Unmarshal([]byte(get(t, c.REST()+"/jobs")), &list))
	for _, job := range list.Jobs {
		var failed struct {
			ExceptionHistory struct{ Entries []json.RawMessage }
		}
		expect.OK(t, json.Unmarshal([]byte(get(t, c.REST()+"/jobs/"+job.ID+"/exceptions")), &failed))
		// A job also restarts if a worker disconnects at the end of its stage before the job server does.
		lost := func(entry json.RawMessage) bool {
			text := string(entry)
			return strings.Contains(text, "reachable") || strings.Contains(text, "task manager has been lost")
		}
		if slices.ContainsFunc(failed.ExceptionHistory.Entries, lost) {
			n++
		}
	}
	return n
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer := expect.Get(http.Get(url))(t)
	defer answer.Body.Close()
	return string(expect.Get(io.ReadAll(answer.Body))(t))
}
