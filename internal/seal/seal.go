// Package seal wraps the stored state of a key, so that a damaged state and the state of
// another key are not taken for it.
package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unique"

	"hafvf/internal/message"
)

// magic begins every sealed state.
const magic = "\xffHS"

// version is the byte after magic. After it come the key and the settings, each with its
// length as an unsigned varint, the state, and the CRC-32C of everything before it, little
// endian.
const version = 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal returns the state as it is stored for a key. settings say what the meaning of the
// state depends on and the state itself does not say; Open returns them.
func Seal(key, settings string, state []byte) []byte {
	b := make([]byte, 0, len(magic)+1+2*binary.MaxVarintLen32+len(key)+len(settings)+len(state)+crc32.Size)
	b = append(append(b, magic...), version)
	for _, s := range []string{key, settings} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = append(b, state...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Open returns what Seal was given for the key. The error says why b is not a state of the
// key.
func Open(key string, b []byte) (state []byte, settings string, err error) {
	rest, sealed := bytes.CutPrefix(b, []byte(magic))
	if !sealed {
		return nil, "", errors.New("it has no seal: another version of this program wrote it, or another program, and this one has to begin anew")
	}
	if len(rest) < 1+crc32.Size {
		return nil, "", errors.New("it is damaged: its end is missing")
	}
	if v := rest[0]; v != version {
		return nil, "", fmt.Errorf("it has the version %d, and this program reads the version %d: it is of another version of this program, or damaged", v, version)
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
