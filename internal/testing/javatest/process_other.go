//go:build !linux

package javatest

import "os/exec"

// startTied starts cmd. cmd survives if this process is killed.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }

// lock does nothing: two processes that install at once both do the work, and the first to finish wins.
func lock(string) (unlock func(), err error) { return func() {}, nil }
