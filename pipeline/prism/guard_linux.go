package prism

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A guard is the listening socket of Prism's server, made here in place of the one
// that the server makes. It is bound to loopback, and the kernel drops every packet
// to it but those from ports that connections of this process hold: no other program
// can connect, whoever its user is.
//
// Prism calls net.Listen, which can be given no socket. So the thread that calls it
// runs under a seccomp filter: the kernel holds its call of listen, and a second
// thread puts the guard's socket in the place of the one that was to listen. That one
// is closed before anybody could have reached it.
type guard struct {
	fd   int // the listening socket
	addr netip.AddrPort

	mu    sync.Mutex
	ports []uint16 // that connections of this process come from
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func newGuard() (g *guard, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	g = &guard{fd: fd}
	port, err := bindLoopback(fd)
	if err != nil {
		return nil, err
	}
	g.addr = netip.AddrPortFrom(loopback, port)
	return g, g.attach()
}

// endpoint is the name that Prism gives its address.
func (g *guard) endpoint() string { return fmt.Sprintf("localhost:%d", g.addr.Port()) }

// bindLoopback binds a socket to a free port of the loopback interface.
func bindLoopback(fd int) (port uint16, err error) {
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback.As4()}); err != nil {
		return 0, fmt.Errorf("bind: %w", err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("getsockname: %w", err)
	}
	return uint16(at.(*unix.SockaddrInet4).Port), nil
}

// attach has the kernel drop what does not come from the guard's ports. Connections
// that exist keep the filter that they were made under.
func (g *guard) attach() error {
	const (
		networkHeader = 0xfff00000 // SKF_NET_OFF
		sourceAddress = networkHeader + 12
		sourcePort    = 0 // a TCP socket's filter sees the TCP header first
	)
	drop, pass := bpf.RetConstant{Val: 0}, bpf.RetConstant{Val: math.MaxUint32}
	address := loopback.As4()
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: sourceAddress, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(address[:]), SkipTrue: 1},
		drop,
		bpf.LoadAbsolute{Off: sourcePort, Size: 2},
	}
	for _, p := range g.ports {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(p), SkipTrue: 1}, pass)
	}
	filter, err := assemble(append(program, drop))
	if err != nil {
		return err
	}
	if err := unix.SetsockoptSockFprog(g.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, filter); err != nil {
		return fmt.Errorf("a socket filter: %w", err)
	}
	return nil
}

func assemble(program []bpf.Instruction) (*unix.SockFprog, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}, nil
}

// admit adds a port to those that connections may come from, dismiss takes it out.
func (g *guard) admit(port uint16) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ports = append(g.ports, port)
	return g.attach()
}

func (g *guard) dismiss(port uint16) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ports = slices.DeleteFunc(g.ports, func(p uint16) bool { return p == port })
	return g.attach()
}

// dial connects to the guarded socket.
func (g *guard) dial(ctx context.Context) (net.Conn, error) {
	c := &admitted{guard: g}
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if refused := raw.Control(func(fd uintptr) {
			if c.port, err = bindLoopback(int(fd)); err == nil {
				err = g.admit(c.port)
			}
		}); refused != nil {
			return refused
		}
		return err
	}}
	conn, err := d.DialContext(ctx, "tcp4", g.addr.String())
	if err != nil {
		return nil, errors.Join(err, g.dismiss(c.port))
	}
	c.Conn = conn
	return c, nil
}

// An admitted connection gives its port back before somebody else may have it, and
// once: later the port may be that of another connection.
type admitted struct {
	net.Conn
	guard  *guard
	port   uint16
	closed sync.Once
}

func (c *admitted) Close() (err error) {
	c.closed.Do(func() { err = c.guard.dismiss(c.port) })
	return errors.Join(err, c.Conn.Close())
}

// Beam's SDK dials its runner by this variable.
func init() {
	dial := grpcx.Dial
	grpcx.Dial = func(ctx context.Context, endpoint string, timeout time.Duration) (*grpc.ClientConn, error) {
		server.Lock()
		g := server.guard
		server.Unlock()
		if g == nil || endpoint != g.endpoint() {
			return dial(ctx, endpoint, timeout)
		}
		return grpc.NewClient("passthrough:///"+endpoint,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return g.dial(ctx) }))
	}
}

