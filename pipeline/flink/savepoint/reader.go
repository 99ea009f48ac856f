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

// fail notes an error, of which the first counts.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err, r.b = err, nil
	}
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail(errShort)
	}
	if r.err != nil {
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// unsigned reads a number of n bytes, the highest first.
func (r *reader) unsigned(n int) (v uint64) {
	for _, b := range r.bytes(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (r *reader) byte() byte   { return byte(r.unsigned(1)) }
func (r *reader) int16() int16 { return int16(r.unsigned(2)) }
func (r *reader) int32() int   { return int(int32(r.unsigned(4))) }
func (r *reader) int64() int64 { return int64(r.unsigned(8)) }

// text reads what writeUTF wrote, which is UTF-8 for the names and paths here.
func (r *reader) text() []byte { return r.bytes(int(uint16(r.int16()))) }

// blob reads bytes after their number.
func (r *reader) blob() []byte { return r.bytes(r.int32()) }

// varBlob reads bytes after their number as an unsigned varint, as Beam's coders write
// them.
func (r *reader) varBlob() []byte {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)-size) {
		r.fail(errShort)
		return nil
	}
	r.bytes(size)
	return r.bytes(int(n))
}

// count reads the number of things that follow, each of which takes at least size bytes.
func (r *reader) count(size int) int {
	n := r.int32()
	if n < 0 || n > len(r.b)/size {
		r.fail(errShort)
		return 0
	}
	return n
}
