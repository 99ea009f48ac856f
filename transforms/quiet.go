package transforms

import (
	"sync/atomic"

	"hafvf/hafvf/keyed"
)

// QuietTimes replace keyed.Config.Quiet in Filter, if the run in its process carries them, see account.WithValue.
// They change while nothing is in flight: the next bundle uses the new ones.
type QuietTimes = atomic.Pointer[[]keyed.QuietTime]

// FalseMarks are the false marks that Filter uses, by key, if the run in its process carries them.
type FalseMarks = atomic.Pointer[map[string][]keyed.FalseMark]

// setQuiet passes changed quiet times to the workers, and drops the agendas, which depend on them.
func (fn *encodeFn) setQuiet(times *[]keyed.QuietTime) {
	if times == fn.appliedQuiet {
		return
	}
	fn.appliedQuiet = times
	for _, w := range fn.workers {
		w.SetQuiet(*times)
	}
	for _, c := range fn.memoryCells {
		c.agenda = agenda{}
	}
}
