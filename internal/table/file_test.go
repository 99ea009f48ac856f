package table

import (
	"errors"
	"hafvf/internal/testing/expect"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// A disk is a file in memory that fails after a given number of calls.
type disk struct {
	b             []byte
	reads, writes int // calls before the failure; negative means never
}

var errDisk = errors.New("disk failure")

func (d *disk) ReadAt(b []byte, offset int64) (int, error) {
	if d.reads--; d.reads == -1 {
		return 0, errDisk
	}
	if offset > int64(len(d.b)) {
		return 0, io.EOF
	}
	n := copy(b, d.b[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (d *disk) WriteAt(b []byte, offset int64) (int, error) {
	if d.writes--; d.writes == -1 {
		return len(b) / 2, errDisk
	}
	if more := int(offset) + len(b) - len(d.b); more > 0 {
		d.b = append(d.b, make([]byte, more)...)
	}
	return copy(d.b[offset:], b), nil
}

// Tables that share a file behave like maps while other tables of it are dropped, and the file stays small.
func TestSpilledTablesAreMaps(t *testing.T) {
	for seed := range uint64(6) {
		collide(t, seed)
		rng := rand.New(rand.NewPCG(seed, 37))
		d := &disk{reads: -1, writes: -1}
		f := NewFile(d)
		tables := make([]*checkedTable, 4)
		for i := range tables {
			tables[i] = newCheckedTable(rng)
		}
		for i := range 10_000 {
			index := rng.IntN(len(tables))
			c := tables[index]
			c.check(t, c.change())
			switch {
			case !c.Spilled() && rng.IntN(500) == 0:
				expect.OK(t, c.Spill(f))
				c.checkAll(t)
			case rng.IntN(2000) == 0:
				tables[index] = newCheckedTable(rng)
			}
			if i%2500 == 0 {
				runtime.GC() // chunks of tables that were given up go to others
			} // other tables get the chunks of dropped tables
		}
		for _, c := range tables {
			if c.checkAll(t); c.Err() != nil {
				t.Error(c.Err())
			}
			if c.Spilled() && (c.Size() > 48*max(8, c.keys) || c.end() > 2*c.bytes+minDataBytes+c.maxLen+2*unit) {
				t.Errorf("seed %d: %d bytes in memory for %d keys, %d in the file for %d", seed, c.Size(), c.keys, c.end(), c.bytes)
			}
		}
	}
}

// When a table is dropped, other tables get its part of the file.
func TestSpilledTablesGiveBack(t *testing.T) {
	f := NewFile(&disk{reads: -1, writes: -1})
	var chunksPerTable uint32
	for i := range 5 {
		var table Table
		table.Put("k", make([]byte, 10*chunkBytes))
		expect.OK(t, table.Spill(f))
		if chunksPerTable == 0 {
			chunksPerTable = f.end
		}
		free := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.free)
		}
		if free() != 0 || f.end != chunksPerTable {
			t.Fatalf("table %d: %d chunks, %d of them free, want %d", i, f.end, free(), chunksPerTable)
		}
		runtime.KeepAlive(&table)
		table = Table{}
		for begin := time.Now(); free() == 0; runtime.GC() {
			if time.Since(begin) > time.Minute {
				t.Fatal("chunks are not reclaimed")
			}
		}
	}
}

// If the disk fails, a table reports the error or has all its values.
func TestSpilledTableFails(t *testing.T) {
	expect.Long(t, "disks that fail")
	failed := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 38))
		d := &disk{reads: -1, writes: -1}
		f := NewFile(d)
		c, other := newCheckedTable(rng), newCheckedTable(rng)
		for range 200 {
			c.change()
			other.change()
		}
		expect.OK(t, errors.Join(c.Spill(f), other.Spill(f)))
		reads := seed%2 == 0
		if reads {
			d.reads = rng.IntN(300)
		} else {
			d.writes = rng.IntN(100)
		}
		for range 300 {
			c.check(t, c.change())
			if rng.IntN(20) == 0 {
				c.checkAll(t)
			}
		}
		if c.Err() == nil {
			c.checkAll(t)
			continue
		}
		failed++
		if !errors.Is(c.Err(), errDisk) || c.Get("k1") != nil {
			t.Errorf("seed %d: %v, %d bytes", seed, c.Err(), len(c.Get("k1")))
		}
		for range c.All() {
			t.Fatal("values after an error")
		}
		if other.checkAll(t); (other.Err() != nil) != reads {
			t.Errorf("seed %d: another table: %v", seed, other.Err())
		}
	}
	if failed < 200 {
		t.Errorf("only %d of 400 tables failed", failed)
	}
}

// If Spill fails, the table stays in memory and does not change.
func TestSpillFails(t *testing.T) {
	c := newCheckedTable(rand.New(rand.NewPCG(1, 39)))
	c.maxLen = 5000
	for range 1000 {
		c.change()
	}
	d := &disk{reads: -1, writes: 2}
	f := NewFile(d)
	if err := c.Spill(f); !errors.Is(err, errDisk) || c.Spilled() || c.Err() != nil {
		t.Fatalf("%v, %v", err, c.Err())
	}
	c.checkAll(t)
	if err := c.Spill(f); err != nil || len(f.free) != 0 {
		t.Fatalf("%v, %d chunks are not used again", err, len(f.free))
	}
	c.checkAll(t)
}
