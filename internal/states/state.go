// Package states is what is stored of keys between runs: states, each with the settings that
// it was written with. A state in a changelog or a file is sealed, so that a damaged state or
// the state of another key is not taken for it. A runner's cells and the savepoints of a
// cluster hold states too, and package transforms reads these.
package states

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unique"

	"hafvf/internal/message"
)

// A State is the stored state of a key.
type State struct {
	Key string
	// Bytes are what keyed.Entity.AppendBinary has written.
	Bytes []byte
	// Settings are those that the state was written with, the text of keyed.Settings. They are
	// empty if the state does not say it, as on a cluster with cells: 0.
	Settings string
	// Place is where a changelog has the state; empty elsewhere.
	Place string
	// Err says why what is stored is not a state of the key, or is damaged.
	Err error

	stored []byte // what Open could not open
}

// FleetKey is the key of the state of all keys together, which transforms.Incidents has. It is not
// UTF-8, and so the key of no observation.
const FleetKey = "\x00\xffincidents"

// magic begins every sealed state.
const magic = "\xffHS"

// version is the byte after magic. After it come the key and the settings, each with its
// length as an unsigned varint, the state, and the CRC-32C of everything before it, little
// endian.
const version = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errForeign is the error of a state that is in another form. If all states are, they are not
// damaged.
var errForeign = errors.New("another version of this program wrote it, or another program")

// Seal returns the bytes that are stored for the state. Those that Open could not open it returns
// as they were.
func (s State) Seal() []byte {
	if s.stored != nil {
		return s.stored
	}
	b := make([]byte, 0, len(magic)+1+2*binary.MaxVarintLen32+len(s.Key)+len(s.Settings)+len(s.Bytes)+crc32.Size)
	b = append(append(b, magic...), version)
	for _, text := range []string{s.Key, s.Settings} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	b = append(b, s.Bytes...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Open returns the state that Seal has made bytes of. If they are not a state of the key, Err
// of the state says why.
func Open(key string, b []byte) State {
	s := State{Key: key}
	if s.Bytes, s.Settings, s.Err = open(key, b); s.Err != nil {
		s.stored = b
	}
	return s
}

func open(key string, b []byte) (state []byte, settings string, err error) {
	rest, sealed := bytes.CutPrefix(b, []byte(magic))
	if !sealed {
		return nil, "", fmt.Errorf("it has no seal: %w", errForeign)
	}
	if len(rest) < 1+crc32.Size {
		return nil, "", errors.New("it is damaged: its end is missing")
	}
	if v := rest[0]; v != version {
		return nil, "", fmt.Errorf("it has the version %d, and this program reads the version %d: %w", v, version, errForeign)
	}
	end := len(b) - crc32.Size
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, "", errors.New("it is damaged: its checksum is another")
	}
	rest = rest[1 : len(rest)-crc32.Size]
	of, rest, ok := cut(rest)
	text, state, more := cut(rest)
	switch {
	case !ok || !more:
		return nil, "", errors.New("it is damaged: it has no key or settings")
	case string(of) != key:
		return nil, "", fmt.Errorf("it is the state of another key, %s", message.Quote(string(of)))
	}
	return state, unique.Make(string(text)).Value(), nil // most keys have the same
}

// cut cuts a part with its length off b.
func cut(b []byte) (part, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	b = b[size:]
	return b[:n], b[n:], true
}
