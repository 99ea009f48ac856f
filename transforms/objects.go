package transforms

import (
	"context"
	"encoding"
	"encoding/binary"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// Nodes process bytes. Filter, Smooth and Incidents add steps that unpack the bytes into values.

func init() {
	Register(objects, func(context.Context, string) Encoder { return objectEncoder{} })
	Register(objects, func(context.Context, string) SmoothedEncoder { return objectEncoder{} })
	Register(objects, func(context.Context, string) IncidentEncoder { return objectEncoder{} })
	register.Function2x1(unpackEstimates)
	register.Function3x1(unpackAlarms)
	register.Function2x1(unpackSmoothed)
	register.Function2x1(unpackEvents)
	register.Function2x1(unpackRejected)
	register.Emitter3[beam.EventTime, string, keyed.Estimate]()
	register.Emitter2[beam.EventTime, keyed.AlertEvent]()
	register.Emitter3[beam.EventTime, string, keyed.Smoothed]()
	register.Emitter2[beam.EventTime, incidents.Event]()
}

// familyScope returns the scope of the step that unpacks the results of a node. A runner shows its name, which
// includes the family. The name of the node itself does not: a runner finds its states by this name.
func familyScope(s beam.Scope, family string) beam.Scope { return s.Scope("hafvf.Found of " + family) }

// objects is the name of the decoder and the encoders of objects.
const objects = "hafvf.objects"

// sizeBytes is the number of bytes of the size in front of an object.
const sizeBytes = 4

// appendObject appends a key and an object.
func appendObject(b []byte, key string, object encoding.BinaryAppender) []byte {
	b = compact.AppendString(b, key)
	start := len(b) + sizeBytes
	b, _ = object.AppendBinary(append(b, make([]byte, sizeBytes)...)) // never fails
	binary.LittleEndian.PutUint32(b[start-sizeBytes:], uint32(len(b)-start))
	return b
}

// unpack calls emit with each object in b.
func unpack[T any, P interface {
	*T
	encoding.BinaryUnmarshaler
}](b []byte, emit func(key string, object T)) error {
	for r := (&compact.Reader{B: b}); len(r.B) > 0; {
		key := r.Text()
		if r.Bad || len(r.B) < sizeBytes {
			return compact.ErrCut
		}
		size := int(binary.LittleEndian.Uint32(r.B))
		if r.B = r.B[sizeBytes:]; size > len(r.B) {
			return compact.ErrCut
		}
		var object T
		if err := P(&object).UnmarshalBinary(r.B[:size]); err != nil {
			return err
		}
		r.B = r.B[size:]
		emit(key, object)
	}
	return nil
}

// An objectEncoder appends estimates and smoothed observations to the records, and alarms and incidents to the
// alerts.
type objectEncoder struct{}

func (objectEncoder) Estimate(dst *Encoded, key string, e *keyed.Estimate) {
	dst.Records = appendObject(dst.Records, key, e)
	appendAlarms(dst, e.Alerts(key))
}

func (objectEncoder) Silent(dst *Encoded, key string, s keyed.SilenceEvent) {
	appendAlarms(dst, s.Alerts(key))
}

func appendAlarms(dst *Encoded, alerts []keyed.AlertEvent) {
	for i := range alerts {
		if alerts[i].Source == keyed.SourceAlarm {
			dst.Alerts = appendObject(dst.Alerts, alerts[i].Key, &alerts[i])
		}
	}
}

func (o objectEncoder) Outside(dst *Encoded, key string, e *keyed.Estimate) { o.Estimate(dst, key, e) }

func (objectEncoder) Smoothed(dst *Encoded, key string, s *keyed.Smoothed) {
	dst.Records = appendObject(dst.Records, key, s)
}

func (objectEncoder) Incident(dst *Encoded, e *incidents.Event) {
	dst.Alerts = appendObject(dst.Alerts, "", e)
}

func (objectEncoder) Rewound(string, time.Time, time.Time)                  {}
func (objectEncoder) Forgotten(*Encoded, string)                            {}
func (objectEncoder) WantsOngoing() bool                                    { return false }
func (objectEncoder) Ongoing(*Encoded, string, keyed.AlertEvent)            {}
func (objectEncoder) Alert(*Encoded, string, keyed.AlertEvent, string, int) {}
func (objectEncoder) Single(*Encoded, string, keyed.AlertEvent, bool, int)  {}
func (objectEncoder) Assigned(incidents.Assignment)                         {}
func (objectEncoder) Open(*incidents.Event)                                 {}
func (objectEncoder) Digest(*Encoded, *incidents.Digest, int)               {}
func (objectEncoder) Flush()                                                {}

func unpackEstimates(b []byte, emit func(beam.EventTime, string, keyed.Estimate)) error {
	return unpack(b, func(key string, e keyed.Estimate) {
		emit(eventTime(e.Time), key, e)
	})
}

// eventTime returns the event time of a value: t, or the epoch if t is zero.
func eventTime(t time.Time) mtime.Time {
	if t.IsZero() {
		return mtime.ZeroTimestamp
	}
	return mtime.FromTime(t)
}

func unpackAlarms(b []byte, alarm, end func(beam.EventTime, keyed.AlertEvent)) error {
	return unpack(b, func(key string, a keyed.AlertEvent) {
		a.Key = key
		emit := alarm
		if a.Kind == keyed.RecoveredAlarm {
			emit = end
		}
		emit(eventTime(a.Time), a)
	})
}

func unpackSmoothed(b []byte, emit func(beam.EventTime, string, keyed.Smoothed)) error {
	return unpack(b, func(key string, s keyed.Smoothed) { emit(mtime.FromTime(s.Time), key, s) })
}

func unpackEvents(b []byte, emit func(beam.EventTime, incidents.Event)) error {
	return unpack(b, func(_ string, e incidents.Event) { emit(mtime.FromTime(e.Time), e) })
}

func unpackRejected(b []byte, emit func(keyed.Rejected)) error {
	return unpack(b, func(_ string, r keyed.Rejected) { emit(r) })
}
