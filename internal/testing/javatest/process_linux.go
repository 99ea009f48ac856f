package javatest

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// startTied starts cmd so that the kernel kills it when this process dies, however it dies.
func startTied(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	err := make(chan error)
	parent() <- func() { err <- cmd.Start() }
	return <-err
}

// parent returns a channel of functions that start processes. For the kernel, the parent whose death counts is a
// thread, and the runtime may end threads: this goroutine keeps its thread.
var parent = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// lock waits for the lock with that name, which the processes of this machine share.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "flock", Path: name, Err: err}
	}
	return func() { f.Close() }, nil
}
