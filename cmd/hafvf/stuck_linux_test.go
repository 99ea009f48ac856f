package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hafvf/cmd/internal/cli"
	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// A run whose output is blocked ends after one SIGTERM with exit code 1, and reports what is not written. So does a
// run that waits for the first reader of a pipe.
func TestStopStuck(t *testing.T) {
	expect.Waits(t, "clocks")
	const head = "model: {family: normal, prior: auto}\n"
	var in, bad strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&in, "{\"key\":\"k%d\",\"time\":%d,\"x\":%d}\n", i%5, 1700000000+i/5*60, i*7919%101+i/500%2*10_000)
		fmt.Fprintf(&bad, "{\"key\":\"k\",\"time\":\"none %d\",\"x\":1}\n", i)
	}
	var group sync.WaitGroup
	const unread = "nobody has read it: not all of the last "
	for _, c := range []struct{ name, config, text string }{
		{"standard output", head + "source: {jsonl: {path: in.jsonl}}\n", "standard output cannot be written: the run was stopped, and for 6s " + unread},
		{"standard error", head + "source: {jsonl: {path: bad.jsonl}}\nsink: none\n", ""},
		{"sink", head + "source: {jsonl: {path: in.jsonl}}\nsink: {csv: {path: pipe}}\n", "pipe cannot be written: the run was stopped, and for 6s " + unread},
		{"dead letter", head + "source: {jsonl: {path: bad.jsonl}}\nsink: none\ndead_letter: {jsonl: {path: pipe}}\n", unread},
		{"alerts", head + "detect: true\nsource: {jsonl: {path: in.jsonl}}\nsink: {jsonl: {path: out.jsonl}}\nalerts: {jsonl: {path: pipe}, beliefs: [outlier, change]}\n", unread},
		{"no reader", head + "source: {jsonl: {path: in.jsonl}}\nsink: {jsonl: {path: pipe}}\n", "pipe is a pipe that nobody reads: nothing is written"},
	} {
		dir := e2e.Folder(t, map[string]string{"c.yaml": c.config, "in.jsonl": in.String(), "bad.jsonl": bad.String()})
		group.Go(func() { // parallel, since each run mostly waits
			if err := stopStuck(dir, c.name, c.text); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	group.Wait()
}

// stopStuck runs c.yaml in a folder, sends SIGTERM once the pipe is full, and returns an error if the run does not
// end as expected.
func stopStuck(dir, name, text string) error {
	cmd := exec.Command(program.Path, "run", "c.yaml")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), program.Env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { r.Close() }()
	switch name {
	case "standard output":
		cmd.Stdout = w
	case "standard error":
		cmd.Stderr = w
	default:
		pipe := filepath.Join(dir, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			return err
		}
		if name != "no reader" {
			r.Close()
			if r, err = os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
				return err
			}
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	start := time.Now()
	timeout := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer timeout.Stop()
	w.Close()
	for previous, changed := 0, time.Now(); name != "no reader" && (previous < 4<<10 || time.Since(changed) < time.Second); time.Sleep(50 * time.Millisecond) {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		if err != nil {
			return err
		}
		if time.Since(start) > 30*time.Second {
			return fmt.Errorf("%d bytes are in the pipe", n)
		}
		if n != previous { // the pipe is full when it stops growing
			previous, changed = n, time.Now()
		}
	}
	if name == "no reader" {
		time.Sleep(time.Second) // time to open the pipe
	}
	cmd.Process.Signal(syscall.SIGTERM)
	exit := (*exec.ExitError)(nil)
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFailed || !strings.Contains(stderr.String(), text) {
		return fmt.Errorf("%v: %s", err, stderr.String())
	}
	return nil
}

// A command that a signal ends before its table is written exits with 128 plus the signal's number, and leaves the
// old table.
func TestTableEndedBySignal(t *testing.T) {
	expect.Waits(t, "a signal")
	for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		for _, args := range [][]string{{"trials", "c.yaml", "-o", "o.csv"}, {"fit", "c.yaml", "--over", "top", "-o", "o.csv"}} {
			dir := e2e.Folder(t, map[string]string{"c.yaml": "model: {family: normal}\nsource: {csv: {path: in.csv}}\n", "o.csv": "old"})
			pipe := filepath.Join(dir, "in.csv")
			expect.OK(t, syscall.Mkfifo(pipe, 0o600))
			cmd := exec.Command(program.Path, args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), program.Env...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			expect.OK(t, cmd.Start())
			w := expect.Get(os.OpenFile(pipe, os.O_WRONLY, 0))(t) // the run catches signals once the file is open
			expect.Get(w.WriteString("key,time,x\na,2026-01-01,1\n"))(t)
			expect.OK(t, cmd.Process.Signal(sig))
			exit := (*exec.ExitError)(nil)
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != want || !strings.Contains(stderr.String(), "o.csv is not written") {
				t.Errorf("%v after %v: %v: %s", args, sig, err, &stderr)
			}
			w.Close()
			if old := expect.Get(os.ReadFile(filepath.Join(dir, "o.csv")))(t); string(old) != "old" {
				t.Errorf("the table is %q", old)
			}
		}
	}
}
