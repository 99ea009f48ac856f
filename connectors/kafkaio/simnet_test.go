package kafkaio

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The network of the simulation: all requests of a process pass through its own host. A host can lose, delay and hold
// requests and answers, and die.

var hosts sync.Map // *host by name

func init() {
	real := dialTCP
	dialTCP = func(ctx context.Context, network, addr string) (net.Conn, error) {
		name, port, _ := net.SplitHostPort(addr)
		if h, ok := hosts.Load(name); ok {
			return h.(*host).dial(ctx, port)
		}
		if strings.HasSuffix(name, hostSuffix) {
			return nil, errRefused // the host has died
		}
		return real(ctx, network, addr)
	}
}

// virtualHost is the name that kfake gives its brokers on a virtual network. Processes see the name of their host
// instead, so that a dial shows which process it comes from. Both names have the same number of bytes.
const virtualHost = "localhost"

// hostSuffix ends the names of hosts.
const hostSuffix = ".h"

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// A host is the network of one process.
type host struct {
	name    string
	brokers *kfake.VirtualNetwork
	// request sees each request before it is sent, and may change it in place. answer changes answers.
	request, answer func(key kmsg.Key, frame []byte) []byte
	died            func()

	mu    sync.Mutex
	dead  bool
	held  chan struct{} // closed by release; nil while requests and answers pass
	away  bool          // all dials are refused
	conns map[net.Conn]bool
	traps []*trap
}

// A trap waits for a request.
type trap struct {
	key   kmsg.Key // anyRequest for all
	nth   int      // counts the requests with the key from now on, starting at 1
	fault fault
	delay time.Duration
}

const anyRequest = kmsg.Key(-1)

// A fault is what happens to a request.
type fault int

const (
	untouched fault = iota
	loseRequest
	loseAnswer // the request is applied
	delayRequest
	dieBefore
	dieAfter // the request is applied
	faults
)

func (f fault) String() string {
	return [...]string{"untouched", "lose request", "lose answer", "delay", "die before", "die after"}[f]
}

// set sets a trap.
func (h *host) set(t trap) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.traps = append(h.traps, &t)
}

// fault returns the fault and the delay for the current request.
func (h *host) fault(key kmsg.Key) (fault, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.traps {
		if t.key != key && t.key != anyRequest {
			continue
		}
		if t.nth--; t.nth == 0 {
			return t.fault, t.delay
		}
	}
	return untouched, 0
}

// hold holds requests and answers until release, like a stopped process or a network partition.
func (h *host) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = make(chan struct{})
	}
}

func (h *host) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held != nil {
		close(h.held)
		h.held = nil
	}
	h.away = false
	h.traps = nil
}

// refuse closes the connections and refuses new ones until release.
func (h *host) refuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = true
	for c := range h.conns {
		c.Close()
	}
}

// die closes the connections for good: no more requests or answers pass.
func (h *host) die() {
	h.mu.Lock()
	prev := h.dead
	h.dead = true
	for c := range h.conns {
		c.Close()
	}
	h.mu.Unlock()
	h.release()
	if !prev {
		hosts.Delete(h.name)
		h.died()
	}
}

// wait waits until requests pass. It reports whether the host is alive.
func (h *host) wait() bool {
	for {
		h.mu.Lock()
		held, dead := h.held, h.dead
		h.mu.Unlock()
		if dead || held == nil {
			return !dead
		}
		<-held
	}
}

func (h *host) dial(ctx context.Context, port string) (net.Conn, error) {
	h.mu.Lock()
	held, away := h.held, h.away || h.dead
	h.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}
	}
	if away {
		return nil, errRefused
	}
	broker, err := h.brokers.DialContext(ctx, "tcp", net.JoinHostPort(virtualHost, port))
	if ctx.Err() != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	if err != nil {
		return nil, errRefused
	}
	client, inner := net.Pipe()
	h.mu.Lock()
	h.conns[broker], h.conns[inner] = true, true
	h.mu.Unlock()
	cable := &cable{h, inner, broker, make(chan passed, 1<<12)}
	go cable.requests()
	go cable.answers()
	return socket{client}, nil
}

// A socket returns the same error as a TCP connection whose peer is gone, after which franz-go retries the write.
type socket struct{ net.Conn }

func (s socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	if err == io.ErrClosedPipe {
		err = &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	}
	return n, err
}

// A cable is a connection from a host to a broker.
type cable struct {
	*host
	client, broker net.Conn
	passed         chan passed // in the order of the broker's answers
}

type passed struct {
	key   kmsg.Key
	fault fault
}

func (c *cable) close() {
	c.client.Close()
	c.broker.Close()
	c.mu.Lock()
	delete(c.conns, c.client)
	delete(c.conns, c.broker)
	c.mu.Unlock()
}

func (c *cable) requests() {
	defer c.close()
	for {
		frame, err := readFrame(c.client)
		if err != nil || !c.wait() {
			return
		}
		key := kmsg.Key(binary.BigEndian.Uint16(frame[4:]))
		f, delay := c.fault(key)
		switch f {
		case delayRequest:
			time.Sleep(delay)
			if !c.wait() {
				return
			}
		case dieBefore:
			c.die()
			return
		case loseRequest:
			return
		}
		frame = c.request(key, frame)
		c.passed <- passed{key, f}
		if _, err := c.broker.Write(frame); err != nil {
			return
		}
	}
}

func (c *cable) answers() {
	defer c.close()
	for {
		frame, err := readFrame(c.broker)
		if err != nil {
			return
		}
		p := <-c.passed
		if !c.wait() || p.fault == loseAnswer {
			return
		}
		if p.fault == dieAfter {
			c.die()
			return
		}
		if p.key == kmsg.Metadata || p.key == kmsg.FindCoordinator {
			frame = bytes.ReplaceAll(frame, []byte(virtualHost), []byte(c.name))
		}
		if _, err := c.client.Write(c.answer(p.key, frame)); err != nil {
			return
		}
	}
}

// readFrame reads a request or an answer, including its size.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
