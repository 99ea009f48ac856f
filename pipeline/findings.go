package pipeline

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/internal/reminder"
	"hafvf/pipeline/records"
)

// runFindings are what a run has found: what its summary and its metrics say beside counts. The methods
// that note something do nothing on nil findings, which are those of no run in this process.
type runFindings struct {
	lost    refusals // alerts that were not delivered
	refused refusals // estimates that the sink did not take

	mu          sync.Mutex
	written     int64
	opened      int                        // incidents
	incidents   map[string]incidents.Event // by id, as last told
	named       map[string]bool            // groups that had one, at most namedGroups
	largest     []LargestAlarm
	moving      []Moving
	rejects     records.Rejections
	keys        map[string]seen
	alarmedKeys map[string]bool // keys with a break, at most countedKeys
	// uncounted says that more keys have one.
	uncounted bool
}

// refusals are what somebody did not take.
type refusals struct {
	mu sync.Mutex
	n  int64
	reminder.Reminder
}

// add notes one. The log says so of the first, and once a minute.
func (r *refusals) add(log *slog.Logger, text string, attrs ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if r.Due(time.Minute) {
		log.Error(text, append(attrs, "so_far", r.n)...)
	}
}

func (r *refusals) count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// findings are those of the run; nil if there is no run in this process.
func (r *run) findings() *runFindings {
	if r == nil {
		return nil
	}
	return &r.found
}

// records is how many were written.
func (f *runFindings) records() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written
}

// summarise puts the findings into a summary.
func (f *runFindings) summarise(s *Summary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Undelivered, s.Refused = f.lost.count(), f.refused.count()
	s.Largest, s.Moving, s.Rejections, s.PoorFits = f.largest, f.moving, f.rejects.Commonest(), poorFits(f.keys)
	s.single, s.MixedCounters = countSingleSessions(f.keys), mixedCounters(f.keys)
	s.LargestAlarms, s.uncounted = len(f.alarmedKeys), f.uncounted
	for _, e := range f.incidents {
		s.Incidents = append(s.Incidents, e)
	}
	slices.SortFunc(s.Incidents, func(a, b incidents.Event) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})
}

// incident notes what became of an incident.
func (f *runFindings) incident(e *incidents.Event) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.named == nil {
		f.named = map[string]bool{}
	}
	if len(f.named) < maxNamedGroups {
		f.named[groupLabel(e.Group)] = true
	}
	if e.State == incidents.Merged {
		delete(f.incidents, e.ID)
		return
	}
	if f.incidents == nil {
		f.incidents = map[string]incidents.Event{}
	}
	if _, known := f.incidents[e.ID]; known || len(f.incidents) < maxCountedKeys {
		stored := *e
		stored.Members = nil
		f.incidents[e.ID] = stored
	}
	if e.State == incidents.Opened {
		f.opened++
	}
}

// countIncidents is how many incidents have opened, and how many of them have not closed.
func (f *runFindings) incidentCounts() (opened, open int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.incidents {
		if e.State != incidents.Closed {
			open++
		}
	}
	return f.opened, open
}

// namedGroups is how many groups metrics name: the first of a run that have an incident. The others are
// one.
const maxNamedGroups = 100

// groupLabel is the name of a group in metrics.
func groupLabel(group string) string {
	return strings.ToValidUTF8(cmp.Or(group, "the fleet"), "\ufffd")
}

// openByGroup is 1 of groups with an open incident, 0 of those that had one.
func (f *runFindings) openByGroup() map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := map[string]float64{}
	for group := range f.named {
		open[group] = 0
	}
	for _, e := range f.incidents {
		if e.State == incidents.Closed {
			continue
		}
		group := groupLabel(e.Group)
		if !f.named[group] {
			group = "others"
		}
		open[group] = 1
	}
	return open
}

// note adds a tally to the summary.
func (f *runFindings) addTally(t *tally) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written += t.records
	for _, b := range t.largest {
		f.largest = keepLargest(f.largest, b)
	}
	f.moving = keepMoving(f.moving, t.moving...)
	if f.keys == nil {
		f.keys, f.alarmedKeys = map[string]seen{}, map[string]bool{}
	}
	for key, n := range t.keys {
		switch {
		case !n.alarmed || f.alarmedKeys[key]:
		case len(f.alarmedKeys) < maxCountedKeys:
			f.alarmedKeys[key] = true
		default:
			f.uncounted = true
		}
		if n.Records == 0 && n.n == 0 && n.events == 0 {
			continue
		}
		prev, known := f.keys[key]
		if !known && len(f.keys) == maxCountedKeys {
			continue
		}
		f.keys[key] = prev.merge(n)
	}
}

// reject adds a rejected record of n observations to the summary.
func (f *runFindings) reject(reason, place, raw string, n int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rejects.Add(reason, place, raw, n)
}
