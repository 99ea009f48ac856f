// Hafvf-serve filters batches of observations for a program in another language that has started it, by frames on
// standard input and output. It opens no files or ports, keeps no data except a cache, and ends with its input, with its
// parent, or after a minute without a frame. The frames are described in package cmd/internal/serve.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
	_ "time/tzdata" // for the zones of settings, if the machine has none

	"hafvf/cmd/internal/serve"
)

// version is the version of the package that includes the program; the linker sets it. Empty matches any version.
var version string

func main() {
	debug.SetGCPercent(-1) // collect only at the memory limit
	boundMemory(nil)
	idle := time.AfterFunc(maxIdle, func() { os.Exit(0) })
	s := serve.Server{Version: version, Parent: func(parent int) { go endWith(parent) }, Waits: func(waits bool) {
		if !waits {
			idle.Stop()
			return
		}
		idle.Reset(maxIdle)
		returnMemory()
	}}
	if err := s.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hafvf-serve:", err)
		os.Exit(1)
	}
}

// endWith ends the process when parent is no longer its parent. Its input may stay open: a sibling may have a copy
// of the pipe.
func endWith(parent int) {
	for ; os.Getppid() == parent; time.Sleep(time.Second) {
	}
	os.Exit(0)
}

// maxIdle is the time without a frame after which the process ends. Its caller starts another one when it needs it.
var maxIdle = time.Minute

const minMemory = 64 << 20

// largeMemory is the memory limit above which a call was large.
const largeMemory = 4 * minMemory

var returned int64 // memory limit after the last large call

// returnMemory collects and returns memory to the system after a large call.
func returnMemory() {
	limit := debug.SetMemoryLimit(-1)
	if returned = min(returned, limit); limit > max(largeMemory, 2*returned) {
		debug.FreeOSMemory()
		returned = setLimit()
	}
}

// boundMemory sets the memory limit to 32 MB above twice the live heap, at least 64 MB, after each collection.
func boundMemory(*collected) {
	setLimit()
	runtime.SetFinalizer(new(collected), boundMemory)
}

func setLimit() int64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	limit := max(minMemory, 2*int64(live[0].Value.Uint64())+minMemory/2)
	debug.SetMemoryLimit(limit)
	return limit
}

// The finalizer of a collected shows that a collection has run. A collected has a pointer because the finalizers of
// small objects without pointers may never run.
type collected struct{ _ *collected }
