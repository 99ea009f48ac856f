package keyed

import (
	"math"
	"slices"
	"time"
)

// A FalseMark marks an alarm of a key as false. Similar alarms are suppressed for a while, see Estimator.SetMarks.
type FalseMark struct {
	From  time.Time // end of the marked alarm, or its last report if it is open
	Size  float64   // largest Alert.Size of the alarm, in sd, with the sign of its side
	Since time.Time // start of the four budgets; zero means the key's first observation with the mark and after From
}

const (
	falseMarkBudgets   = 4   // a FalseMark acts for this number of the key's alarm budgets
	falseMarkSizeRatio = 1.5 // maximum size of a similar alarm, in sizes of the marked one
)

// SetMarks replaces the false marks, by key. It affects keys that are opened later. A new Estimator has no marks. A
// mark suppresses alarms after From, on its side and of any output, whose size is at most 1.5 times the marked size. It
// acts for four budgets of the key. A suppressed alarm costs no budget. It still opens an episode, so that its later
// observations raise no alarm either; a report that this episode is worse, beyond the mark, is the onset. A mark has no
// effect if it has no size, or if the key's observations have no times.
func (est *Estimator) SetMarks(marks map[string][]FalseMark) { est.marks = marks }

// updateMarks sets the marks of the key to those of the estimator, at an observation of time now. The state of the key
// stores From and Since.
func (t *Track) updateMarks(now time.Time) {
	same := func(a, b FalseMark) bool { return a.From.Equal(b.From) && a.Size == b.Size }
	if stored := t.marks; !slices.EqualFunc(stored, t.rules.marks, same) { // a state has no sizes
		t.marks = slices.Clone(t.rules.marks)
		for i := range t.marks {
			if j := slices.IndexFunc(stored, func(s FalseMark) bool { return s.From.Equal(t.marks[i].From) }); j >= 0 {
				t.marks[i].Since = stored[j].Since
			}
		}
	}
	for i := range t.marks {
		if m := &t.marks[i]; m.Since.IsZero() && now.After(m.From) {
			m.Since = now
		}
	}
}

// markedFalse reports whether a mark of the key suppresses an alarm of shift s at alarmTime.
func (t *Track) markedFalse(alarmTime time.Time, s shift) bool {
	budget := t.stages.decider.paceOf(&t.decisions).Budget
	return slices.ContainsFunc(t.marks, func(m FalseMark) bool {
		active := alarmTime.After(m.From) && !m.Since.IsZero() && alarmTime.Sub(m.Since)/falseMarkBudgets < budget
		return active && (s.size > 0) == (m.Size > 0) && math.Abs(s.size) <= falseMarkSizeRatio*math.Abs(m.Size)
	})
}
