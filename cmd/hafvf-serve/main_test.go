package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// roleVar is the environment variable with the role of the test program: child or parent.
const roleVar = "HAFVF_SERVE_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "idle":
		maxIdle = time.Second
		main()
		return
	case "child":
		main()
		return
	case "parent":
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleVar+"=child")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Run()
		return
	}
	os.Exit(m.Run())
}

// hello returns the first frame of a caller.
func hello(parent int) []byte {
	body := fmt.Appendf(nil, `{"protocol":1,"parent":%d}`, parent)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)+5))
	b = append(b, 'h')
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.ChecksumIEEE([]byte("h")), crc32.IEEETable, body))
	return append(b, body...)
}

// start starts the test program in a role. in is its input, and out its output.
func start(t *testing.T, role string) (cmd *exec.Cmd, in, out *os.File) {
	childIn, in, err := os.Pipe()
	expect.OK(t, err)
	out, childOut, err := os.Pipe()
	expect.OK(t, err)
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, os.Stderr
	expect.OK(t, cmd.Start())
	childIn.Close()
	childOut.Close()
	t.Cleanup(func() { in.Close(); out.Close() })
	return cmd, in, out
}

// greet sends hello, and waits for the answer.
func greet(t *testing.T, in, out *os.File, parent int) {
	t.Helper()
	expect.Get(in.Write(hello(parent)))(t)
	head := make([]byte, 4)
	expect.Get(io.ReadFull(out, head))(t)
	answer := make([]byte, binary.LittleEndian.Uint32(head))
	expect.Get(io.ReadFull(out, answer))(t)
	if answer[0] != 'h' {
		t.Fatalf("%q", answer)
	}
}

func TestEndsWithItsInput(t *testing.T) {
	cmd, in, out := start(t, "child")
	greet(t, in, out, os.Getpid())
	in.Close()
	expect.OK(t, cmd.Wait())
}

// The program ends when its parent has ended, even if its input stays open.
func TestEndsWithItsParent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process keeps the pid of its parent on Windows")
	}
	expect.Waits(t, "the end of the parent")
	cmd, in, out := start(t, "parent")
	greet(t, in, out, cmd.Process.Pid)
	expect.OK(t, cmd.Process.Kill())
	cmd.Wait()
	expect.OK(t, out.SetReadDeadline(time.Now().Add(time.Minute)))
	if n, err := out.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the program is still running: %d, %v", n, err)
	}
}

func TestEndsWhenIdle(t *testing.T) {
	expect.Waits(t, "the end of an idle process")
	cmd, in, out := start(t, "idle")
	greet(t, in, out, os.Getpid())
	expect.OK(t, cmd.Wait())
}
