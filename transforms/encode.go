package transforms

import (
	"context"
	"slices"
	"sync"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
)

// A Decoder turns the elements of a source into observations. Each copy of a node has its
// own, which is used by one goroutine at a time.
type Decoder interface {
	// Decode passes the observations of an element to take, in their order; take keeps
	// nothing of them. It calls reject once for each record that is no observation, or
	// that take has refused for the reason it returns: with bytes for the dead letter, and with
	// how many observations the record would have had.
	Decode(element any, take func(key string, o *keyed.Observation) error, reject func(line []byte, observations int))
}

// A refuser is a Decoder that passes observations to take that it knows to be unusable, so that they are counted and logged.
type refuser interface {
	// unusable returns the reason, or nil.
	unusable() error
}

// decoding is what a bundle has decoded.
type decoding struct {
	decoder    Decoder
	rejected   int   // observations, those that were refused among them
	refused    int64 // by what takes them
	rejections rejections
}

func (d *decoding) begin() { d.rejected, d.refused = 0, 0 }

func (d *decoding) decode(element any, take func(key string, o *keyed.Observation) error, reject func([]byte)) {
	d.decoder.Decode(element, func(key string, o *keyed.Observation) (err error) {
		if r, ok := d.decoder.(refuser); ok {
			err = r.unusable()
		}
		if err == nil {
			err = take(key, o)
		}
		if d.rejections.observation(err); err != nil {
			d.refused++
		}
		return err
	}, func(line []byte, observations int) {
		d.rejected += observations
		reject(line)
	})
}

// report counts a bundle in which so many observations were taken beside those that were rejected.
func (d *decoding) report(ctx context.Context, accepted int) {
	addMetrics(ctx, account.Counts{Rejected: d.refused})
	account.From(ctx).Report(account.Report{Taken: accepted + d.rejected, Counts: account.Counts{Rejected: int64(d.rejected)}})
}

// An Encoder turns what FilterEncoded finds into bytes. Each goroutine has its own. A key
// has its estimates encoded in their order, by any of them.
type Encoder interface {
	// Estimate appends what is to be written of an estimate, which is valid until
	// Estimate returns.
	Estimate(dst *Encoded, key string, e *keyed.Estimate)
	// Silent appends what is to be written of a key that is silent.
	Silent(dst *Encoded, key string, s keyed.SilenceEvent)
	// Outside appends what is to be written of an estimate of Entity.Outside, which has an alarm and
	// is not that of a record.
	Outside(dst *Encoded, key string, e *keyed.Estimate)
	// Rewound is called when a key has turned back from a wrong time, before its next
	// estimate. A runner that repeats a bundle calls it again.
	Rewound(key string, from, to time.Time)
	// Forgotten is called when a key was forgotten, and may append what others have to know.
	Forgotten(dst *Encoded, key string)
	// Flush is called now and then, and after the last of a bundle.
	Flush()
}

// A SmoothedEncoder is an Encoder for SmoothEncoded. A session is encoded by one of them.
type SmoothedEncoder interface {
	Smoothed(dst *Encoded, key string, s *keyed.Smoothed)
	Flush()
}

// Encoded is what encoders append to. They leave what is in it as it is.
type Encoded struct {
	Records, Alerts []byte
}

func (e *Encoded) reset() {
	e.Records, e.Alerts = reuse(e.Records), reuse(e.Alerts)
}

// reuse empties a buffer. It drops one that only an unusual bundle needs.
func reuse(b []byte) []byte {
	const maxReused = 16 << 20
	if cap(b) > maxReused {
		return nil
	}
	return b[:0]
}

// Registered names a Decoder or an Encoder that was registered, and the text that it is
// made of. It travels to the workers.
type Registered struct{ Name, Setting string }

var makers sync.Map // of func(context.Context, string) T, by made[T]

// registeredMaker is the key of what makes a T.
type registeredMaker[T any] struct{ name string }

// Register registers under a name what makes a Decoder of a setting, in the context of the node that
// it is for; or an Encoder, a SmoothedEncoder or an IncidentEncoder. Call it in an init function, so
// that workers that run the same program know it too. It panics if another T has the name.
func Register[T any](name string, newT func(ctx context.Context, setting string) T) {
	if _, exists := makers.LoadOrStore(registeredMaker[T]{name}, newT); exists {
		panic("transforms: " + name + " is registered already")
	}
}

// registered makes a T. It panics where none has that name.
func registered[T any](ctx context.Context, r Registered) T {
	newT, ok := makers.Load(registeredMaker[T]{r.Name})
	if !ok {
		panic("transforms: " + r.Name + " is not registered in this program")
	}
	return newT.(func(context.Context, string) T)(ctx, r.Setting)
}

// chunkBytes is the number of bytes of lines that are emitted at once.
const chunkBytes = 256 << 10

// A chunk gathers lines that are emitted together.
type chunk []byte

// add adds lines, and emits the chunk when it is large enough.
func (c *chunk) add(lines []byte, emit func([]byte)) {
	if len(lines) == 0 {
		return
	}
	switch {
	case *c == nil:
		*c = make(chunk, 0, 4*len(lines)) // there may be few in a bundle
	case cap(*c)-len(*c) < len(lines):
		*c = slices.Grow(*c, len(lines)+chunkBytes)
	}
	*c = append(*c, lines...)
	if len(*c) >= chunkBytes {
		c.flush(emit)
	}
}

// flush emits what is there. The next chunk is another one: a sink may still have this.
func (c *chunk) flush(emit func([]byte)) {
	if len(*c) > 0 {
		emit(*c)
		*c = nil
	}
}
