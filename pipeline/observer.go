package pipeline

import (
	"slices"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

// An Observer sees the results of a run in progress, whatever the receivers of alerts get. Its functions are called by
// several goroutines, and the run waits until they return. They must not keep their arguments. A nil function is not
// called. Workers of a cluster have no observer.
type Observer struct {
	// Estimate is called with every estimate and its alerts, in the order of each key's observations. e is nil for
	// alerts without a record, such as a silence.
	Estimate func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent)
	// Ongoing is called after Estimate with the present state of an episode, see keyed.Estimator.Ongoing.
	Ongoing func(key string, t keyed.AlertEvent)
	// Smoothed is called with every record of transform: smooth. A run with this transform calls no other function.
	Smoothed func(key string, s *keyed.Smoothed)
	// Alert is called only for graphs with incidents. It repeats an alert when its incident is known; incident is ""
	// for none. The alert can come from the previous run.
	Alert func(key string, t keyed.AlertEvent, incident string)
	// Single is called with an alarm outside incidents that is a page.
	Single func(key string, t keyed.AlertEvent)
	// Assigned is called when an alarm joins an incident, or moves to another one.
	Assigned func(incidents.Assignment)
	// Incident is called with every event of an incident, and at the start with the incidents that the previous run
	// left open.
	Incident func(*incidents.Event)
	// Marked is called with each mark of an alarm when it takes effect, and at the start with the marks of the previous
	// run. The mark has the key and the ID of the alarm.
	Marked func(records.Mark)
}

// observer returns the observer of the run, with functions that do nothing in place of nil ones, except Ongoing.
func (r *run) observer() (o Observer) {
	if r.observed != nil {
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

// Alarms returns the settings of the graph's alarms; ok is false if the graph raises none.
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

// TakesMarks reports whether runs of the graph read users' marks of alarms.
func (g *Graph) TakesMarks() bool { return g.marks != nil }

// Groups reports whether the graph groups alarms into incidents.
func (g *Graph) Groups() bool { return g.groups }

// Sends reports whether a receiver gets alerts of this kind. Without receivers it reports whether t is an alarm.
func (g *Graph) Sends(t keyed.AlertEvent) bool {
	f, _ := g.transform.(filtering)
	var combined receiver
	if len(f.receivers) == 0 {
		combined.Kinds = config.AlarmKinds()
	}
	for _, r := range f.receivers {
		combined.Kinds = slices.Concat(combined.Kinds, r.Kinds, r.SmallFleetKinds)
		combined.SendResolved = combined.SendResolved || r.SendResolved
		combined.Beliefs = append(combined.Beliefs, r.Beliefs...)
	}
	return combined.takes("", t, config.FewKeys)
}

// Trial returns the graph for a trial: without outputs, stored states and marks, and with an input that ends. Smoothed
// records have their Origin.
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
			atEnd.AtEnd, atEnd.Ends, atEnd.OmitToday = true, false, false
			t.incidents = &atEnd
		}
		clone.transform = t
	case smoothing:
		t.cfg.Origins = true
		clone.transform = t
	}
	return clone
}
