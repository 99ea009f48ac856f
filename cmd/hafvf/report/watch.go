package report

import (
	"sync"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline"
)

// A Watched gathers what a run finds. It holds its alerts back until the run is over: only then is
// known which incident an alarm belongs to.
type Watched struct {
	*Collector
	tells func(keyed.Told) bool // whether a receiver gets an alert

	mu       sync.Mutex
	alerts   []Alert
	assigned map[alertName]string // id of the incident
	into     map[string]string    // of incidents that were merged
}

// NewWatched returns what gathers a run of the graph for a collector.
func NewWatched(c *Collector, g *pipeline.Graph) *Watched {
	return &Watched{Collector: c, tells: g.Tells, assigned: map[alertName]string{}, into: map[string]string{}}
}

// Estimate is that of a pipeline.Observer.
func (w *Watched) Estimate(name string, e *keyed.Estimate, alerts []keyed.Told) {
	if e != nil {
		one := estimateOf(name, e)
		w.AddEstimate(&one)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range alerts {
		if w.tells(t) {
			w.alerts = append(w.alerts, alertOf(name, t))
		}
	}
}

// Assigned is that of a pipeline.Observer.
func (w *Watched) Assigned(a incidents.Assignment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.assigned[alertName{a.Key, a.ID, a.Kind}] = a.Incident
}

// Incident is that of a pipeline.Observer.
func (w *Watched) Incident(e *incidents.Event) {
	w.AddAlert(incidentOf(e))
	if e.State == incidents.Merged {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.into[e.ID] = e.Into
	}
}

// estimateOf is an estimate of a run as a record tells it.
func estimateOf(name string, e *keyed.Estimate) Estimate {
	x := e.X
	if e.Missing {
		x = nil
	}
	one := newEstimate(name, e.Time, x, output.Moments{Mean: e.Predicted.Mean, SD: e.Predicted.SD})
	one.Alarm = e.Alarm != nil
	if d := e.Detection; d != nil {
		one.Score, one.Threshold, one.Muted, one.Outlier = d.Score, d.Threshold, d.Muted, d.Kind == hafvf.Outlier
		one.Usual.Mean, one.Usual.SD = output.First(d.Usual.Mean), output.First(d.Usual.SD)
	}
	return one
}

// alertOf is an alert as a record tells it.
func alertOf(name string, t keyed.Told) Alert {
	return Alert{
		Key: name, Kind: t.Kind, Time: t.Of.Time, ID: t.Of.ID, Start: t.Start, Score: Number(t.Score), Threshold: Number(t.Threshold), Size: Number(t.Size),
		X: Number(estimateOf(name, t.Of).X), Usual: momentsOf(t.Usual), Before: momentsOf(t.Before), After: momentsOf(t.After), Message: t.Message, Expected: none,
	}
}

// End adds the alerts to the page. The run is over.
func (w *Watched) End() {
	for i := range w.alerts {
		a := &w.alerts[i]
		a.Incident = w.assigned[alertName{a.Key, a.ID, a.Kind}]
		for w.into[a.Incident] != "" {
			a.Incident = w.into[a.Incident]
		}
		w.AddAlert(a)
	}
	w.alerts = nil
}

// incidentOf is an event as a record tells it.
func incidentOf(e *incidents.Event) *Alert {
	a := newAlert()
	a.Key, a.Kind, a.ID, a.State, a.Page, a.Time, a.Start, a.End = e.Group, incidents.Kind, e.ID, string(e.State), e.Page, e.Time, e.Start, e.End
	a.Group, a.Keys, a.Alarmed, a.Expected, a.Score, a.Threshold, a.Message = e.Group, e.Keys, e.NumMembers, Number(e.Expected), Number(e.Score), Number(e.Threshold), e.Message
	for _, m := range e.Members {
		a.Members = append(a.Members, Member{Key: m.Key, Time: m.Time, Score: Number(m.Score), Size: Number(m.Size), P: Number(m.P)})
	}
	return &a
}

func momentsOf(m keyed.Moments) Moments {
	return Moments{Number(output.First(m.Mean)), Number(output.First(m.SD))}
}
