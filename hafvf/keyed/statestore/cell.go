package statestore

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
	"hafvf/internal/table"
)

// A Cell is one state of a runner: the key states of one key, or of all keys with one hash. Reading or writing a
// state costs a round trip to the runner, whatever its size. Keys that share a cell share the trips.
//
// The zero cell has no keys.
//
// A small cell is rewritten as a whole. A larger one is a log: each bundle appends the key states that it changed,
// and the last entry of a key wins. A worker reads the log only if it does not have the last version of the cell.
type Cell struct {
	// Settings is the fingerprint of the settings that the key states were written with; zero for a cell of a
	// single key.
	Settings [8]byte

	table.Table
	logged   bool   // the runner stores the cell as a log
	id       CellID // first part of its versions
	seq      uint64 // number of the next piece of the log
	logBytes int    // size of the log in bytes
}

// A CellStore stores a cell as states of a runner.
type CellStore interface {
	// ReadHead returns the head. found is false if there is none.
	ReadHead() (head []byte, found bool, err error)
	WriteHead([]byte) error
	// ReadLog returns the pieces of the log, in any order.
	ReadLog() ([][]byte, error)
	AddLog(piece []byte) error
	ClearLog() error
	// ReadSettings returns the text of the settings that the key states were written with. Cell.Write writes it
	// when the settings change. It needs to be read only if they are not the job's settings.
	ReadSettings() (string, error)
	WriteSettings(string) error
}

const (
	// smallCell is the maximum size in bytes of a cell that is rewritten as a whole.
	smallCell = 4 << 10
	// logPiece limits a piece of the log, in bytes. A piece is a message to the runner.
	logPiece = 1 << 20
)

// The first byte of a cell's head. No key state starts with one of these bytes: a cell of a single key has the key
// state itself as its head.
const (
	headWhole    = 2 // the entries follow
	headLogged   = 3 // the version follows
	headSettings = 5 // the fingerprint of the settings follows, then one of the heads above
)

var ErrFormat = errors.New("state has the format of another version of this program: start the job without the savepoint")

var ErrCell = errors.New("state is corrupt: a cell is cut short or malformed")

var ErrPieces = errors.New("state is corrupt: pieces of a cell's log are missing: resume from an earlier savepoint")

var ErrSettings = errors.New("state is corrupt: the settings of a cell are missing or do not match: resume from an earlier savepoint")

// States returns the key states, sorted by key. written returns the settings that the state of a key was written
// with.
func (c *Cell) States(written func(key string) (keyed.Settings, string)) []State {
	states := make([]State, 0, c.Len())
	for key, b := range c.All() {
		_, text := written(key)
		states = append(states, State{Key: key, Bytes: b, Settings: text})
	}
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.Key, b.Key) })
	return states
}

// ReadCell returns the cell in a store. alone names the only key of the cell; it is empty if keys can share the
// cell. If the store has a log, and cached returns a cell for its version, ReadCell returns this cell and does not
// read the log.
func ReadCell(s CellStore, alone string, cached func(Version) *Cell) (*Cell, error) {
	c := &Cell{}
	head, ok, err := s.ReadHead()
	if err != nil || !ok {
		return c, err
	}
	n := 1 + len(c.Settings)
	switch {
	case len(head) > 0 && head[0] >= headWhole && head[0] < headSettings:
		return c, ErrFormat
	case len(head) > n && head[0] == headSettings:
		c.Settings, head = [8]byte(head[1:n]), head[n:]
	case alone == "" && len(head) > 0 && head[0] > headSettings:
		return c, fmt.Errorf("a cell has the format %d, and this program reads formats up to %d: %w", head[0], headSettings, keyed.ErrNewer)
	case alone == "" || len(head) > 0 && head[0] == headSettings:
		return c, ErrCell
	default:
		c.Put(alone, head)
		return c, nil
	}
	switch {
	case head[0] == headWhole:
		return c, c.load(head[1:])
	case len(head) == 1+len(Version{}) && head[0] == headLogged:
		v := Version(head[1:])
		if hit := cached(v); hit != nil {
			return hit, nil
		}
		c.id = v.Cell()
		return c, c.loadLog(s)
	}
	return c, ErrCell
}

// ReadSettings returns the settings that the cell was written with.
func (c *Cell) ReadSettings(s CellStore) (written keyed.AllSettings, err error) {
	text, err := s.ReadSettings()
	switch {
	case err != nil:
		return written, err
	case compact.FingerprintOf(text) != c.Settings:
		return written, ErrSettings
	}
	return keyed.ParseSettings[keyed.AllSettings](text)
}

