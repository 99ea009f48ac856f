package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// minGarbage is the amount of garbage in bytes below which the collector does not run.
	minGarbage = 48 << 20
	// garbageShare is the inverse of the share of the live heap below which the collector does not run.
	garbageShare = 5
)

// boundGarbage makes the garbage collector run when the garbage reaches a fifth of the live heap, and at least 48 MB.
// By default the garbage may equal the live heap, which is gigabytes for the states of millions of keys. More
// frequent collections cost little then: states contain no pointers, so the collector does not scan them. If GOGC is
// set in the environment, it applies instead.
func boundGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	previous := 0
	var settle func(*collected)
	settle = func(*collected) {
		metrics.Read(live)
		if n := live[0].Value.Uint64(); n > 0 {
			percent := max(1, int(100*max(minGarbage, n/garbageShare)/n))
			if percent != previous {
				debug.SetGCPercent(percent)
				previous = percent
			}
		}
		runtime.SetFinalizer(new(collected), settle)
	}
	settle(nil)
}

// A collected reports a collection by its finalizer. It contains a pointer because Go packs small objects without
// pointers together, and their finalizers may never run.
type collected struct{ _ *collected }
