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

// packFn decodes elements of a source, checks the observations of a bundle, and packs the observations of each key
// into a block, so that the stage boundary and the key's state cost once per block. Do not rename packFn: its name
// is in the name of the step that makes the filter's input, by which a cluster finds the filter's states.
type packFn struct {
	Config  string
	Decoder Registered

	in          decoding
	cfg         stepConfig
	cells       []string // names of the cells of the keys
	estimator   *keyed.Estimator
	data        []byte         // encoded observations of the bundle, in the order of arrival
	extents     []packed       // one per observation
	blocks      []block        // in the order of their first observations
	byKey       map[string]int // index in blocks
	cellsCalled bool           // all cells of a resumed job were called
	outside     int            // number of observations out of the domain: refused and also passed on
	latest      time.Time
	ahead       time.Time // latest of the times after now
	now         time.Time // the current time plus an hour
}

// packed is the extent of an observation in the data of a packFn.
type packed struct {
	start, end int
	next       int // index in extents of the key's next observation
}

// A block collects the observations of a key.
type block struct {
	key         string
	check       func(*keyed.Observation) error
	ts          mtime.Time // earliest event time
	times       waitSpan   // without observations out of the domain
	first, last int        // indices in extents
	size        int        // encoded size of all observations
}

// packBytes limits the observations that a bundle buffers, in bytes.
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
	p.byKey = map[string]int{}
	p.reset()
	p.outside = 0
}

func (p *packFn) ProcessElement(_ context.Context, element beam.T, emit func(beam.EventTime, string, []byte), reject func([]byte)) {
	p.in.decode(element, func(key string, o *keyed.Observation) error { return p.add(key, o, emit) }, reject)
}

// reset drops the observations and keeps the allocated memory.
func (p *packFn) reset() {
	clear(p.byKey)
	clear(p.blocks)
	p.data, p.extents, p.blocks = p.data[:0], p.extents[:0], p.blocks[:0]
}

// add packs an observation, or returns the reason why it is refused. It does not retain o. An observation that is
// refused only because of its numbers is packed too, because it may be an alarm.
func (p *packFn) add(key string, o *keyed.Observation, emit func(beam.EventTime, string, []byte)) error {
	i, known := p.byKey[key]
	var check func(*keyed.Observation) error
	if known {
		check = p.blocks[i].check
	} else {
		check = p.estimator.Checker(key)
	}
	var refused error
	stored := *o
	if o.Shape != keyed.Forget || key == "" {
		if refused = check(o); refused != nil {
			if !p.estimator.OutOfDomain(key, o) {
				return refused
			}
			p.outside++
			stored.OutOfDomain = true
		}
	}
	start, ts := len(p.data), eventTime(o.Time)
	if p.cfg.Order == keyed.Arrival || stored.OutOfDomain {
		stored.Raw = "" // only needed to reject it as late
	}
	p.data, _ = stored.AppendBinary(p.data)
	p.extents = append(p.extents, packed{start: start, end: len(p.data)})
	last := len(p.extents) - 1
	if !known {
		key = strings.Clone(key) // key may be part of a larger string
		i = len(p.blocks)
		p.byKey[key] = i
		p.blocks = append(p.blocks, block{key: key, check: check, ts: ts, first: last, last: last})
	}
	b := &p.blocks[i]
	p.extents[b.last].next = last
	b.last = last
	b.ts = min(b.ts, ts)
	if refused == nil { // an observation out of the domain does not count for these times
		b.times.add(waitSpan{o.Time, o.Time})
		if o.Time.After(p.now) {
			p.ahead = clock.Later(p.ahead, o.Time)
		} else {
			p.latest = clock.Later(p.latest, o.Time)
		}
	}
	b.size += len(p.data) - start
	if len(p.data) > packBytes {
		p.callCells(emit)
		p.flush(emit)
	}
	return refused
}

// togetherBlocks is the maximum number of blocks of a cell in one element. Each element costs the runner several
// microseconds, and a bundle of elements has all their states in memory.
const togetherBlocks = 8

// flush emits the blocks. Blocks of a cell share elements.
func (p *packFn) flush(emit func(beam.EventTime, string, []byte)) {
	type element struct {
		ts     mtime.Time
		blocks int
		bytes  []byte
	}
	var order []string
	open := map[string]*element{} // by cell
	for i := range p.blocks {
		b := &p.blocks[i]
		if p.cfg.Order == keyed.Arrival {
			b.ts = mtime.ZeroTimestamp // a runner may sort by event time
		}
		cell := statestore.CellName(b.key, p.cells)
		e := open[cell]
		switch {
		case e == nil:
			e = &element{ts: b.ts}
			open[cell] = e
			order = append(order, cell)
		case e.blocks == 0 || b.ts < e.ts: // the element is new, or the block is earlier
			e.ts = b.ts
		}
		e.bytes = beginBlock(e.bytes, b.key, b.times, b.size)
		for j := b.first; ; j = p.extents[j].next {
			e.bytes = append(e.bytes, p.data[p.extents[j].start:p.extents[j].end]...)
			if j == b.last {
				break
			}
		}
		if e.blocks++; e.blocks == togetherBlocks {
			emit(e.ts, cell, e.bytes)
			*e = element{}
		}
	}
	for _, cell := range order {
		if e := open[cell]; e.blocks > 0 {
			emit(e.ts, cell, e.bytes)
		}
	}
	p.reset()
}

// beginBlock appends the header of a block: its key, the range of its times, and the encoded size of its
// observations. The observations follow, and then the next block of the cell.
func beginBlock(dst []byte, key string, times waitSpan, size int) []byte {
	const header = 64 // maximum size without the key
	b := compact.AppendString(slices.Grow(dst, header+len(key)+size), key)
	b = compact.AppendTime(b, times.first)
	b = compact.AppendTime(b, times.last)
	return binary.AppendUvarint(b, uint64(size))
}

// callCells emits an empty element for each cell of the previous job, also for cells whose keys have no record. It
// emits them before the observations.
func (p *packFn) callCells(emit func(beam.EventTime, string, []byte)) {
	if p.cellsCalled || !p.cfg.Resumed {
		return
	}
	p.cellsCalled = true
	for _, cell := range p.cfg.Cells {
		emit(mtime.ZeroTimestamp, cell, nil)
	}
}

// FinishBundle emits the remaining blocks, and reports the counts.
func (p *packFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, []byte), _ func([]byte)) {
	p.callCells(emit)
	p.flush(emit)
	account.From(ctx).SetLatest(p.latest, p.ahead)
	p.in.report(ctx, -p.outside)
}
