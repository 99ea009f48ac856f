// Package backtest reports the alarms that a config would have raised on past data, how they use the budget, and how
// they compare with labels, with marks and with another config.
package backtest

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/clock"
)

// An Event is an alert that the run would have sent.
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

	// Alert is the alert as a record would contain it, with the incident at the end of the run; nil without Run.Alerts.
	Alert *output.Alert `json:"-"`
}

// A Collector gathers the estimates, alerts and incidents of a run. Create it with NewCollector; its zero value is
// not usable.
type Collector struct {
	run Run

	mu       sync.Mutex
	keys     map[string]*Key
	assigned map[[3]string]string // incident ID by key, ID and kind of the alarm; empty for an alarm in no incident
	merged   map[string]string    // ID of the incident that absorbed an incident, by the ID of the absorbed one
	messages int                  // events of incidents
	pages    int                  // events of incidents that are pages
	alarms   int
	silent   map[int64]bool // Unix minutes in which keys fell silent or recovered
	singles  []single
	// singlePages is the number of alarms outside incidents that were pages.
	singlePages int
}

// A Run describes a run that raises alarms.
type Run struct {
	Clock  *time.Location // zone of the report
	Alarms keyed.AlarmConfig
	Sends  func(keyed.AlertEvent) bool // reports whether a receiver gets an alert
	Groups bool                        // alarms are grouped into incidents
	Fleet  int                         // number of keys from which on incidents replace alarms in messages
	Alerts bool                        // events have their alerts
}

// A Summary has the counts of a run after its end.
type Summary struct {
	Records, Missing, Rejected int64
	Elapsed                    time.Duration
	Stopped                    bool // before the end of the input
	Incidents                  []incidents.Event
}

// NewCollector returns a Collector for a run.
func NewCollector(r Run) *Collector {
	return &Collector{run: r, keys: map[string]*Key{}, assigned: map[[3]string]string{}, merged: map[string]string{}, silent: map[int64]bool{}}
}

// AddSingle counts an alarm outside incidents that is a page.
func (c *Collector) AddSingle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.singlePages++
}

// Assign stores the incident of an alarm.
func (c *Collector) Assign(a incidents.Assignment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assigned[[3]string{a.Key, a.ID, a.Kind}] = a.Incident
}

// AddIncident adds an event of an incident.
func (c *Collector) AddIncident(e *incidents.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages++
	if e.Page {
		c.pages++
	}
	if e.State == incidents.Merged {
		c.merged[e.ID] = e.MergedInto
	}
}

// incidentOf returns the ID of the incident that contains an alarm at the end of the run, after all merges.
func (c *Collector) incidentOf(key, id, kind string) string {
	incident := c.assigned[[3]string{key, id, kind}]
	for c.merged[incident] != "" {
		incident = c.merged[incident]
	}
	return incident
}

// Add adds an estimate and its alerts. e is nil for alerts without a record.
func (c *Collector) Add(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[key]
	if k == nil {
		nan := Number(math.NaN())
		k = &Key{Key: key, Alerts: Counts{}, PerWeek: nan, ObservationsPerAlarm: nan}
		c.keys[key] = k
	}
	for _, a := range alerts {
		c.count(key, a)
		if a.IsWorse() { // it is free, and part of an alarm that is counted
			continue
		}
		if e == nil && a.Kind == string(usual.NoveltyAlarm) { // for a rejected value
			k.Budget.Spent++
		}
		if !c.run.Sends(a) {
			continue
		}
		k.Alerts[a.Kind]++
		event := Event{
			Key: key, Time: a.Time, N: a.N, ID: a.ID, Kind: a.Kind, Start: a.Start, Delay: a.Delay,
			Size: Number(a.Size), Message: a.Message,
		}
		if c.run.Alerts {
			event.Alert = new(output.AlertOf(key, a))
		}
		k.events = append(k.events, event)
	}
	if e == nil {
		return
	}
	k.Records++
	if d := e.Detection; d != nil && len(d.Usual.Mean) > 0 {
		k.hours.Add(c.run.Clock, e.Time, d.Usual.Mean[0], d.Usual.SD[0])
	}
	k.first, k.last = clock.Earlier(k.first, e.Time), clock.Later(k.last, e.Time)
	switch scored := !math.IsNaN(e.Detection.Score); {
	case e.Missing:
	case scored:
		if k.scored++; k.scored == 1 {
			k.ObservationsPerAlarm = Number(c.run.Alarms.BudgetOf(medianStep(k.warmUp)))
			k.warmUp = nil
		}
	case k.scored == 0:
		k.warmUp = append(k.warmUp, e.Time)
	}
	if e.Alarm != nil && !e.Alarm.IsWorse() {
		k.Budget.Spent++
	}
	suppressed := Suppressed{Count: 1, Key: key, Score: Number(e.Detection.Score), Time: e.Time, N: e.N}
	switch {
	case e.Detection.Muted:
		k.Muted.add(suppressed)
	case e.Detection.Resting:
		k.Resting.add(suppressed)
	}
}

// medianStep returns the median time between the observations of a warm-up, or 0 if an observation has no time.
func medianStep(times []time.Time) time.Duration {
	if slices.ContainsFunc(times, time.Time.IsZero) {
		return 0
	}
	return usual.MedianStep(times)
}

// bySize orders events by decreasing size. Events of unknown size come last.
func bySize(a, b Event) int {
	return cmp.Or(cmp.Compare(magnitude(b.Size), magnitude(a.Size)), byTime(a, b))
}

func byTime(a, b Event) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Key, b.Key), cmp.Compare(a.N, b.N), cmp.Compare(a.Kind, b.Kind))
}
