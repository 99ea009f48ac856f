package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/parallel"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	transforms.RegisterDecoder(ofFiles, func(text string) transforms.Decoder { return &fileDecoder{newDecoder(text)} })
	transforms.RegisterDecoder(ofTopics, func(text string) transforms.Decoder { return &topicDecoder{newDecoder(text)} })
	kafkaio.RegisterClock(payloadClock, func(fields string) kafkaio.Clock {
		p := parserOf(fields)
		return func(r kafkaio.Record) (time.Time, bool) { return p.jsonClock(r.Value) }
	})
}

// ofFiles and ofTopics are the names of the decoders of their batches. Their setting is that
// of newDecoder.
const (
	ofFiles  = "files"
	ofTopics = "topics"
)

// payloadClock is the name of the clock that reads the time in a record's value. Its
// setting is that of parserOf.
const payloadClock = "payload"

// parserOf returns the parser of fields that settingText has written.
func parserOf(text string) *parser { return parserOfFields(settingOf[config.Fields](text)) }

func parserOfFields(f config.Fields) *parser {
	p, err := newParser(f)
	if err != nil {
		panic("pipeline: the config was not checked: " + err.Error())
	}
	return p
}

// settingText is the text of a setting that travels to workers, and settingOf reads it.
func settingText(setting any) string {
	text, err := json.Marshal(setting)
	if err != nil {
		panic("pipeline: " + err.Error())
	}
	return string(text)
}

func settingOf[T any](text string) (setting T) {
	if err := json.Unmarshal([]byte(text), &setting); err != nil {
		panic("pipeline: " + err.Error())
	}
	return setting
}

