package direct

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"

	"hafvf/internal/account"
)

// setIdle tells the account of the run, if it has one, when no bundle runs and no element waits but at a
// source.
func (e *engine) setIdle() {
	if e.books == nil {
		return
	}
	buffering, endless, next := "", false, mtime.MaxTimestamp
	for _, s := range e.stages {
		for _, sh := range s.shards {
			if s.source {
				continue
			}
			if sh.busy || len(sh.queue) > 0 {
				return
			}
			keeps, until := sh.buffers()
			next = min(next, until)
			if untilEnd := until >= mtime.EndOfGlobalWindowTime; keeps && (buffering == "" || untilEnd && !endless) {
				buffering, endless = s.name, untilEnd
			}
		}
	}
	var at time.Time
	if next < mtime.EndOfGlobalWindowTime {
		at = next.ToTime()
	}
	e.books.SetIdle(buffering, endless, at)
}

// Resume implements account.Runner.
func (e *engine) Resume(err error) {
	e.locked(func() {
		if err != nil {
			e.fail(err)
			return
		}
		for _, c := range e.impulses {
			if slices.ContainsFunc(c.stages, func(s *stage) bool { return s.seeds }) {
				e.impulse(c)
			}
		}
	})
}

// Stalled implements account.Runner.
func (e *engine) Stalled() (step string, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for _, s := range e.stages {
		for _, sh := range s.shards {
			id, moves, waits := s.id, sh.begun, sh.busy || len(sh.queue) > 0
			if b := sh.blame.Load(); b != nil {
				moves += b.calls.Load()
				if sh.busy {
					id = b.id()
				}
			}
			if s.source {
				waits = sh.busy && id != s.id // else it waits for what it reads
			}
			switch {
			case !waits || moves != sh.moves:
				sh.moves, sh.since = moves, now
			case step == "" || sh.since.Before(since):
				step, since = e.totals.names[id], sh.since
			}
		}
	}
	return step, since
}

// buffers reports whether a shard at rest keeps something back, and the first time that the watermark has to
// pass for the shard to do something.
func (sh *shard) buffers() (keeps bool, next mtime.Time) {
	_, next, _ = sh.timers.event.top()
	if _, end, unsent := sh.groups.due.top(); unsent {
		keeps, next = true, min(next, end+1)
	}
	if len(sh.blocked) > 0 {
		keeps, next = true, min(next, sh.stage.sideEnd(sh.blocked[0])+1)
	}
	if sh.stage.foreign {
		if end, some := sh.states.left(sh.at); some {
			keeps, next = true, min(next, end+1)
		}
	}
	return keeps, next
}

// left returns the end of the first window that has states, if any has.
func (s *states) left(watermark mtime.Time) (end mtime.Time, some bool) {
	s.forget(watermark)
	s.mu.Lock()
	defer s.mu.Unlock()
	end = mtime.MaxTimestamp
	for _, w := range s.windows {
		for _, k := range w.of {
			if len(k.bags)+len(k.maps)+len(k.lists) > 0 {
				end, some = min(end, w.end), true
			}
		}
	}
	return end, some
}

// sideEnd is the end of the last window of side inputs that an element needs.
func (s *stage) sideEnd(el element) (end mtime.Time) {
	end = mtime.MinTimestamp
	for _, side := range s.sides {
		for _, w := range el.windows {
			end = max(end, side.end(w))
		}
	}
	return end
}

// findSources finds the stages of sources, whose restrictions come from no other restriction, and those
// with states that nobody reports to an account, and those that are Seeding.
func (t *translation) findSources(edges []*graph.MultiEdge) {
	reports, seeds := map[string]bool{}, map[string]bool{} // by the id that package graphx gives the step
	for _, e := range edges {
		if id := fmt.Sprint("e", e.ID()); e.DoFn != nil {
			reports[id], seeds[id] = account.Reports(e.DoFn.Recv), account.Seeds(e.DoFn.Recv)
		}
	}
	below := map[*stage]bool{} // a stage of restrictions, or a TestStream
	for _, s := range t.stages {
		for _, from := range s.from {
			below[s] = below[s] || below[from] || from.splits || from.script != nil
		}
		s.source = s.splits && !below[s]
		s.seeds = seeds[s.id]
		s.foreign = s.keyed && s.group == nil && !reports[s.id]
	}
}
