package report

import (
	"sync"

	"hafvf/cmd/hafvf/backtest"
	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline"
)

// A Trial gathers what a run finds. It holds its alerts back until the run is over: only then is
// known which incident an alarm belongs to.
type Trial struct {
	page   *Collector
	graph  *pipeline.Graph
	tested *backtest.Collector

	mu     sync.Mutex
	alerts []Alert
	into   map[string]string // of incidents that were merged
}

// NewTrial returns what gathers a trial of the graph for a page.
func NewTrial(page *Collector, g *pipeline.Graph) *Trial {
	return &Trial{page: page, graph: g, tested: backtest.NewCollector(g), into: map[string]string{}}
}

// Observer is what sees the run.
func (t *Trial) Observer() *pipeline.Observer {
	tested := t.tested.Observer()
	return &pipeline.Observer{
		Estimate: func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
			tested.Estimate(key, e, alerts)
			t.estimate(key, e, alerts)
		},
		Assigned: tested.Assigned, Incident: t.incident,
	}
}

func (t *Trial) estimate(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
	if e != nil {
		one := estimateOf(key, e)
		t.page.AddEstimate(&one)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range alerts {
		if t.graph.Sends(a) {
			t.alerts = append(t.alerts, alertOf(key, a))
		}
	}
}

func (t *Trial) incident(e *incidents.Event) {
	t.page.AddAlert(incidentOf(e))
	if e.State == incidents.Merged {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.into[e.ID] = e.Into
	}
}

// End adds the alerts to the page, and what is known of the run of the config, which is over.
func (t *Trial) End(config string, s pipeline.Summary) (err error) {
	for i := range t.alerts {
		a := &t.alerts[i]
		a.Incident = t.tested.IncidentOf(a.Key, a.ID, a.Kind)
		for t.into[a.Incident] != "" {
			a.Incident = t.into[a.Incident]
		}
		t.page.AddAlert(a)
	}
	t.page.run, err = t.tested.Report(config, s, nil)
	return err
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
		one.Score, one.Threshold, one.Muted, one.Resting, one.Outlier = d.Score, d.Threshold, d.Muted, d.Resting, d.Kind == hafvf.Outlier
		one.Usual.Mean, one.Usual.SD = output.First(d.Usual.Mean), output.First(d.Usual.SD)
	}
	return one
}

// alertOf is an alert as a record tells it.
func alertOf(name string, t keyed.AlertEvent) Alert {
	return Alert{
		Key: name, Kind: t.Kind, Time: t.Of.Time, ID: t.Of.ID, Start: t.Start, Score: Number(t.Score), Threshold: Number(t.Threshold), Size: Number(t.Size),
		X: Number(estimateOf(name, t.Of).X), Usual: momentsOf(t.Usual), Before: momentsOf(t.Before), After: momentsOf(t.After), Message: t.Message, Expected: none,
	}
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
