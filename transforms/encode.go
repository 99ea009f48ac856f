package transforms

import (
	"context"
	"slices"
	"sync"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
)

// A Decoder turns the elements of a source into observations. Each copy of a node has its own Decoder, and one
// goroutine uses it at a time.
type Decoder interface {
	// Decode passes the observations of an element to take, in their order; take does not retain them. It calls
	// reject once for each record that is not an observation, or that take refuses with an error. The arguments of
	// reject are bytes for the dead letter, and the number of observations that the record would have had.
	Decode(element any, take func(key string, o *keyed.Observation) error, reject func(line []byte, observations int))
}

// decoding counts the observations of a bundle.
type decoding struct {
	decoder    Decoder
	rejected   int   // observations, including the refused ones
	refused    int64 // observations that take refused
	rejections rejections
}

func (d *decoding) begin() { d.rejected, d.refused = 0, 0 }

func (d *decoding) decode(element any, take func(key string, o *keyed.Observation) error, reject func([]byte)) {
	d.decoder.Decode(element, func(key string, o *keyed.Observation) (err error) {
		if u, ok := d.decoder.(*observing); ok {
			err = u.err // counted and logged like an observation that take refuses
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

// report counts a bundle. accepted is the number of observations that were not rejected.
func (d *decoding) report(ctx context.Context, accepted int) {
	addMetrics(ctx, account.Counts{Rejected: d.refused})
	account.From(ctx).Report(account.Report{Taken: accepted + d.rejected, Counts: account.Counts{Rejected: int64(d.rejected)}})
}

// An Encoder turns the results of FilterEncoded into bytes. Each goroutine has its own Encoder. The estimates of a
// key are encoded in their order, by any of them.
type Encoder interface {
	// Estimate appends the output for an estimate, which is valid until Estimate returns.
	Estimate(dst *Encoded, key string, e *keyed.Estimate)
	// WantsOngoing reports whether Ongoing has to be called.
	WantsOngoing() bool
	// Ongoing is called after Estimate with the present state of the key's episode, if keyed.Estimator.Ongoing returns
	// it.
	Ongoing(dst *Encoded, key string, t keyed.AlertEvent)
	// Silent appends the output for a silence, or for its end.
	Silent(dst *Encoded, key string, s keyed.SilenceEvent)
	// Outside appends the output for an estimate of keyed.KeyState.OutOfDomain, which has an alarm and is not the
	// estimate of a record.
	Outside(dst *Encoded, key string, e *keyed.Estimate)
	// Rewound is called when a key was set back from a wrong time, before its next estimate. If a runner repeats a
	// bundle, it calls Rewound again.
	Rewound(key string, from, to time.Time)
	// Forgotten is called when a key was forgotten, and may append bytes that announce this.
	Forgotten(dst *Encoded, key string)
	// Flush is called from time to time, and after the last call for a bundle.
	Flush()
}

// A SmoothedEncoder is the Encoder of SmoothEncoded. One SmoothedEncoder encodes all records of a session.
type SmoothedEncoder interface {
	Smoothed(dst *Encoded, key string, s *keyed.Smoothed)
	Flush()
}

// Encoded has the buffers to which encoders append. They do not modify the bytes that it contains.
type Encoded struct {
	Records, Alerts []byte
}

func (e *Encoded) reset() {
	e.Records, e.Alerts = reuse(e.Records), reuse(e.Alerts)
}

// reuse empties a buffer for reuse. It drops a buffer of more than 16 MB, which only an unusual bundle needs.
func reuse(b []byte) []byte {
	const maxReused = 16 << 20
	if cap(b) > maxReused {
		return nil
	}
	return b[:0]
}

// Registered is the name of a registered Decoder or Encoder, and the text from which Register's function makes it.
// It is sent to the workers.
type Registered struct{ Name, Setting string }

var makers sync.Map // functions func(context.Context, string) T by registeredMaker[T]

// registeredMaker is the key of a function that makes a T.
type registeredMaker[T any] struct{ name string }

// Register registers a function that makes a Decoder from a setting, in the context of its node; or an Encoder, a
// SmoothedEncoder or an IncidentEncoder. Call it in an init function, so that workers that run the same program
// know the name. It panics if another T has the name.
func Register[T any](name string, newT func(ctx context.Context, setting string) T) {
	if _, exists := makers.LoadOrStore(registeredMaker[T]{name}, newT); exists {
		panic("transforms: " + name + " is registered already")
	}
}

// registered makes a T. It panics if the name is not registered.
func registered[T any](ctx context.Context, r Registered) T {
	newT, ok := makers.Load(registeredMaker[T]{r.Name})
	if !ok {
		panic("transforms: " + r.Name + " is not registered in this program")
	}
	return newT.(func(context.Context, string) T)(ctx, r.Setting)
}

// chunkBytes is the size in bytes from which a chunk is emitted.
const chunkBytes = 256 << 10

// A chunk collects lines that are emitted together.
type chunk []byte

// add appends lines, and emits the chunk if it is large enough.
func (c *chunk) add(lines []byte, emit func([]byte)) {
	if len(lines) == 0 {
		return
	}
	switch {
	case *c == nil:
		*c = make(chunk, 0, 4*len(lines)) // a bundle may have few lines
	case cap(*c)-len(*c) < len(lines):
		*c = slices.Grow(*c, len(lines)+chunkBytes)
	}
	*c = append(*c, lines...)
	if len(*c) >= chunkBytes {
		c.flush(emit)
	}
}

// flush emits the chunk. The next chunk is a new slice: a sink may still use this one.
func (c *chunk) flush(emit func([]byte)) {
	if len(*c) > 0 {
		emit(*c)
		*c = nil
	}
}
