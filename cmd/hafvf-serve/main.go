// Hafvf-serve filters batches of observations for a program in another language that has started it, by frames on
// standard input and output. It opens no files or ports, keeps no data except a cache, and ends with its input or its
// parent. The frames are described in package cmd/internal/serve.
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
	s := serve.Server{Version: version, Parent: func(parent int) { go endWith(parent) }}
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

const minMemory = 64 << 20

// boundMemory sets the memory limit to 32 MB above twice the live heap, at least 64 MB, after each collection.
func boundMemory(*collected) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetMemoryLimit(max(minMemory, 2*int64(live[0].Value.Uint64())+minMemory/2))
	runtime.SetFinalizer(new(collected), boundMemory)
}

// The finalizer of a collected shows that a collection has run. A collected has a pointer because the finalizers of
// small objects without pointers may never run.
type collected struct{ _ *collected }
