package hafvf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// stateVersion is the first byte of an encoded state. It changes whenever the
// meaning of a state's floats does. States of version 1 are read too: they lack the
// leads, which then start from zero, as in a new state.
const (
	stateVersion = 2
	withoutLeads = 1
)

// ErrOtherConfig means that a state was written under another configuration, or
// by a version of this package whose states this one does not read.
var ErrOtherConfig = errors.New("state belongs to another configuration")

// Append appends the encoded state to b: version, fingerprint of the
// configuration, and the floats, little endian.
func (s State) Append(b []byte, fingerprint uint64) []byte {
	b = append(b, stateVersion)
	b = binary.LittleEndian.AppendUint64(b, fingerprint)
	for _, v := range s {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// stateHead is the bytes before the floats of an encoded state.
const stateHead = 1 + 8

// A layout is what decoding needs to know of a state: its number of floats, and the
// ranges of them that are leads, in order.
type layout struct {
	floats int
	leads  [][2]int
}

func (f *Filter) layout() layout {
	from, to := f.leadsAt()
	return layout{f.StateLen(), [][2]int{{from, to}}}
}

// encodedLen is the number of bytes of a state of that version.
func (l layout) encodedLen(version byte) int {
	n := l.floats
	if version == withoutLeads {
		for _, r := range l.leads {
			n -= r[1] - r[0]
		}
	}
	return stateHead + 8*n
}

// DecodeState reads a state of this filter that Append wrote under the same
// fingerprint: the error wraps ErrOtherConfig where it was another, and no state
// is returned.
func (f *Filter) DecodeState(b []byte, fingerprint uint64) (State, error) {
	s, err := f.layout().decode(b, fingerprint)
	if err != nil {
		return nil, err
	}
	if err := f.valid(s); err != nil {
		return nil, err
	}
	return s, nil
}

func (l layout) decode(b []byte, fingerprint uint64) (State, error) {
	if len(b) < stateHead {
		return nil, fmt.Errorf("state of %d bytes is cut short", len(b))
	}
	version := b[0]
	if version != stateVersion && version != withoutLeads {
		return nil, fmt.Errorf("%w: version %d, want %d or %d", ErrOtherConfig, version, withoutLeads, stateVersion)
	}
	if got := binary.LittleEndian.Uint64(b[1:]); got != fingerprint {
		return nil, fmt.Errorf("%w: fingerprint %016x, want %016x", ErrOtherConfig, got, fingerprint)
	}
	if n := l.encodedLen(version); len(b) != n {
		return nil, fmt.Errorf("state of %d bytes, want %d", len(b), n)
	}
	b = b[stateHead:]
	s := make(State, len(b)/8, l.floats)
	for i := range s {
		s[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	if version == withoutLeads {
		for _, r := range l.leads {
			s = slices.Insert(s, r[0], make([]float64, r[1]-r[0])...)
		}
	}
	return s, nil
}

// valid says why s, of the right length, is not a state of the filter.
func (f *Filter) valid(s State) error {
	for i, v := range s[:f.stepLen()] {
		if notFinite(v) {
			return fmt.Errorf("state is corrupt: entry %d is %g", i, v)
		}
	}
	for i := range f.naive {
		if err := f.Level(s, i).check(fmt.Sprintf("levels.%d", i)); err != nil {
			return fmt.Errorf("state is corrupt: %w", err)
		}
	}
	if f.model.Memory(f.Sample(s)) < 0 {
		return errors.New("state is corrupt: negative memory")
	}
	return nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
