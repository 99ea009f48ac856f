package report

import (
	"math"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
)

// A Trial is what a page tells of a run of a config that is over, beside its alerts and estimates.
type Trial struct {
	Config   string
	Value    string // its name and unit; empty if there are several
	Keys     int
	Allowed  float64 // alarms, by the budgets
	Raised   int     // of these
	Rejected int64   // records
	Stopped  bool    // before the end of the input
}

// SetTrial says that the page is of a trial, whose estimates tell what was muted and what was resting.
func (c *Collector) SetTrial(t Trial) { c.trial = &t }

// AddObserved takes the next estimate of a run.
func (c *Collector) AddObserved(key string, e *keyed.Estimate) {
	one := estimateOf(key, e)
	c.AddEstimate(&one)
}

// AddIncident takes what becomes of an incident of a run.
func (c *Collector) AddIncident(e *incidents.Event) { c.AddAlert(incidentOf(e)) }

// estimateOf is an estimate of a run as a record tells it.
func estimateOf(name string, e *keyed.Estimate) Estimate {
	x := e.X
	if e.Missing {
		x = nil
	}
	one := newEstimate(name, e.Time, x, output.Moments{Mean: e.Predicted.Mean, SD: e.Predicted.SD})
	one.Alarm = e.Alarm != nil
	if d := e.Detection; d != nil {
		one.Score, one.Threshold, one.Muted, one.Resting, one.Outlier = d.Score, d.Threshold, d.Muted, d.Resting, d.Kind == hafvf.Outlier
		one.Usual.Mean, one.Usual.SD = output.First(d.Usual.Mean), output.First(d.Usual.SD)
	}
	return one
}

// AlertOf is an alert as a record tells it.
func AlertOf(name string, t keyed.AlertEvent) output.Alert {
	return output.Alert{
		Key: name, Kind: t.Kind, Time: t.Time, ID: t.ID, Start: t.Start, Score: output.Scalar(t.Score), Threshold: output.Scalar(t.Threshold), Size: output.Scalar(t.Size),
		X: output.Vectors{{newEstimate(name, t.Time, t.X, output.Moments{Mean: t.Predicted.Mean, SD: t.Predicted.SD}).X}}, Usual: momentsOf(t.Usual), Before: momentsOf(t.Before), After: momentsOf(t.After), Message: t.Message, Expected: output.Scalar(math.NaN()),
	}
}

// incidentOf is an event as a record tells it.
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

// momentsOf are those of the first coordinate.
func momentsOf(m keyed.Moments) output.Moments {
	return output.Moments{Mean: output.Values{output.First(m.Mean)}, SD: output.Values{output.First(m.SD)}}
}
