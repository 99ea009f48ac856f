// Hafvf-serve filters batches of observations for a program in another language that has started it, by frames on
// standard input and output. It opens no file and no port, keeps nothing that counts, and ends with its input or its
// parent. The frames are those of package cmd/internal/serve.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
	_ "time/tzdata" // for the zones of settings, where the machine has none

	"hafvf/cmd/internal/serve"
)

// version is that of the package that brings the program along, which the linker sets; empty: that of any.
var version string

func main() {
	debug.SetGCPercent(-1) // a collection comes with the limit alone
	boundMemory(nil)
	s := serve.Server{Version: version, Parent: func(parent int) { go endWith(parent) }}
	if err := s.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hafvf-serve:", err)
		os.Exit(1)
	}
}

// endWith ends the process when its parent is another. Its input may stay open: a sibling may have a copy of the pipe.
func endWith(parent int) {
	for ; os.Getppid() == parent; time.Sleep(time.Second) {
	}
	os.Exit(0)
}

const leastMemory = 64 << 20

// boundMemory sets the limit of memory to twice what is live, after each collection.
func boundMemory(*collected) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetMemoryLimit(max(leastMemory, 2*int64(live[0].Value.Uint64())+leastMemory/2))
	runtime.SetFinalizer(new(collected), boundMemory)
}

// A collected says by its finalizer that there was a collection. Without a pointer it would be one of the small objects
// whose finalizers may never run.
type collected struct{ _ *collected }
