package transforms

import (
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
)

// timersSet counts the timers that are set.
type timersSet int

func (n *timersSet) Set(timers.TimerMap) { *n++ }

// A cell has one timer, however many keys, blocks and observations it has. It is set
// again when it has fired.
func TestCellsHaveOneTimer(t *testing.T) {
	due := timers.InEventTime("due")
	fn := &node{due: &due}
	c := &opened{cell: &cell{deadlines: map[string]time.Time{}}}
	var set timersSet
	speak := func(key string, second, deadline int64) {
		for range 3 { // blocks that wait for their turn
			fn.guard(&set, c, key, time.Unix(second, 0))
		}
		c.deadlines[key] = time.Unix(deadline, 0)
	}
	want := func(n timersSet, at int64) {
		t.Helper()
		if set != n || c.watched.Unix() != at {
			t.Errorf("%d timers, the last at %v; want %d, %d", set, c.watched, n, at)
		}
	}
	for i := range int64(100) {
		speak("a", i, i+10)
		speak("b", i+1, i+20)
	}
	want(1, 0)
	fn.watch(&set, c) // it fires
	want(2, 109)
	delete(c.deadlines, "a") // is told
	fn.watch(&set, c)
	want(3, 119)
	speak("a", 115, 125)
	want(4, 115)
	c.watched = time.Time{} // another worker, which has not got a copy of the cell
	speak("c", 130, 140)
	want(5, 119)
}
