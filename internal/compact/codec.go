package compact

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"
)

// A Codec appends values to B, or reads them off its front. A form is a function that gives a Codec the
// parts of a value: it says once in which order they stand.
type Codec struct {
	Reader
	Writes bool
}

// Encode appends a value in a form to b.
func Encode[T any](b []byte, v T, form func(*Codec, *T)) []byte {
	c := Codec{Reader: Reader{B: b}, Writes: true}
	form(&c, &v)
	return c.B
}

// Decode reads the value that all of b is in a form. After an error it is zero.
func Decode[T any](b []byte, v *T, form func(*Codec, *T)) error {
	var read, none T
	c := Codec{Reader: Reader{B: b}}
	if form(&c, &read); c.Bad || len(c.B) > 0 {
		*v = none
		return ErrCut
	}
	*v = read
	return nil
}

// Rest continues a Codec that reads with the bytes that another decoder left, or fails it with the error of that decoder.
func (c *Codec) Rest(rest []byte, err error) {
	if c.B = rest; err != nil {
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

// Each has values appended, or read, one after the other.
func Each[T any](c *Codec, all []*T, add func([]byte, T) []byte, read func(*Reader) T) {
	for _, v := range all {
		if c.Writes {
			c.B = add(c.B, *v)
		} else {
			*v = read(&c.Reader)
		}
	}
}

// Texts are strings or bytes, each after its length.
func Texts[T ~string | ~[]byte](c *Codec, all ...*T) {
	Each(c, all, AppendString, func(r *Reader) T { return T(r.Text()) })
}

// Signed are numbers of variable length.
func Signed[T ~int | ~int64](c *Codec, all ...*T) {
	Each(c, all, func(b []byte, n T) []byte { return binary.AppendVarint(b, int64(n)) }, func(r *Reader) T { return T(r.Varint()) })
}

// Unsigned are numbers from 0 of variable length.
func Unsigned[T ~int | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~float64](c *Codec, all ...*T) {
	Each(c, all, func(b []byte, n T) []byte { return binary.AppendUvarint(b, uint64(n)) }, func(r *Reader) T { return T(r.Uvarint()) })
}

// Bytes are numbers of a byte each.
func Bytes[T ~int8 | ~uint8](c *Codec, all ...*T) {
	Each(c, all, func(b []byte, n T) []byte { return append(b, byte(n)) }, func(r *Reader) T { return T(r.Byte()) })
}

// List is the number of entries, of at least size bytes each, and then these. None are nil.
func List[T any](c *Codec, all *[]T, size int, form func(*T)) {
	if c.Writes {
		c.B = binary.AppendUvarint(c.B, uint64(len(*all)))
	} else if n := c.Count(size); n > 0 {
		*all = make([]T, n)
	}
	for i := range *all {
		form(&(*all)[i])
	}
}

// Entries are those of a map after their number, of at least size bytes each. They are written in order.
func Entries[K comparable, V any](c *Codec, m map[K]V, size int, order func(a, b K) int, form func(*K, *V)) {
	keys := slices.SortedFunc(maps.Keys(m), order)
	List(c, &keys, size, func(k *K) {
		v := m[*k]
		if form(k, &v); !c.Writes {
			m[*k] = v
		}
	})
}

// Ref is what a pointer leads to, which is made if it leads nowhere.
func Ref[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// Check has the bytes that are read be bad if what was read is not ok.
func (c *Codec) Check(ok bool) {
	if !c.Writes && !ok {
		c.Fail()
	}
}

// Bits are up to eight booleans in a byte.
func (c *Codec) Bits(all ...*bool) {
	bits := byte(0)
	for i, on := range all {
		if *on {
			bits |= 1 << i
		}
	}
	Bytes(c, &bits)
	for i, on := range all {
		*on = bits&(1<<i) != 0
	}
}

// Times are times without their zones, see AppendTime.
func (c *Codec) Times(all ...*time.Time) { Each(c, all, AppendTime, (*Reader).Time) }

// TimesNear are times that are near to one that is known, see AppendTimeNear.
func (c *Codec) TimesNear(known time.Time, all ...*time.Time) {
	for _, t := range all {
		if c.Writes {
			c.B = AppendTimeNear(c.B, *t, known)
		} else {
			*t = c.TimeNear(known)
		}
	}
}

// Raw are bytes of a known number.
func (c *Codec) Raw(b []byte) {
	if c.Writes {
		c.B = append(c.B, b...)
	} else {
		c.Take(b)
	}
}

// Doubles are floats of 64 bits.
func (c *Codec) Doubles(all ...*float64) {
	for _, f := range all {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(*f))
		c.Raw(b[:])
		*f = math.Float64frombits(binary.LittleEndian.Uint64(b[:]))
	}
}

// Lists are floats after their number. None are nil.
func (c *Codec) Lists(all ...*[]float64) { Each(c, all, AppendFloats, (*Reader).Floats) }

// Scalars are floats of a known number, after that number.
func (c *Codec) Scalars(all ...*float64) {
	v := make([]float64, 0, 8)
	for _, f := range all {
		v = append(v, *f)
	}
	c.Lists(&v)
	if c.Check(len(v) == len(all)); c.Writes || c.Bad {
		return
	}
	for i, f := range all {
		*f = v[i]
	}
}

// Shorts are floats of 32 bits.
func (c *Codec) Shorts(all ...*float64) { Each(c, all, AppendShort, (*Reader).Short) }

// Pack is a list whose length the reader knows, see AppendPacked.
func (c *Codec) Pack(v []float64) {
	if c.Writes {
		c.B = AppendPacked(c.B, v)
	} else {
		c.Packed(v)
	}
}

// Packs are floats in such a list.
func (c *Codec) Packs(all ...*float64) {
	v := make([]float64, len(all), 8)
	for i, f := range all {
		v[i] = *f
	}
	c.Pack(v)
	for i, f := range all {
		*f = v[i]
	}
}
