package kafkaio

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// While the only broker is away a dial waits for it. Where another broker is there, the
// dial fails, and franz-go asks that one.
func TestDialWaits(t *testing.T) {
	listen := func(addr string) net.Listener {
		l, err := net.Listen("tcp", addr)
		expect.OK(t, err)
		return l
	}
	l := listen("127.0.0.1:0")
	addr := l.Addr().String()
	l.Close()
	other := listen("127.0.0.1:0")
	defer other.Close()
	if _, err := (dialer{brokers: []string{addr, other.Addr().String()}}).dialPatiently(t.Context(), "tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("with another broker there: %v", err)
	}

	back := make(chan net.Listener)
	go func() {
		time.Sleep(3 * firstPause)
		l, _ := net.Listen("tcp", addr)
		back <- l
	}()
	conn, err := dialer{brokers: []string{addr}}.dialPatiently(t.Context(), "tcp", addr)
	if l := <-back; l == nil {
		t.Skip("something else took the port in between")
	} else {
		defer l.Close()
	}
	expect.OK(t, err)
	conn.Close()
}
