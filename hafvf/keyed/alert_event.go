package keyed

// AlertEvent is an alert with the estimate that it is told of, which gives it time, id and
// values.
type AlertEvent struct {
	Of *Estimate
	*Alert
	Basis Basis
}

// A Basis is what an alert rests on.
type Basis byte

// The roles of alerts.
const (
	AlarmBasis     Basis = iota // an alarm, or the end of one
	BeliefBasis                 // what AlertConfig.Beliefs asks for
	DuplicateBasis              // a belief of an estimate that has an alarm of the same kind
)

// Alerts are all that an estimate of the key tells, in this order: the silence that it ends, the
// end of an alarm that has lasted, its alarm, and what AlertConfig.Beliefs asks for.
func (e *Estimate) Alerts(key string) (all []AlertEvent) {
	if s := e.Silence; s != nil {
		all = s.ended(key, e.Time, e.ID, e.N, len(e.Predicted.Mean))
	}
	if e.Recovered != nil {
		// It has the ID of the alarm.
		of := &Estimate{Time: e.Time, ID: e.Recovered.ID, N: e.N, X: e.X, Shape: e.Shape, Predicted: e.Predicted}
		all = append(all, AlertEvent{Of: of, Alert: e.Recovered.Alert})
	}
	if e.Alarm != nil {
		all = append(all, AlertEvent{Of: e, Alert: e.Alarm})
	}
	if e.Belief != nil {
		role := BeliefBasis
		if e.Alarm != nil && e.Alarm.Kind == e.Belief.Kind {
			role = DuplicateBasis
		}
		all = append(all, AlertEvent{e, e.Belief, role})
	}
	return all
}
