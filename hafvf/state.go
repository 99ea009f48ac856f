package hafvf

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"hafvf/internal/compact"
	"hafvf/internal/linear"
)

// stateVersion is the first byte of an encoded state. It changes with the encoding and with the meaning of a
// state's floats.
const stateVersion = 5

// Append appends the encoded state to b: the version, then the floats as packed by package compact.
func (s State) Append(b []byte) []byte { return compact.AppendPacked(append(b, stateVersion), s) }

// readState decodes a state of n floats at the start of b, and returns the remaining bytes.
func readState(b []byte, n int) (s State, rest []byte, err error) {
	switch {
	case len(b) == 0:
		return nil, nil, errors.New("state is empty")
	case b[0] != stateVersion:
		return nil, nil, fmt.Errorf("state has the format %d, but this version reads the format %d: start without it", b[0], stateVersion)
	}
	s = make(State, n)
	r := compact.Reader{B: b[1:]}
	if r.Packed(s); r.Bad {
		return nil, nil, fmt.Errorf("state of %d bytes does not hold %d floats", len(b), n)
	}
	return s, r.B, nil
}

// DecodeState decodes a state that Append has written, of a filter with the same settings. The caller must
// ensure that the settings are the same, because a state does not contain them.
func (f *Filter) DecodeState(b []byte) (State, error) {
	s, rest, err := readState(b, f.StateLen())
	switch {
	case err != nil:
		return nil, err
	case len(rest) > 0:
		return nil, fmt.Errorf("state of %d bytes does not hold %d floats", len(b), f.StateLen())
	}
	if err := f.valid(s); err != nil {
		return nil, err
	}
	return s, nil
}

// valid returns an error if s, of the right length, is not a state of the filter.
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
	if f.seq != nil && len(s) == f.StateLen() {
		if n := f.imputed(s); !(n >= 0 && n <= float64(f.seq.Window()) && n == math.Trunc(n)) {
			return fmt.Errorf("state is corrupt: %g imputed lags", n)
		}
	}
	return nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// Finite reports whether all numbers of a state are finite. NaN is allowed in the window of a Sequential model,
// for values that do not exist yet.
func (b *Bank) Finite(s State) bool {
	b.checkState(s)
	end := b.lagsAt
	if b.detector != nil { // skip unused excursions
		ds := b.detection(s)
		end = b.detectorAt + b.detector.excursionsAt + ds.alive()*b.detector.stride
	}
	first := b.members[0]
	m := b.Member(s, 0)
	return linear.Finite(s[:end]) && linear.Finite(b.lags(s)) && linear.Finite(m[:first.stepLen()]) &&
		!slices.ContainsFunc(first.window(m), func(v float64) bool { return math.IsInf(v, 0) })
}

// DecodeState decodes a state that Append has written, of a bank with the same settings. The caller must ensure
// that the settings are the same, because a state does not contain them.
func (b *Bank) DecodeState(bytes []byte) (State, error) {
	s, rest, err := b.ReadState(bytes)
	if err == nil && len(rest) > 0 {
		return nil, fmt.Errorf("state is followed by %d bytes", len(rest))
	}
	return s, err
}

// ReadState is DecodeState for a state at the start of bytes. It also returns the remaining bytes.
func (b *Bank) ReadState(bytes []byte) (s State, rest []byte, err error) {
	s, rest, err = readState(bytes, b.StateLen())
	if err != nil {
		return nil, nil, err
	}
	if err := b.valid(s); err != nil {
		return nil, nil, err
	}
	return s, rest, nil
}

// valid returns an error if s, of the right length, is not a state of the bank.
func (b *Bank) valid(s State) error {
	for i, f := range b.members {
		if err := f.valid(b.Member(s, i)); err != nil {
			return err
		}
	}
	if !linear.Finite(s[:b.starts[0]]) {
		return fmt.Errorf("state is corrupt: a number is not finite")
	}
	if b.detector != nil {
		if err := b.detector.valid(b.detection(s)); err != nil {
			return err
		}
	}
	return nil
}
