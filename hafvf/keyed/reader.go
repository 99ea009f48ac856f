package keyed

import (
	"time"

	"hafvf/internal/compact"
)

// A coder reads what states consist of, or writes it.
type coder struct {
	compact.Codec
	clock time.Time // of the entity, which other times are near to
	width spread    // of the entity, if it has one
	// Of an entity with intervals:
	waiting   span
	intervals string
}

// A span is between two times.
type span struct{ first, last time.Time }

func coderOf(b []byte) *coder { return &coder{Codec: compact.Codec{Reader: compact.Reader{B: b}}} }

// near are times that are near to the clock.
func (c *coder) near(times ...*time.Time) { c.TimesNear(c.clock, times...) }

// tagged reports whether what stands behind a tag is there. If it is written, the caller knows.
func (c *coder) tagged(tag byte, present bool) bool {
	switch {
	case !c.Writes:
		if present = len(c.B) > 0 && c.B[0] == tag; present {
			c.Byte()
		}
	case present:
		c.B = append(c.B, tag)
	}
	return present
}
