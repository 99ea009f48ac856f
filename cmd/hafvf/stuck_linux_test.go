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

// A run whose output nobody reads any more ends after one SIGTERM, with 1, and says what is not
// written. So does one that waits for the first reader of a pipe.
func TestStopStuck(t *testing.T) {
	expect.Waits(t, "clocks")
	const head = "model: {family: normal, prior: auto}\n"
	var in, bad strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&in, "{\"key\":\"k%d\",\"time\":%d,\"x\":%d}\n", i%5, 1700000000+i/5*60, i*7919%101+i/500%2*10_000)
		fmt.Fprintf(&bad, "{\"key\":\"k\",\"time\":\"none %d\",\"x\":1}\n", i)
	}
	var all sync.WaitGroup
	const unread = "nobody has read it: not all of the last "
	for _, c := range []struct{ name, config, says string }{
		{"standard output", head + "source: {jsonl: {path: in.jsonl}}\n", "standard output cannot be written: the run was stopped, and for 6s " + unread},
		{"standard error", head + "source: {jsonl: {path: bad.jsonl}}\nsink: none\n", ""},
		{"sink", head + "source: {jsonl: {path: in.jsonl}}\nsink: {csv: {path: pipe}}\n", "pipe cannot be written: the run was stopped, and for 6s " + unread},
		{"dead letter", head + "source: {jsonl: {path: bad.jsonl}}\nsink: none\ndead_letter: {jsonl: {path: pipe}}\n", unread},
		{"alerts", head + "detect: true\nsource: {jsonl: {path: in.jsonl}}\nsink: {jsonl: {path: out.jsonl}}\nalerts: {jsonl: {path: pipe}, beliefs: [outlier, change]}\n", unread},
		{"no reader", head + "source: {jsonl: {path: in.jsonl}}\nsink: {jsonl: {path: pipe}}\n", "pipe is a pipe that nobody reads: nothing is written"},
	} {
		dir := e2e.Folder(t, map[string]string{"c.yaml": c.config, "in.jsonl": in.String(), "bad.jsonl": bad.String()})
		all.Go(func() { // all of them wait most of the time
			if err := stopStuck(dir, c.name, c.says); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	all.Wait()
}

// stopStuck runs c.yaml of a folder, sends SIGTERM once the pipe is full, and returns how the run
// did not end as it should.
func stopStuck(dir, name, says string) error {
	cmd := exec.Command(program.Path, "run", "c.yaml")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), program.Env...)
	var said bytes.Buffer
	cmd.Stderr = &said
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
	begun := time.Now()
	over := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer over.Stop()
	w.Close()
	for was, since := 0, time.Now(); name != "no reader" && (was < 4<<10 || time.Since(since) < time.Second); time.Sleep(50 * time.Millisecond) {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		if err != nil {
			return err
		}
		if time.Since(begun) > 30*time.Second {
			return fmt.Errorf("%d bytes are in the pipe", n)
		}
		if n != was { // it is full when it grows no more
			was, since = n, time.Now()
		}
	}
	if name == "no reader" {
		time.Sleep(time.Second) // it opens the pipe
	}
	cmd.Process.Signal(syscall.SIGTERM)
	exit := (*exec.ExitError)(nil)
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFailed || !strings.Contains(said.String(), says) {
		return fmt.Errorf("%v: %s", err, said.String())
	}
	return nil
}

// A table that a signal has kept from being written exits with 128 and the signal's number, and the old one
// stays.
func TestTableEndedBySignal(t *testing.T) {
	expect.Waits(t, "a signal")
	for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		for _, args := range [][]string{{"trials", "c.yaml", "-o", "o.csv"}, {"fit", "c.yaml", "--over", "top", "-o", "o.csv"}} {
			dir := e2e.Folder(t, map[string]string{"c.yaml": "model: {family: normal}\nsource: {csv: {path: in.csv}}\n", "o.csv": "old"})
			pipe := filepath.Join(dir, "in.csv")
			expect.OK(t, syscall.Mkfifo(pipe, 0o600))
			cmd := exec.Command(program.Path, args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), program.Env...)
			var said bytes.Buffer
			cmd.Stderr = &said
			expect.OK(t, cmd.Start())
			w := expect.Get(os.OpenFile(pipe, os.O_WRONLY, 0))(t) // once it is read, the run catches signals
			expect.Get(w.WriteString("key,time,x\na,2026-01-01,1\n"))(t)
			expect.OK(t, cmd.Process.Signal(sig))
			exit := (*exec.ExitError)(nil)
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != want || !strings.Contains(said.String(), "o.csv is not written") {
				t.Errorf("%v after %v: %v: %s", args, sig, err, &said)
			}
			w.Close()
			if old := expect.Get(os.ReadFile(filepath.Join(dir, "o.csv")))(t); string(old) != "old" {
				t.Errorf("the table is %q", old)
			}
		}
	}
}