func (c *Cell) loadLog(s CellStore) error {
	pieces, err := s.ReadLog()
	if err != nil {
		return err
	}
	c.logged = true
	type piece struct {
		seq     uint64
		entries []byte
	}
	parts := make([]piece, len(pieces))
	for i, b := range pieces {
		r := &compact.Reader{B: b}
		if parts[i] = (piece{r.Uvarint(), r.B}); r.Bad {
			return ErrCell
		}
	}
	if len(parts) == 0 {
		return ErrPieces
	}
	slices.SortFunc(parts, func(a, b piece) int { return cmp.Compare(a.seq, b.seq) })
	for i, b := range parts {
		if b.seq != parts[0].seq+uint64(i) {
			return ErrPieces
		}
		if err := c.load(b.entries); err != nil {
			return err
		}
		c.logBytes += len(b.entries)
		c.seq = b.seq + 1
	}
	c.Compact()
	return nil
}

// Write puts the changed key states into the cell, and writes it with the text of the job's settings, whose
// fingerprint is own. It returns the new version of the store, or zero if the store has no log. If the cell is
// spilled and its file cannot store the changes, Write still writes them to the store; Err then reports that the
// cell is no longer valid.
func (c *Cell) Write(s CellStore, settings string, own [8]byte, changed iter.Seq2[string, []byte]) (v Version, err error) {
	if err := c.Err(); err != nil {
		return v, err // parts of the cell could not be read
	}
	var written []byte
	for key, b := range changed {
		if c.Put(key, b); c.logged {
			written = appendEntry(written, key, b)
		}
	}
	settingsChanged := c.Settings != own
	if settingsChanged {
		if err := s.WriteSettings(settings); err != nil {
			return v, err
		}
		c.Settings = own
	}
	head := append([]byte{headSettings}, own[:]...)
	if !c.logged && c.Live() <= smallCell {
		return v, s.WriteHead(c.appendAll(append(head, headWhole)))
	}
	if !c.logged || settingsChanged || c.Err() == nil && c.logBytes+len(written) > 2*c.Live()+smallCell {
		entries := c.appendAll(make([]byte, 0, c.Live()))
		switch err := c.Err(); {
		case err == nil:
			if c.logged {
				if err := s.ClearLog(); err != nil {
					return v, err
				}
			}
			written, c.logBytes, c.logged = entries, 0, len(entries) > 0
			if !c.logged { // a log without pieces would count as lost
				return v, s.WriteHead(append(head, headWhole))
			}
		case settingsChanged:
			return v, err
		}
	}
	if err := c.appendLog(s, written); err != nil {
		return v, err
	}
	if c.id == (CellID{}) {
		rand.Read(c.id[:])
	}
	rand.Read(v[copy(v[:], c.id[:]):])
	return v, s.WriteHead(append(append(head, headLogged), v[:]...))
}

// appendLog appends entries to the log, in pieces of whole entries.
func (c *Cell) appendLog(s CellStore, entries []byte) error {
	c.logBytes += len(entries)
	for len(entries) > 0 {
		r := &compact.Reader{B: entries}
		for len(r.B) > 0 && len(entries)-len(r.B) < logPiece {
			r.Part()
			r.Part()
		}
		n := len(entries) - len(r.B)
		if err := s.AddLog(append(binary.AppendUvarint(nil, c.seq), entries[:n]...)); err != nil {
			return err
		}
		c.seq++
		entries = entries[n:]
	}
	return nil
}

// A Version identifies the content of a cell after one write, among all cells and writes. The runner stores it in
// the cell's head. So a worker needs no notification: its copy with the runner's version is the current content,
// also after a restart from a checkpoint, on another worker, and after a write that was rolled back. All versions
// of a cell start with its CellID, so that a worker can find its outdated copy.
type Version [16]byte

// A CellID is the part of a version that identifies the cell.
type CellID [8]byte

// Cell returns the ID of the cell.
func (v Version) Cell() CellID { return CellID(v[:8]) }

// appendAll appends all entries as they are stored.
func (c *Cell) appendAll(dst []byte) []byte {
	for key, b := range c.All() {
		dst = appendEntry(dst, key, b)
	}
	return dst
}

// load puts stored entries into the cell, in order: the last entry of a key wins. An entry without bytes removes
// its key.
func (c *Cell) load(b []byte) error {
	c.Reserve(0, len(b))
	for r := (&compact.Reader{B: b}); len(r.B) > 0; {
		key, entity := r.Text(), r.Part()
		if r.Bad {
			return ErrCell
		}
		c.Put(key, entity)
	}
	return nil
}

// appendEntry appends a stored entry: key and key state, each after its length.
func appendEntry(dst []byte, key string, b []byte) []byte {
	return compact.AppendString(compact.AppendString(dst, key), b)
}
