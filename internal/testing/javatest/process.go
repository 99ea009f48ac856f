package javatest

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// A Process is a started process. On Linux it dies with the process that started it, however that dies.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended; cmd.ProcessState is set then
}

// Spawn starts a process.
func Spawn(cmd *exec.Cmd) (*Process, error) {
	if err := startTied(cmd); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns how the process ended, or nil if it runs.
func (p *Process) Err() error {
	select {
	case <-p.exited:
		return fmt.Errorf("it ended: %v", p.cmd.ProcessState)
	default:
		return nil
	}
}

// Kill ends the process with SIGKILL and waits until it has ended. It does nothing if the process has ended
// already.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // fails only if it has ended
	<-p.exited
}

// End sends SIGTERM and waits until the process has ended. After a minute it kills the process.
func (p *Process) End() {
	if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-p.exited:
			return
		case <-time.After(time.Minute):
		}
	}
	p.Kill()
}
