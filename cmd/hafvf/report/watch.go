package report

import (
	"math"
	"sync"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
)

// A Watched gathers what a run finds. It holds its alerts back until the run is over: only then is
// known which incident an alarm belongs to.
type Watched struct {
	*Collector
	mu     sync.Mutex
	fleet  *incidents.Fleet // nil where alarms are not grouped
	alerts []Alert
}

// NewWatched returns what gathers a run for a collector. Alarms are grouped as grouping says, and
// not at all where it is nil.
func NewWatched(c *Collector, grouping *incidents.Config) (*Watched, error) {
	w := &Watched{Collector: c}
	if grouping == nil {
		return w, nil
	}
	fleet, err := incidents.New(*grouping)
	w.fleet = fleet
	return w, err
}

// Watch is a pipeline.Watch.
func (w *Watched) Watch(name string, e *keyed.Estimate, told []keyed.Told) {
	one := Estimate{Key: name, Time: e.Time, X: math.NaN(), Alarm: e.Alarm != nil, Score: math.NaN(), Threshold: math.NaN()}
	one.Predicted.Mean, one.Predicted.SD = first(e.Predicted.Mean), first(e.Predicted.SD)
	mean := list(e.Predicted.Mean)
	if len(e.Predicted.Mean) == 1 {
		mean = e.Predicted.Mean[0]
	}
	if v := output.Observed(observation(e), mean); len(v) > 0 {
		one.X = v[0]
	}
	one.Usual.Mean, one.Usual.SD = math.NaN(), math.NaN()
	if d := e.Detection; d != nil {
		one.Score, one.Threshold, one.Muted, one.Outlier = d.Score, d.Threshold, d.Muted, d.Kind == hafvf.Outlier
		one.Usual.Mean, one.Usual.SD = first(d.Usual.Mean), first(d.Usual.SD)
	}
	w.AddEstimate(&one)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range told {
		w.alerts = append(w.alerts, Alert{
			Key: name, Kind: t.Kind, Time: t.Of.Time, ID: t.Of.ID, Start: t.Start, Score: Number(t.Score), Threshold: Number(t.Threshold), Size: Number(t.Size),
			X: Number(one.X), Usual: momentsOf(t.Usual), Before: momentsOf(t.Before), After: momentsOf(t.After), Message: t.Message, Expected: none,
		})
	}
	if w.fleet == nil || e.Time.IsZero() {
		return
	}
	if e.Pace != nil {
		w.fleet.Register(name, e.Time, e.Pace.Step, e.Pace.Budget)
	}
	if a := e.Alarm; a != nil {
		w.fleet.Add(incidents.Alarm{ID: e.ID, Key: name, Kind: a.Kind, Time: e.Time, Score: a.Score, Size: a.Size})
	}
	if e.Silence != nil {
		for _, t := range e.Silence.Alerts(name, e) {
			if t.Kind == keyed.SilentAlarm {
				w.fleet.Add(incidents.Alarm{ID: t.Of.ID, Key: name, Kind: t.Kind, Time: t.Of.Time, Score: t.Score, Size: t.Size})
			}
		}
	}
}

// End adds the alerts to the page, with their incidents. The run is over.
func (w *Watched) End() {
	type name struct{ id, key, kind string }
	of := map[name]string{}
	if w.fleet != nil {
		step := w.fleet.Advance(w.last.Add(forever))
		into := map[string]string{}
		for _, e := range step.Events {
			if e.State == incidents.Merged {
				into[e.ID] = e.Into
			}
		}
		for _, a := range step.Assigned {
			of[name{a.ID, a.Key, a.Kind}] = a.Incident
		}
		for i := range step.Events {
			w.AddAlert(incidentOf(&step.Events[i], w.last))
		}
		for alarm, id := range of {
			for into[id] != "" {
				id = into[id]
			}
			of[alarm] = id
		}
	}
	for i := range w.alerts {
		a := &w.alerts[i]
		a.Incident = of[name{a.ID, a.Key, a.Kind}]
		w.AddAlert(a)
	}
	w.alerts = nil
}

// forever closes incidents that are open at the end of a file, as a run does.
const forever = 10 * 365 * 24 * time.Hour

// incidentOf is an event as a record tells it. What the end of the data closes is dated there.
func incidentOf(e *incidents.Event, last time.Time) *Alert {
	a := newAlert()
	a.Key, a.Kind, a.ID, a.State, a.Page, a.Time, a.Start, a.End = e.Group, incidents.Kind, e.ID, string(e.State), e.Page, e.Time, e.Start, e.End
	if a.Time.After(last) {
		a.Time = last
	}
	a.Group, a.Keys, a.Alarmed, a.Expected, a.Score, a.Threshold, a.Message = e.Group, e.Keys, e.NumMembers, Number(e.Expected), Number(e.Score), Number(e.Threshold), e.Message
	for _, m := range e.Members {
		a.Members = append(a.Members, Member{Key: m.Key, Time: m.Time, Score: Number(m.Score), Size: Number(m.Size), P: Number(m.P)})
	}
	return &a
}

// observation is x as a record has it.
func observation(e *keyed.Estimate) any {
	switch {
	case e.Missing || len(e.X) == 0:
		return nil
	case e.Shape == keyed.List:
		var all []any
		for _, v := range e.X {
			all = append(all, list(v))
		}
		return all
	case e.Shape == keyed.Vector:
		return list(e.X[0])
	}
	return first(e.X[0])
}

func list(v []float64) any {
	all := make([]any, len(v))
	for i, f := range v {
		all[i] = f
	}
	return all
}

func momentsOf(m keyed.Moments) Moments { return Moments{Number(first(m.Mean)), Number(first(m.SD))} }

func first(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return v[0]
}
