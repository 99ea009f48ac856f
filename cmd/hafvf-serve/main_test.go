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

// as is the environment variable that says what the test program is.
const as = "HAFVF_SERVE_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(as) {
	case "child":
		main()
		return
	case "parent":
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), as+"=child")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Run()
		return
	}
	os.Exit(m.Run())
}

// hello is the frame of a caller.
func hello(parent int) []byte {
	body := fmt.Appendf(nil, `{"protocol":1,"parent":%d}`, parent)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)+5))
	b = append(b, 'h')
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.ChecksumIEEE([]byte("h")), crc32.IEEETable, body))
	return append(b, body...)
}

// start starts the test program, and returns the ends of its pipes.
func start(t *testing.T, is string) (cmd *exec.Cmd, in, out *os.File) {
	hisIn, in, err := os.Pipe()
	expect.OK(t, err)
	out, hisOut, err := os.Pipe()
	expect.OK(t, err)
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), as+"="+is)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = hisIn, hisOut, os.Stderr
	expect.OK(t, cmd.Start())
	hisIn.Close()
	hisOut.Close()
	t.Cleanup(func() { in.Close(); out.Close() })
	return cmd, in, out
}

// greet says hello, and waits for the answer.
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

// The program ends when its parent is gone, though its input stays open.
func TestEndsWithItsParent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process there keeps the pid of its parent")
	}
	expect.Waits(t, "the parent to be gone")
	cmd, in, out := start(t, "parent")
	greet(t, in, out, cmd.Process.Pid)
	expect.OK(t, cmd.Process.Kill())
	cmd.Wait()
	expect.OK(t, out.SetReadDeadline(time.Now().Add(time.Minute)))
	if n, err := out.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("it is there still: %d, %v", n, err)
	}
}
