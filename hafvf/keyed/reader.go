package keyed

import (
	"time"

	"hafvf/internal/compact"
)

// A coder encodes or decodes the parts of a state.
type coder struct {
	compact.Codec
	clock  time.Time // latest time of the key; other times are stored relative to it
	width  spread    // spread of the key, if it has one
	format byte      // first byte of the state
	// For a key with intervals:
	waiting   span
	intervals string
}

// A span is a time range.
type span struct{ first, last time.Time }

func coderOf(b []byte) *coder { return &coder{Codec: compact.Codec{Reader: compact.Reader{B: b}}} }

// near encodes or decodes times relative to the clock.
func (c *coder) near(times ...*time.Time) { c.TimesNear(c.clock, times...) }

// tagged reports whether an optional part follows, which a tag announces. When encoding, present reports it, and
// tagged writes the tag. When decoding, tagged skips the tag if it is there.
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
