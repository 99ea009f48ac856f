// Package backtest reports what a config would have found in past data: its alarms, what
// they cost of the budget, and how they compare with labels and with another config.
package backtest

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/cmd/hafvf/report"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/clock"
	"hafvf/pipeline"
)

// An Event is an alert that the run would have told.
type Event struct {
	Key     string    `json:"key"`
	Time    time.Time `json:"time,omitzero"`
	N       int64     `json:"n"` // position within the key, from 1
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Start   time.Time `json:"start,omitzero"`
	Delay   int64     `json:"delay"` // observations since the start
	Size    Number    `json:"size"`  // standard deviations, signed
	Message string    `json:"message"`

	alert *output.Alert // for a page; nil without
}

// A Collector gathers what a run finds. Its zero value is not usable: see NewCollector.
type Collector struct {
	graph *pipeline.Graph
	page  *report.Collector // nil without

	mu       sync.Mutex
	keys     map[string]*Key
	assigned map[[3]string]string // the incident of each alarm, by its key, id and kind
	merged   map[string]string    // the incident that another one became a part of
	messages int                  // of incidents
	pages    int                  // of these, those that are pages
	alarms   int
	silent   map[int64]bool // minutes of Unix in which keys fell silent or recovered
	singles  []single
	// singlePages is how many alarms in no incident were pages.
	singlePages int
}

// NewCollector returns a collector for a run of a graph that raises alarms. It gathers also what the page
// shows, which may be nil.
func NewCollector(g *pipeline.Graph, page *report.Collector) *Collector {
	return &Collector{graph: g, page: page, keys: map[string]*Key{}, assigned: map[[3]string]string{}, merged: map[string]string{}, silent: map[int64]bool{}}
}

// Observer is what sees the run.
func (c *Collector) Observer() *pipeline.Observer {
	return &pipeline.Observer{Estimate: c.estimate, Single: c.single, Assigned: c.assign, Incident: c.incident}
}

func (c *Collector) single(string, keyed.AlertEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.singlePages++
}

func (c *Collector) assign(a incidents.Assignment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assigned[[3]string{a.Key, a.ID, a.Kind}] = a.Incident
}

func (c *Collector) incident(e *incidents.Event) {
	if c.page != nil {
		c.page.AddIncident(e)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages++
	if e.Page {
		c.pages++
	}
	if e.State == incidents.Merged {
		c.merged[e.ID] = e.Into
	}
}

// finishPage adds the alerts to the page. Only when the run is over it is known which incident an alarm
// belongs to.
func (c *Collector) finishPage(r *Report) {
	for i := range r.events {
		a := r.events[i].alert
		a.Incident = c.incidentOf(a.Key, a.ID, a.Kind)
		c.page.AddAlert(a)
	}
	c.page.SetTrial(report.Trial{Config: filepath.Base(r.Config), Value: c.graph.Value, Keys: r.Keys, Allowed: r.Budget.Allowed, Raised: r.Budget.Spent, Rejected: r.Rejected, Stopped: r.Stopped})
}

// incidentOf is the incident that an alarm belongs to, at the end.
func (c *Collector) incidentOf(key, id, kind string) string {
	of := c.assigned[[3]string{key, id, kind}]
	for c.merged[of] != "" {
		of = c.merged[of]
	}
	return of
}

func (c *Collector) estimate(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
	if c.page != nil && e != nil {
		c.page.AddObserved(key, e)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[key]
	if k == nil {
		nan := Number(math.NaN())
		k = &Key{Key: key, Alerts: Counts{}, PerWeek: nan, ObservationsPerAlarm: nan}
		c.keys[key] = k
	}
	for _, a := range alerts {
		c.add(key, a)
		if e == nil && a.Kind == string(usual.NoveltyAlarm) { // of a value that is rejected
			k.Budget.Spent++
		}
		if !c.graph.Sends(a) {
			continue
		}
		k.Alerts[a.Kind]++
		one := Event{
			Key: key, Time: a.Time, N: a.N, ID: a.ID, Kind: a.Kind, Start: a.Start, Delay: a.Delay,
			Size: Number(a.Size), Message: a.Message,
		}
		if c.page != nil {
			alert := report.AlertOf(key, a)
			one.alert = &alert
		}
		k.events = append(k.events, one)
	}
	if e == nil {
		return
	}
	k.Records++
	if d := e.Detection; d != nil && len(d.Usual.Mean) > 0 {
		k.hours.Add(c.graph.Clock, e.Time, d.Usual.Mean[0], d.Usual.SD[0])
	}
	k.first, k.last = clock.Earlier(k.first, e.Time), clock.Later(k.last, e.Time)
	switch scored := !math.IsNaN(e.Detection.Score); {
	case e.Missing:
	case scored:
		if k.scored++; k.scored == 1 {
			alarms, _ := c.graph.Alarms()
			k.ObservationsPerAlarm = Number(alarms.BudgetOf(medianStep(k.warmUp)))
			k.warmUp = nil
		}
	case k.scored == 0:
		k.warmUp = append(k.warmUp, e.Time)
	}
	if e.Alarm != nil {
		k.Budget.Spent++
	}
	one := Suppressed{Count: 1, Key: key, Score: Number(e.Detection.Score), Time: e.Time, N: e.N}
	switch {
	case e.Detection.Muted:
		k.Muted.add(one)
	case e.Detection.Resting:
		k.Resting.add(one)
	}
}

// medianStep is that of a warm-up, 0 if one of its observations has no time.
func medianStep(times []time.Time) time.Duration {
	if slices.ContainsFunc(times, time.Time.IsZero) {
		return 0
	}
	return usual.MedianStep(times)
}

// bySize orders events from the largest; those of an unknown size come last.
func bySize(a, b Event) int {
	return cmp.Or(cmp.Compare(magnitude(b.Size), magnitude(a.Size)), byTime(a, b))
}

func byTime(a, b Event) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Key, b.Key), cmp.Compare(a.N, b.N), cmp.Compare(a.Kind, b.Kind))
}
