package transforms

import (
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// Stages exchange values in the binary form of package keyed: the runner's default for structs does not support NaN
// and is slow. The coders are function literals because a worker finds each function by its name, and instances of
// a generic function have no names of their own.
func init() {
	beam.RegisterCoder(reflect.TypeFor[keyed.Observation](),
		func(v keyed.Observation) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Observation, err error) { err = v.UnmarshalBinary(b); return v, err })
	beam.RegisterCoder(reflect.TypeFor[keyed.Estimate](),
		func(v keyed.Estimate) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Estimate, err error) { err = v.UnmarshalBinary(b); return v, err })
	beam.RegisterCoder(reflect.TypeFor[keyed.AlertEvent](),
		func(v keyed.AlertEvent) ([]byte, error) {
			return v.AppendBinary(append(compact.AppendString(nil, v.Key), byte(v.Source)))
		},
		func(b []byte) (v keyed.AlertEvent, err error) {
			r := compact.Reader{B: b}
			key, source := r.Text(), keyed.AlertSource(r.Byte())
			err = v.UnmarshalBinary(r.B)
			v.Key, v.Source = key, source
			return v, err
		})
	beam.RegisterCoder(reflect.TypeFor[keyed.Smoothed](),
		func(v keyed.Smoothed) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Smoothed, err error) { err = v.UnmarshalBinary(b); return v, err })
	beam.RegisterCoder(reflect.TypeFor[incidents.Event](),
		func(v incidents.Event) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v incidents.Event, err error) { err = v.UnmarshalBinary(b); return v, err })
	beam.RegisterCoder(reflect.TypeFor[keyed.Rejected](),
		func(v keyed.Rejected) ([]byte, error) { return v.AppendBinary(nil) },
		func(b []byte) (v keyed.Rejected, err error) { err = v.UnmarshalBinary(b); return v, err })
}
