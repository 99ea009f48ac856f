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

// A restriction is the input that one reader still has to read: every Readers-th partition of all topics, each from
// its next offset. It contains topic and partition, because a tracker never sees the element. It grows when partitions
// are added.
type restriction struct {
	Reader, Readers int
	Partitions      []span
	Bounded         bool // every span has an end, and no partition is added
	Past            bool // replay of a history: every span has an end, where the reader waits unless it is Bounded
	Over            bool // the rest is not read
}

// A span is the part of a partition from its offset up to End, or without an end if End is negative.
type span struct {
	Position
	End int64
	// ID is the ID of the topic. A topic with the same name and another ID is an error. An empty ID is not checked.
	ID string `json:",omitempty"`
	// Lag, Age and Reach are the pace of the records before the offset.
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

// The claims of a tracker.
type (
	// claimRecords claims a partition's records before the offset.
	claimRecords struct {
		partition int // index into restriction.Partitions
		before    int64
		pace      pace
	}
	claimPartitions []span   // adds partitions, claims no records
	claimRest       struct{} // claims the rest without reading it
)

// A tracker tracks a restriction. A split gives away everything that is unclaimed, or nothing: two readers of one
// partition would emit its records out of order.
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
	case claimRecords:
		s := &t.rest.Partitions[c.partition]
		if c.before < s.Offset {
			t.err = fmt.Errorf("kafkaio: claimed %s up to %d after %d", s.Log(), c.before, s.Offset)
			return false
		}
		s.Offset = c.before
		s.setPace(c.pace)
	case claimPartitions:
		t.rest.Partitions = append(t.rest.Partitions, c...)
	case claimRest:
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

// GetProgress reports everything or nothing, because the distance to the end of a partition is unknown.
func (t *tracker) GetProgress() (done, remaining float64) {
	if t.IsDone() {
		return 1, 0
	}
	return 0, 1
}

func (t *tracker) IsDone() bool        { return t.checkpointed || t.rest.done() }
func (t *tracker) GetRestriction() any { return t.rest.clone() }
func (t *tracker) IsBounded() bool     { return t.rest.Bounded }
