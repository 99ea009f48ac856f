package pipeline

import (
	"slices"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

// An Observer sees what a run finds while it goes on, whatever the receivers of alerts take. Several
// goroutines call its functions, which may keep none of what they are given and hold up the run until
// they return. One that is nil is not called. Workers of a cluster have no observer.
type Observer struct {
	// Estimate sees every estimate, in the order of its key, with its alerts. Of a key that is silent
	// it sees the alerts alone, and e is nil.
	Estimate func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent)
	// Smoothed sees every record of transform: smooth, which finds nothing else.
	Smoothed func(key string, s *keyed.Smoothed)
	// Alert is called with an alert of a graph with incidents once more, when it is known which incident it
	// belongs to, if any. It may be one of the run before.
	Alert func(key string, t keyed.AlertEvent, incident string)
	// Single is called with an alarm in no incident that is a page.
	Single func(key string, t keyed.AlertEvent)
	// Assigned is told to which incident an alarm belongs, also when that is another one than before.
	Assigned func(incidents.Assignment)
	// Incident is called with what becomes of an incident, and at the start of those that the run before has left
	// open.
	Incident func(*incidents.Event)
	// Marked is called with a mark of an alarm when it is in force, and at the start with those of the run before. It has
	// the key and the id of the alarm.
	Marked func(records.Mark)
}

// observer is that of the run. It sees nothing if there is none, or no run in this process.
func (r *run) observer() (o Observer) {
	if r != nil && r.observed != nil {
		o = *r.observed
	}
	if o.Estimate == nil {
		o.Estimate = func(string, *keyed.Estimate, []keyed.AlertEvent) {}
	}
	if o.Smoothed == nil {
		o.Smoothed = func(string, *keyed.Smoothed) {}
	}
	if o.Alert == nil {
		o.Alert = func(string, keyed.AlertEvent, string) {}
	}
	if o.Single == nil {
		o.Single = func(string, keyed.AlertEvent) {}
	}
	if o.Assigned == nil {
		o.Assigned = func(incidents.Assignment) {}
	}
	if o.Marked == nil {
		o.Marked = func(records.Mark) {}
	}
	if o.Incident == nil {
		o.Incident = func(*incidents.Event) {}
	}
	return o
}

// Alarms returns the settings by which the graph raises alarms; ok is false if it
// raises none.
func (g *Graph) Alarms() (c keyed.AlarmConfig, ok bool) {
	f, ok := g.transform.(filtering)
	if !ok || !g.detects {
		return c, false
	}
	return *f.cfg.Alarms, true
}

// Filter returns the settings of the filter; ok is false if the graph smooths.
func (g *Graph) Filter() (c keyed.Config, ok bool) {
	f, ok := g.transform.(filtering)
	return f.cfg, ok
}

// TakesMarks reports whether runs of the graph are told what users say of alarms.
func (g *Graph) TakesMarks() bool { return g.marks != nil }

// Groups reports whether the graph makes incidents of alarms.
func (g *Graph) Groups() bool { return g.groups }

// Sends reports whether an alert is of a kind that goes to a receiver, or if there is none whether it
// is an alarm.
func (g *Graph) Sends(t keyed.AlertEvent) bool {
	f, _ := g.transform.(filtering)
	var combined receiver
	if len(f.receivers) == 0 {
		combined.Kinds = config.AlarmKinds()
	}
	for _, r := range f.receivers {
		combined.Kinds = slices.Concat(combined.Kinds, r.Kinds, r.Few)
		combined.Ends = combined.Ends || r.Ends
		combined.Beliefs = append(combined.Beliefs, r.Beliefs...)
	}
	return combined.takes("", t, config.FewKeys)
}

// Trial returns the graph without its outputs and its file of states: its filters begin anew, its
// input ends, and what it smooths has the Origin.
func (g *Graph) Trial() *Graph {
	clone := g.boundedToNow().withoutOutputs()
	clone.states, clone.marks = "", nil
	if f, ok := clone.source.(fileSource); ok {
		f.piped = false
		clone.source = f
	}
	switch t := clone.transform.(type) {
	case filtering:
		t.host.Live, t.host.AtEnd = false, t.cfg.Aggregate != nil || t.cfg.Silence != nil
		if t.incidents != nil {
			atEnd := *t.incidents
			atEnd.AtEnd, atEnd.Ends = true, false
			t.incidents = &atEnd
		}
		clone.transform = t
	case smoothing:
		t.cfg.Origins = true
		clone.transform = t
	}
	return clone
}
