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
func (fn *encodeFn) setQuiet(all *[]keyed.QuietTime) {
	if all == fn.quietNow {
		return
	}
	fn.quietNow = all
	for _, w := range fn.workers {
		w.SetQuiet(*all)
	}
	for _, c := range fn.own {
		c.agenda = agenda{}
	}
}
