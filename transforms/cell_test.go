package transforms

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/compact"
	"hafvf/internal/table"
	"hafvf/internal/testing/expect"

	"github.com/google/go-cmp/cmp"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
)

// A runner stores the states of one cell. It returns the bag in random order.
type runner struct {
	state.Provider
	value    any // the head
	settings any
	bag      []any
	rng      *rand.Rand
	logs     int // number of reads of the bag
	err      error
}

// state returns the value with a name.
func (r *runner) state(name string) *any {
	if name == "settings" {
		return &r.settings
	}
	return &r.value
}

func (r *runner) ReadValueState(name string) (any, []state.Transaction, error) {
	return *r.state(name), nil, r.err
}

func (r *runner) WriteValueState(t state.Transaction) error {
	*r.state(t.Key) = t.Val
	return nil
}

func (r *runner) ReadBagState(string) ([]any, []state.Transaction, error) {
	r.logs++
	r.rng.Shuffle(len(r.bag), func(i, j int) { r.bag[i], r.bag[j] = r.bag[j], r.bag[i] })
	return slices.Clone(r.bag), nil, nil
}

func (r *runner) WriteBagState(t state.Transaction) error {
	r.bag = append(slices.Clip(r.bag), t.Val)
	return nil
}

func (r *runner) ClearBagState(state.Transaction) error {
	r.bag = nil
	return nil
}

func (r *runner) bytes() (n int) {
	for _, b := range r.bag {
		n += len(b.([]byte))
	}
	return n
}

func statesOfCells() cellState {
	head, log, settings := state.MakeValueState[[]byte]("entity"), state.MakeBagState[[]byte]("log"), state.MakeValueState[[]byte]("settings")
	text := changed[0].Config.AllSettings().String()
	return cellState{head: &head, log: &log, settings: &settings, text: text, fingerprint: compact.FingerprintOf(text)}
}

// small is the maximum size in bytes of a cell that is rewritten as a whole.
const small = 4 << 10

// A disk is a temporary file that fails sometimes.
type disk struct {
	table.ReaderWriterAt
	fails func() bool
}

var errDisk = errors.New("disk failed")

func (d disk) ReadAt(b []byte, offset int64) (int, error) {
	if d.fails() {
		return 0, errDisk
	}
	return d.ReaderWriterAt.ReadAt(b, offset)
}

func (d disk) WriteAt(b []byte, offset int64) (int, error) {
	if d.fails() {
		return 0, errDisk
	}
	return d.ReaderWriterAt.WriteAt(b, offset)
}

// copiesOn returns a cache that spills its copies to a disk.
func copiesOn(bound int, fails func() bool) *cache {
	k := newCache(bound)
	k.create = func() (table.ReaderWriterAt, error) {
		f, err := temporary()
		return disk{f, fails}, err
	}
	return k
}

// A cell has the last state of every key, whichever copies workers have, in memory or not, also after bundles that
// failed or were rolled back.
func TestCell(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if seed > 2 {
				expect.Long(t, "more seeds")
			}
			rng := rand.New(rand.NewPCG(seed, 7))
			defer func(former *cache) { cellCache = former }(cellCache)
			rarely := func() bool { return rng.IntN(500) == 0 }
			workers := []*cache{newCache(1 << 20), newCache(5000), newCache(0), copiesOn(5000, rarely)}
			r := &runner{rng: rng}
			states := statesOfCells()
			want := map[string]string{}
			type point struct {
				runner
				want map[string]string
			}
			var checkpoint point
			keys, size := 1+rng.IntN(300), 1+rng.IntN(300)
			spilled := 0
			for bundle := range 300 {
				if bundle%3 == 0 {
					index := rng.IntN(len(workers))
					if cellCache = workers[index]; cellCache.file != nil && cellCache.file.Err() != nil {
						workers[index] = copiesOn(5000, rarely) // another worker, whose disk works
					}
				}
				c, err := states.read(r, "")
				if err != nil {
					t.Fatalf("bundle %d: %v", bundle, err)
				}
				got := map[string]string{}
				for key, b := range c.All() {
					got[key] = string(b)
				}
				if c.Err() != nil {
					if err := states.write(r, c, "", nil); !errors.Is(err, errDisk) {
						t.Fatalf("bundle %d: written after an error: %v", bundle, err)
					}
					continue // the bundle fails
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("bundle %d: %s", bundle, d)
				}
				if c.Spilled() {
					spilled++
				}
				var changed []*openKey
				for range 1 + rng.IntN(20) {
					e := &openKey{key: fmt.Sprint(rng.IntN(keys)), state: make([]byte, rng.IntN(size))}
					for i := range e.state {
						e.state[i] = byte(rng.IntN(256))
					}
					if !slices.ContainsFunc(changed, func(o *openKey) bool { return o.key == e.key }) {
						changed = append(changed, e)
						if want[e.key] = string(e.state); len(e.state) == 0 { // the key is forgotten
							delete(want, e.key)
						}
					}
				}
				expect.OK(t, states.write(r, c, "", changed))
				if n := r.bytes(); c.Err() == nil && n > 3*c.Live()+2*small {
					t.Fatalf("bundle %d: the log has %d bytes, %d of them live", bundle, n, c.Live())
				}
				switch rng.IntN(10) {
				case 0:
					checkpoint = point{*r, maps.Clone(want)}
				case 1:
					if checkpoint.want != nil {
						*r, want = checkpoint.runner, maps.Clone(checkpoint.want)
					}
				}
			}
			if big := keys*size > 1<<15; big && spilled < 10 {
				t.Errorf("%d bundles with a spilled copy", spilled)
			}
		})
	}
}

