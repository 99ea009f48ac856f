package keyed

import "time"

// An AlertEvent is an alert with what its record has of the observation that it is about.
type AlertEvent struct {
	Key  string
	Time time.Time
	ID   string
	N    int64 // position among the key's observations, from 1
	X    [][]float64
	Shape
	Predicted Moments
	*Alert
	Basis Basis
}

// A Basis is what an alert rests on.
type Basis byte

// The bases of alerts.
const (
	AlarmBasis     Basis = iota // an alarm, or the end of one
	BeliefBasis                 // what AlertConfig.Beliefs asks for
	DuplicateBasis              // a belief of an estimate that has an alarm of the same kind
)

// event is an alert of the estimate of a key, with another id if it is the end of an alarm.
func (e *Estimate) event(key, id string, a *Alert, basis Basis) AlertEvent {
	return AlertEvent{Key: key, Time: e.Time, ID: id, N: e.N, X: e.X, Shape: e.Shape, Predicted: e.Predicted, Alert: a, Basis: basis}
}

// Alerts are all alerts of an estimate of the key, in this order: the silence that it ends, the
// end of an alarm that has lasted, its alarm, and what AlertConfig.Beliefs asks for.
func (e *Estimate) Alerts(key string) (all []AlertEvent) {
	if s := e.Silence; s != nil {
		all = s.endedEvents(key, e.Time, e.ID, e.N, len(e.Predicted.Mean))
	}
	if e.Recovered != nil {
		all = append(all, e.event(key, e.Recovered.ID, e.Recovered.Alert, AlarmBasis))
	}
	if e.Alarm != nil {
		all = append(all, e.event(key, e.ID, e.Alarm, AlarmBasis))
	}
	if e.Belief != nil {
		basis := BeliefBasis
		if e.Alarm != nil && e.Alarm.Kind == e.Belief.Kind {
			basis = DuplicateBasis
		}
		all = append(all, e.event(key, e.ID, e.Belief, basis))
	}
	return all
}
