// Package compact is the binary form in which states, and what crosses stages, are stored:
// numbers of variable length, floats by their bits, and lengths before what they are of.
package compact

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"
)

// ErrCut is the error of bytes that are not what was appended.
var ErrCut = errors.New("record is cut short or malformed")

// ErrNewer is the error of bytes in a format that only newer versions of this program read.
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

// AppendTimeNear appends a time without its zone. It takes few bytes if the time is near to one that
// the reader knows, and zero one.
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

// AppendFloats appends the floats after their number.
func AppendFloats(b []byte, v []float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

// AppendShort appends a float as one of 32 bits.
func AppendShort(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
}

// Short reads what AppendShort wrote.
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

// A Reader takes values off the front of B. A value that does not fit sets Bad, and all
// later values are zero.
type Reader struct {
	B      []byte
	Source string // ends as B does, and strings are cut from it. Strings are copies if it is empty
	Bad    bool
}

// Fail marks the bytes as bad: nothing more of them is read.
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

// Varint reads a number of variable length.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.B)
	return skipNumber(r, v, n)
}

// skipNumber passes over a number of n bytes; n is not positive where it has no end.
func skipNumber[T int64 | uint64](r *Reader, v T, n int) T {
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Take fills b with the bytes that come next.
func (r *Reader) Take(b []byte) {
	if len(r.B) < len(b) {
		r.Fail()
		return
	}
	r.B = r.B[copy(b, r.B):]
}

// Count reads the number of entries of at least size bytes each.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.B)/size) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Part reads what AppendString wrote, as a part of B.
func (r *Reader) Part() []byte {
	n := r.Count(1)
	part := r.B[:n:n]
	r.B = r.B[n:]
	return part
}

// Text reads what AppendString wrote.
func (r *Reader) Text() string {
	part := r.Part()
	if end := len(r.Source) - len(r.B); end >= len(part) {
		return r.Source[end-len(part) : end]
	}
	return string(part)
}

// Floats reads what AppendFloats wrote. None are nil.
func (r *Reader) Floats() []float64 { return r.FloatsIn(nil) }

// FloatsIn reads floats into the memory of v, which may be nil. None are nil.
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

// Vectors reads vectors into the memory of v, which may be nil.
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

// Time reads what AppendTime wrote, in UTC.
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

// TimeNear reads what AppendTimeNear wrote, in UTC.
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

// A Fingerprint tells settings apart: it is the beginning of the SHA-256 of their text. Each
// state carries that of the settings that it was written with, so that it is not read under
// others.
type Fingerprint [8]byte

// FingerprintOf returns the fingerprint of settings, given as text.
func FingerprintOf(text string) (f Fingerprint) {
	sum := sha256.Sum256([]byte(text))
	copy(f[:], sum[:])
	return f
}
