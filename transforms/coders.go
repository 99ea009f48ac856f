package transforms

import (
	"encoding/binary"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// What crosses stages does so in the binary form of package keyed: the runner's default for
// structs neither knows NaN nor is fast. A worker finds each function by its name, which a
// function of a generic one has not got.
func init() {
	beam.RegisterCoder(reflect.TypeFor[keyed.Observation](),
		func(v keyed.Observation) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Observation, err error) { err = v.UnmarshalBinary(b); return v, err })
	beam.RegisterCoder(reflect.TypeFor[keyed.Estimate](),
		func(v keyed.Estimate) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Estimate, err error) { err = v.UnmarshalBinary(b); return v, err })
	beam.RegisterCoder(reflect.TypeFor[keyed.Silent](),
		func(v keyed.Silent) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Silent, err error) { err = v.UnmarshalBinary(b); return v, err })
	beam.RegisterCoder(reflect.TypeFor[keyed.Smoothed](),
		func(v keyed.Smoothed) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Smoothed, err error) { err = v.UnmarshalBinary(b); return v, err })
	beam.RegisterCoder(reflect.TypeFor[incidents.Event](),
		encodeEvent, decodeEvent)
	beam.RegisterCoder(reflect.TypeFor[keyed.Rejected](),
		func(v keyed.Rejected) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Rejected, err error) { err = v.UnmarshalBinary(b); return v, err })
}

func encodeEvent(e incidents.Event) ([]byte, error) {
	b := compact.AppendFlags(nil, e.Page, e.Pages)
	for _, s := range []string{e.ID, string(e.State), e.Into, e.Group, e.Message} {
		b = compact.AppendString(b, s)
	}
	for _, t := range []time.Time{e.Time, e.Start, e.End} {
		b = compact.AppendTime(b, t)
	}
	for _, n := range []int64{int64(e.Keys), int64(e.NumMembers), int64(e.Window)} {
		b = binary.AppendVarint(b, n)
	}
	b = compact.AppendFloats(b, []float64{e.Expected, e.Score, e.Threshold})
	b = binary.AppendUvarint(b, uint64(len(e.Members)))
	for _, m := range e.Members {
		b = compact.AppendTime(compact.AppendString(b, m.Key), m.Time)
		b = compact.AppendFloats(b, []float64{m.Score, m.Size, m.P})
	}
	return b, nil
}

func decodeEvent(b []byte) (e incidents.Event, err error) {
	r := &compact.Reader{B: b}
	e.Page, e.Pages, _ = r.Flags()
	e.ID, e.State, e.Into, e.Group, e.Message = r.Text(), incidents.State(r.Text()), r.Text(), r.Text(), r.Text()
	e.Time, e.Start, e.End = r.Time(), r.Time(), r.Time()
	e.Keys, e.NumMembers, e.Window = int(r.Varint()), int(r.Varint()), time.Duration(r.Varint())
	r.Numbers(&e.Expected, &e.Score, &e.Threshold)
	for range r.Count(1) {
		m := incidents.Member{Key: r.Text(), Time: r.Time()}
		r.Numbers(&m.Score, &m.Size, &m.P)
		e.Members = append(e.Members, m)
	}
	if r.Bad || len(r.B) > 0 {
		return incidents.Event{}, compact.ErrCut
	}
	return e, nil
}
