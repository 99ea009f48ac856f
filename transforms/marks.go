package transforms

import (
	"sync/atomic"

	"hafvf/hafvf/keyed"
)

// FalseMarks are those by which Filter works, by key, if the run in its process carries them, see account.WithValue. They
// change while nothing is in flight: the next bundle has the new ones.
type FalseMarks = atomic.Pointer[map[string][]keyed.FalseMark]

// setMarks has the node work by the marks of the run.
func (fn *encodeFn) setMarks(all *map[string][]keyed.FalseMark) {
	for _, w := range fn.workers {
		w.SetMarks(*all)
	}
}
