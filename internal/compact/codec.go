package compact

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"
)

// A Codec appends values to B if Writes is set, and otherwise reads them from the front of B. A form is a function that
// calls a Codec for the parts of a value, so that one function defines their order for both directions.
type Codec struct {
	Reader
	Writes bool
}

// Encode appends v to b. form encodes it.
func Encode[T any](b []byte, v T, form func(*Codec, *T)) []byte {
	c := Codec{Reader: Reader{B: b}, Writes: true}
	form(&c, &v)
	return c.B
}

// Decode reads a value from b, which must end with it. The error is ErrCut, and *v is then zero.
func Decode[T any](b []byte, v *T, form func(*Codec, *T)) error {
	var read, zero T
	c := Codec{Reader: Reader{B: b}}
	if form(&c, &read); c.Bad || len(c.B) > 0 {
		*v = zero
		return ErrCut
	}
	*v = read
	return nil
}

// Nested appends a value with appendTo, or reads it with decode, which returns the rest of its argument.
func (c *Codec) Nested(appendTo func([]byte) []byte, decode func([]byte) (rest []byte, err error)) {
	if c.Writes {
		c.B = appendTo(c.B)
		return
	}
	var err error
	if c.B, err = decode(c.B); err != nil {
		c.Fail()
	}
}

// Append appends a form to b.
func Append(b []byte, form func(*Codec)) []byte {
	c := Codec{Reader: Reader{B: b}, Writes: true}
	form(&c)
	return c.B
}

// Front decodes a form from the front of b. It returns the rest of b.
func Front(b []byte, form func(*Codec)) (rest []byte, err error) {
	c := Codec{Reader: Reader{B: b}}
	if form(&c); c.Bad {
		return nil, ErrCut
	}
	return c.B, nil
}

// Each appends the values with appendTo, or reads them with read.
func Each[T any](c *Codec, values []*T, appendTo func([]byte, T) []byte, read func(*Reader) T) {
	for _, v := range values {
		if c.Writes {
			c.B = appendTo(c.B, *v)
		} else {
			*v = read(&c.Reader)
		}
	}
}

// Texts encodes strings or bytes, each after its length.
func Texts[T ~string | ~[]byte](c *Codec, texts ...*T) {
	Each(c, texts, AppendString, func(r *Reader) T { return T(r.Text()) })
}

// Signed encodes signed numbers with variable length.
func Signed[T ~int | ~int64](c *Codec, numbers ...*T) {
	Each(c, numbers, func(b []byte, n T) []byte { return binary.AppendVarint(b, int64(n)) }, func(r *Reader) T { return T(r.Varint()) })
}

// Unsigned encodes numbers from 0 with variable length.
func Unsigned[T ~int | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~float64](c *Codec, numbers ...*T) {
	Each(c, numbers, func(b []byte, n T) []byte { return binary.AppendUvarint(b, uint64(n)) }, func(r *Reader) T { return T(r.Uvarint()) })
}

// Bytes encodes numbers of one byte each.
func Bytes[T ~int8 | ~uint8](c *Codec, numbers ...*T) {
	Each(c, numbers, func(b []byte, n T) []byte { return append(b, byte(n)) }, func(r *Reader) T { return T(r.Byte()) })
}

// List encodes the number of entries and then each entry with form. Each entry takes at least size bytes. A list of
// length 0 is read as nil.
func List[T any](c *Codec, list *[]T, size int, form func(*T)) {
	if c.Writes {
		c.B = binary.AppendUvarint(c.B, uint64(len(*list)))
	} else if n := c.Count(size); n > 0 {
		*list = make([]T, n)
	}
	for i := range *list {
		form(&(*list)[i])
	}
}

// Entries encodes the entries of a map like List. They are written in the given order.
func Entries[K comparable, V any](c *Codec, m map[K]V, size int, order func(a, b K) int, form func(*K, *V)) {
	keys := slices.SortedFunc(maps.Keys(m), order)
	List(c, &keys, size, func(k *K) {
		v := m[*k]
		if form(k, &v); !c.Writes {
			m[*k] = v
		}
	})
}

// Ref returns *p. If *p is nil, Ref first sets it to a new T.
func Ref[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// Check marks the bytes as bad if c reads and ok is false.
func (c *Codec) Check(ok bool) {
	if !c.Writes && !ok {
		c.Fail()
	}
}

// Bits encodes at most eight booleans in a byte.
func (c *Codec) Bits(flags ...*bool) {
	bits := byte(0)
	for i, flag := range flags {
		if *flag {
			bits |= 1 << i
		}
	}
	Bytes(c, &bits)
	for i, flag := range flags {
		*flag = bits&(1<<i) != 0
	}
}

// Times encodes times without their zones, see AppendTime.
func (c *Codec) Times(times ...*time.Time) { Each(c, times, AppendTime, (*Reader).Time) }

// TimesNear encodes times that are near a known time, see AppendTimeNear.
func (c *Codec) TimesNear(known time.Time, times ...*time.Time) {
	for _, t := range times {
		if c.Writes {
			c.B = AppendTimeNear(c.B, *t, known)
		} else {
			*t = c.TimeNear(known)
		}
	}
}

// Raw encodes the bytes of b without their number.
func (c *Codec) Raw(b []byte) {
	if c.Writes {
		c.B = append(c.B, b...)
	} else {
		c.Take(b)
	}
}

// Doubles encodes floats with 64 bits each.
func (c *Codec) Doubles(floats ...*float64) {
	for _, f := range floats {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(*f))
		c.Raw(b[:])
		*f = math.Float64frombits(binary.LittleEndian.Uint64(b[:]))
	}
}

// Lists encodes slices of floats, each after its length. An empty slice is read as nil.
func (c *Codec) Lists(lists ...*[]float64) { Each(c, lists, AppendFloats, (*Reader).Floats) }

// Scalars encodes a fixed number of floats after that number.
func (c *Codec) Scalars(floats ...*float64) {
	v := make([]float64, 0, 8)
	for _, f := range floats {
		v = append(v, *f)
	}
	c.Lists(&v)
	if c.Check(len(v) == len(floats)); c.Writes || c.Bad {
		return
	}
	for i, f := range floats {
		*f = v[i]
	}
}

// Shorts encodes floats with 32 bits each.
func (c *Codec) Shorts(floats ...*float64) { Each(c, floats, AppendShort, (*Reader).Short) }

// Pack encodes a list whose length the reader knows, see AppendPacked.
func (c *Codec) Pack(v []float64) {
	if c.Writes {
		c.B = AppendPacked(c.B, v)
	} else {
		c.Packed(v)
	}
}

// Packs encodes floats as such a list.
func (c *Codec) Packs(floats ...*float64) {
	v := make([]float64, len(floats), 8)
	for i, f := range floats {
		v[i] = *f
	}
	c.Pack(v)
	for i, f := range floats {
		*f = v[i]
	}
}
