package report

import (
	"math"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
)

// A Trial is the figures of a finished run of a config, in addition to its alerts and estimates.
type Trial struct {
	Config   string
	Value    string // name and unit of the value; empty if there are several values
	Keys     int
	Allowed  float64 // alarms that the budgets allow
	Raised   int     // alarms that were raised
	Rejected int64   // rejected records
	Stopped  bool    // stopped before the end of the input
}

// SetTrial adds the figures of a trial. The estimates of a trial contain muted and resting alarms.
func (c *Collector) SetTrial(t Trial) { c.trial = &t }

// AddObserved adds an estimate of a run.
func (c *Collector) AddObserved(key string, e *keyed.Estimate) {
	estimate := estimateOf(key, e)
	c.AddEstimate(&estimate)
}

// AddIncident adds an event of an incident of a run.
func (c *Collector) AddIncident(e *incidents.Event) { c.AddAlert(incidentOf(e)) }

// estimateOf returns the estimate as a record would contain it.
func estimateOf(name string, e *keyed.Estimate) Estimate {
	x := e.X
	if e.Missing {
		x = nil
	}
	estimate := newEstimate(name, e.Time, x, output.Moments{Mean: e.Predicted.Mean, SD: e.Predicted.SD})
	estimate.Alarm = e.Alarm != nil
	if d := e.Detection; d != nil {
		estimate.Score, estimate.Threshold, estimate.Muted, estimate.Resting, estimate.Outlier = d.Score, d.Threshold, d.Muted, d.Resting, d.Kind == hafvf.Outlier
		estimate.Usual.Mean, estimate.Usual.SD = output.First(d.Usual.Mean), output.First(d.Usual.SD)
	}
	return estimate
}

// AlertOf returns the alert as a record would contain it.
func AlertOf(name string, event keyed.AlertEvent) output.Alert {
	a := output.Alert{
		Key: name, Kind: event.Kind, Time: event.Time, ID: event.ID, Start: event.Start, Score: output.Scalar(event.Score), Threshold: output.Scalar(event.Threshold), Size: output.Scalar(event.Size),
		X: output.Vectors{{newEstimate(name, event.Time, event.X, output.Moments{Mean: event.Predicted.Mean, SD: event.Predicted.SD}).X}}, Usual: momentsOf(event.Usual), Before: momentsOf(event.Before), After: momentsOf(event.After), Message: event.Message, Expected: output.Scalar(math.NaN()),
	}
	if ep := event.Episode; ep != nil {
		a.Episode = output.Episode{ID: ep.ID, State: string(ep.State)}
	}
	return a
}

// incidentOf returns the event as a record would contain it.
func incidentOf(e *incidents.Event) *output.Alert {
	a := output.NewAlert()
	a.Key, a.Kind, a.ID, a.State, a.Page, a.Time, a.Start, a.End = e.Group, incidents.Kind, e.ID, string(e.State), e.Page, e.Time, e.Start, e.End
	a.Group, a.Keys, a.Alarmed, a.Message, a.Labels = e.Group, e.Keys, e.NumMembers, e.Message, e.Labels
	a.Expected, a.Score, a.Threshold = output.Scalar(e.Expected), output.Scalar(e.Score), output.Scalar(e.Threshold)
	for _, m := range e.Members {
		a.Members = append(a.Members, output.Member{Key: m.Key, Time: m.Time, Score: output.Scalar(m.Score), Size: output.Scalar(m.Size), P: output.Scalar(m.P)})
	}
	return a
}

// momentsOf returns the moments of the first coordinate.
func momentsOf(m keyed.Moments) output.Moments {
	return output.Moments{Mean: output.Values{output.First(m.Mean)}, SD: output.Values{output.First(m.SD)}}
}
