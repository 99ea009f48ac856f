package transforms

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
	"hafvf/internal/states"
)

// A cell is what a runner keeps as one state: the entities of one key, or of all keys
// of one hash. Reading or writing a state is a round trip to the runner, whatever its
// size. Keys that share a cell share the trips.
//
// A small cell is rewritten whole. A larger one is a log: a bundle appends the entities
// that it changed, and the last of a key counts. The log is read only by a worker that
// has not got its last version.
type cell struct {
	data   []byte            // entries: a key and its encoded entity
	at     map[string]extent // the last entry of each key
	live   int               // bytes of the entries in at
	logged bool              // the runner has the cell as a log
	seq    uint64            // of the next piece of the log

	settings keyed.Fingerprint // of the settings that its entities were written with; zero if it has one key alone

	// When keys have to be looked at again; nil where that is not known.
	waits     map[string]wait      // observations that wait
	deadlines map[string]time.Time // when a key becomes silent
	// What the timers of the cell are set for. A timer may be too early, and never late.
	timers  wait
	watched time.Time
}

// An extent is the place of an entity in the data of a cell.
type extent struct{ start, end, entry int } // entry is the whole entry's size

// A wait spans the times of observations that wait; zero where none does.
type wait struct{ first, last time.Time }

// add extends the span by another, and reports whether that was more.
func (w *wait) add(o wait) bool {
	was := *w
	if w.first.IsZero() || !o.first.IsZero() && o.first.Before(w.first) {
		w.first = o.first
	}
	if o.last.After(w.last) {
		w.last = o.last
	}
	return *w != was
}

// findWaits looks for the keys with observations that wait.
func (c *cell) findWaits() {
	if c.waits != nil {
		return
	}
	c.waits = map[string]wait{}
	for key := range c.at {
		if first, last := keyed.Waiting(c.entity(key)); !first.IsZero() {
			c.waits[key] = wait{first, last}
		}
	}
	c.timers = c.wait()
}

// wait spans the observations of all keys that wait.
func (c *cell) wait() (all wait) {
	for _, w := range c.waits {
		all.add(w)
	}
	return all
}

// cellName returns the name of the key's cell.
func cellName(key string, cells []string) string {
	if len(cells) == 0 {
		return key
	}
	return cells[fnv1a(key)%uint64(len(cells))]
}

// fnv1a is the hash FNV-1a. It may not change: states are found by it.
func fnv1a(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
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

var errFormat = errors.New("state has the format of another version of this program: start the job without the savepoint")

var errCell = errors.New("state is corrupt: a cell is cut short or malformed")

var errPieces = errors.New("state is corrupt: pieces of a cell's log are missing; go on from an earlier savepoint")

var errSettings = errors.New("state is corrupt: the settings of a cell are missing or others; go on from an earlier savepoint")

// entity returns the encoded entity of a key, nil where the cell has none.
func (c *cell) entity(key string) []byte {
	x, ok := c.at[key]
	if !ok {
		return nil
	}
	return c.data[x.start:x.end]
}

// states are the entities, by key, with the settings that each was written with.
func (c *cell) states(written func(key string) (keyed.Settings, string)) []states.State {
	all := make([]states.State, 0, len(c.at))
	for _, key := range slices.Sorted(maps.Keys(c.at)) {
		_, text := written(key)
		all = append(all, states.State{Key: key, Bytes: c.entity(key), Settings: text})
	}
	return all
}

// put makes b the key's entity.
func (c *cell) put(key string, b []byte) {
	was := len(c.data)
	c.data = compact.AppendString(c.data, key)
	c.data = binary.AppendUvarint(c.data, uint64(len(b)))
	start := len(c.data)
	c.data = append(c.data, b...)
	c.index(key, extent{start, len(c.data), len(c.data) - was})
}

func (c *cell) index(key string, x extent) {
	c.live += x.entry - c.at[key].entry
	c.at[key] = x
}

// load appends entries to the cell.
func (c *cell) load(entries []byte) error {
	c.data = append(c.data, entries...)
	r := &compact.Reader{B: c.data[len(c.data)-len(entries):]}
	for len(r.B) > 0 {
		was := len(c.data) - len(r.B)
		key := r.Text()
		n := r.Count(1)
		start := len(c.data) - len(r.B)
		if r.Bad {
			return errCell
		}
		r.B = r.B[n:]
		c.index(key, extent{start, start + n, start + n - was})
	}
	return nil
}

// compact drops the entries that are not the last of their keys.
func (c *cell) compact() {
	if len(c.data) == c.live {
		return
	}
	all := make([]extent, 0, len(c.at))
	keys := make(map[int]string, len(c.at))
	for key, x := range c.at {
		all = append(all, x)
		keys[x.end] = key
	}
	slices.SortFunc(all, func(a, b extent) int { return cmp.Compare(a.end, b.end) })
	data := make([]byte, 0, c.live)
	for _, x := range all {
		data = append(data, c.data[x.end-x.entry:x.end]...)
		c.at[keys[x.end]] = extent{len(data) - (x.end - x.start), len(data), x.entry}
	}
	c.data = data
}

// A cellState is how the runner keeps cells.
type cellState struct {
	head *state.Value[[]byte]
	log  *state.Bag[[]byte]
	// settings is the text of the settings that the entities were written with. It is written
	// when they change, and read when they are not the job's.
	settings *state.Value[[]byte]
	text     string            // of the job's settings; empty if keys share no states
	own      keyed.Fingerprint // of text
}

// read returns the cell. alone names the only key of the cell, where it has but one.
func (s cellState) read(p state.Provider, alone string) (*cell, error) {
	c := &cell{at: map[string]extent{}}
	head, ok, err := s.head.Read(p)
	if err != nil || !ok {
		return c, err
	}
	n := 1 + len(c.settings)
	switch {
	case len(head) > 0 && head[0] >= headWhole && head[0] < headSettings:
		return c, errFormat
	case len(head) > n && head[0] == headSettings:
		c.settings, head = keyed.Fingerprint(head[1:n]), head[n:]
	case alone == "" || len(head) > 0 && head[0] == headSettings:
		return c, errCell
	default:
		c.data = head
		c.index(alone, extent{end: len(head), entry: len(head)})
		return c, nil
	}
	switch {
	case head[0] == headWhole:
		return c, c.load(head[1:])
	case len(head) == 1+len(version{}) && head[0] == headLogged:
		v := version(head[1:])
		if kept := kept.take(v); kept != nil {
			return kept, nil
		}
		return c, s.readLog(p, c)
	}
	return c, errCell
}

// readSettings returns the settings that a cell was written with.
func (s cellState) readSettings(p state.Provider, c *cell) (written keyed.AllSettings, err error) {
	text, _, err := s.settings.Read(p)
	switch {
	case err != nil:
		return written, err
	case keyed.FingerprintOf(string(text)) != c.settings:
		return written, errSettings
	}
	return keyed.ParseSettings[keyed.AllSettings](string(text))
}

func (s cellState) readLog(p state.Provider, c *cell) error {
	pieces, _, err := s.log.Read(p)
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
			return errCell
		}
	}
	if len(all) == 0 {
		return errPieces
	}
	// A bag has no order.
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.seq, b.seq) })
	for i, b := range all {
		if b.seq != all[0].seq+uint64(i) {
			return errPieces
		}
		if err := c.load(b.entries); err != nil {
			return err
		}
		c.seq = b.seq + 1
	}
	return nil
}

