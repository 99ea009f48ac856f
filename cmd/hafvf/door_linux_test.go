package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNoDoorOpen: from its start to its end a run listens on loopback only, and what
// it listens at takes no connection from another program, address or user.
func TestNoDoorOpen(t *testing.T) {
	dir := folder(t, map[string]string{"c.yaml": "model: {family: normal}\nsource: {csv: {path: '-'}}\nsink: {jsonl: {path: out.jsonl}}\n"})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "run", "c.yaml")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	fmt.Fprint(stdin, goodCSV) // the run goes on until its input ends

	all := map[netip.AddrPort]bool{}
	tried := false
	for running := true; running; {
		for _, at := range listening(t, cmd.Process.Pid) {
			all[at] = true
		}
		if len(all) > 0 && !tried {
			tried = true
			for at := range all {
				tryDoor(t, at.Port())
			}
			stdin.Close()
		}
		select {
		case err := <-over:
			running = false
			if err != nil {
				t.Error(err)
			}
		default:
		}
	}
	if len(all) == 0 {
		t.Error("the run was seen to listen nowhere: the test looks at the wrong place")
	}
	for at := range all {
		if !at.Addr().IsLoopback() {
			t.Errorf("the run listens at %v", at)
		}
	}
}

// tryDoor connects from wherever it can.
func tryDoor(t *testing.T, port uint16) {
	t.Helper()
	addresses := []string{"127.0.0.1", "127.0.0.2", "::1"}
	others, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range others {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() {
			addresses = append(addresses, n.IP.String())
		}
	}
	for _, a := range addresses {
		if c, err := net.DialTimeout("tcp", net.JoinHostPort(a, strconv.Itoa(int(port))), time.Second); err == nil {
			c.Close()
			t.Errorf("a connection to %s, port %d", a, port)
		}
	}
	if connects(t, port) {
		t.Errorf("another user's connection to port %d", port)
	}
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if !connects(t, uint16(open.Addr().(*net.TCPAddr).Port)) {
		t.Error("another user's connection to an open port fails: the test shows nothing")
	}
}

// connects reports whether another user can connect to a loopback port.
func connects(t *testing.T, port uint16) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", port))
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	} else {
		t.Log("not the superuser: another process of this user takes the part of another user")
	}
	return cmd.Run() == nil
}

// listening are the addresses at which a process has listening TCP sockets.
func listening(t *testing.T, pid int) (all []netip.AddrPort) {
	t.Helper()
	sockets := map[string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // none of a process that has ended
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			sockets[to] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			const address, state, inode, listen = 1, 3, 9, "0A"
			if fields := strings.Fields(lines.Text()); len(fields) > inode && fields[state] == listen && sockets["socket:["+fields[inode]+"]"] {
				all = append(all, parseSocket(t, fields[address]))
			}
		}
		f.Close()
	}
	return all
}

// parseSocket reads an address of /proc/net: words of four bytes, the lowest first,
// then the port.
func parseSocket(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	digits, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	for word := range slices.Chunk(b, 4) {
		slices.Reverse(word)
	}
	ip, _ := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(ip, uint16(n))
}

// What is given without a host is on loopback.
func TestListenOnLoopback(t *testing.T) {
	for address, loopback := range map[string]bool{":0": true, "localhost:0": true, "127.0.0.1:0": true, "0.0.0.0:0": false} {
		l, err := listen("listen", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Addr().(*net.TCPAddr).IP.IsLoopback(); got != loopback {
			t.Errorf("%s listens at %v", address, l.Addr())
		}
		l.Close()
	}
}
