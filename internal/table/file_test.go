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

// A disk is a file in memory that fails when it is told to.
type disk struct {
	b             []byte
	reads, writes int // until it fails; never where negative
}

var errDisk = errors.New("the disk fails")

func (d *disk) ReadAt(b []byte, at int64) (int, error) {
	if d.reads--; d.reads == -1 {
		return 0, errDisk
	}
	if at > int64(len(d.b)) {
		return 0, io.EOF
	}
	n := copy(b, d.b[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (d *disk) WriteAt(b []byte, at int64) (int, error) {
	if d.writes--; d.writes == -1 {
		return len(b) / 2, errDisk
	}
	if more := int(at) + len(b) - len(d.b); more > 0 {
		d.b = append(d.b, make([]byte, more)...)
	}
	return copy(d.b[at:], b), nil
}

// Tables that share a file are maps, while others of it are given up, and the file stays small.
func TestSpilledTablesAreMaps(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 37))
		d := &disk{reads: -1, writes: -1}
		f := NewFile(d)
		all := make([]*changing, 4)
		for i := range all {
			all[i] = newChanging(rng)
		}
		for i := range 10_000 {
			at := rng.IntN(len(all))
			c := all[at]
			c.check(t, c.change())
			switch {
			case !c.Spilled() && rng.IntN(500) == 0:
				expect.OK(t, c.Spill(f))
				c.checkAll(t)
			case rng.IntN(2000) == 0:
				all[at] = newChanging(rng)
			}
			if i%2500 == 0 {
				runtime.GC() // chunks of tables that were given up go to others
			}
		}
		for _, c := range all {
			if c.checkAll(t); c.Err() != nil {
				t.Error(c.Err())
			}
			if c.Spilled() && (c.Size() > 16*max(8, c.keys) || c.end() > 2*c.bytes+leastData+c.most+2*unit) {
				t.Errorf("seed %d: %d bytes in memory for %d keys, %d in the file for %d", seed, c.Size(), c.keys, c.end(), c.bytes)
			}
		}
	}
}

// When a table is given up, its part of the file is for others.
func TestSpilledTablesGiveBack(t *testing.T) {
	f := NewFile(&disk{reads: -1, writes: -1})
	var one uint32
	for i := range 5 {
		var table Table
		table.Put("k", make([]byte, 10*chunkBytes))
		expect.OK(t, table.Spill(f))
		if one == 0 {
			one = f.end
		}
		free := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.freed)
		}
		if free() != 0 || f.end != one {
			t.Fatalf("table %d: %d chunks, of which %d are free, in place of %d", i, f.end, free(), one)
		}
		runtime.KeepAlive(&table)
		table = Table{}
		for begin := time.Now(); free() == 0; runtime.GC() {
			if time.Since(begin) > time.Minute {
				t.Fatal("chunks are not given back")
			}
		}
	}
}

// Whenever the disk fails, a table says so, or has all its values.
func TestSpilledTableFails(t *testing.T) {
	failed := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 38))
		d := &disk{reads: -1, writes: -1}
		f := NewFile(d)
		c, other := newChanging(rng), newChanging(rng)
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
			t.Fatal("there are values after an error")
		}
		if other.checkAll(t); (other.Err() != nil) != reads {
			t.Errorf("seed %d: another table says %v", seed, other.Err())
		}
	}
	if failed < 200 {
		t.Errorf("only %d of 400 tables failed", failed)
	}
}

// A table that cannot be spilled stays as it is.
func TestSpillFails(t *testing.T) {
	c := newChanging(rand.New(rand.NewPCG(1, 39)))
	c.most = 5000
	for range 1000 {
		c.change()
	}
	d := &disk{reads: -1, writes: 2}
	f := NewFile(d)
	if err := c.Spill(f); !errors.Is(err, errDisk) || c.Spilled() || c.Err() != nil {
		t.Fatalf("%v, %v", err, c.Err())
	}
	c.checkAll(t)
	if err := c.Spill(f); err != nil || len(f.freed) != 0 {
		t.Fatalf("%v, %d chunks are not used again", err, len(f.freed))
	}
	c.checkAll(t)
}
