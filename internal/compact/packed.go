package compact

import (
	"encoding/binary"
	"math"
	"slices"
)

// Packed floats are a sequence of runs. A run begins with an unsigned varint: 4 n + its kind.
const (
	literal = iota // n floats follow, little endian
	zeros          // n zeros
	integer        // one float, equal to n
	repeat         // one float, equal to the float n positions before
)

const (
	maxInteger = 1 << 19 // an integer below takes at most three bytes
	nSlots     = 128     // hash slots for floats that may recur
)

// AppendPacked appends floats whose number the reader knows. Zeros, small positive integers and repeated floats
// take little space.
func AppendPacked(b []byte, v []float64) []byte {
	var slots [nSlots]uint16 // index of a recent float by its hash; 0 if there is none yet
	start := 0               // index of the first float that is not yet written
	for i := 0; i < len(v); i++ {
		f := v[i]
		bits := math.Float64bits(f)
		n, run := 1, uint64(0)
		if bits<<31 != 0 { // neither zero nor a small integer
			slot := &slots[bits*0x9e3779b97f4a7c15>>57]
			if k := int(*slot); k < i && math.Float64bits(v[k]) == bits {
				run = uint64(i-k)<<2 + repeat
			} else {
				if i <= math.MaxUint16 {
					*slot = uint16(i)
				}
				continue
			}
		} else if bits == 0 {
			for i+n < len(v) && math.Float64bits(v[i+n]) == 0 {
				n++
			}
			run = uint64(n)<<2 + zeros
		} else if f > 0 && f < maxInteger && f == math.Trunc(f) {
			run = uint64(f)<<2 + integer
		} else {
			continue
		}
		b = appendLiterals(b, v[start:i])
		b = binary.AppendUvarint(b, run)
		i += n - 1
		start = i + 1
	}
	return appendLiterals(b, v[start:])
}

func appendLiterals(b []byte, v []float64) []byte {
	if len(v) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(v))<<2+literal)
	end := len(b)
	b = slices.Grow(b, 8*len(v))[:end+8*len(v)]
	for i, f := range v {
		binary.LittleEndian.PutUint64(b[end+8*i:], math.Float64bits(f))
	}
	return b
}

// Packed fills v with as many floats of AppendPacked.
func (r *Reader) Packed(v []float64) {
	for i := 0; i < len(v); {
		run := r.Uvarint()
		n, left := run>>2, uint64(len(v)-i)
		switch run & 3 {
		case literal:
			if n == 0 || n > left || n > uint64(len(r.B)/8) {
				r.Fail()
				return
			}
			for k := range v[i : i+int(n)] {
				v[i+k] = math.Float64frombits(binary.LittleEndian.Uint64(r.B[8*k:]))
			}
			r.B = r.B[8*n:]
			i += int(n)
		case zeros:
			if n == 0 || n > left {
				r.Fail()
				return
			}
			clear(v[i : i+int(n)])
			i += int(n)
		case integer:
			v[i] = float64(n)
			i++
		case repeat:
			if n == 0 || n > uint64(i) {
				r.Fail()
				return
			}
			v[i] = v[i-int(n)]
			i++
		}
	}
}
