package keyed

import (
	"slices"
	"strings"
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/compact"
	"hafvf/internal/domain"
)

// intervals are what an aggregation keeps of one key.
type intervals struct {
	next time.Time  // from which on intervals are open; zero before the first is closed
	busy time.Time  // start of the last closed interval with events
	open []interval // with events, by time
	// unseenEvents are the times of events that the heartbeat has not seen yet, sorted. They wait until no
	// earlier one is to come.
	unseenEvents []time.Time
	// counter is of Increase, at the last value of the closed intervals.
	counter counter

	until   time.Time // up to which nothing is to come any more
	ended   bool      // nothing is to come at all
	last    time.Time // if ended, the time of the last event of any key
	cleared time.Time // up to which it is known that the key was not silent
}

// An interval gathers its events.
type interval struct {
	start time.Time
	accumulator
	offsets []Offset // of each log, the first place of its events
}

// An aggregator closes the intervals of the keys of an estimator.
type aggregator struct {
	AggregateConfig
	grid  clock.Grid
	whole bool // observations are whole numbers
	// The interval of the event before, of any key: events come in stretches.
	at, to time.Time
}

func newAggregator(cfg *AggregateConfig, family string) *aggregator {
	if cfg == nil {
		return nil
	}
	return &aggregator{AggregateConfig: *cfg, grid: clock.Grid{Every: cfg.Every, Zone: checked(domain.Zone(cfg.Zone))}, whole: family == "poisson"}
}

// of is the interval that t lies in.
func (a *aggregator) of(t time.Time) (start, end time.Time) {
	if t.Before(a.at) || !t.Before(a.to) {
		a.at = a.grid.Start(t)
		a.to = a.grid.Next(a.at)
	}
	return a.at, a.to
}

// addEvent takes in an event, unless its interval is closed.
func (e *KeyState) addEvent(o *Observation) error {
	a, in := e.est.aggregator, &e.intervals
	start, _ := a.of(o.Time)
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
	b.note(o)
	if e.heartbeat != nil {
		i, _ := slices.BinarySearchFunc(in.unseenEvents, o.Time, time.Time.Compare)
		in.unseenEvents = slices.Insert(in.unseenEvents, i, o.Time)
	}
	if !a.Watermark {
		// A time that lies ahead may be wrong, and closes nothing.
		in.until = clock.Earlier(e.clock, e.est.now()).Add(-e.est.MaxDelay())
	}
	in.until = clock.Later(in.until, e.est.horizon())
	return nil
}

// events is how many are in open intervals.
func (in *intervals) events() (n int) {
	for i := range in.open {
		n += int(in.open[i].accumulator.events)
	}
	return n
}

