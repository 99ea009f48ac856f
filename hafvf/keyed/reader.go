package keyed

import (
	"time"

	"hafvf/internal/compact"
)

// A decoder reads what states and records consist of.
type decoder struct {
	compact.Codec
	clock  time.Time // of the entity, which other times are near to
	former bool      // the state has the format before
	joins  bool      // the state is of the former bank
	width  spread    // of the entity, if it has one
	// Of an entity with intervals, as buffer has found them:
	waiting   span
	intervals string
}

// A span is between two times.
type span struct{ first, last time.Time }

func read(b []byte) *decoder { return &decoder{Codec: compact.Codec{Reader: compact.Reader{B: b}}} }

// near reads a time that is near to the clock.
func (r *decoder) near() time.Time { return r.TimeNear(r.clock) }
