package keyed

import (
	"slices"
	"strings"
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/compact"
	"hafvf/internal/domain"
)

// intervals are the aggregation state of one key.
type intervals struct {
	next time.Time  // intervals that start before this time are closed; zero if none is closed
	busy time.Time  // start of the last closed interval with events
	open []interval // open intervals with events, by time
	// unseenEvents are the times of events that the heartbeat has not seen yet, sorted. They wait until no earlier
	// event can arrive.
	unseenEvents []time.Time
	counter      counter // for Increase, after the last value of the closed intervals

	until   time.Time // no event before this time can arrive
	ended   bool      // the input has ended
	last    time.Time // if ended, the time of the last event of any key
	cleared time.Time // the key is known not to be silent up to this time
}

// An interval collects its events.
type interval struct {
	start time.Time
	accumulator
	offsets []Offset // by log, the lowest position of its events
}

// An aggregator closes the intervals of the keys of an estimator.
type aggregator struct {
	AggregateConfig
	grid  clock.Grid
	whole bool // observations are whole numbers
	// The interval of the previous event of any key. It is cached because consecutive events often share an interval.
	start, end time.Time
}

func newAggregator(cfg *AggregateConfig, family string) *aggregator {
	if cfg == nil {
		return nil
	}
	return &aggregator{AggregateConfig: *cfg, grid: clock.Grid{Every: cfg.Every, Zone: checked(domain.Zone(cfg.Zone))}, whole: family == "poisson"}
}

// interval returns the start and end of the interval that contains t. It is not safe for concurrent use.
func (a *aggregator) interval(t time.Time) (start, end time.Time) {
	if t.Before(a.start) || !t.Before(a.end) {
		a.start = a.grid.Start(t)
		a.end = a.grid.Next(a.start)
	}
	return a.start, a.end
}

// addEvent adds an event to its interval. If the interval is closed, it returns a *LateError.
func (e *KeyState) addEvent(o *Observation) error {
	a, in := e.est.aggregator, &e.intervals
	start, _ := a.interval(o.Time)
	if start.Before(in.next) {
		return &LateError{Time: o.Time, Released: in.next, Behind: e.clock.Sub(o.Time), Closed: true}
	}
	e.lateRun = lateRun{}
	e.clock = clock.Later(e.clock, o.Time)
	i := len(in.open)
	for i > 0 && start.Before(in.open[i-1].start) {
		i--
	}
	if i == 0 || !in.open[i-1].start.Equal(start) {
		in.open = slices.Insert(in.open, i, interval{start: start})
		i++
	}
	b := &in.open[i-1]
	b.add(a.Value, o)
	b.addOffset(o)
	if e.heartbeat != nil {
		i, _ := slices.BinarySearchFunc(in.unseenEvents, o.Time, time.Time.Compare)
		in.unseenEvents = slices.Insert(in.unseenEvents, i, o.Time)
	}
	if !a.Watermark {
		// A time ahead of the clock may be wrong, and closes no interval.
		in.until = clock.Earlier(e.clock, e.est.now()).Add(-e.est.MaxDelay())
	}
	in.until = clock.Later(in.until, e.est.horizon())
	return nil
}

// events returns the number of events in open intervals.
func (in *intervals) events() (n int) {
	for i := range in.open {
		n += int(in.open[i].accumulator.events)
	}
	return n
}

// addOffset updates offsets, the lowest position per log, with an event.
func (b *interval) addOffset(o *Observation) {
	if o.Log == "" {
		return
	}
	for i := range b.offsets {
		if p := &b.offsets[i]; p.Log == o.Log {
			p.Seq = min(p.Seq, o.Seq)
			return
		}
	}
	b.offsets = append(b.offsets, Offset{Log: strings.Clone(o.Log), Seq: o.Seq})
}

// close closes the key's next interval that is due, and returns its observation. ok is false if no interval is due.
// Events before the end of the interval are passed to the heartbeat first.
func (e *KeyState) close() (o Observation, ok bool) {
	a, in := e.est.aggregator, &e.intervals
	for {
		t := in.next
		if t.IsZero() {
			if len(in.open) == 0 {
				return o, false
			}
			t = in.open[0].start
		}
		if e.expires(in.busy, t) {
			if len(in.open) == 0 {
				return o, false
			}
			if _, end := a.interval(in.open[0].start); !in.ended && end.After(in.until) {
				return o, false
			}
			e.expireTrack()
			continue
		}
		_, end := a.interval(t)
		over := in.ended || !end.After(in.until)
		for len(in.unseenEvents) > 0 && in.unseenEvents[0].Before(end) && (over || !in.unseenEvents[0].After(in.until)) {
			e.passEvent()
		}
		switch {
		case len(in.open) > 0 && !t.Before(in.open[0].start):
			if !over {
				return o, false
			}
			b := in.open[0]
			in.open = slices.Delete(in.open, 0, 1)
			in.next, in.busy = end, t
			o = e.observation(t, &b.accumulator)
			o.Partial = o.Partial || in.ended && end.After(in.last) && !in.last.IsZero()
			return o, true
		case in.ended && len(in.open) == 0 && t.After(in.last), !over:
			return o, false
		case e.stops(t):
			if len(in.open) == 0 {
				return o, false
			}
			in.next = in.open[0].start
		case !e.silentBy(t):
			in.next = end
			o = e.observation(t, &accumulator{})
			o.Partial = in.ended && end.After(in.last)
			return o, true
		case len(in.open) > 0 && e.expires(in.busy, in.open[0].start):
			in.next = in.open[0].start
		case len(in.unseenEvents) == 0 || !in.ended && in.unseenEvents[0].After(in.until):
			return o, false // the caller decides first whether to report the silence
		default:
			if t := in.unseenEvents[0]; e.passEvent() {
				in.next = in.open[0].start
			} else {
				in.cleared = t
			}
		}
	}
}