// write writes the cell with the changed entities in it. alone is as for read.
func (s cellState) write(p state.Provider, c *cell, alone string, changed []*held) error {
	if alone != "" {
		if len(changed) == 0 {
			return nil // a timer fired for nothing
		}
		return s.head.Write(p, changed[0].state)
	}
	tail := len(c.data)
	for _, e := range changed {
		c.put(e.key, e.state)
	}
	others := c.settings != s.own
	if others {
		if err := s.settings.Write(p, []byte(s.text)); err != nil {
			return err
		}
		c.settings = s.own
	}
	head := append([]byte{headSettings}, s.own[:]...)
	if !c.logged && c.live <= smallCell {
		c.compact()
		return s.head.Write(p, append(append(head, headWhole), c.data...))
	}
	if !c.logged || others || len(c.data) > 2*c.live+smallCell {
		c.compact()
		tail = 0
		if c.logged {
			if err := s.log.Clear(p); err != nil {
				return err
			}
		}
		c.logged = true
	}
	if err := s.append(p, c, c.data[tail:]); err != nil {
		return err
	}
	v := newVersion()
	kept.put(v, c)
	return s.head.Write(p, append(append(head, headLogged), v[:]...))
}

// append appends entries to the log, in pieces of whole entries.
func (s cellState) append(p state.Provider, c *cell, entries []byte) error {
	for len(entries) > 0 {
		r := &compact.Reader{B: entries}
		for len(r.B) > 0 && len(entries)-len(r.B) < logPiece {
			r.Text()
			r.Text()
		}
		n := len(entries) - len(r.B)
		if err := s.log.Add(p, append(binary.AppendUvarint(nil, c.seq), entries[:n]...)); err != nil {
			return err
		}
		c.seq++
		entries = entries[n:]
	}
	return nil
}

// A version names what a cell held after one write, among all cells and writes
// anywhere. The runner has it in the cell's head. So a worker need not be told which of
// its copies hold: a copy under the version that the runner has is the cell, also after
// a restart from a checkpoint, on another worker, and where the write was rolled back.
type version [16]byte

func newVersion() (v version) {
	rand.Read(v[:])
	return v
}

// kept are the copies of cells of this process: 512 MB of them, or a quarter of GOMEMLIMIT
// where that is set.
var kept = &copies{of: map[version]*cell{}, bound: copiesBound(debug.SetMemoryLimit(-1))}

func copiesBound(limit int64) int {
	if limit == math.MaxInt64 {
		return 512 << 20
	}
	return int(limit / 4)
}

type copies struct {
	mu    sync.Mutex
	of    map[version]*cell
	bytes int
	bound int // of bytes
}

// size is about what a cell takes in memory: an index entry is counted as 100 bytes.
func (c *cell) size() int { return cap(c.data) + 100*len(c.at) }

// take removes and returns the copy, nil where there is none.
func (k *copies) take(v version) *cell {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.of[v]
	if c != nil {
		delete(k.of, v)
		k.bytes -= c.size()
	}
	return c
}

// put keeps the copy, and drops any others where that is too much. A copy that was
// dropped costs a reading of the log.
func (k *copies) put(v version, c *cell) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of[v] = c
	k.bytes += c.size()
	for other, o := range k.of {
		if k.bytes <= k.bound {
			return
		}
		if other != v {
			delete(k.of, other)
			k.bytes -= o.size()
		}
	}
}