// A log without one of its pieces is an error: otherwise its keys would be reset without notice.
func TestCellLacksPieces(t *testing.T) {
	states, r := statesOfCells(), &runner{rng: rand.New(rand.NewPCG(1, 2))}
	c := &cell{Cell: &statestore.Cell{}}
	for i := range 3 {
		expect.OK(t, states.write(r, c, "", []*openKey{{key: fmt.Sprint(i), state: make([]byte, 2*small)}}))
	}
	cellCache.take(statestore.Version(r.value.([]byte)[10:]))
	if len(r.bag) != 3 {
		t.Fatalf("%d pieces", len(r.bag))
	}
	for _, bag := range [][]any{nil, {r.bag[0], r.bag[2]}, {r.bag[0], r.bag[1], r.bag[1], r.bag[2]}} {
		if _, err := states.read(&runner{value: r.value, bag: bag, rng: r.rng}, ""); !errors.Is(err, statestore.ErrPieces) {
			t.Errorf("%d pieces: %v", len(bag), err)
		}
	}
	if c, err := states.read(r, ""); err != nil || c.Len() != 3 {
		t.Errorf("all pieces: %v", err)
	}
}

// If all keys of a cell with a log are forgotten at once, the cell has no keys. The keys may return.
func TestCellWithoutKeys(t *testing.T) {
	states, r := statesOfCells(), &runner{rng: rand.New(rand.NewPCG(1, 2))}
	c := &cell{Cell: &statestore.Cell{}}
	var present, forgotten []*openKey
	for i := range 100 {
		present = append(present, &openKey{key: fmt.Sprint(i), state: make([]byte, small)})
		forgotten = append(forgotten, &openKey{key: fmt.Sprint(i)})
	}
	for _, changed := range [][]*openKey{present, forgotten, present[:1], present, forgotten} {
		expect.OK(t, states.write(r, c, "", changed))
		want := 0
		for _, e := range changed {
			if e.state != nil {
				want++
			}
		}
		if v := r.value.([]byte)[10:]; len(v) == len(statestore.Version{}) {
			cellCache.take(statestore.Version(v)) // so that the log must be read
		}
		if restored, err := states.read(&runner{value: r.value, settings: r.settings, bag: r.bag, rng: r.rng}, ""); err != nil || restored.Len() != want {
			t.Fatalf("%d keys: %v", want, err)
		}
	}
}

// Cells without settings, which other versions wrote, are an error.
func TestCellWithoutSettings(t *testing.T) {
	states := statesOfCells()
	for _, head := range [][]byte{{2}, {2, 1, 'a', 1, 'b'}, append([]byte{3}, make([]byte, len(statestore.Version{}))...)} {
		for _, alone := range []string{"", "a"} {
			if _, err := states.read(&runner{value: head}, alone); !errors.Is(err, statestore.ErrFormat) {
				t.Errorf("%v: %v", head, err)
			}
		}
	}
}

// A head that is cut short is an error, also for a cell with a single key.
func TestCellCutHead(t *testing.T) {
	states, settings := statesOfCells(), append([]byte{5}, make([]byte, len(compact.Fingerprint{}))...)
	for _, head := range [][]byte{settings, append(slices.Clone(settings), 2, 3, 'a')} {
		if _, err := states.read(&runner{value: head}, "pump"); !errors.Is(err, statestore.ErrCell) {
			t.Errorf("%v: %v", head, err)
		}
	}
}

