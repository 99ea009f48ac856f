package keyed

import (
	"math"
	"time"
)

// A FalseMark says of an alarm of a key that it was false: what is like it is not told for a while, see
// Estimator.SetMarks.
type FalseMark struct {
	From   time.Time
	Size   float64 // the largest of the alarm, with the sign of its side, standard deviations as Alert.Size
	Output int     // of the alarm, as Alert.Output
}

const (
	falseMarkBudgets   = 4   // for which a FalseMark acts
	falseMarkSizeRatio = 1.5 // up to which an alarm is like the one that is marked
)

// SetMarks replaces the false marks, by key, for keys that are opened from now on. None is there at first. For four
// budgets of the key no alarm of the output and side of a mark is told whose size is at most 1.5 times that of the mark. It
// costs no budget. It rests and lasts as others do, so that what belongs to it is not told either. Of a key whose
// observations have no times no mark acts, and none that has no size.
func (est *Estimator) SetMarks(marks map[string][]FalseMark) { est.marks = marks }

// markedFalse reports whether the key has a mark of what an alarm at a time of such a shift is like.
func (t *Track) markedFalse(alarmTime time.Time, s shift) bool {
	for _, m := range t.rules.marks {
		active := alarmTime.After(m.From) && alarmTime.Sub(m.From)/falseMarkBudgets < t.stages.decider.paceOf(&t.decisions).Budget
		if active && s.output == m.Output && (s.size > 0) == (m.Size > 0) && math.Abs(s.size) <= falseMarkSizeRatio*math.Abs(m.Size) {
			return true
		}
	}
	return false
}
