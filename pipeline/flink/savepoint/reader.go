package savepoint

import (
	"encoding/binary"
	"errors"
)

// errShort is the error of a file that ends too early or has a length that cannot be.
var errShort = errors.New("it is cut short or damaged: copy it again, or make another savepoint")

// A reader reads what java.io.DataOutput wrote. After an error it returns zeros. It takes
// no memory for what it reads: all slices are of its input.
type reader struct {
	b   []byte
	err error
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.err, r.b = errShort, nil
	}
	if r.err != nil {
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.bytes(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int {
	if b := r.bytes(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// text reads what writeUTF wrote, which is UTF-8 for the names and paths here.
func (r *reader) text() []byte { return r.bytes(int(uint16(r.int16()))) }

// blob reads bytes after their number.
func (r *reader) blob() []byte { return r.bytes(r.int32()) }

// varBlob reads bytes after their number as an unsigned varint, as Beam's coders write
// them.
func (r *reader) varBlob() []byte {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)-size) {
		r.err, r.b = errShort, nil
		return nil
	}
	r.bytes(size)
	return r.bytes(int(n))
}

// count reads the number of things that follow, each of which takes at least size bytes.
func (r *reader) count(size int) int {
	n := r.int32()
	if n < 0 || n > len(r.b)/size {
		r.err, r.b = errShort, nil
		return 0
	}
	return n
}
