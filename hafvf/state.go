package hafvf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// stateVersion is the first byte of an encoded state. It changes whenever the
// meaning of a state's floats does.
const stateVersion = 1

// ErrOtherConfig means that a state was written under another configuration, or
// by another version of this package.
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

// EncodedLen is the number of bytes that Append writes of a state of n floats.
func EncodedLen(n int) int { return stateHead + 8*n }

// stateHead is the bytes before the floats of an encoded state.
const stateHead = 1 + 8

// DecodeState reads a state of this filter that Append wrote under the same
// fingerprint: the error wraps ErrOtherConfig where it was another, and no state
// is returned.
func (f *Filter) DecodeState(b []byte, fingerprint uint64) (State, error) {
	s, err := decodeFloats(b, fingerprint, f.StateLen())
	if err != nil {
		return nil, err
	}
	if err := f.valid(s); err != nil {
		return nil, err
	}
	return s, nil
}

// decodeFloats reads a state of n floats.
func decodeFloats(b []byte, fingerprint uint64, n int) (State, error) {
	if len(b) < stateHead {
		return nil, fmt.Errorf("state of %d bytes is cut short", len(b))
	}
	if b[0] != stateVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", ErrOtherConfig, b[0], stateVersion)
	}
	if got := binary.LittleEndian.Uint64(b[1:]); got != fingerprint {
		return nil, fmt.Errorf("%w: fingerprint %016x, want %016x", ErrOtherConfig, got, fingerprint)
	}
	if len(b) != stateHead+8*n {
		return nil, fmt.Errorf("state of %d bytes, want %d", len(b), stateHead+8*n)
	}
	s := make(State, n)
	for i := range s {
		s[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[stateHead+8*i:]))
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
