package javatest

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// A Process is one that was started and is waited for. On Linux it dies with
// the process that started it, however that dies.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone; cmd.ProcessState is set then
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

// PID is its number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err says how the process ended, or is nil if it has not.
func (p *Process) Err() error {
	select {
	case <-p.exited:
		return fmt.Errorf("it ended: %v", p.cmd.ProcessState)
	default:
		return nil
	}
}

// Kill ends the process with SIGKILL and returns when it is gone. It does
// nothing when it is gone already.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // fails only when it is gone
	<-p.exited
}

// End asks the process to end and waits until it has, a minute at most: then it
// kills it.
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
