package compact

import (
	"encoding/binary"
	"math"
	"slices"
)

// Packed floats are in runs. A run begins with an unsigned varint: 4 times its number, plus what
// it is of.
const (
	literal = iota // so many floats follow, little endian
	zeros          // so many are 0
	whole          // one float, of that number
	again          // one float, the one so many before
)

const (
	mostWhole = 1 << 19 // less than that takes at most three bytes
	recent    = 128     // slots for the floats that may come again
)

// AppendPacked appends floats whose number the reader knows. Zeros take little space, and so do
// small whole numbers and floats that the last ones were equal to.
func AppendPacked(b []byte, v []float64) []byte {
	var at [recent]uint16 // where floats are, by a hash; the first one where there is none yet
	from := 0             // of the floats that are not written yet
	for i := 0; i < len(v); i++ {
		f := v[i]
		bits := math.Float64bits(f)
		n, run := 1, uint64(0)
		if bits<<31 != 0 { // not zero, nor a small whole number
			slot := &at[bits*0x9e3779b97f4a7c15>>57]
			if k := int(*slot); k < i && math.Float64bits(v[k]) == bits {
				run = uint64(i-k)<<2 + again
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
		} else if f > 0 && f < mostWhole && f == math.Trunc(f) {
			run = uint64(f)<<2 + whole
		} else {
			continue
		}
		b = appendLiterals(b, v[from:i])
		b = binary.AppendUvarint(b, run)
		i += n - 1
		from = i + 1
	}
	return appendLiterals(b, v[from:])
}

func appendLiterals(b []byte, v []float64) []byte {
	if len(v) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(v))<<2+literal)
	at := len(b)
	b = slices.Grow(b, 8*len(v))[:at+8*len(v)]
	for i, f := range v {
		binary.LittleEndian.PutUint64(b[at+8*i:], math.Float64bits(f))
	}
	return b
}

// Packed fills v with what AppendPacked wrote of as many floats.
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
		case whole:
			v[i] = float64(n)
			i++
		case again:
			if n == 0 || n > uint64(i) {
				r.Fail()
				return
			}
			v[i] = v[i-int(n)]
			i++
		}
	}
}
