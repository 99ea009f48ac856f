package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/parallel"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	register.Function4x0((&decodeFileFn{}).ProcessElement)
	dofn.Register(func(f *decodeFileFn) any { return f.ProcessElement })
	register.Function4x0((&decodeTopicFn{}).ProcessElement)
	dofn.Register(func(f *decodeTopicFn) any { return f.ProcessElement })
	register.Emitter3[beam.EventTime, string, transforms.Observation]()
	register.Emitter1[[]byte]()
	kafkaio.RegisterClock(payloadClock, func(fields string) kafkaio.Clock {
		p := parserOf(fields)
		return func(r kafkaio.Record) (time.Time, bool) { return p.jsonClock(r.Value) }
	})
}

// payloadClock is the name of the clock that reads the time in a record's value. Its
// setting is that of parserOf.
const payloadClock = "payload"

// parserOf returns the parser of fields that fieldsText has written.
func parserOf(text string) *parser {
	var f config.Fields
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		panic("pipeline: " + err.Error())
	}
	p, err := newParser(f)
	if err != nil {
		panic("pipeline: the config was not checked: " + err.Error())
	}
	return p
}

func fieldsText(f config.Fields) string {
	text, err := json.Marshal(f)
	if err != nil {
		panic("pipeline: " + err.Error())
	}
	return string(text)
}

// A graphSource is a graph's source: files or topics.
type graphSource interface {
	// check returns an error if the source cannot be read.
	check(ctx context.Context, to *clients) error
	// read returns a PCollection<KV<string, Observation>>, and chunks of dead-letter
	// records for input that is no observation, for a run of this process.
	read(s beam.Scope, run string) (observations, undecoded beam.PCollection)
	describe() string
	// values names the fields that make the value.
	values() []string
	// state identifies what a position in the source means.
	state() any
}

// fileSource is a source of files.
type fileSource struct {
	connectors.Source
	fields config.Fields
}

func (f fileSource) check(context.Context, *clients) error { return connectors.Check(f.Source) }
func (f fileSource) describe() string                      { return f.Format + " " + f.Path }
func (f fileSource) values() []string                      { return f.fields.Values }
func (f fileSource) state() any                            { return f.Path }

func (f fileSource) read(s beam.Scope, run string) (observations, undecoded beam.PCollection) {
	records := connectors.Read(s, f.Source, run)
	return beam.ParDo2(s.Scope("Decode"), &decodeFileFn{decoder: decoder[connectors.Record]{Run: run, Timed: !f.TimeOptional, Fields: fieldsText(f.fields)}, Format: f.Format}, records)
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

func (t topicSource) values() []string { return t.Fields.Values }
func (t topicSource) state() any       { return t.Topics }

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
	return beam.ParDo2(s.Scope("Decode"), &decodeTopicFn{decoder[kafkaio.Record]{Run: run, Timed: t.timed, Fields: fieldsText(t.Fields)}}, records)
}

// A decoder turns records into observations or dead-letter records, many in parallel.
type decoder[R any] struct {
	Run   string
	Timed bool // records have a time that they are known by
	// Fields is the text of the config.Fields that describe the records.
	Fields string

	parser   *parser
	waiting  []decoding[R]
	rejected int
}

// A decoding is a record, and what it has become.
type decoding[R any] struct {
	record R
	at     beam.EventTime // of the record

	decoded
}

// decoded is what a record becomes: an observation of a key, or the reason why not.
type decoded struct {
	key       string
	o         transforms.Observation
	err       error
	recordKey []byte // of a Kafka record
	place     records.Place
	raw       []byte
}

func (fn *decoder[R]) Setup() { fn.parser = parserOf(fn.Fields) }

// add adds a record to those that wait.
func (fn *decoder[R]) add(ts beam.EventTime, r R, decode func(R) decoded, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	fn.waiting = append(fn.waiting, decoding[R]{record: r, at: ts})
	if len(fn.waiting) == waiting {
		fn.drain(decode, emit, reject)
	}
}

