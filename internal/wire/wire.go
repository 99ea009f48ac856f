// Package wire reads Kafka's primitive types.
package wire

import "encoding/binary"

// A Cursor reads from B. After the end of its bytes it reads zeros, and is Short from
// then on.
type Cursor struct {
	B     []byte
	Short bool
}

// Skip passes over n bytes.
func (c *Cursor) Skip(n int) { c.take(int64(n)) }

func (c *Cursor) take(n int64) []byte {
	if n < 0 || n > int64(len(c.B)) {
		c.fail()
		return nil
	}
	taken := c.B[:n:n]
	c.B = c.B[n:]
	return taken
}

func (c *Cursor) fail() { c.B, c.Short = nil, true }

// Bytes returns the next n bytes, or nil, which stands for null, if n is negative.
func (c *Cursor) Bytes(n int64) []byte {
	if n < 0 {
		return nil
	}
	return c.take(n)
}

func (c *Cursor) number(size int) (n uint64) {
	for _, b := range c.take(int64(size)) {
		n = n<<8 | uint64(b)
	}
	return n
}

// Int16, Int32 and Int64 read big-endian numbers.
func (c *Cursor) Int16() int16 { return int16(c.number(2)) }
func (c *Cursor) Int32() int32 { return int32(c.number(4)) }
func (c *Cursor) Int64() int64 { return int64(c.number(8)) }

// Uvarint and Varint read numbers of variable length.
func (c *Cursor) Uvarint() uint64 {
	v, n := binary.Uvarint(c.B)
	return advance(c, v, n)
}

func (c *Cursor) Varint() int64 {
	v, n := binary.Varint(c.B)
	return advance(c, v, n)
}

// advance passes over a number of n bytes; n is not positive where it has no end.
func advance[T int64 | uint64](c *Cursor, v T, n int) T {
	if n <= 0 {
		c.fail()
		return 0
	}
	c.B = c.B[n:]
	return v
}