// stops reports whether the interval without events that starts at start is left out: a silence was reported, or there
// were too many such intervals.
func (e *KeyState) stops(start time.Time) bool {
	if e.heartbeat != nil && e.heartbeat.reported != nil && !e.heartbeat.muted && start.After(e.heartbeat.reported.Since.Add(e.heartbeat.reported.Bound)) {
		return true
	}
	return start.Sub(e.intervals.busy)/e.est.aggregator.Every > maxEmptyIntervals
}

// silentBy reports whether the key becomes silent before start, and the silence is not reported or muted yet.
func (e *KeyState) silentBy(start time.Time) bool {
	if e.heartbeat == nil || e.heartbeat.reported != nil || !start.After(e.intervals.cleared) {
		return false
	}
	deadline := e.stages.silences.deadline(e.heartbeat, &e.rules.quiet, e.heartbeat.last)
	if e.intervals.ended && len(e.intervals.unseenEvents) == 0 && deadline.After(e.intervals.last) {
		return false
	}
	return !deadline.IsZero() && start.After(deadline)
}

// passEvent passes the first unseen event to the heartbeat. It reports whether the event ends a silence. Events in
// quiet times are skipped.
func (e *KeyState) passEvent() bool {
	t := e.intervals.unseenEvents[0]
	e.intervals.unseenEvents = slices.Delete(e.intervals.unseenEvents, 0, 1)
	if !e.rules.quiet.endAt(t).IsZero() {
		return false
	}
	s := e.stages.silences.arrived(e.heartbeat, &e.rules.quiet, t, e.pays)
	if s != nil {
		e.endedSilences = append(e.endedSilences, SilenceEvent{*s, e.n, e.stages.bank.Model().Outputs(), t})
	}
	return s != nil
}

// observation returns the observation of the interval that starts at start. In a quiet time it resets the counter.
func (e *KeyState) observation(start time.Time, acc *accumulator) Observation {
	o := e.est.aggregator.observation(e.key, start, acc, &e.intervals.counter, e.stages.checks.Dim())
	if e.est.quietAt(&e.rules.quiet, &o) {
		e.intervals.counter = counter{}
	}
	return o
}

// observation returns the observation, with dim coordinates, of a key's interval that starts at start. For Increase it
// updates the counter c.
func (a *aggregator) observation(key string, start time.Time, acc *accumulator, c *counter, dim int) Observation {
	o := Observation{Time: start, ID: key + "/" + stamp(start), Aggregated: true, Events: acc.events}
	x := make([]float64, 0, dim)
	if a.Value == Increase {
		var falls CounterFalls
		if x, falls, o.Partial = a.increase(x, c, acc, start, dim); falls != (CounterFalls{}) {
			o.Falls = &falls
		}
	} else {
		x = acc.value(x, &a.Aggregation, dim)
	}
	o.X = [][]float64{x}
	if dim > 1 {
		o.Shape = Vector
	}
	return o
}

// observations returns the observations of the intervals of a key's events. The events must be in order, and not empty.
func (a *aggregator) observations(key string, events []Observation, dim int) (observations []Observation) {
	var acc accumulator
	var c counter
	start, end := a.interval(events[0].Time)
	for i := range events {
		for !events[i].Time.Before(end) {
			observations = append(observations, a.observation(key, start, &acc, &c, dim))
			acc = accumulator{}
			start, end = a.interval(end)
		}
		acc.add(a.Value, &events[i])
	}
	return append(observations, a.observation(key, start, &acc, &c, dim))
}

// span returns the ends of the first and of the last interval that can be closed. They are zero if there is none. The
// intervals are due at these times plus MaxDelay. span does not use the cache of the aggregator, which another
// goroutine may use.
func (e *KeyState) span() (first, last time.Time) {
	a, in := e.est.aggregator, &e.intervals
	if n := len(in.open); n > 0 {
		first, last = a.grid.Next(in.open[0].start), a.grid.Next(in.open[n-1].start)
	}
	// The next interval without events.
	if in.next.IsZero() || first.IsZero() && !a.Unbounded || e.stops(in.next) || e.silentBy(in.next) || e.expires(in.busy, in.next) {
		return first, last
	}
	end := a.grid.Next(in.next)
	if first.IsZero() {
		return end, end
	}
	return end, last
}

func (e *KeyState) intervalsForm(c *compact.Codec) {
	a, in, dim := e.est.aggregator, &e.intervals, e.stages.checks.Dim()
	c.Times(&in.next, &in.busy)
	earliest := in.next
	compact.List(c, &in.open, 3, func(o *interval) {
		c.Times(&o.start)
		o.accumulator.form(c, a.Value)
		offsetsForm(c, &o.offsets)
		c.Check(c.Writes || o.events > 0 && !o.start.Before(earliest) && a.grid.Start(o.start).Equal(o.start) && (o.dim() == dim || o.dim() == 0 && o.n <= 0))
		earliest = o.start.Add(1)
	})
	compact.List(c, &in.unseenEvents, 1, func(t *time.Time) { c.Times(t) })
	if a.Value == Increase {
		in.counter.form(c, dim)
	}
	c.Check(c.Writes || slices.IsSortedFunc(in.unseenEvents, time.Time.Compare) && (len(in.unseenEvents) == 0 || e.heartbeat != nil))
}
