package keyed

import (
	"math"
	"time"
)

// A FalseMark marks an alarm of a key as false. Similar alarms are suppressed for a while, see Estimator.SetMarks.
type FalseMark struct {
	From   time.Time // time of the marked alarm
	Size   float64   // largest Alert.Size while the alarm lasted, in sd, with the sign of its side
	Output int       // Alert.Output of the alarm
}

const (
	falseMarkBudgets   = 4   // a FalseMark acts for this number of the key's alarm budgets
	falseMarkSizeRatio = 1.5 // maximum size of a similar alarm, in sizes of the marked one
)

// SetMarks replaces the false marks, by key. It affects keys that are opened later. A new Estimator has no marks.
// For four budgets of the key after From, a mark suppresses alarms of its output and side whose size is at most 1.5
// times the marked size. A suppressed alarm costs no budget. It still opens an episode, so that its later observations
// raise no alarm either; a report that this episode is worse, beyond the mark, is the onset. A mark has no effect if it has no size, or if the key's observations have no
// times.
func (est *Estimator) SetMarks(marks map[string][]FalseMark) { est.marks = marks }

// markedFalse reports whether a mark of the key suppresses an alarm of shift s at alarmTime.
func (t *Track) markedFalse(alarmTime time.Time, s shift) bool {
	for _, m := range t.rules.marks {
		active := alarmTime.After(m.From) && alarmTime.Sub(m.From)/falseMarkBudgets < t.stages.decider.paceOf(&t.decisions).Budget
		if active && s.output == m.Output && (s.size > 0) == (m.Size > 0) && math.Abs(s.size) <= falseMarkSizeRatio*math.Abs(m.Size) {
			return true
		}
	}
	return false
}
