package transforms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/keyed"
	"hafvf/internal/table"
	"hafvf/internal/testing/expect"
)

// reads returns the number of reads of the logs of the job's cells.
func (j *job) reads() (n int) {
	for _, r := range j.cells {
		n += r.logs
	}
	return n
}

// Estimates do not depend on where copies are: in memory, in a file, nowhere, or on a disk that fails. Logs of
// cells are read again only without copies.
func TestSpilledCells(t *testing.T) {
	expect.Long(t, "cells larger than the memory")
	defer func(former *cache) { cellCache = former }(cellCache)
	const keys = 240
	bundles := 15
	if testing.Short() {
		bundles = 10
	}
	cfg := changed[0]
	var transfers atomic.Int64
	failing := func() *cache { return copiesOn(10_000, func() bool { return transfers.Add(1)%307 == 0 }) }
	for name, c := range map[string]struct {
		copies  *cache
		rereads bool // logs are read again
	}{
		"in memory": {newCache(1 << 30), false},
		"spilled":   {newCache(10_000), false},
		"nowhere":   {noCopies(), true},
		"failing":   {failing(), true},
	} {
		t.Run(name, func(t *testing.T) {
			cellCache = c.copies
			rng := rand.New(rand.NewPCG(36, 1))
			j := &job{map[string]*runner{}, rng}
			loops := map[string]*loop{}
			failed := 0
			for bundle := range bundles {
				in := map[string][]keyed.Observation{}
				for range keys {
					key := fmt.Sprint("k", rng.IntN(keys))
					in[key] = []keyed.Observation{keyed.Value(time.Unix(int64(bundle), 0).UTC(), "", rng.NormFloat64())}
				}
				out, err := j.bundle(t, cfg, false, in)
				for ; errors.Is(err, errDisk); out, err = j.bundle(t, cfg, false, in) {
					failed++
				}
				if cellCache.file != nil && cellCache.file.Err() != nil {
					cellCache = failing() // of another worker
				}
				expect.OK(t, err)
				for key, observations := range in {
					if loops[key] == nil {
						loops[key] = &loop{}
					}
					if !slices.EqualFunc(out[key], loops[key].learn(t, cfg, key, observations), bytes.Equal) {
						t.Fatalf("bundle %d, key %s: estimates differ from the loop", bundle, key)
					}
				}
			}
			if read := j.reads(); (read > 0) != c.rereads {
				t.Errorf("logs were read %d times", read)
			}
			if name == "spilled" && (cellCache.file == nil || cellCache.used.Len() != len(threeCells)) {
				t.Errorf("%d copies", cellCache.used.Len())
			}
			if name == "failing" && failed == 0 {
				t.Errorf("%d bundles failed", failed)
			}
		})
	}
}

// A bundle fails if states cannot be read, also if the timers of a cell need them first.
func TestUnreadableStates(t *testing.T) {
	for _, lateness := range []time.Duration{0, time.Minute} {
		cfg := changed[0]
		cfg.Lateness = lateness
		j := newJob(t)
		for _, cell := range cfg.Cells {
			j.cells[cell] = &runner{err: errDisk}
		}
		_, err := j.bundle(t, cfg, false, map[string][]keyed.Observation{"k": {keyed.Value(time.Unix(0, 0), "", 1)}})
		if !errors.Is(err, errDisk) {
			t.Errorf("lateness %v: %v", lateness, err)
		}
	}
}

// noCopies returns a cache that keeps at most one copy: it has no disk and no memory.
func noCopies() *cache {
	k := newCache(0)
	k.create = func() (table.ReaderWriterAt, error) { return nil, errDisk }
	return k
}

// BenchmarkSpilledCells measures bundles with 1,000 of 200,000 keys in 256 cells whose copies are in memory, in a
// file, or nowhere, so that logs are read. The logs come from this process: a runner that sends them takes longer.
func BenchmarkSpilledCells(b *testing.B) {
	defer func(former *cache) { cellCache = former }(cellCache)
	const keys, size = 200_000, 1000
	cfg := changed[0]
	cfg.Cells = nil
	for i := range 256 {
		cfg.Cells = append(cfg.Cells, fmt.Sprint(i))
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("key", i)
	}
	ignore := func([]byte) {}
	refuse := func(r []byte) { b.Errorf("rejected: %q", r) }
	reject := func(r keyed.Rejected) { b.Errorf("rejected: %+v", r) }
	for _, c := range []struct {
		name   string
		copies *cache
	}{{"memory", newCache(1 << 30)}, {"file", newCache(8 << 20)}, {"nowhere", noCopies()}} {
		b.Run(c.name, func(b *testing.B) {
			cellCache = c.copies
			rng := rand.New(rand.NewPCG(36, 2))
			cells := map[string]*runner{}
			for _, name := range cfg.Cells {
				cells[name] = &runner{rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
			}
			pack, filter := stepsOf(b, cfg)
			bundle := func(keys []string) {
				blocks := map[string][][]byte{}
				send := func(_ beam.EventTime, cell string, block []byte) { blocks[cell] = append(blocks[cell], block) }
				pack.StartBundle(send, refuse)
				for _, key := range keys {
					pack.ProcessElement(b.Context(), Given{key, keyed.Value(time.Unix(0, 0), "", rng.NormFloat64())}, send, refuse)
				}
				pack.flush(send)
				filter.StartBundle(ignore, nil, reject)
				for cell, elements := range blocks {
					for _, block := range elements {
						expect.OK(b, filter.ProcessElement(context.Background(), cells[cell], nil, cell, block, ignore, nil, reject))
					}
				}
				expect.OK(b, filter.FinishBundle(context.Background(), ignore, nil, reject))
			}
			for part := range slices.Chunk(names, keys/4) {
				bundle(part)
			}
			some := make([]string, size)
			for b.Loop() {
				for i := range some {
					some[i] = names[rng.IntN(keys)]
				}
				bundle(some)
			}
			b.ReportMetric(float64(b.N)*size/b.Elapsed().Seconds(), "observations/s")
			b.ReportMetric(float64(cellCache.bytes)/keys, "bytes/key")
		})
	}
}
