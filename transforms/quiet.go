package transforms

import (
	"sync/atomic"

	"hafvf/hafvf/keyed"
)

// QuietTimes are those by which Filter works in place of keyed.Config.Quiet, if the run in its process carries them, see
// account.WithValue. They change while nothing is in flight: the next bundle has the new ones.
type QuietTimes = atomic.Pointer[[]keyed.QuietTime]

// FalseMarks are those by which Filter works, by key, likewise.
type FalseMarks = atomic.Pointer[map[string][]keyed.FalseMark]

// setQuiet has the node work by other quiet times, if they are others. When a key has to be looked at is computed anew.
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