// around calls start, which listens once, and makes the guard's socket the one at
// which it does.
func (g *guard) around(start func() error) error {
	done := make(chan error, 1)
	go func() {
		// The filter cannot be taken off a thread, so this one ends with the
		// goroutine, which does not unlock it.
		runtime.LockOSThread()
		notify, err := holdListen()
		if err != nil {
			done <- err
			return
		}
		replaced := make(chan error, 1)
		over := make(chan struct{})
		go func() { replaced <- g.replace(notify, over) }()
		err = start()
		close(over)
		done <- errors.Join(err, <-replaced)
	}()
	return <-done
}

// holdListen makes the kernel hold this thread's calls of listen until they are
// answered at the descriptor that it returns.
func holdListen() (notify int, err error) {
	const number = 0 // offset of the system call's number in seccomp_data
	filter, err := assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_LISTEN, SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	})
	if err != nil {
		return 0, err
	}
	return seccomp(filter, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
}

// seccomp puts this thread under a filter. The thread gives up the right to gain
// rights by starting programs, without which the kernel asks for the superuser.
func seccomp(filter *unix.SockFprog, flags uintptr) (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("no_new_privs: %w", err)
	}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(filter)))
	if errno != 0 {
		return 0, fmt.Errorf("a seccomp filter: %w", errno)
	}
	return int(r), nil
}

// The kernel's struct seccomp_notif and struct seccomp_notif_resp.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		data       struct {
			number             int32
			architecture       uint32
			instructionPointer uint64
			args               [6]uint64
		}
	}
	answer struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
)

// replace answers the first call of listen by listening at the guard's socket, which
// takes the place of the one that was named, and refuses all further ones.
func (g *guard) replace(notify int, over <-chan struct{}) error {
	defer unix.Close(notify)
	replaced := false
	for {
		poll := []unix.PollFd{{Fd: int32(notify), Events: unix.POLLIN}}
		n, _ := unix.Poll(poll, 10) // ms; an interrupted call is repeated
		select {
		case <-over:
			if !replaced {
				return errors.New("the runner has opened no socket on the thread that was watched")
			}
			return nil
		default:
		}
		if n <= 0 || poll[0].Revents&unix.POLLIN == 0 {
			continue
		}
		var call notification
		if ioctl(notify, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&call)) != 0 {
			continue // it was interrupted, and is made again
		}
		out := answer{id: call.id}
		if replaced || g.listen(int(call.data.args[0]), int(call.data.args[1])) != nil {
			out.errno = -int32(unix.EPERM)
		}
		if ioctl(notify, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&out)) == 0 {
			replaced = true
		}
	}
}

// listen listens at the guard's socket, also by the descriptor fd.
func (g *guard) listen(fd, backlog int) error {
	if err := unix.Dup3(g.fd, fd, unix.O_CLOEXEC); err != nil {
		return err
	}
	return unix.Listen(g.fd, backlog)
}

func ioctl(fd int, request uint, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	return errno
}

// listenPool listens at a Unix socket without a file, which only this process can
// connect to.
func listenPool() (net.Listener, string, error) {
	// Without a name the kernel chooses one. "@" would be a name itself, which only one
	// program of a machine can have.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix"})
	if err != nil {
		return nil, "", err
	}
	return own{l}, "unix-abstract:" + l.Addr().String()[1:], nil
}

// own accepts connections of this process.
type own struct{ net.Listener }

func (l own) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		raw, err := c.(*net.UnixConn).SyscallConn()
		if err != nil {
			return nil, err
		}
		var peer *unix.Ucred
		raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
		if err == nil && int(peer.Pid) == os.Getpid() {
			return c, nil
		}
		c.Close()
	}
}

// DenyPrograms keeps this process from starting programs, for the rest of its life,
// and from finding a Docker daemon by the environment: what Prism would do for a job
// that asks for a process or a container to run in.
func DenyPrograms() error {
	filter, err := assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_EXECVE, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_EXECVEAT, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	})
	if err != nil {
		return err
	}
	switch thread, err := seccomp(filter, unix.SECCOMP_FILTER_FLAG_TSYNC); {
	case err != nil:
		return &UnprotectedError{err}
	case thread != 0:
		return &UnprotectedError{fmt.Errorf("thread %d has a seccomp filter of its own", thread)}
	}
	return os.Setenv("DOCKER_HOST", "unix:///dev/null")
}