// A cell that is cut or changed is an error or has other states, and does not cause a panic.
func FuzzCell(f *testing.F) {
	states, r := statesOfCells(), &runner{}
	c := &cell{Cell: &statestore.Cell{}}
	expect.OK(f, states.write(r, c, "", []*openKey{{key: "a", state: []byte("12")}, {key: "b", state: nil}}))
	whole := r.value.([]byte)
	for i := range whole {
		f.Add(whole[:i], []byte{})
	}
	expect.OK(f, states.write(r, c, "", []*openKey{{key: "c", state: make([]byte, small)}}))
	f.Add(whole[9:], []byte{})
	f.Add(make([]byte, 1), r.bag[0].([]byte))
	f.Add(slices.Concat(whole[:9], []byte{3}), r.bag[0].([]byte)[:10])
	f.Fuzz(func(t *testing.T, head, piece []byte) {
		r := &runner{value: head, bag: []any{piece}, rng: rand.New(rand.NewPCG(1, 2))}
		for _, alone := range []string{"", "a"} {
			c, err := states.read(r, alone)
			if err != nil {
				continue
			}
			for _, b := range c.All() {
				keyed.StateBytes(b).Waiting()
			}
			_ = states.write(r, c, "", []*openKey{{key: "a", state: []byte("1")}})
		}
		logged := slices.Concat([]byte{5}, make([]byte, len(compact.Fingerprint{})), []byte{3}, make([]byte, len(statestore.Version{})))
		_, _ = states.read(&runner{value: logged, bag: []any{piece}, rng: r.rng}, "")
	})
}

// The memory of the copies has a bound. The least recently used copies go to the file. If they still take too much
// memory there, they are dropped.
func TestCacheBound(t *testing.T) {
	k := newCache(8000)
	var versions []statestore.Version
	for i := range 200 {
		c := &cell{Cell: &statestore.Cell{}}
		c.Put(fmt.Sprint(i), make([]byte, 50+i))
		versions = append(versions, statestore.Version{byte(i)})
		k.put(versions[i], c)
		if k.bytes > k.bound {
			t.Fatalf("%d bytes after %d", k.bytes, i)
		}
		if i >= 5 { // this copy is always the most recently used
			k.put(versions[0], k.take(versions[0]))
		}
		if i == 20 {
			var inMemory, want []int
			for e := k.used.Front(); e != nil; e = e.Next() {
				if c := e.Value.(cachedCell); !c.Spilled() {
					inMemory = append(inMemory, int(c.version[0]))
				}
			}
			for index := range inMemory {
				want = append(want, i+1-index)
			}
			want[0] = 0
			if len(inMemory) < 5 || len(k.byID) != 21 || !slices.Equal(inMemory, want) {
				t.Errorf("copies %v of %d are in memory, want %v", inMemory, len(k.byID), want)
			}
		}
	}
	var left []int
	bytes := k.bytes
	for i, v := range versions {
		c := k.take(v)
		if c == nil {
			continue
		}
		left = append(left, i)
		bytes -= c.size()
		if string(c.Get(fmt.Sprint(i))) != string(make([]byte, 50+i)) {
			t.Errorf("copy %d has another value", i)
		}
	}
	want := []int{0}
	for i := 200 - (len(left) - 1); i < 200; i++ {
		want = append(want, i)
	}
	if len(left) < 50 || !slices.Equal(left, want) || bytes != 0 || len(k.byID) != 0 || k.used.Len() != 0 {
		t.Errorf("copies %v are left, with %d uncounted bytes of %d", left, bytes, k.bytes)
	}
	for start := time.Now(); ; runtime.GC() { // the dropped copies are unreachable
		k.mu.Lock()
		bytes := k.bytes
		k.mu.Unlock()
		if bytes == 0 {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%d bytes are still counted", bytes)
		}
	}
}

// The size of a copy is near the memory that it takes, for few keys and for many, with and without due times.
func TestCellSize(t *testing.T) {
	expect.Long(t, "cells of many sizes")
	for _, n := range []int{3000, 10_000, 60_000} {
		for _, timed := range []bool{false, true} {
			heap := func() int {
				var m runtime.MemStats
				for range 2 { // closes files of earlier tests first
					runtime.GC()
				}
				runtime.ReadMemStats(&m)
				return int(m.HeapAlloc)
			}
			before := heap()
			c := &cell{Cell: &statestore.Cell{}}
			if timed {
				c.agenda.first = map[string]time.Time{}
			}
			for i := range n {
				key := fmt.Sprintf("pump-%08d", i)
				c.Put(key, make([]byte, 100))
				if timed {
					c.agenda.Set(key, time.Now(), n, time.Time{})
				}
			}
			used := heap() - before
			if counted := c.size(); counted < used*85/100 || counted > used*115/100 {
				t.Errorf("%d keys, timed %v: %d bytes counted, %d used", n, timed, counted/n, used/n)
			}
			runtime.KeepAlive(c)
		}
	}
}
