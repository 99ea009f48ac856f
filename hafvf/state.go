package hafvf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// stateVersion is the first byte of an encoded state. It changes whenever the encoding
// or the meaning of a state's floats does. Earlier versions are read too: version 2 has
// all floats, zeros too, and lacks the number of steps with an imputed lag. Version 1
// lacks the leads as well. What is lacking starts from zero, as in a new state.
const (
	stateVersion = 3
	withoutLeads = 1
)

// ErrOtherConfig means that a state was written under another configuration, or
// by a version of this package whose states this one does not read.
var ErrOtherConfig = errors.New("state belongs to another configuration")

// Append appends the encoded state to b: version, fingerprint of the configuration,
// and the floats in runs. A run is the number of floats that are not zero, those floats,
// little endian, and unless it ends the state the number of zeros that follow. Numbers
// are unsigned varints.
func (s State) Append(b []byte, fingerprint uint64) []byte {
	b = append(b, stateVersion)
	b = binary.LittleEndian.AppendUint64(b, fingerprint)
	zero := func(v float64) bool { return math.Float64bits(v) == 0 }
	for len(s) > 0 {
		n := slices.IndexFunc(s, zero)
		if n < 0 {
			n = len(s)
		}
		b = binary.AppendUvarint(b, uint64(n))
		for _, v := range s[:n] {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		if s = s[n:]; len(s) == 0 {
			break
		}
		zeros := 1
		for zeros < len(s) && zero(s[zeros]) {
			zeros++
		}
		b = binary.AppendUvarint(b, uint64(zeros))
		s = s[zeros:]
	}
	return b
}

// stateHead is the bytes before the floats of an encoded state.
const stateHead = 1 + 8

// A layout is what decoding needs to know of a state: its number of floats, the ranges
// of them that are leads, in order, and whether the last one is Filter.imputed.
type layout struct {
	floats  int
	leads   [][2]int
	imputes bool
}

func (f *Filter) layout() layout {
	from, to := f.leadsAt()
	return layout{f.StateLen(), [][2]int{{from, to}}, f.seq != nil}
}

// earlier is the number of floats of a state of an earlier version.
func (l layout) earlier(version byte) int {
	n := l.floats
	if l.imputes {
		n--
	}
	if version == withoutLeads {
		for _, r := range l.leads {
			n -= r[1] - r[0]
		}
	}
	return n
}

// runs walks over the floats of a state of this version at the front of b: it calls run
// with those that are not zero, encoded, and the number of zeros after them. It returns
// what follows, and whether the state is whole.
func (l layout) runs(b []byte, run func(floats []byte, zeros int)) (rest []byte, ok bool) {
	for left := uint64(l.floats); left > 0; {
		some, size := binary.Uvarint(b)
		if size <= 0 || some > left || some > uint64(len(b)-size)/8 {
			return nil, false
		}
		floats := b[size : size+8*int(some)]
		b = b[size+len(floats):]
		zeros := uint64(0)
		if left -= some; left > 0 {
			zeros, size = binary.Uvarint(b)
			if size <= 0 || zeros == 0 || zeros > left {
				return nil, false
			}
			b = b[size:]
			left -= zeros
		}
		run(floats, int(zeros))
	}
	return b, true
}

// split returns the encoded state that b begins with, and what follows. It returns
// all of b where b begins with none.
func (l layout) split(b []byte) (state, rest []byte) {
	n := len(b)
	switch {
	case n < stateHead:
	case b[0] == stateVersion:
		if rest, ok := l.runs(b[stateHead:], func([]byte, int) {}); ok {
			n -= len(rest)
		}
	default:
		n = min(n, stateHead+8*l.earlier(b[0]))
	}
	return b[:n], b[n:]
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
	if version < withoutLeads || version > stateVersion {
		return nil, fmt.Errorf("%w: version %d, want %d to %d", ErrOtherConfig, version, withoutLeads, stateVersion)
	}
	if got := binary.LittleEndian.Uint64(b[1:]); got != fingerprint {
		return nil, fmt.Errorf("%w: fingerprint %016x, want %016x", ErrOtherConfig, got, fingerprint)
	}
	size, b := len(b), b[stateHead:]
	s := make(State, 0, l.floats)
	add := func(floats []byte, zeros int) {
		for ; len(floats) > 0; floats = floats[8:] {
			s = append(s, math.Float64frombits(binary.LittleEndian.Uint64(floats)))
		}
		s = append(s, make([]float64, zeros)...)
	}
	if version == stateVersion {
		if rest, ok := l.runs(b, add); !ok || len(rest) > 0 {
			return nil, fmt.Errorf("state of %d bytes is not one of %d floats", size, l.floats)
		}
		return s, nil
	}
	if n := l.earlier(version); len(b) != 8*n {
		return nil, fmt.Errorf("state of %d bytes, want %d", size, stateHead+8*n)
	}
	add(b, 0)
	if version == withoutLeads {
		for _, r := range l.leads {
			s = slices.Insert(s, r[0], make([]float64, r[1]-r[0])...)
		}
	}
	if l.imputes {
		s = append(s, 0)
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
	if f.grid != nil && slices.ContainsFunc(f.counts(s), func(n float64) bool { return n < 0 }) {
		return errors.New("state is corrupt: a weight has a negative count")
	}
	if f.model.Memory(f.Sample(s)) < 0 {
		return errors.New("state is corrupt: negative memory")
	}
	if f.seq != nil && len(s) == f.StateLen() {
		if n := f.imputed(s); !(n >= 0 && n <= float64(f.seq.Window()) && n == math.Trunc(n)) {
			return fmt.Errorf("state is corrupt: %g imputed lags", n)
		}
	}
	return nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
