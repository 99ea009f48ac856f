package serve

import (
	"encoding/binary"
	"math"
	"time"
)

// Flags of a batch.
const (
	withRecords = 1 << iota
	withColumns
	withAlerts
	withIDs
	withStates
	withEnds
	withWritten
	migrates
	withTexts
	allFlags = 1<<iota - 1
)

const (
	none = math.MinInt64 // no time
	end  = math.MaxInt64 // the end of all input
)

// A batch is a decoded batch frame. Its slices point into the frame.
type batch struct {
	model, flags, length uint32
	horizon, now         int64
	parts                []part
	times, values        []byte
	timeTexts            [][]byte       // with withTexts, in place of times
	wrong                map[int]string // with withTexts, why a time cannot be read, by observation
	ids                  [][]byte       // nil: none
	written              string         // with withWritten, the settings of the states
	firstIndex           int64          // keyed.Observation.Index of the first observation: larger than in all earlier batches
}

// A part is a key's part of a batch.
type part struct {
	key        string
	state      []byte // nil: none
	start, end int    // range of its observations in the batch
}

func (b *batch) time(i int) int64 { return int64(binary.LittleEndian.Uint64(b.times[8*i:])) }

func (b *batch) value(i, j int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(b.values[8*(i*int(b.length)+j):]))
}

// timeOf decodes a time of a frame; none is the zero time.
func timeOf(ns int64) time.Time {
	if ns == none {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// nanoseconds encodes a time for a frame. It returns none for a time that int64 cannot hold.
func nanoseconds(t time.Time) int64 {
	if y := t.Year(); y < 1678 || y > 2261 {
		return none
	}
	return t.UnixNano()
}

// A cursor reads a payload. If the payload is too short, cut is set, and all later reads return zero.
type cursor struct {
	b   []byte
	cut bool
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.b, c.cut = nil, true
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) uint32() uint32 {
	if v := c.take(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (c *cursor) int64() int64 {
	if v := c.take(8); v != nil {
		return int64(binary.LittleEndian.Uint64(v))
	}
	return 0
}

func (c *cursor) text() []byte { return c.take(uint64(c.uint32())) }

// texts reads n texts.
func (c *cursor) texts(n int) [][]byte {
	if n > len(c.b)/4 {
		c.cut = true
		return nil
	}
	texts := make([][]byte, n)
	for i := range texts {
		texts[i] = c.text()
	}
	return texts
}

var errCut = failed("batch", "the batch is cut off")

// readBatch reads the payload of a batch frame.
func readBatch(payload []byte) (*batch, error) {
	c := &cursor{b: payload}
	b := &batch{model: c.uint32(), flags: c.uint32(), length: c.uint32()}
	keys := c.uint32()
	b.horizon, b.now = c.int64(), c.int64()
	if b.flags > allFlags {
		return nil, failed("batch", "unknown flags in %#x; the known flags are %#x", b.flags, uint32(allFlags))
	}
	if uint64(keys) > uint64(len(c.b)/12) { // each key has at least three lengths
		return nil, errCut
	}
	b.parts = make([]part, keys)
	n := 0
	for i := range b.parts {
		p := &b.parts[i]
		p.key = string(c.text())
		if size := c.uint32(); size != math.MaxUint32 {
			p.state = c.take(uint64(size))
		}
		p.start, p.end = n, n+int(c.uint32())
		if n = p.end; n > len(c.b)/4 { // each observation has a time
			return nil, errCut
		}
	}
	if n == 0 {
		b.length = 0
	}
	if b.flags&withTexts != 0 {
		b.timeTexts = c.texts(n)
	} else {
		b.times = c.take(8 * uint64(n))
	}
	b.values = c.take(8 * uint64(n) * uint64(b.length))
	if b.flags&withIDs != 0 {
		b.ids = c.texts(n)
	}
	if b.flags&withWritten != 0 {
		b.written = string(c.text())
	}
	switch {
	case c.cut:
		return nil, errCut
	case len(c.b) > 0:
		return nil, failed("batch", "the batch is longer than it says")
	}
	return b, nil
}
