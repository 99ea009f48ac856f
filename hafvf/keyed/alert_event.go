package keyed

import "time"

// An AlertEvent is an alert with the fields of its observation that are in the alert's record.
type AlertEvent struct {
	Key  string
	Time time.Time
	ID   string
	N    int64 // position among the key's observations, from 1
	X    [][]float64
	Shape
	Predicted Moments
	*Alert
	Source AlertSource
}

// An AlertSource is the source of an alert.
type AlertSource byte

// The sources of alerts.
const (
	SourceAlarm     AlertSource = iota // an alarm, or the end of one
	SourceBelief                       // a belief of AlertConfig.Beliefs
	SourceDuplicate                    // a belief whose estimate also has an alarm of the same kind
	SourceOngoing                      // not an alert: the present state of a reported episode, from Estimator.Ongoing
)

// event returns the AlertEvent of an alert of the estimate. id is the ID of the estimate or, for the end of an alarm,
// the ID of the alarm.
func (e *Estimate) event(key, id string, a *Alert, source AlertSource) AlertEvent {
	return AlertEvent{Key: key, Time: e.Time, ID: id, N: e.N, X: e.X, Shape: e.Shape, Predicted: e.Predicted, Alert: a, Source: source}
}

// Alerts returns all alerts of an estimate of the key, in this order: the silence that the observation ends, the end of
// a lasting alarm, the alarm, and the belief.
func (e *Estimate) Alerts(key string) (events []AlertEvent) {
	if s := e.Silence; s != nil {
		events = s.endedEvents(key, e.Time, e.ID, e.N, len(e.Predicted.Mean))
	}
	if e.Recovered != nil {
		events = append(events, e.event(key, e.Recovered.ID, e.Recovered.Alert, SourceAlarm))
	}
	if e.Alarm != nil {
		events = append(events, e.event(key, e.ID, e.Alarm, SourceAlarm))
	}
	if e.Belief != nil {
		source := SourceBelief
		if e.Alarm != nil && e.Alarm.Kind == e.Belief.Kind {
			source = SourceDuplicate
		}
		events = append(events, e.event(key, e.ID, e.Belief, source))
	}
	return events
}
