package transforms

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/clock"
	"hafvf/internal/compact"
	"hafvf/internal/dofn"
)

func init() {
	register.Function4x0((&packFn{}).ProcessElement)
	dofn.Register(func(f *packFn) any { return f.ProcessElement })
	register.Emitter3[beam.EventTime, string, []byte]()
	register.Emitter1[[]byte]()
	register.Emitter1[keyed.Rejected]()
}

// packFn decodes elements of a source, checks the observations of a bundle, and packs those of each
// key into a block: the stage boundary and the key's state then cost once per block. Its name is that of
// the step which makes the filter's input, and a cluster finds the filter's states by that.
type packFn struct {
	Config  string
	Decoder Registered

	in        decoding
	cfg       stepConfig
	cells     []string // by which keys go to states
	estimator *keyed.Estimator
	data      []byte   // the observations of the bundle, encoded, in the order of arrival
	extents   []packed // of each
	blocks    []block  // in the order of their first observations
	of        map[string]int
	called    bool // all cells are, of a job that resumes
	outside   int  // observations that are refused and go on, for their numbers
	latest    time.Time
	ahead     time.Time // latest of the times ahead of now
	now       time.Time
}

// packed is the place of an observation in the data of a packFn.
type packed struct {
	from, end int
	next      int // the key's next observation in extents
}

// A block gathers the observations of a key.
type block struct {
	key         string
	check       func(*keyed.Observation) error
	at          mtime.Time // earliest event time
	times       waitSpan   // of all observations
	first, last int        // in extents
	size        int        // of all observations, encoded
}

// packBytes bounds what a bundle holds back.
const packBytes = 64 << 20

func (p *packFn) Setup(ctx context.Context) (err error) {
	p.in.decoder = registered[Decoder](ctx, p.Decoder)
	p.estimator, p.cfg, err = parseEstimator(p.Config)
	p.cells = p.cfg.Cells
	if m := account.Value[*statestore.Memory](account.From(ctx), ""); m != nil {
		p.cells = m.Names()
	}
	return err
}

func (p *packFn) StartBundle(func(beam.EventTime, string, []byte), func([]byte)) {
	p.in.begin()
	p.now = time.Now().Add(time.Hour) // clocks differ
	p.of = map[string]int{}
	p.reset()
	p.outside = 0
}

func (p *packFn) ProcessElement(_ context.Context, element beam.T, emit func(beam.EventTime, string, []byte), reject func([]byte)) {
	p.in.decode(element, func(key string, o *keyed.Observation) error { return p.add(key, o, emit) }, reject)
}

// reset forgets the observations, and keeps their memory for the next ones.
func (p *packFn) reset() {
	clear(p.of)
	clear(p.blocks)
	p.data, p.extents, p.blocks = p.data[:0], p.extents[:0], p.blocks[:0]
}

// add takes an observation, or says why it is refused. Nothing of it is kept. One that is refused for
// its numbers alone goes on too, as it may be an alarm.
func (p *packFn) add(key string, o *keyed.Observation, emit func(beam.EventTime, string, []byte)) error {
	i, known := p.of[key]
	var check func(*keyed.Observation) error
	if known {
		check = p.blocks[i].check
	} else {
		check = p.estimator.Checker(key)
	}
	var refused error
	kept := *o
	if o.Shape != keyed.Forget || key == "" {
		if refused = check(o); refused != nil {
			if !p.estimator.OutOfDomain(key, o) {
				return refused
			}
			p.outside++
			kept.OutOfDomain = true
		}
	}
	from, at := len(p.data), eventTime(o.Time)
	if p.cfg.Order == keyed.Arrival || kept.OutOfDomain {
		kept.Raw = "" // only a rejection as late would need it
	}
	p.data, _ = kept.AppendBinary(p.data)
	p.extents = append(p.extents, packed{from: from, end: len(p.data)})
	last := len(p.extents) - 1
	if !known {
		key = strings.Clone(key) // it may be part of a larger text
		i = len(p.blocks)
		p.of[key] = i
		p.blocks = append(p.blocks, block{key: key, check: check, at: at, first: last, last: last})
	}
	b := &p.blocks[i]
	p.extents[b.last].next = last
	b.last = last
	b.at = min(b.at, at)
	if refused == nil { // else the key has not spoken
		b.times.add(waitSpan{o.Time, o.Time})
		if o.Time.After(p.now) {
			p.ahead = clock.Later(p.ahead, o.Time)
		} else {
			p.latest = clock.Later(p.latest, o.Time)
		}
	}
	b.size += len(p.data) - from
	if len(p.data) > packBytes {
		p.callCells(emit)
		p.flush(emit)
	}
	return refused
}

// togetherBlocks is the number of blocks of a cell that are one element: each element costs the
// runner several microseconds, and a bundle of them has all their states in memory.
const togetherBlocks = 8

// flush emits the blocks, those of a cell together.
func (p *packFn) flush(emit func(beam.EventTime, string, []byte)) {
	type element struct {
		at     mtime.Time
		blocks int
		bytes  []byte
	}
	var order []string
	open := map[string]*element{} // by cell
	for i := range p.blocks {
		b := &p.blocks[i]
		if p.cfg.Order == keyed.Arrival {
			b.at = mtime.ZeroTimestamp // a runner may sort by event time
		}
		cell := statestore.CellName(b.key, p.cells)
		e := open[cell]
		switch {
		case e == nil:
			e = &element{at: b.at}
			open[cell] = e
			order = append(order, cell)
		case e.blocks == 0 || b.at < e.at: // it begins, or is earlier
			e.at = b.at
		}
		e.bytes = beginBlock(e.bytes, b.key, b.times, b.size)
		for j := b.first; ; j = p.extents[j].next {
			e.bytes = append(e.bytes, p.data[p.extents[j].from:p.extents[j].end]...)
			if j == b.last {
				break
			}
		}
		if e.blocks++; e.blocks == togetherBlocks {
			emit(e.at, cell, e.bytes)
			*e = element{}
		}
	}
	for _, cell := range order {
		if e := open[cell]; e.blocks > 0 {
			emit(e.at, cell, e.bytes)
		}
	}
	p.reset()
}

// beginBlock appends the beginning of a block of the key, of those times, whose observations take
// so many bytes. They follow, and then the next block of the cell.
func beginBlock(to []byte, key string, times waitSpan, size int) []byte {
	const header = 64 // bytes at most, but for the key
	b := compact.AppendString(slices.Grow(to, header+len(key)+size), key)
	b = compact.AppendTime(b, times.first)
	b = compact.AppendTime(b, times.last)
	return binary.AppendUvarint(b, uint64(size))
}

// callCells has every cell of a job before read, those too of which no key has a record. They go
// before the observations.
func (p *packFn) callCells(emit func(beam.EventTime, string, []byte)) {
	if p.called || !p.cfg.Resumed {
		return
	}
	p.called = true
	for _, cell := range p.cfg.Cells {
		emit(mtime.ZeroTimestamp, cell, nil)
	}
}

// FinishBundle emits what is left, and reports what was rejected.
func (p *packFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, []byte), _ func([]byte)) {
	p.callCells(emit)
	p.flush(emit)
	account.From(ctx).SetLatest(p.latest, p.ahead)
	p.in.report(ctx, -p.outside)
}
