package kafkaio

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterCoder(reflect.TypeFor[restriction](),
		func(r restriction) ([]byte, error) { return json.Marshal(r) },
		func(b []byte) (r restriction, err error) { return r, json.Unmarshal(b, &r) })
}

// A restriction is what one reader has still to read: every Readers-th partition
// of all topics, each from its next offset. It holds topic and partition itself,
// because a tracker never sees the element, and grows when partitions are found.
type restriction struct {
	Reader, Readers int
	Partitions      []span
	Bounded         bool // every span has an end, and no partition is added
	Past            bool // every span has an end, at which the reader stays unless it is Bounded
	Over            bool // nothing more is to be read
}

// A span is the part of a partition that is still to be read, from its offset up
// to End, or without an end where that is negative.
type span struct {
	Position
	End int64
	// ID is the topic's, as a topic has it; a topic of the same name and another id
	// is not read on. It is not checked where it is empty.
	ID string `json:",omitempty"`
	// Lag, Age and Reach are the pace of the records, as far as they were read. See setPace.
	Lag   time.Duration `json:",omitempty"`
	Age   time.Duration `json:",omitempty"`
	Reach timeReach     `json:",omitzero"`
}

func (s *span) setPace(p pace) { s.Lag, s.Age, s.Reach = p.Lag, p.Age, p.Reach }

func (s span) done() bool { return s.End >= 0 && s.Offset >= s.End }

func (r restriction) done() bool {
	return r.Over || r.Bounded && !slices.ContainsFunc(r.Partitions, func(s span) bool { return !s.done() })
}

func (r restriction) clone() restriction {
	r.Partitions = slices.Clone(r.Partitions)
	return r
}

// The claims that a tracker knows.
type (
	// taken claims a partition's records before the offset.
	taken struct {
		partition int // index into the restriction's
		before    int64
		pace      pace
	}
	found []span   // claims nothing: adds partitions
	over  struct{} // claims the rest, unread
)

// A tracker tracks a restriction. It splits off all that is unclaimed or
// nothing: two readers of one partition would read it in no order.
type tracker struct {
	rest         restriction
	err          error
	checkpointed bool // the rest belongs to another call
}

func (t *tracker) TryClaim(claim any) bool {
	if t.checkpointed || t.rest.Over {
		return false
	}
	switch c := claim.(type) {
	case taken:
		s := &t.rest.Partitions[c.partition]
		if c.before < s.Offset {
			t.err = fmt.Errorf("kafkaio: claimed %s up to %d after %d", s.Log(), c.before, s.Offset)
			return false
		}
		s.Offset = c.before
		s.setPace(c.pace)
	case found:
		t.rest.Partitions = append(t.rest.Partitions, c...)
	case over:
		t.rest.Over = true
	}
	return true
}

func (t *tracker) GetError() error { return t.err }

func (t *tracker) TrySplit(fraction float64) (primary, residual any, err error) {
	if fraction > 0 || t.checkpointed || t.rest.done() {
		return t.rest.clone(), nil, nil
	}
	rest := t.rest.clone()
	t.checkpointed = true
	done := t.rest.clone()
	done.Over = true
	return done, rest, nil
}

// GetProgress is all or nothing: how far off the end of a partition is, nobody
// knows.
func (t *tracker) GetProgress() (done, remaining float64) {
	if t.IsDone() {
		return 1, 0
	}
	return 0, 1
}

func (t *tracker) IsDone() bool        { return t.checkpointed || t.rest.done() }
func (t *tracker) GetRestriction() any { return t.rest.clone() }
func (t *tracker) IsBounded() bool     { return t.rest.Bounded }
