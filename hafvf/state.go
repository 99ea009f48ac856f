package hafvf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// stateVersion is the first byte of an encoded state. It changes whenever the encoding
// or the meaning of a state's floats does.
const stateVersion = 4

// Append appends the encoded state to b: version and the floats in runs. A run is the number of floats that are not zero, those floats,
// little endian, and unless it ends the state the number of zeros that follow. Numbers
// are unsigned varints.
func (s State) Append(b []byte) []byte {
	b = append(b, stateVersion)
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

// runs walks over the n floats of an encoded state at the front of b: it calls run with
// those that are not zero, encoded, and the number of zeros after them. It returns what
// follows, and whether the state is whole.
func runs(b []byte, n int, run func(floats []byte, zeros int)) (rest []byte, ok bool) {
	for left := uint64(n); left > 0; {
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

// splitState returns the encoded state of n floats that b begins with, and what follows.
// It returns all of b where b begins with none.
func splitState(b []byte, n int) (state, rest []byte) {
	if len(b) == 0 || b[0] != stateVersion {
		return b, nil
	}
	rest, ok := runs(b[1:], n, func([]byte, int) {})
	if !ok {
		return b, nil
	}
	at := len(b) - len(rest)
	return b[:at], b[at:]
}

// DecodeState reads a state of a filter with the same settings that Append wrote. Whether
// the settings are the same is for the caller to know: a state does not say it.
func (f *Filter) DecodeState(b []byte) (State, error) {
	s, err := decodeState(b, f.StateLen())
	if err != nil {
		return nil, err
	}
	if err := f.valid(s); err != nil {
		return nil, err
	}
	return s, nil
}

// decodeState reads a state of n floats.
func decodeState(b []byte, n int) (State, error) {
	if len(b) == 0 {
		return nil, errors.New("state of 0 bytes is cut short")
	}
	if b[0] != stateVersion {
		return nil, fmt.Errorf("state has the format %d, and this version reads the format %d: begin anew", b[0], stateVersion)
	}
	s := make(State, 0, n)
	rest, ok := runs(b[1:], n, func(floats []byte, zeros int) {
		for ; len(floats) > 0; floats = floats[8:] {
			s = append(s, math.Float64frombits(binary.LittleEndian.Uint64(floats)))
		}
		s = append(s, make([]float64, zeros)...)
	})
	if !ok || len(rest) > 0 {
		return nil, fmt.Errorf("state of %d bytes is not one of %d floats", len(b), n)
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
	if f.seq != nil && len(s) == f.StateLen() {
		if n := f.imputed(s); !(n >= 0 && n <= float64(f.seq.Window()) && n == math.Trunc(n)) {
			return fmt.Errorf("state is corrupt: %g imputed lags", n)
		}
	}
	return nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
