// Package statestore stores the states of keys between runs, each with the settings that it was written with. A
// state in a changelog or a file is sealed, so that a damaged state, or the state of another key, is detected. A
// runner's cells also hold states; package transforms reads them.
package statestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
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
	// Bytes is the result of keyed.KeyState.AppendBinary.
	Bytes []byte
	// Settings are the settings that the state was written with, the text of keyed.Settings.
	Settings string
	// Place is the position of the state in a changelog; empty for other stores.
	Place string
	// Err is the reason why the stored bytes are not a valid state of the key.
	Err error

	stored []byte // bytes that Open could not open
}

// reserved starts every reserved key. It is not valid UTF-8, so no key of an observation starts with it.
const reserved = "\x00\xff"

// The reserved keys: of the state of all keys together, see transforms.Incidents, and of the runtime settings, see
// account.Run.SetRuntimeSetting.
const (
	FleetKey = reserved + "incidents"
	// FormerAlarmsKey holds alarms in states of earlier versions. Runs remove it.
	FormerAlarmsKey = reserved + "alarms"
	QuietKey        = reserved + "quiet" // quiet times of files
	MarksKey        = reserved + "marks" // marks of alarms, and the position up to which they were read
)

// OpenAlertsKey returns the reserved key of the open alerts of a receiver, by its index in the config.
func OpenAlertsKey(receiver int) string { return reserved + "open/" + strconv.Itoa(receiver) }

// Reserved reports whether a key is reserved, so that it is not the key of observations.
func Reserved(key string) bool { return strings.HasPrefix(key, reserved) }

// magic starts every sealed state.
const magic = "\xffHS"

// version is the byte after magic. The key and the settings follow, each after its length as an unsigned varint,
// then the state, and the CRC-32C of everything before it, little endian.
const version = 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errOtherKey is the error of a state in another format. If all states have this error, they are not damaged.
var errOtherKey = errors.New("another version of this program wrote it, or another program")

// Seal returns the stored bytes of the state. For a state that Open could not open, it returns the original bytes.
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

// Open returns the state from the bytes that Seal returned. If they are not a state of the key, Err of the state is
// the reason.
func Open(key string, b []byte) State {
	state, settings, err := open(key, b)
	if err != nil {
		return State{Key: key, Err: err, stored: b}
	}
	return State{Key: key, Bytes: state, Settings: unique.Make(string(settings)).Value()} // most keys share their settings
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
		return nil, nil, errors.New("it is damaged: its checksum does not match")
	}
	r := compact.Reader{B: rest[1 : len(rest)-crc32.Size]}
	owner, settings := r.Part(), r.Part()
	switch {
	case r.Bad:
		return nil, nil, errors.New("it is damaged: it has no key or settings")
	case string(owner) != key:
		return nil, nil, fmt.Errorf("it is the state of another key, %s", message.Quote(string(owner)))
	}
	return r.B, settings, nil
}

// An Unsealer compacts stored states, most of which have the same settings. It is safe for concurrent use. The zero
// value is ready for use.
type Unsealer struct {
	mu       sync.RWMutex
	settings []string
	index    map[string]int // index in settings by text, from 1
}

// Unseal appends the compact form of a stored state of a key to dst.
func (u *Unsealer) Unseal(dst []byte, key string, stored []byte) []byte {
	state, settings, err := open(key, stored)
	if err != nil {
		return append(append(dst, 0), stored...)
	}
	u.mu.RLock()
	n, known := u.index[string(settings)]
	u.mu.RUnlock()
	if !known {
		n = u.add(string(settings))
	}
	return append(binary.AppendUvarint(dst, uint64(n)), state...)
}

func (u *Unsealer) add(settings string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n, known := u.index[settings]; known {
		return n
	}
	if u.index == nil {
		u.index = map[string]int{}
	}
	u.settings = append(u.settings, settings)
	u.index[settings] = len(u.settings)
	return len(u.settings)
}

// Open is the package's Open for the form that Unseal has appended.
func (u *Unsealer) Open(key string, b []byte) State {
	n, size := binary.Uvarint(b)
	if b = b[size:]; n == 0 {
		return Open(key, b)
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	return State{Key: key, Bytes: b, Settings: u.settings[n-1]}
}
