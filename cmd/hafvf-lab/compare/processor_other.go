//go:build !linux

package compare

import "time"

var programStart = time.Now()

// processorTime is that of the clock on the wall: what else runs on the machine counts.
func processorTime() time.Duration { return time.Since(programStart) }
