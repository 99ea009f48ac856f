package direct

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"

	"hafvf/internal/account"
)

// setIdle reports to the account of the run, if there is one, when no bundle runs and no element waits, except at
// sources.
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
			buffered, until := sh.buffers()
			next = min(next, until)
			if untilEnd := until >= mtime.EndOfGlobalWindowTime; buffered && (buffering == "" || untilEnd && !endless) {
				buffering, endless = s.name, untilEnd
			}
		}
	}
	var wakeTime time.Time
	if next < mtime.EndOfGlobalWindowTime {
		wakeTime = next.ToTime()
	}
	e.books.SetIdle(buffering, endless, wakeTime)
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
func (e *engine) Stalled() (step string, start time.Time) {
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
				waits = sh.busy && id != s.id // an idle source waits for data
			}
			switch {
			case !waits || moves != sh.moves:
				sh.moves, sh.movedAt = moves, now
			case step == "" || sh.movedAt.Before(start):
				step, start = e.totals.names[id], sh.movedAt
			}
		}
	}
	return step, start
}

// buffers reports whether an idle shard buffers anything, and the earliest watermark at which the shard has something
// to do.
func (sh *shard) buffers() (buffered bool, next mtime.Time) {
	_, next, _ = sh.timers.event.top()
	if _, end, unsent := sh.groups.due.top(); unsent {
		buffered, next = true, min(next, end+1)
	}
	if len(sh.blocked) > 0 {
		buffered, next = true, min(next, sh.stage.sideEnd(sh.blocked[0])+1)
	}
	if sh.stage.foreign {
		if end, found := sh.states.left(sh.watermark); found {
			buffered, next = true, min(next, end+1)
		}
	}
	return buffered, next
}

// left returns the end of the first window that has states. found is false if there is none.
func (s *states) left(watermark mtime.Time) (end mtime.Time, found bool) {
	s.forget(watermark)
	s.mu.Lock()
	defer s.mu.Unlock()
	end = mtime.MaxTimestamp
	for _, w := range s.windows {
		for _, k := range w.states {
			if len(k.bags)+len(k.maps)+len(k.lists) > 0 {
				end, found = min(end, w.end), true
			}
		}
	}
	return end, found
}

// sideEnd returns the end of the last side input window that an element needs.
func (s *stage) sideEnd(el element) (end mtime.Time) {
	end = mtime.MinTimestamp
	for _, side := range s.sides {
		for _, w := range el.windows {
			end = max(end, side.end(w))
		}
	}
	return end
}

// findSources marks stages: source for stages whose restrictions do not depend on other restrictions, foreign for
// stages with states that are not reported to an account, and seeds for account.Seeding.
func (t *translation) findSources(edges []*graph.MultiEdge) {
	reports, seeds := map[string]bool{}, map[string]bool{} // by the step id in package graphx
	for _, e := range edges {
		if id := fmt.Sprint("e", e.ID()); e.DoFn != nil {
			reports[id], seeds[id] = account.Reports(e.DoFn.Recv), account.Seeds(e.DoFn.Recv)
		}
	}
	downstream := map[*stage]bool{} // after a stage of restrictions or a TestStream
	for _, s := range t.stages {
		for _, from := range s.from {
			downstream[s] = downstream[s] || downstream[from] || from.splits || from.script != nil
		}
		s.source = s.splits && !downstream[s]
		s.seeds = seeds[s.id]
		s.foreign = s.keyed && s.group == nil && !reports[s.id]
	}
}
