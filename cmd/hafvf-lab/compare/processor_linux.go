package compare

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is the time that this thread has spent on a processor: what else runs on
// the machine does not count.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("compare: the clock of the thread: " + err.Error())
	}
	return time.Duration(t.Nano())
}
