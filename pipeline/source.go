package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/hafvf/keyed"
	"hafvf/internal/jsontext"
	"hafvf/internal/message"
	"hafvf/internal/tabular"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

// parserOf returns the parser for fields in JSON, as jsontext.Of writes them.
func parserOf(text string) *decode.Parser { return parserOfFields(jsontext.Read[config.Fields](text)) }

func parserOfFields(f config.Fields) *decode.Parser {
	p, err := decode.NewParser(f)
	if err != nil {
		panic("pipeline: the config was not checked: " + err.Error())
	}
	return p
}

// A graphSource is the source of a graph: files, topics or a query.
type graphSource interface {
	// check returns an error if the source cannot be read.
	check(ctx context.Context, pool *clients) error
	// read returns a PCollection of batches of records, for a run in this process, and their decoder.
	read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered)
	describe() string
	// values returns the names of the fields that make the value. kind returns the kind of the value's column.
	values() []string
	kind() tabular.Kind
	// state returns the settings that determine the meaning of a position in the source.
	state() any
	// leavesOutputs implements run.leavesOutputs for a run that ended early. whole is set if an output appears only at
	// its end.
	leavesOutputs(stopped, whole bool) bool
}

// newSource returns the source of a config. Each kind of source has a case here and a file of its own.
func newSource(c *config.Config) graphSource {
	switch o := c.Source.Origins[0].(type) {
	case *config.Kafka:
		return newTopicSource(c, o)
	case *config.Prometheus:
		return querySource{o.Source}
	}
	return newFileSource(c)
}

// decoding is the setting of a decoder.
type decoding struct {
	Format string // of files
	Fields config.Fields
	Unseen bool // earlier times cannot be inspected, see decode.Parser.RefuseDays
}

// A decoder decodes batches of type B: it passes observations on, and rejects records that cannot be decoded.
type decoder[B any] struct {
	*decode.Decoder
	run  *run
	each batchDecode[B]
}

// A batchDecode decodes a batch, and passes on the results in one or more calls.
type batchDecode[B any] func(d *decode.Decoder, batch B, pass func([]decode.Decoded))

// registerDecoder registers the decoder for the batches of a source. It returns a function that refers to the decoder
// with a setting.
func registerDecoder[B any](name string, each batchDecode[B]) func(decoding) transforms.Registered {
	transforms.Register(name, func(ctx context.Context, text string) transforms.Decoder {
		setting := jsontext.Read[decoding](text)
		p := parserOfFields(setting.Fields)
		if setting.Unseen {
			p.RefuseDays()
		}
		d := &decoder[B]{decode.NewDecoder(setting.Format, p), runOf(ctx), each}
		p.OnRounded = d.run.logRounded
		d.Folds = &d.run.folds
		return d
	})
	return func(d decoding) transforms.Registered {
		return transforms.Registered{Name: name, Setting: jsontext.Of(d)}
	}
}

// logRounded logs the first whole number that is rounded.
func (r *run) logRounded(text string, read float64) {
	r.rounded.Do(func() {
		r.log.Warn("whole numbers beyond 2^53 are rounded", "first", message.Shorten(text), "read_as", strconv.FormatFloat(read, 'f', 0, 64))
	})
}

func (d *decoder[B]) Decode(batch any, take func(key string, o *keyed.Observation) error, reject func([]byte, int)) {
	d.each(d.Decoder, batch.(B), func(found []decode.Decoded) {
		for i := range found {
			e := &found[i]
			key, place, reason := e.RecordKey, records.SourcePlace{ID: e.ID, Log: e.Log, Seq: e.Seq}, e.Err
			if reason == nil {
				if reason = take(e.Key, &e.Observation); reason == nil {
					d.run.decoded(e.Key, e.Time, nil)
					continue
				}
				if key = []byte(e.Key); e.Log != "" && errors.Is(reason, keyed.ErrNoTime) {
					reason = fmt.Errorf("%w; time: {record: true} in source.kafka takes the time of the Kafka record", reason)
				}
			}
			d.run.decoded(e.Key, e.Time, reason)
			n := max(1, e.LostObservations)
			d.run.found.reject(reason.Error(), e.ID, e.Raw, n)
			reject(records.AppendReject(connectors.Chunk(nil).Begin(key, e.ID), place, e.Raw, reason.Error()), n)
		}
	})
}
