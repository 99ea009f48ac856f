package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/internal/account"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	register.DoFn4x0[beam.EventTime, connectors.Record, func(beam.EventTime, string, transforms.Observation), func([]byte)](&decodeFileFn{})
	register.DoFn4x0[beam.EventTime, kafkaio.Record, func(beam.EventTime, string, transforms.Observation), func([]byte)](&decodeTopicFn{})
	register.Emitter3[beam.EventTime, string, transforms.Observation]()
	register.Emitter1[[]byte]()
	kafkaio.RegisterClock(payloadClock, func(r kafkaio.Record) (time.Time, bool) {
		f, err := scanObject(r.Value)
		if err != nil {
			return time.Time{}, false
		}
		t, err := jsonTime(f.time)
		return t, err == nil && !t.IsZero()
	})
}

// payloadClock is the name of the clock that reads the time in a record's value.
const payloadClock = "payload"

// A graphSource is a graph's source: files or topics.
type graphSource interface {
	// check returns an error if the source cannot be read.
	check(ctx context.Context, to *clients) error
	// read returns a PCollection<KV<string, Observation>>, and chunks of dead-letter
	// records for input that is no observation, for a run of this process.
	read(s beam.Scope, run string) (observations, undecoded beam.PCollection)
	describe() string
	// state identifies what a position in the source means.
	state() any
}

// fileSource is a source of files.
type fileSource struct {
	connectors.Source
}

func (f fileSource) check(context.Context, *clients) error { return connectors.Check(f.Source) }
func (f fileSource) describe() string                      { return f.Format + " " + f.Path }
func (f fileSource) state() any                            { return f.Path }

func (f fileSource) read(s beam.Scope, run string) (observations, undecoded beam.PCollection) {
	records := connectors.Read(s, f.Source, run)
	return beam.ParDo2(s.Scope("Decode"), &decodeFileFn{rejecter{Run: run}, f.Format, !f.TimeOptional}, records)
}

// topicSource is a source of Kafka topics.
type topicSource struct {
	config.Kafka
	timed bool // records have a time that they are known by
}

func (t topicSource) check(ctx context.Context, to *clients) error {
	return to.of(t.Cluster).Check(ctx)
}

// partitions is the largest number of partitions of a topic.
func (t topicSource) partitions(ctx context.Context, to *clients) (most int, err error) {
	topics, err := to.of(t.Cluster).Partitions(ctx, t.Topics)
	for _, n := range topics {
		most = max(most, n)
	}
	return most, err
}

func (t topicSource) state() any { return t.Topics }

func (t topicSource) describe() string {
	text := fmt.Sprintf("kafka %s from %s", strings.Join(t.Topics, ", "), t.Start.At)
	if t.Group != "" {
		text += ", group " + t.Group
	}
	if t.Changelog != "" {
		text += ", states in " + t.Changelog
	}
	if t.Bounded {
		text += ", to where the topics end now"
	}
	return text
}

func (t topicSource) read(s beam.Scope, run string) (observations, undecoded beam.PCollection) {
	records := kafkaio.Read(s, t.Source, run)
	return beam.ParDo2(s.Scope("Decode"), &decodeTopicFn{rejecter{Run: run}, t.timed, ""}, records)
}

// A rejecter makes dead-letter records of records that cannot be decoded.
type rejecter struct {
	Run string

	rejected int
}

func (fn *rejecter) reject(reject func([]byte), key []byte, p records.Place, raw []byte, reason string) {
	fn.rejected++
	reject(records.AppendReject(connectors.Chunk(nil).Begin(key, p.ID), p, string(raw), reason))
}

func (fn *rejecter) FinishBundle(_ context.Context, _ func(beam.EventTime, string, transforms.Observation), _ func([]byte)) {
	account.Of(fn.Run).Report(account.Report{Taken: fn.rejected, Emitted: fn.rejected, Counts: account.Counts{Rejected: int64(fn.rejected)}})
	fn.rejected = 0
}

// decodeFileFn turns records of files into observations or dead-letter records.
type decodeFileFn struct {
	rejecter
	Format string
	Timed  bool // records have a time that they are known by
}

func (fn *decodeFileFn) ProcessElement(ts beam.EventTime, r connectors.Record, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	p := records.Place{ID: fmt.Sprintf("%s:%d", r.Source, r.Position)}
	key, o, reason := fn.decode(r)
	if reason != "" {
		fn.reject(reject, nil, p, r.Raw, reason)
		return
	}
	o.ID, o.Seq = p.ID, r.Index
	o.Raw = string(r.Raw)
	emit(eventTime(ts, fn.Timed, o), key, o)
}

// eventTime is the observation's own time, if records are timed.
func eventTime(ts beam.EventTime, timed bool, o transforms.Observation) beam.EventTime {
	if timed && !o.Time.IsZero() {
		return mtime.FromTime(o.Time)
	}
	return ts
}

func (fn *decodeFileFn) decode(r connectors.Record) (key string, o transforms.Observation, reason string) {
	if r.Reason != "" {
		return "", o, r.Reason
	}
	var err error
	if fn.Format == connectors.JSONLines {
		key, o, err = decodeJSON(r.Raw)
	} else {
		key, o, err = decodeFields(r.Fields)
	}
	if err != nil {
		return "", o, err.Error()
	}
	return key, o, ""
}

// decodeTopicFn turns records of topics into observations or dead-letter records.
type decodeTopicFn struct {
	rejecter
	Timed bool

	log string // of the record before: most records are of one partition after the other
}

func (fn *decodeTopicFn) ProcessElement(ts beam.EventTime, r kafkaio.Record, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	if log := r.Log(); log != fn.log {
		fn.log = log
	}
	p := records.Place{ID: r.Position.String(), Log: fn.log, Seq: r.Offset}
	key, o, err := decodeRecord(r)
	raw := r.Value[:min(len(r.Value), connectors.MaxRaw)]
	if err != nil {
		fn.reject(reject, r.Key, p, raw, err.Error())
		return
	}
	o.ID, o.Log, o.Seq, o.Raw = p.ID, p.Log, p.Seq, string(raw)
	emit(eventTime(ts, fn.Timed, o), key, o)
}

// decodeRecord reads an observation from the JSON of a record's value. A value without a
// key has the key of the record.
func decodeRecord(r kafkaio.Record) (key string, o transforms.Observation, err error) {
	switch v := r.Value; {
	case r.Oversized > 0:
		return "", o, fmt.Errorf("the record has %d bytes, and at most %d are read", r.Oversized, kafkaio.MaxRecord)
	case v == nil:
		return "", o, errors.New("a tombstone: the record has no value")
	case len(v) == 0:
		return "", o, errors.New("the value is empty")
	case len(v) > 4 && v[0] == 0:
		return "", o, fmt.Errorf("the value is framed by a schema registry (schema %d), of which no format is read: give JSON", uint32(v[1])<<24|uint32(v[2])<<16|uint32(v[3])<<8|uint32(v[4]))
	}
	f, err := scanObject(r.Value)
	if err != nil {
		return "", o, err
	}
	if f.key == nil && len(r.Key) > 0 {
		if !utf8.Valid(r.Key) {
			return "", o, errKeyUTF8
		}
		key = string(r.Key)
	} else if key, err = jsonKey(f.key); err != nil {
		return "", o, err
	}
	o, err = f.observation()
	return key, o, err
}
