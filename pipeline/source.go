package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/promio"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline/config"
	"hafvf/pipeline/observe"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	transforms.Register(ofBatches, func(ctx context.Context, text string) transforms.Decoder { return newDecoder(ctx, text) })
	kafkaio.RegisterClock(payloadClock, func(fields string) kafkaio.Clock {
		p := parserOf(fields)
		p.RefuseDays()
		return func(r kafkaio.Record) (time.Time, bool) { return p.Clock(r.Value) }
	})
}

// ofBatches is the name of the decoder. Its setting is that of newDecoder.
const ofBatches = "batches"

// payloadClock is the name of the clock that reads the time in a record's value. Its
// setting is that of parserOf.
const payloadClock = "payload"

// parserOf returns the parser of fields that settingText has written.
func parserOf(text string) *observe.Parser { return parserOfFields(settingOf[config.Fields](text)) }

func parserOfFields(f config.Fields) *observe.Parser {
	p, err := observe.NewParser(f)
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

// A graphSource is a graph's source: files, topics or a query.
type graphSource interface {
	// check returns an error if the source cannot be read.
	check(ctx context.Context, to *clients) error
	// read returns a PCollection of batches of records, for a run of this process, and what
	// decodes them.
	read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered)
	describe() string
	// values names the fields that make the value.
	values() []string
	// state identifies what a position in the source means.
	state() any
	// part answers isPart for a run that has ended early. whole has outputs that appear at the end.
	part(stopped, whole bool) bool
}

// fileSource is a source of files.
type fileSource struct {
	connectors.Source
	fields config.Fields
}

func (f fileSource) check(context.Context, *clients) error {
	if err := connectors.Check(f.Source); err != nil {
		return err
	}
	return observe.CheckTimes(f.Source, parserOfFields(f.fields))
}

func (f fileSource) describe() string { return f.Format + " " + f.Path }
func (f fileSource) state() any       { return f.Path }

// part: nobody can read the rest of standard input.
func (f fileSource) part(stopped, _ bool) bool { return !stopped || f.Path != "-" }

func (f fileSource) values() []string {
	if f.fields.Layout == config.Series { // the field is a list of them
		return []string{"value"}
	}
	return f.fields.Values
}

func (f fileSource) read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered) {
	return connectors.Read(s, f.Source), transforms.Registered{Name: ofBatches, Setting: settingText(decoding{f.Format, f.fields, f.Once()})}
}

// topicSource is a source of Kafka topics.
type topicSource struct{ config.Kafka }

func (t topicSource) check(ctx context.Context, to *clients) error {
	if err := to.of(t.Cluster).Check(ctx); err != nil || t.Registry == nil {
		return err
	}
	return t.Registry.Check(ctx)
}

// partitions is the largest number of partitions of a topic.
func (t topicSource) partitions(ctx context.Context, to *clients) (most int, err error) {
	topics, err := to.of(t.Cluster).Partitions(ctx, t.Topics)
	for _, n := range topics {
		most = max(most, n)
	}
	return most, err
}

func (t topicSource) values() []string        { return t.Fields.Values }
func (t topicSource) state() any              { return t.Topics }
func (t topicSource) part(_, whole bool) bool { return whole }

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

func (t topicSource) read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered) {
	return kafkaio.ReadBatches(s, t.Source), transforms.Registered{Name: ofBatches, Setting: settingText(decoding{Fields: t.Fields, Unseen: true})}
}

// decoding is the setting of a decoder.
type decoding struct {
	Format string // of files
	Fields config.Fields
	Unseen bool // nobody can look at the times before: see observe.Parser.RefuseDays
}

// A decoder decodes batches of files, topics and series: it passes observations on, and rejects
// records that are none.
type decoder struct {
	*observe.Decoder
	run *run
}

func newDecoder(ctx context.Context, text string) *decoder {
	setting := settingOf[decoding](text)
	p := parserOfFields(setting.Fields)
	if setting.Unseen {
		p.RefuseDays()
	}
	d := &decoder{observe.NewDecoder(setting.Format, p), runOf(ctx)}
	if d.run != nil {
		d.Folds = &d.run.folds
	}
	return d
}

func (d *decoder) pass(found []observe.Decoded, take func(key string, o *keyed.Observation) error, reject func([]byte)) {
	for i := range found {
		e := &found[i]
		key, place, reason := e.RecordKey, records.Place{ID: e.ID, Log: e.Log, Seq: e.Seq}, e.Err
		if reason == nil {
			if reason = take(e.Key, &e.Observation); reason == nil {
				continue
			}
			key = []byte(e.Key)
		}
		d.run.findings().reject(reason.Error(), e.ID, e.Raw)
		reject(records.AppendReject(connectors.Chunk(nil).Begin(key, e.ID), place, e.Raw, reason.Error()))
	}
}

func (d *decoder) Decode(batch any, take func(key string, o *keyed.Observation) error, reject func([]byte)) (records int) {
	switch b := batch.(type) {
	case connectors.Batch:
		for part := range slices.Chunk(b.Records, observe.Together) {
			d.File(part, func(found []observe.Decoded) { d.pass(found, take, reject) })
		}
		return len(b.Records)
	case kafkaio.Batch:
		for part := range slices.Chunk(b.Records, observe.Together) {
			d.pass(d.Topic(part), take, reject)
		}
		return len(b.Records)
	}
	d.Series(batch.(promio.Batch).Series, func(found []observe.Decoded) {
		records += len(found)
		d.pass(found, take, reject)
	})
	return records
}
