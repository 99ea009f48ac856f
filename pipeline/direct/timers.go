package direct

import (
	"bytes"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
)

type timerFamily struct{ step, name string }

type timerName struct {
	family timerFamily
	of     string // key, tag and window, encoded
}

// A timer is one that a function has set.
type timer struct {
	timerName
	window    string // encoded
	bytes     []byte // as the SDK encodes it
	fire      mtime.Time
	hold      mtime.Time // of the output's watermark
	eventTime bool
	cleared   bool // the function has cleared the timer of this name
	gone      bool // it has fired, or another one of its name was set
}

// A timerCoder reads the timers of a family.
type timerCoder struct {
	key       exec.ElementDecoder
	windows   exec.WindowDecoder
	window    exec.WindowEncoder
	eventTime bool
}

func (c timerCoder) parse(f timerFamily, b []byte) (*timer, error) {
	b = bytes.Clone(b) // the SDK uses its buffer again
	r := bytes.NewReader(b)
	if _, err := c.key.Decode(r); err != nil {
		return nil, err
	}
	if _, err := coder.DecodeStringUTF8(r); err != nil {
		return nil, err
	}
	windows, err := c.windows.Decode(r)
	if err != nil {
		return nil, err
	}
	window, err := exec.EncodeWindow(c.window, windows[0]) // the SDK sets a timer per window
	if err != nil {
		return nil, err
	}
	t := &timer{timerName: timerName{f, string(b[:len(b)-r.Len()])}, window: string(window), bytes: b, eventTime: c.eventTime}
	if t.cleared, err = coder.DecodeBool(r); err != nil || t.cleared {
		return t, err
	}
	if t.fire, err = coder.DecodeEventTime(r); err != nil {
		return nil, err
	}
	t.hold, err = coder.DecodeEventTime(r)
	return t, err
}

// A timerSet holds the timers of a shard.
type timerSet struct {
	byName       map[timerName]*timer
	event, clock timeQueue[*timer] // by when they fire
	holds        timeQueue[*timer] // by what they hold
}

func newTimerSet() *timerSet {
	gone := func(t *timer) bool { return t.gone }
	return &timerSet{byName: map[timerName]*timer{}, event: timeQueue[*timer]{gone: gone}, clock: timeQueue[*timer]{gone: gone}, holds: timeQueue[*timer]{gone: gone}}
}

// set sets a timer, or clears it, and counts it in its window.
func (s *timerSet) set(t *timer, in *windowStates) {
	if was := s.byName[t.timerName]; was != nil {
		s.drop(was, in)
	}
	if t.cleared {
		return
	}
	s.byName[t.timerName] = t
	in.timers++
	s.holds.push(t, t.hold)
	if t.eventTime {
		s.event.push(t, t.fire)
	} else {
		s.clock.push(t, t.fire)
	}
}

func (s *timerSet) drop(t *timer, in *windowStates) {
	t.gone = true
	delete(s.byName, t.timerName)
	in.timers--
}

// due removes and returns the timers of a queue that fire at now or before.
func (s *timerSet) due(q *timeQueue[*timer], now mtime.Time, window func(*timer) *windowStates) (all []*timer) {
	for t := range q.before(now + 1) {
		s.drop(t, window(t))
		all = append(all, t)
	}
	return all
}

// hold is where the timers hold the output's watermark, if the input's is at now. A timer
// that is due holds it until it has fired, also if it holds nothing by itself.
func (s *timerSet) hold(now mtime.Time) mtime.Time {
	_, hold, _ := s.holds.top()
	if _, fire, ok := s.event.top(); ok && fire <= now {
		hold = min(hold, fire)
	}
	return hold
}
