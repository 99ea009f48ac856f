package javatest

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// TestDiesWithParent kills a process that has spawned another. Both have the write end of a pipe open, so its
// reader reaches the end when both have ended.
func TestDiesWithParent(t *testing.T) {
	expect.Long(t, "processes")
	const role = "JAVATEST_ROLE"
	if os.Getenv(role) == "parent" {
		cmd := exec.Command("sleep", "600")
		cmd.Stdout = os.Stdout
		expect.Get(Spawn(cmd))(t)
		os.Stdout.WriteString("!")
		select {}
	}
	r, w, err := os.Pipe()
	expect.OK(t, err)
	defer r.Close()
	parent := exec.Command(os.Args[0], "-test.run=^TestDiesWithParent$")
	parent.Env = append(os.Environ(), role+"=parent")
	parent.Stdout = w
	expect.OK(t, parent.Start())
	w.Close()
	r.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Errorf("the parent has spawned nothing: %v", err)
	}
	parent.Process.Kill()
	parent.Wait()
	if rest, err := io.ReadAll(r); err != nil {
		t.Errorf("the child has outlived its parent: %v %s", err, rest)
	}
}
