package pipeline

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/message"
	"hafvf/internal/reminder"
	"hafvf/pipeline/records"
)

// runFindings are the results of a run that its summary and metrics report in addition to counts.
type runFindings struct {
	lost    refusals // alerts that were not delivered
	refused refusals // estimates that the sink refused

	mu          sync.Mutex
	opened      int                        // number of incidents
	incidents   map[string]incidents.Event // by ID, in their last reported state
	named       map[string]bool            // groups that had an incident, at most maxNamedGroups
	largest     []LargestAlarm
	moving      []Moving
	rejects     records.Rejections
	keys        map[string]keyCounts
	alarmedKeys map[string]bool               // keys with an alarm or change, at most maxCountedKeys
	rejected    map[string]*records.Rejection // by keys whose last records were all rejected, at most maxCountedKeys
	anyRejected atomic.Bool                   // rejected is not empty
	// uncounted is set if more keys have an alarm or change.
	uncounted bool
}

// refusals counts records that a receiver refused.
type refusals struct {
	mu sync.Mutex
	n  int64
	reminder.Reminder
}

// add counts a refusal. It logs the first one, and then at most one a minute.
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

// summarise copies the findings to a summary.
func (f *runFindings) summarise(s *Summary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Undelivered, s.Refused = f.lost.count(), f.refused.count()
	s.Largest, s.Moving, s.Rejections, s.PoorFits = f.largest, f.moving, f.rejects.MostFrequent(), poorFits(f.keys)
	s.single, s.MixedCounters = countSingleSessions(f.keys), mixedCounters(f.keys)
	s.LargestAlarms, s.uncounted = len(f.alarmedKeys), f.uncounted
	for _, e := range f.incidents {
		s.Incidents = append(s.Incidents, e)
	}
	slices.SortFunc(s.Incidents, func(a, b incidents.Event) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})
}

// incident records an event of an incident.
func (f *runFindings) incident(e *incidents.Event) {
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

// incidentCounts returns the number of incidents that have opened, and how many of them are still open.
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

// maxNamedGroups is the maximum number of groups that metrics name: the first groups of a run with an incident. Further
// groups share the name "others".
const maxNamedGroups = 100

// groupLabel returns the name of a group in metrics.
func groupLabel(group string) string {
	return strings.ToValidUTF8(cmp.Or(group, "the fleet"), "\ufffd")
}

// openByGroup returns 1 for groups with an open incident, and 0 for groups whose incidents have closed.
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

// addTally adds a tally to the findings.
func (f *runFindings) addTally(t *tally) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range t.largest {
		f.largest = keepLargest(f.largest, b)
	}
	f.moving = keepMoving(f.moving, t.moving...)
	if f.keys == nil {
		f.keys, f.alarmedKeys = map[string]keyCounts{}, map[string]bool{}
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

// reject records a rejected record of n observations.
func (f *runFindings) reject(reason, place, raw string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rejects.Add(reason, place, raw, n)
}

// decoded records that a record of a key at time t, which may be zero, was accepted, or rejected for a reason. A rejected
// record is no observation of its key. But it shows how far the input has come, so that the key is silent at the end of a
// file.
func (r *run) decoded(key string, t time.Time, reason error) {
	if key == "" || reason == nil && !r.found.anyRejected.Load() {
		return
	}
	if reason != nil && t.After(time.Now().Add(time.Hour)) { // clocks differ
		r.account.SetLatest(time.Time{}, t)
	} else if reason != nil {
		r.account.SetLatest(t, time.Time{})
	}
	f := &r.found
	f.mu.Lock()
	defer f.mu.Unlock()
	switch k := f.rejected[key]; {
	case reason == nil:
		delete(f.rejected, key)
	case k != nil:
		k.Count++
	case len(f.rejected) < maxCountedKeys:
		if f.rejected == nil {
			f.rejected = map[string]*records.Rejection{}
		}
		f.rejected[strings.Clone(key)] = &records.Rejection{Reason: reason.Error(), Count: 1}
	}
	f.anyRejected.Store(len(f.rejected) > 0)
}

// rejectedSince returns a sentence, after a space, on the last records of a key if all were rejected; else "".
func (f *runFindings) rejectedSince(key string) (text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.rejected[key]; k != nil {
		text = fmt.Sprintf(" %s rejected since then: %s.", message.Count(k.Count, "record was", "records were"), k.Reason)
	}
	return text
}

// rejectedKeys returns the keys whose last records were all rejected, with the number of these records: at least five, or
// all of the run. states may be nil.
func (f *runFindings) rejectedKeys(states *statestore.Memory) (keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, k := range f.rejected {
		if k.Count >= 5 || states != nil && !states.Updated(key) {
			keys = append(keys, fmt.Sprintf("%s (%d)", key, k.Count))
		}
	}
	slices.Sort(keys)
	return keys
}