// note notes the place of an event.
func (b *interval) note(o *Observation) {
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

// close closes the key's next interval that is to be closed by now, and returns its
// observation. ok is false if there is none.
func (e *KeyState) close() (o Observation, ok bool) {
	a, in := e.est.aggregator, &e.intervals
	for {
		at := in.next
		if at.IsZero() {
			if len(in.open) == 0 {
				return o, false
			}
			at = in.open[0].start
		}
		if e.expires(in.busy, at) {
			if len(in.open) == 0 {
				return o, false
			}
			if _, end := a.of(in.open[0].start); !in.ended && end.After(in.until) {
				return o, false
			}
			e.expireTrack()
			continue
		}
		_, end := a.of(at)
		over := in.ended || !end.After(in.until)
		for len(in.unseenEvents) > 0 && in.unseenEvents[0].Before(end) && (over || !in.unseenEvents[0].After(in.until)) {
			e.noteEvent()
		}
		switch {
		case len(in.open) > 0 && !at.Before(in.open[0].start):
			if !over {
				return o, false
			}
			b := in.open[0]
			in.open = slices.Delete(in.open, 0, 1)
			in.next, in.busy = end, at
			o = e.observation(at, &b.accumulator)
			o.Partial = o.Partial || in.ended && end.After(in.last) && !in.last.IsZero()
			return o, true
		case in.ended && len(in.open) == 0 && at.After(in.last), !over:
			return o, false
		case e.stops(at):
			if len(in.open) == 0 {
				return o, false
			}
			in.next = in.open[0].start
		case !e.silentBy(at):
			in.next = end
			o = e.observation(at, &accumulator{})
			o.Partial = in.ended && end.After(in.last)
			return o, true
		case len(in.open) > 0 && e.expires(in.busy, in.open[0].start):
			in.next = in.open[0].start
		case len(in.unseenEvents) == 0 || !in.ended && in.unseenEvents[0].After(in.until):
			return o, false // who tells of the silence decides
		default:
			if at := in.unseenEvents[0]; e.noteEvent() {
				in.next = in.open[0].start
			} else {
				in.cleared = at
			}
		}
	}
}

// stops reports whether the intervals without events stop before one that begins then: a silence
// is told, or there have been too many.
func (e *KeyState) stops(start time.Time) bool {
	if e.heartbeat != nil && e.heartbeat.reported != nil && !e.heartbeat.muted && start.After(e.heartbeat.reported.Since.Add(e.heartbeat.reported.Bound)) {
		return true
	}
	return start.Sub(e.intervals.busy)/e.est.aggregator.Every > maxEmptyIntervals
}

// silentBy reports whether the key is silent before then, and it is not decided whether that is
// told.
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

// noteEvent gives the heartbeat the first event that it has not seen. It reports whether that ends a
// silence.
func (e *KeyState) noteEvent() bool {
	at := e.intervals.unseenEvents[0]
	e.intervals.unseenEvents = slices.Delete(e.intervals.unseenEvents, 0, 1)
	if !e.rules.quiet.until(at).IsZero() {
		return false
	}
	s := e.stages.silences.arrived(e.heartbeat, &e.rules.quiet, at, e.pays)
	if s != nil {
		e.endedSilences = append(e.endedSilences, SilenceEvent{*s, e.n, e.stages.bank.Model().Outputs(), at})
	}
	return s != nil
}

// observation is that of an interval.
func (e *KeyState) observation(at time.Time, acc *accumulator) Observation {
	o := e.est.aggregator.observation(e.key, at, acc, &e.intervals.counter, e.stages.checks.Dim())
	if e.est.quietAt(&e.rules.quiet, &o) {
		e.intervals.counter = counter{}
	}
	return o
}

// observation is that of the interval of a key, in so many dimensions. A counter goes on with it.
func (a *aggregator) observation(key string, at time.Time, acc *accumulator, c *counter, dim int) Observation {
	o := Observation{Time: at, ID: key + "/" + stamp(at), Aggregated: true, Events: acc.events}
	x := make([]float64, 0, dim)
	if a.Value == Increase {
		var falls CounterFalls
		if x, falls, o.Partial = a.increase(x, c, acc, at, dim); falls != (CounterFalls{}) {
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

// all returns the observations of the intervals of a key's events, which are in order.
func (a *aggregator) all(key string, events []Observation, dim int) (all []Observation) {
	var acc accumulator
	var c counter
	at, end := a.of(events[0].Time)
	for i := range events {
		for !events[i].Time.Before(end) {
			all = append(all, a.observation(key, at, &acc, &c, dim))
			acc = accumulator{}
			at, end = a.of(end)
		}
		acc.add(a.Value, &events[i])
	}
	return append(all, a.observation(key, at, &acc, &c, dim))
}

// span does not use the memory of the aggregator, which another goroutine may have. It returns between which times the key has to be looked at, less the patience: the ends of
// the first interval to be closed and of the last. They are zero if there is none.
func (e *KeyState) span() (first, last time.Time) {
	a, in := e.est.aggregator, &e.intervals
	if n := len(in.open); n > 0 {
		first, last = a.grid.Next(in.open[0].start), a.grid.Next(in.open[n-1].start)
	}
	// The next interval without events.
	if in.next.IsZero() || first.IsZero() && !a.Endless || e.stops(in.next) || e.silentBy(in.next) || e.expires(in.busy, in.next) {
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
	before := in.next
	compact.List(c, &in.open, 3, func(o *interval) {
		c.Times(&o.start)
		o.accumulator.form(c, a.Value)
		offsetsForm(c, &o.offsets)
		c.Check(c.Writes || o.events > 0 && !o.start.Before(before) && a.grid.Start(o.start).Equal(o.start) && (o.dim() == dim || o.dim() == 0 && o.n <= 0))
		before = o.start.Add(1)
	})
	compact.List(c, &in.unseenEvents, 1, func(t *time.Time) { c.Times(t) })
	if a.Value == Increase {
		in.counter.form(c, dim)
	}
	c.Check(c.Writes || slices.IsSortedFunc(in.unseenEvents, time.Time.Compare) && (len(in.unseenEvents) == 0 || e.heartbeat != nil))
}
