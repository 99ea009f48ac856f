// Package compact is the binary encoding of stored states and of elements between stages: numbers of variable
// length, floats by their bits, and a length before each text and list.
package compact

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"
)

// ErrCut is the error for bytes that do not have the expected encoding.
var ErrCut = errors.New("record is cut short or malformed")

// ErrNewer is the error for bytes in a format that only newer versions of this program read.
var ErrNewer = errors.New("a newer version of this program wrote it: use that version, or start without these states")

// AppendTime appends a time without its zone; the zero time takes one byte.
func AppendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	b = append(b, 1)
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

// AppendTimeNear appends a time without its zone. A time near known, which the reader must know, takes few bytes;
// the zero time takes one.
func AppendTimeNear(b []byte, t, known time.Time) []byte {
	seconds := t.Unix() - known.Unix()
	switch {
	case t.IsZero():
		return append(b, 0)
	case t.Nanosecond() == known.Nanosecond():
		return binary.AppendVarint(append(b, 1), seconds)
	}
	return binary.AppendUvarint(binary.AppendVarint(append(b, 2), seconds), uint64(t.Nanosecond()))
}

// AppendString appends a string, or bytes, after its length.
func AppendString[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// AppendFloats appends floats after their number.
func AppendFloats(b []byte, v []float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

// AppendShort appends a float with 32 bits.
func AppendShort(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
}

// Short reads a float of AppendShort.
func (r *Reader) Short() float64 {
	var b [4]byte
	r.Take(b[:])
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[:])))
}

// AppendVectors appends vectors after their number.
func AppendVectors(b []byte, x [][]float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(x)))
	for _, v := range x {
		b = AppendFloats(b, v)
	}
	return b
}

// A Reader reads values from the front of B. If a value does not fit, Bad is set, and all later values are zero.
type Reader struct {
	B      []byte
	Source string // if not empty, it ends with the text of B, and strings are substrings of it; otherwise strings are copies
	Bad    bool
}

// Fail marks the bytes as bad and stops reading.
func (r *Reader) Fail() {
	r.Bad, r.B = true, nil
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if len(r.B) == 0 {
		r.Fail()
		return 0
	}
	v := r.B[0]
	r.B = r.B[1:]
	return v
}

// Uvarint reads an unsigned number of variable length.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.B)
	return skipNumber(r, v, n)
}

// Varint reads a signed number of variable length.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.B)
	return skipNumber(r, v, n)
}

// skipNumber skips a number of n bytes. If n is not positive, the number is incomplete or too large, and skipNumber
// fails.
func skipNumber[T int64 | uint64](r *Reader, v T, n int) T {
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Take fills b with the next bytes.
func (r *Reader) Take(b []byte) {
	if len(r.B) < len(b) {
		r.Fail()
		return
	}
	r.B = r.B[copy(b, r.B):]
}

// Count reads the number of entries that take at least size bytes each.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.B)/size) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Part reads the bytes of AppendString. The result is a part of B.
func (r *Reader) Part() []byte {
	n := r.Count(1)
	part := r.B[:n:n]
	r.B = r.B[n:]
	return part
}

// Text reads the text of AppendString.
func (r *Reader) Text() string {
	part := r.Part()
	if end := len(r.Source) - len(r.B); end >= len(part) {
		return r.Source[end-len(part) : end]
	}
	return string(part)
}

// Floats reads the floats of AppendFloats; nil if there are none.
func (r *Reader) Floats() []float64 { return r.FloatsIn(nil) }

// FloatsIn reads floats into the memory of v, which may be nil. It returns nil if there are none.
func (r *Reader) FloatsIn(v []float64) []float64 {
	n := r.Count(8)
	if n == 0 {
		return nil
	}
	v = slices.Grow(v[:0], n)[:n]
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(r.B[8*i:]))
	}
	r.B = r.B[8*n:]
	return v
}

// Vectors reads vectors into the memory of v, which may be nil. It returns nil if there are none.
func (r *Reader) Vectors(v [][]float64) [][]float64 {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	v = slices.Grow(v[:0], n)[:n]
	for i := range v {
		v[i] = r.FloatsIn(v[i])
	}
	return v
}

// Time reads the time of AppendTime, in UTC.
func (r *Reader) Time() time.Time {
	switch r.Byte() {
	case 0:
		return time.Time{}
	case 1:
		return r.time(r.Varint(), r.Uvarint())
	}
	r.Fail()
	return time.Time{}
}

func (r *Reader) time(sec int64, nsec uint64) time.Time {
	if nsec >= 1e9 {
		r.Fail()
		return time.Time{}
	}
	return time.Unix(sec, int64(nsec)).UTC()
}

// TimeNear reads the time of AppendTimeNear, in UTC. known must be the same.
func (r *Reader) TimeNear(known time.Time) time.Time {
	switch r.Byte() {
	case 0:
		return time.Time{}
	case 1:
		return r.time(known.Unix()+r.Varint(), uint64(known.Nanosecond()))
	case 2:
		return r.time(known.Unix()+r.Varint(), r.Uvarint())
	}
	r.Fail()
	return time.Time{}
}

// A Fingerprint identifies settings: it is the first part of the SHA-256 of their text. Each state has the
// fingerprint of the settings that it was written with, so that it is not read with other settings.
type Fingerprint [8]byte

// FingerprintOf returns the fingerprint of settings, given as text.
func FingerprintOf(text string) (f Fingerprint) {
	sum := sha256.Sum256([]byte(text))
	copy(f[:], sum[:])
	return f
}
