package compare

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns the processor time of this thread. Other threads and programs do not count.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("compare: cannot read the clock of the thread: " + err.Error())
	}
	return time.Duration(t.Nano())
}
