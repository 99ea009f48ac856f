package report

import (
	"hafvf/cmd/hafvf/backtest"
	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
)

// AddReport adds the alerts of a backtest and its figures. Its events must have their alerts, and its estimates contain
// muted and resting alarms. value is the name and unit of the value; empty if there are several values.
func (c *Collector) AddReport(r *backtest.Report, value string) {
	for _, e := range r.Events() {
		c.AddAlert(e.Alert)
	}
	c.trial, c.value = r, value
}

// AddObserved adds an estimate of a run. It ignores a nil estimate.
func (c *Collector) AddObserved(key string, e *keyed.Estimate) {
	if e == nil {
		return
	}
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
