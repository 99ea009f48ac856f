//go:build !linux

package compare

import "time"

var programStart = time.Now()

// processorTime returns the time since the start of the program on the wall clock. Other programs on the machine
// count.
func processorTime() time.Duration { return time.Since(programStart) }
