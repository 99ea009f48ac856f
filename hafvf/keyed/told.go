package keyed

// Told is an alert with the estimate that it is told of, which gives it time, id and
// values.
type Told struct {
	Of *Estimate
	*Alert
	Role Role
}

// A Role is what an alert rests on.
type Role byte

// The roles of alerts.
const (
	Decision    Role = iota // an alarm, or the end of one
	Belief                  // what AlertConfig.Beliefs asks for
	BesideAlarm             // a belief of an estimate that has an alarm of the same kind
)

// Alerts are all that an estimate of the key tells, in this order: the silence that it ends, the
// end of an alarm that has lasted, its alarm, and what AlertConfig.Beliefs asks for.
func (e *Estimate) Alerts(key string) (all []Told) {
	if s := e.Silence; s != nil {
		all = s.ended(key, e.Time, e.ID, e.N, len(e.Predicted.Mean))
	}
	if e.Recovered != nil {
		// It has the ID of the alarm.
		of := &Estimate{Time: e.Time, ID: e.Recovered.ID, N: e.N, X: e.X, Shape: e.Shape, Predicted: e.Predicted}
		all = append(all, Told{Of: of, Alert: e.Recovered.Alert})
	}
	if e.Alarm != nil {
		all = append(all, Told{Of: e, Alert: e.Alarm})
	}
	if e.Belief != nil {
		role := Belief
		if e.Alarm != nil && e.Alarm.Kind == e.Belief.Kind {
			role = BesideAlarm
		}
		all = append(all, Told{e, e.Belief, role})
	}
	return all
}
