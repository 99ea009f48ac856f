package flinktest_test

import (
	"encoding/json"
	"errors"
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

	"github.com/google/go-cmp/cmp"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/flinktest"
)

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
	expect.Long(t, "Flink")
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
