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
	id     string // key, tag and window, encoded
}

// A timer is a timer that a function has set or cleared.
type timer struct {
	timerName
	window    string // encoded window
	bytes     []byte // encoding of the SDK
	fire      mtime.Time
	hold      mtime.Time // the output watermark stays at or before this time
	eventTime bool
	cleared   bool // the function has cleared the timer with this name
	inactive  bool // fired, or replaced or cleared
}

// A timerCoder decodes the timers of a family.
type timerCoder struct {
	key       exec.ElementDecoder
	windows   exec.WindowDecoder
	window    exec.WindowEncoder
	eventTime bool
}

func (c timerCoder) parse(f timerFamily, b []byte) (*timer, error) {
	b = bytes.Clone(b) // the SDK reuses its buffer
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
	event, clock timeQueue[*timer] // by fire
	holds        timeQueue[*timer] // by hold
}

func newTimerSet() *timerSet {
	inactive := func(t *timer) bool { return t.inactive }
	return &timerSet{byName: map[timerName]*timer{}, event: timeQueue[*timer]{dropped: inactive}, clock: timeQueue[*timer]{dropped: inactive}, holds: timeQueue[*timer]{dropped: inactive}}
}

// set sets or clears a timer, and updates the number of timers in its window.
func (s *timerSet) set(t *timer, in *windowStates) {
	if prev := s.byName[t.timerName]; prev != nil {
		s.drop(prev, in)
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
	t.inactive = true
	delete(s.byName, t.timerName)
	in.timers--
}

// due removes and returns the timers of a queue that fire at or before now.
func (s *timerSet) due(q *timeQueue[*timer], now mtime.Time, window func(*timer) *windowStates) (timers []*timer) {
	for t := range q.before(now + 1) {
		s.drop(t, window(t))
		timers = append(timers, t)
	}
	return timers
}

// hold returns the time at which the timers hold the output watermark if the input watermark is now. A timer that is
// due holds the watermark until it has fired, even if its own hold is later.
func (s *timerSet) hold(now mtime.Time) mtime.Time {
	_, hold, _ := s.holds.top()
	if _, fire, ok := s.event.top(); ok && fire <= now {
		hold = min(hold, fire)
	}
	return hold
}
