package connectors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
)

// A Chunk contains records for a sink: lines of JSON, each with its key and ID. It crosses stages as plain bytes.
type Chunk []byte

// Begin appends the key and ID of a record. The caller then appends the record's line with its line end. A nil key
// means that the record has no key.
func (c Chunk) Begin(key []byte, id string) Chunk {
	n := int64(len(key))
	if key == nil {
		n = -1
	}
	c = binary.AppendVarint(c, n)
	c = append(c, key...)
	c = binary.AppendUvarint(c, uint64(len(id)))
	return append(c, id...)
}

// A Line is a record of a Chunk. It shares the memory of the Chunk.
type Line struct {
	Key  []byte // nil if there is none
	ID   string
	Text []byte // with its line end
}

// A Refused is a record of a Chunk that the receiver did not accept.
type Refused struct {
	Key    []byte
	ID     string
	Text   []byte // without its line end
	Reason string
}

var errChunk = errors.New("connectors: a chunk is malformed")

// Lines returns the records of a chunk. The error means that the chunk is malformed.
func (c Chunk) Lines() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for rest := []byte(c); len(rest) > 0; {
			l, id, after, ok := cutLine(rest)
			if !ok {
				yield(Line{}, errChunk)
				return
			}
			l.ID, rest = string(id), after
			if !yield(l, nil) {
				return
			}
		}
	}
}

// appendTexts appends the texts of all lines of a chunk.
func (c Chunk) appendTexts(b []byte) ([]byte, error) {
	for rest := []byte(c); len(rest) > 0; {
		l, _, after, ok := cutLine(rest)
		if !ok {
			return b, errChunk
		}
		b, rest = append(b, l.Text...), after
	}
	return b, nil
}

// cutLine splits off the first line. Line.ID is not set; id shares the memory of b.
func cutLine(b []byte) (l Line, id, rest []byte, ok bool) {
	n, k := binary.Varint(b)
	if k <= 0 || n < -1 || n > int64(len(b)-k) {
		return l, nil, nil, false
	}
	b = b[k:]
	if n >= 0 {
		l.Key, b = b[:n:n], b[n:]
	}
	m, k := binary.Uvarint(b)
	if k <= 0 || m > uint64(len(b)-k) {
		return l, nil, nil, false
	}
	id, b = b[k:k+int(m)], b[k+int(m):]
	end := bytes.IndexByte(b, '\n') + 1
	l.Text = b[:end:end]
	return l, id, b[end:], end > 0
}
