package kafkatest

import (
	"os/exec"
	"syscall"
)

// A process is one that was started and is waited for.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone; cmd.ProcessState is set then
}

func spawn(cmd *exec.Cmd) (*process, error) {
	if err := startTied(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) kill() {
	p.cmd.Process.Kill() // fails only when it is gone
	<-p.exited
}

// end asks the process to end and waits until it has.
func (p *process) end() {
	if p.cmd.Process.Signal(syscall.SIGTERM) != nil {
		p.cmd.Process.Kill()
	}
	<-p.exited
}