// drain decodes the waiting records, each goroutine a stretch of them, and emits what
// they become in their order.
func (fn *decoder[R]) drain(decode func(R) decoded, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	parallel.Stretches(len(fn.waiting), runtime.GOMAXPROCS(0), func(_, from, end int) {
		part := fn.waiting[from:end]
		for i := range part {
			part[i].decoded = decode(part[i].record)
		}
	})
	run := runOf(fn.Run)
	for i := range fn.waiting {
		d := &fn.waiting[i]
		if d.err != nil {
			fn.rejected++
			run.reject(d.err.Error(), d.place.ID, string(d.raw))
			reject(records.AppendReject(connectors.Chunk(nil).Begin(d.recordKey, d.place.ID), d.place, string(d.raw), d.err.Error()))
			continue
		}
		ts := d.at
		if fn.Timed && !d.o.Time.IsZero() {
			ts = mtime.FromTime(d.o.Time) // the observation's own
		}
		emit(ts, d.key, d.o)
	}
	clear(fn.waiting)
	fn.waiting = fn.waiting[:0]
}

// report reports the rejected records of a bundle.
func (fn *decoder[R]) report() {
	account.Of(fn.Run).Report(account.Report{Taken: fn.rejected, Emitted: fn.rejected, Counts: account.Counts{Rejected: int64(fn.rejected)}})
	fn.rejected = 0
}

// decodeFileFn decodes records of files.
type decodeFileFn struct {
	decoder[connectors.Record]
	Format string
}

func (fn *decodeFileFn) ProcessElement(ts beam.EventTime, r connectors.Record, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	fn.add(ts, r, fn.decode, emit, reject)
}

func (fn *decodeFileFn) FinishBundle(_ context.Context, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	fn.drain(fn.decode, emit, reject)
	fn.report()
}

func (fn *decodeFileFn) decode(r connectors.Record) (d decoded) {
	d.place, d.raw = records.Place{ID: fmt.Sprintf("%s:%d", r.Source, r.Position)}, r.Raw
	switch {
	case r.Reason != "":
		d.err = errors.New(r.Reason)
	case fn.Format == connectors.JSONLines:
		d.key, d.o, d.err = fn.parser.json(r.Raw, origin{series: seriesName(r.Source)})
	default:
		d.key, d.o, d.err = fn.parser.row(r.Fields, origin{series: seriesName(r.Source)})
	}
	d.o.ID, d.o.Seq, d.o.Raw = d.place.ID, r.Index, string(d.raw)
	return d
}

// seriesName is how the series of a file without keys is called: as the file, without
// the extensions of its format and compression.
func seriesName(file string) string {
	for _, packed := range []string{".gz", ".zst"} {
		file = strings.TrimSuffix(file, packed)
	}
	return strings.TrimSuffix(file, filepath.Ext(file))
}

// decodeTopicFn decodes records of topics.
type decodeTopicFn struct{ decoder[kafkaio.Record] }

func (fn *decodeTopicFn) ProcessElement(ts beam.EventTime, r kafkaio.Record, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	fn.add(ts, r, fn.decode, emit, reject)
}

func (fn *decodeTopicFn) FinishBundle(_ context.Context, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	fn.drain(fn.decode, emit, reject)
	fn.report()
}

func (fn *decodeTopicFn) decode(r kafkaio.Record) (d decoded) {
	d.place = records.Place{ID: r.Position.String(), Log: r.Log(), Seq: r.Offset}
	d.raw, d.recordKey = r.Value[:min(len(r.Value), connectors.MaxRaw)], r.Key
	d.key, d.o, d.err = decodeRecord(fn.parser, r)
	d.o.ID, d.o.Log, d.o.Seq, d.o.Raw = d.place.ID, d.place.Log, d.place.Seq, string(d.raw)
	return d
}

// decodeRecord reads an observation from the JSON of a record's value. A value without a
// key has the key of the record.
func decodeRecord(p *parser, r kafkaio.Record) (key string, o transforms.Observation, err error) {
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
	return p.json(r.Value, origin{series: r.Topic, key: r.Key})
}
