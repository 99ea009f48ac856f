// Package statestore is what is stored of keys between runs: states, each with the settings that
// it was written with. A state in a changelog or a file is sealed, so that a damaged state or
// the state of another key is not taken for it. A runner's cells hold states too,
// which package transforms reads.
package statestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"unique"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
	"hafvf/internal/message"
)

// A State is the stored state of a key.
type State struct {
	Key string
	// Bytes are what keyed.KeyState.AppendBinary has written.
	Bytes []byte
	// Settings are those that the state was written with, the text of keyed.Settings.
	Settings string
	// Place is where a changelog has the state; empty elsewhere.
	Place string
	// Err says why what is stored is not a state of the key, or is damaged.
	Err error

	stored []byte // what Open could not open
}

// reserved begins every reserved key. It is not UTF-8, and so begins the key of no observation.
const reserved = "\x00\xff"

// The reserved keys: of the state of all keys together, which transforms.Incidents has, and of what a run works by beside
// its configuration, see account.Run.Instruct.
const (
	FleetKey = reserved + "incidents"
	// AlarmsKey is that of the last alarms, which marks may be of.
	AlarmsKey = reserved + "alarms"
	QuietKey  = reserved + "quiet" // quiet times of files
	MarksKey  = reserved + "marks" // of alarms, and how far they were read
)

// Reserved reports whether a key is none of observations.
func Reserved(key string) bool { return strings.HasPrefix(key, reserved) }

// magic begins every sealed state.
const magic = "\xffHS"

// version is the byte after magic. After it come the key and the settings, each with its
// length as an unsigned varint, the state, and the CRC-32C of everything before it, little
// endian.
const version = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errOtherKey is the error of a state that is in another form. If all states are, they are not
// damaged.
var errOtherKey = errors.New("another version of this program wrote it, or another program")

// Seal returns the bytes that are stored for the state. Those that Open could not open it returns
// as they were.
func (s State) Seal() []byte {
	if s.stored != nil {
		return s.stored
	}
	b := make([]byte, 0, len(magic)+1+2*binary.MaxVarintLen32+len(s.Key)+len(s.Settings)+len(s.Bytes)+crc32.Size)
	b = append(append(b, magic...), version)
	b = compact.AppendString(compact.AppendString(b, s.Key), s.Settings)
	b = append(b, s.Bytes...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Open returns the state that Seal has made bytes of. If they are not a state of the key, Err
// of the state says why.
func Open(key string, b []byte) State {
	state, settings, err := open(key, b)
	if err != nil {
		return State{Key: key, Err: err, stored: b}
	}
	return State{Key: key, Bytes: state, Settings: unique.Make(string(settings)).Value()} // most keys have the same
}

func open(key string, b []byte) (state, settings []byte, err error) {
	rest, sealed := bytes.CutPrefix(b, []byte(magic))
	if !sealed {
		return nil, nil, fmt.Errorf("it has no seal: %w", errOtherKey)
	}
	if len(rest) < 1+crc32.Size {
		return nil, nil, errors.New("it is damaged: its end is missing")
	}
	if v := rest[0]; v > version {
		return nil, nil, fmt.Errorf("it has the version %d, and this program reads versions up to %d: %w", v, version, keyed.ErrNewer)
	} else if v != version {
		return nil, nil, fmt.Errorf("it has the version %d, and this program reads the version %d: %w", v, version, errOtherKey)
	}
	end := len(b) - crc32.Size
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, nil, errors.New("it is damaged: its checksum is another")
	}
	r := compact.Reader{B: rest[1 : len(rest)-crc32.Size]}
	of, settings := r.Part(), r.Part()
	switch {
	case r.Bad:
		return nil, nil, errors.New("it is damaged: it has no key or settings")
	case string(of) != key:
		return nil, nil, fmt.Errorf("it is the state of another key, %s", message.Quote(string(of)))
	}
	return r.B, settings, nil
}

// An Unsealer holds stored states in fewer bytes, as most have the same settings. Its methods may be
// called by several goroutines. The zero value is ready.
type Unsealer struct {
	mu       sync.RWMutex
	settings []string
	number   map[string]int // by settings, their place from 1
}

// Unseal appends what Open opens of the stored state of a key.
func (u *Unsealer) Unseal(to []byte, key string, stored []byte) []byte {
	state, settings, err := open(key, stored)
	if err != nil {
		return append(append(to, 0), stored...)
	}
	u.mu.RLock()
	n, known := u.number[string(settings)]
	u.mu.RUnlock()
	if !known {
		n = u.add(string(settings))
	}
	return append(binary.AppendUvarint(to, uint64(n)), state...)
}

func (u *Unsealer) add(settings string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n, known := u.number[settings]; known {
		return n
	}
	if u.number == nil {
		u.number = map[string]int{}
	}
	u.settings = append(u.settings, settings)
	u.number[settings] = len(u.settings)
	return len(u.settings)
}

// Open is the package's Open of what Unseal has appended.
func (u *Unsealer) Open(key string, b []byte) State {
	n, size := binary.Uvarint(b)
	if b = b[size:]; n == 0 {
		return Open(key, b)
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	return State{Key: key, Bytes: b, Settings: u.settings[n-1]}
}