// A graphSource is a graph's source: files or topics.
type graphSource interface {
	// check returns an error if the source cannot be read.
	check(ctx context.Context, to *clients) error
	// read returns a PCollection of batches of records, for a run of this process, and what
	// decodes them.
	read(s beam.Scope, run string) (batches beam.PCollection, decoder transforms.Registered)
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

func (f fileSource) read(s beam.Scope, run string) (batches beam.PCollection, decoder transforms.Registered) {
	return connectors.Read(s, f.Source, run), transforms.Registered{Name: ofFiles, Setting: settingText(decoding{run, f.Format, f.fields})}
}

// topicSource is a source of Kafka topics.
type topicSource struct{ config.Kafka }

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

func (t topicSource) read(s beam.Scope, run string) (batches beam.PCollection, decoder transforms.Registered) {
	return kafkaio.ReadBatches(s, t.Source, run), transforms.Registered{Name: ofTopics, Setting: settingText(decoding{Run: run, Fields: t.Fields})}
}

// decoding is the setting of a decoder.
type decoding struct {
	Run    string
	Format string // of files
	Fields config.Fields
}

// A decoder turns records into observations or dead-letter records, many in parallel.
type decoder struct {
	decoding
	parser *parser
	found  []decoded
	texts  [][]byte // one for each goroutine
}

func newDecoder(text string) decoder {
	d := decoder{decoding: settingOf[decoding](text), texts: make([][]byte, runtime.GOMAXPROCS(0))}
	d.parser = parserOfFields(d.Fields)
	return d
}

// decoded is what a record becomes: an observation of a key, or the reason why not. Its
// memory is used again for another one.
type decoded struct {
	key       string
	o         keyed.Observation
	err       error
	recordKey []byte // of a Kafka record
	raw       []byte
	// Where the ID and then raw are in the text of several records.
	id, end int
}

// together is the number of records that are decoded together, in parallel.
const together = 1024

// decode decodes n records, at most together, each goroutine a stretch of them. each
// decodes one, and appends its ID to a text. What is returned is valid until the next call.
func (d *decoder) decode(n int, each func(i int, to *decoded, text []byte) []byte) []decoded {
	if d.found == nil {
		d.found = make([]decoded, together)
	}
	found := d.found[:n]
	parallel.Stretches(n, len(d.texts), func(worker, from, end int) {
		text := d.texts[worker][:0]
		part := found[from:end]
		for i := range part {
			to := &part[i]
			*to = decoded{o: keyed.Observation{X: to.o.X}}
			text = each(from+i, to, text)
			to.id = len(text)
			text = append(text, to.raw...)
			to.end = len(text)
		}
		// One text for all: a small one of each record would cost more than its decoding.
		all, begin := string(text), 0
		for i := range part {
			to := &part[i]
			to.o.ID, to.o.Raw = all[begin:to.id], all[to.id:to.end]
			begin = to.end
		}
		d.texts[worker] = text
	})
	return found
}

// pass passes observations on, and rejects what is none.
func (d *decoder) pass(found []decoded, take func(key string, o *keyed.Observation) error, reject func([]byte)) {
	run := runOf(d.Run)
	for i := range found {
		e := &found[i]
		key, place, reason := e.recordKey, records.Place{ID: e.o.ID, Log: e.o.Log, Seq: e.o.Seq}, e.err
		if reason == nil {
			if reason = take(e.key, &e.o); reason == nil {
				continue
			}
			key = []byte(e.key)
		}
		run.reject(reason.Error(), e.o.ID, e.o.Raw)
		reject(records.AppendReject(connectors.Chunk(nil).Begin(key, e.o.ID), place, e.o.Raw, reason.Error()))
	}
}

// fileDecoder decodes batches of files.
type fileDecoder struct{ decoder }

func (d *fileDecoder) Decode(batch any, take func(key string, o *keyed.Observation) error, reject func([]byte)) {
	for part := range slices.Chunk(batch.(connectors.Batch).Records, together) {
		d.pass(d.records(part), take, reject)
	}
}

// records decodes records.
func (d *fileDecoder) records(all []connectors.Record) []decoded {
	series := ""
	if len(d.Fields.Key) == 0 {
		series = seriesName(all[0].Source)
	}
	return d.decode(len(all), func(i int, to *decoded, text []byte) []byte {
		r, from := &all[i], origin{series: series}
		if series != "" && r.Source != all[0].Source {
			from.series = seriesName(r.Source)
		}
		switch {
		case r.Reason != "":
			to.err = errors.New(r.Reason)
		case d.Format == connectors.JSONLines:
			to.key, to.err = d.parser.json(r.Raw, from, &to.o)
		default:
			to.key, to.err = d.parser.row(r.Fields, from, &to.o)
		}
		to.o.Seq, to.raw = r.Index, r.Raw
		return strconv.AppendInt(append(append(text, r.Source...), ':'), r.Position, 10)
	})
}

// seriesName is how the series of a file without keys is called: as the file, without
// the extensions of its format and compression.
func seriesName(file string) string {
	for _, packed := range []string{".gz", ".zst"} {
		file = strings.TrimSuffix(file, packed)
	}
	return strings.TrimSuffix(file, filepath.Ext(file))
}

// topicDecoder decodes batches of topics.
type topicDecoder struct{ decoder }

func (d *topicDecoder) Decode(batch any, take func(key string, o *keyed.Observation) error, reject func([]byte)) {
	for part := range slices.Chunk(batch.(kafkaio.Batch).Records, together) {
		log := part[0].Log() // of all
		d.pass(d.decode(len(part), func(i int, to *decoded, text []byte) []byte {
			r := &part[i]
			to.key, to.err = decodeRecord(d.parser, r, &to.o)
			to.o.Log, to.o.Seq = log, r.Offset
			to.recordKey, to.raw = r.Key, r.Value[:min(len(r.Value), connectors.MaxRaw)]
			return strconv.AppendInt(append(append(text, log...), '-'), r.Offset, 10)
		}), take, reject)
	}
}

// decodeRecord reads an observation from the JSON of a record's value. A value without a
// key has the key of the record.
func decodeRecord(p *parser, r *kafkaio.Record, o *keyed.Observation) (key string, err error) {
	switch v := r.Value; {
	case r.Oversized > 0:
		return "", fmt.Errorf("the record has %d bytes, and at most %d are read", r.Oversized, kafkaio.MaxRecord)
	case v == nil:
		return "", errors.New("a tombstone: the record has no value")
	case len(v) == 0:
		return "", errors.New("the value is empty")
	case len(v) > 4 && v[0] == 0:
		return "", fmt.Errorf("the value is framed by a schema registry (schema %d), of which no format is read: give JSON", uint32(v[1])<<24|uint32(v[2])<<16|uint32(v[3])<<8|uint32(v[4]))
	}
	return p.json(r.Value, origin{series: r.Topic, key: r.Key}, o)
}
