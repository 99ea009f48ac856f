package pipeline

import (
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
)

// A Live hears of a run of transform: filter while it goes on, whatever the receivers of alerts
// take. Several goroutines call its functions, which may keep none of what they are given and hold
// up the run until they return. Workers of a cluster have none, nor has a run with a Watch.
type Live struct {
	// Alert hears of each alarm, and of each end of a silence, when it is raised. Of a graph with
	// incidents it hears of an alarm again when it is known which incident that belongs to, if any.
	// It does not hear when a key is back to usual.
	Alert func(key string, t keyed.Told, incident string)
	// Incident hears what becomes of an incident.
	Incident func(*incidents.Event)
	// Estimate sees every estimate, after its alerts.
	Estimate func(key string, e *keyed.Estimate)
}

// live is that of the run; nil if there is none, or no run in this process.
func (r *run) live() *Live {
	if r == nil {
		return nil
	}
	return r.listener
}

func (l *Live) estimate(key string, e *keyed.Estimate) {
	if l == nil {
		return
	}
	for _, t := range e.Alerts(key) {
		l.grouped(key, t, "")
	}
	l.Estimate(key, e)
}

func (l *Live) silent(key string, s *keyed.Silent) {
	if l == nil {
		return
	}
	for _, t := range s.Alerts(key) {
		l.grouped(key, t, "")
	}
}

// grouped hears of an alert again, or for the first time where the run before has held it.
func (l *Live) grouped(key string, t keyed.Told, incident string) {
	if l != nil && t.Role == keyed.Decision && !t.BackToUsual() {
		l.Alert(key, t, incident)
	}
}

func (l *Live) incident(e *incidents.Event) {
	if l != nil {
		l.Incident(e)
	}
}
