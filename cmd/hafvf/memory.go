package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// leastGarbage is the garbage in bytes up to which memory is not collected.
	leastGarbage = 48 << 20
	// garbageShare is the part of what lives, 1/garbageShare, up to which it is not either.
	garbageShare = 5
)

// boundGarbage has the garbage collector run when the garbage is a fifth of what lives, and not
// before it is 48 MB. By default it may be as much as what lives, which are gigabytes of the states
// of millions of keys. To collect more often costs little then: states have no pointers, and the
// collector does not look into them. GOGC in the environment counts instead, if it is set.
func boundGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	was := 0
	var settle func(*collected)
	settle = func(*collected) {
		metrics.Read(live)
		if n := live[0].Value.Uint64(); n > 0 {
			percent := max(1, int(100*max(leastGarbage, n/garbageShare)/n))
			if percent != was {
				debug.SetGCPercent(percent)
				was = percent
			}
		}
		runtime.SetFinalizer(new(collected), settle)
	}
	settle(nil)
}

// A collected says by its finalizer that there was a collection. Go puts an object without a
// pointer to others as small, whose finalizers may never run.
type collected struct{ _ *collected }
