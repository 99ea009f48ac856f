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

// Nodes work on bytes. Behind those of Filter, Smooth and Incidents are steps that unpack what they emit.

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

// found is the scope of the step that unpacks what a node finds. A runner shows its name, which says the
// family. The node itself has none in its name, by which a runner finds its states.
func found(s beam.Scope, family string) beam.Scope { return s.Scope("hafvf.Found of " + family) }

// objects is the name of the decoder and the encoders of objects.
const objects = "hafvf.objects"

// sizeBytes is the length of the size that stands before an object.
const sizeBytes = 4

// appendObject appends an object of a key.
func appendObject(b []byte, key string, of encoding.BinaryAppender) []byte {
	b = compact.AppendString(b, key)
	from := len(b) + sizeBytes
	b, _ = of.AppendBinary(append(b, make([]byte, sizeBytes)...)) // which never fails
	binary.LittleEndian.PutUint32(b[from-sizeBytes:], uint32(len(b)-from))
	return b
}

// unpack calls emit with the objects of b.
func unpack[T any, P interface {
	*T
	encoding.BinaryUnmarshaler
}](b []byte, emit func(key string, of T)) error {
	for r := (&compact.Reader{B: b}); len(r.B) > 0; {
		key := r.Text()
		if r.Bad || len(r.B) < sizeBytes {
			return compact.ErrCut
		}
		size := int(binary.LittleEndian.Uint32(r.B))
		if r.B = r.B[sizeBytes:]; size > len(r.B) {
			return compact.ErrCut
		}
		var of T
		if err := P(&of).UnmarshalBinary(r.B[:size]); err != nil {
			return err
		}
		r.B = r.B[size:]
		emit(key, of)
	}
	return nil
}

// An objectEncoder appends estimates and the smoothed to the records, and alarms and incidents to the alerts.
type objectEncoder struct{}

func (objectEncoder) Estimate(to *Encoded, key string, e *keyed.Estimate) {
	to.Records = appendObject(to.Records, key, e)
	appendAlarms(to, e.Alerts(key))
}

func (objectEncoder) Silent(to *Encoded, key string, s keyed.SilenceEvent) {
	appendAlarms(to, s.Alerts(key))
}

func appendAlarms(to *Encoded, all []keyed.AlertEvent) {
	for i := range all {
		if all[i].Source == keyed.SourceAlarm {
			to.Alerts = appendObject(to.Alerts, all[i].Key, &all[i])
		}
	}
}

func (o objectEncoder) Outside(to *Encoded, key string, e *keyed.Estimate) { o.Estimate(to, key, e) }

func (objectEncoder) Smoothed(to *Encoded, key string, s *keyed.Smoothed) {
	to.Records = appendObject(to.Records, key, s)
}

func (objectEncoder) Incident(to *Encoded, e *incidents.Event) {
	to.Alerts = appendObject(to.Alerts, "", e)
}

func (objectEncoder) Rewound(string, time.Time, time.Time)                  {}
func (objectEncoder) Forgotten(*Encoded, string)                            {}
func (objectEncoder) Alert(*Encoded, string, keyed.AlertEvent, string, int) {}
func (objectEncoder) Single(*Encoded, string, keyed.AlertEvent, int)        {}
func (objectEncoder) Assigned(incidents.Assignment)                         {}
func (objectEncoder) Open(*incidents.Event)                                 {}
func (objectEncoder) Digest(*Encoded, *incidents.Digest, int)               {}
func (objectEncoder) Flush()                                                {}

func unpackEstimates(b []byte, emit func(beam.EventTime, string, keyed.Estimate)) error {
	return unpack(b, func(key string, e keyed.Estimate) {
		emit(eventTime(e.Time), key, e)
	})
}

// eventTime is the epoch of what has no time.
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
