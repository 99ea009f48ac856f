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

// A Cell is what a runner keeps as one state: the entities of one key, or of all keys
// of one hash. Reading or writing a state is a round trip to the runner, whatever its
// size. Keys that share a cell share the trips.
//
// The zero cell has no entities.
//
// A small cell is rewritten whole. A larger one is a log: a bundle appends the entities
// that it changed, and the last of a key counts. The log is read only by a worker that
// has not got its last version.
type Cell struct {
	// Settings are those that the entities were written with; zero if the cell has one key
	// alone.
	Settings compact.Fingerprint

	table.Table
	logged bool   // the runner has the cell as a log
	name   CellID // of its versions
	seq    uint64 // of the next piece of the log
	log    int    // bytes of the log
}

// A CellStore keeps a cell, as states of a runner.
type CellStore interface {
	// ReadHead returns the head; there is false if there is none.
	ReadHead() (head []byte, there bool, err error)
	WriteHead([]byte) error
	// ReadLog returns the pieces of the log, in any order.
	ReadLog() ([][]byte, error)
	AddLog(piece []byte) error
	ClearLog() error
	// ReadSettings returns the text of the settings that the entities were written with. It is
	// written when they change, and read if they are not the job's.
	ReadSettings() (string, error)
	WriteSettings(string) error
}

const (
	// smallCell is the size in bytes up to which a cell is rewritten whole.
	smallCell = 4 << 10
	// logPiece bounds a piece of the log, a message to the runner.
	logPiece = 1 << 20
)

// The head of a cell starts with a byte that no entity starts with: the state of a key that
// shares none is its entity.
const (
	headWhole    = 2 // the entries follow
	headLogged   = 3 // the version follows
	headSettings = 5 // the fingerprint of the settings follows, and then one of the heads above
)

var ErrFormat = errors.New("state has the format of another version of this program: start the job without the savepoint")

var ErrCell = errors.New("state is corrupt: a cell is cut short or malformed")

var ErrPieces = errors.New("state is corrupt: pieces of a cell's log are missing; go on from an earlier savepoint")

var ErrSettings = errors.New("state is corrupt: the settings of a cell are missing or others; go on from an earlier savepoint")

// States are the entities, by key, with the settings that each was written with.
func (c *Cell) States(written func(key string) (keyed.Settings, string)) []State {
	all := make([]State, 0, c.Len())
	for key, b := range c.All() {
		_, text := written(key)
		all = append(all, State{Key: key, Bytes: b, Settings: text})
	}
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// ReadCell returns the cell in a store. alone names the only key of the cell, if it has but
// one. If the store has a log, and known returns a cell for its version, the log is not read.
func ReadCell(s CellStore, alone string, known func(Version) *Cell) (*Cell, error) {
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
		c.Settings, head = compact.Fingerprint(head[1:n]), head[n:]
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
		if kept := known(v); kept != nil {
			return kept, nil
		}
		c.name = v.Cell()
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
	all := make([]piece, len(pieces))
	for i, b := range pieces {
		r := &compact.Reader{B: b}
		if all[i] = (piece{r.Uvarint(), r.B}); r.Bad {
			return ErrCell
		}
	}
	if len(all) == 0 {
		return ErrPieces
	}
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.seq, b.seq) })
	for i, b := range all {
		if b.seq != all[0].seq+uint64(i) {
			return ErrPieces
		}
		if err := c.load(b.entries); err != nil {
			return err
		}
		c.log += len(b.entries)
		c.seq = b.seq + 1
	}
	c.Compact()
	return nil
}

// Write makes the changed entities, by key, those of the cell, and writes it with the text of
// the job's settings, whose fingerprint is own. It returns the version that the store has now;
// zero if it has no log. If the cell is spilled and its file does not take the changes, the store
// takes them all the same; Err says then that the cell is of no use any more.
func (c *Cell) Write(s CellStore, settings string, own compact.Fingerprint, changed iter.Seq2[string, []byte]) (v Version, err error) {
	if err := c.Err(); err != nil {
		return v, err // what was read is not all
	}
	var written []byte
	for key, b := range changed {
		if c.Put(key, b); c.logged {
			written = appendEntry(written, key, b)
		}
	}
	others := c.Settings != own
	if others {
		if err := s.WriteSettings(settings); err != nil {
			return v, err
		}
		c.Settings = own
	}
	head := append([]byte{headSettings}, own[:]...)
	if !c.logged && c.Live() <= smallCell {
		return v, s.WriteHead(c.appendAll(append(head, headWhole)))
	}
	if !c.logged || others || c.Err() == nil && c.log+len(written) > 2*c.Live()+smallCell {
		all := c.appendAll(make([]byte, 0, c.Live()))
		switch err := c.Err(); {
		case err == nil:
			if c.logged {
				if err := s.ClearLog(); err != nil {
					return v, err
				}
			}
			written, c.log, c.logged = all, 0, len(all) > 0
			if !c.logged { // a log without pieces is one that was lost
				return v, s.WriteHead(append(head, headWhole))
			}
		case others:
			return v, err
		}
	}
	if err := c.appendLog(s, written); err != nil {
		return v, err
	}
	if c.name == (CellID{}) {
		rand.Read(c.name[:])
	}
	rand.Read(v[copy(v[:], c.name[:]):])
	return v, s.WriteHead(append(append(head, headLogged), v[:]...))
}

// appendLog appends entries to the log, in pieces of whole entries.
func (c *Cell) appendLog(s CellStore, entries []byte) error {
	c.log += len(entries)
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

// A Version names what a cell held after one write, among all cells and writes
// anywhere. The runner has it in the cell's head. So a worker need not be told which of
// its copies hold: a copy under the version that the runner has is the cell, also after
// a restart from a checkpoint, on another worker, and if the write was rolled back. All
// versions of a cell begin with its name, so that a worker can tell which copy has become old.
type Version [16]byte

// A CellID is the part of a version that names the cell.
type CellID [8]byte

// Cell returns the name of the cell.
func (v Version) Cell() CellID { return CellID(v[:8]) }

// appendAll appends all entities as they are stored.
func (c *Cell) appendAll(to []byte) []byte {
	for key, b := range c.All() {
		to = appendEntry(to, key, b)
	}
	return to
}

// load puts stored entities, the last of a key last. An entry without bytes removes its key.
func (c *Cell) load(b []byte) error {
	c.Expect(0, len(b))
	for r := (&compact.Reader{B: b}); len(r.B) > 0; {
		key, entity := r.Text(), r.Part()
		if r.Bad {
			return ErrCell
		}
		c.Put(key, entity)
	}
	return nil
}

// appendEntry appends an entry as it is stored: key and entity, each behind its length.
func appendEntry(to []byte, key string, b []byte) []byte {
	return compact.AppendString(compact.AppendString(to, key), b)
}
