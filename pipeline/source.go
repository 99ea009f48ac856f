package pipeline

import (
	"context"
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

// parserOf returns the parser of fields that jsontext.Of has written.
func parserOf(text string) *decode.Parser { return parserOfFields(jsontext.Read[config.Fields](text)) }

func parserOfFields(f config.Fields) *decode.Parser {
	p, err := decode.NewParser(f)
	if err != nil {
		panic("pipeline: the config was not checked: " + err.Error())
	}
	return p
}

// A graphSource is a graph's source: files, topics or a query.
type graphSource interface {
	// check returns an error if the source cannot be read.
	check(ctx context.Context, pool *clients) error
	// read returns a PCollection of batches of records, for a run of this process, and what
	// decodes them.
	read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered)
	describe() string
	// values names the fields that make the value, and kind is that of its column.
	values() []string
	kind() tabular.Kind
	// state identifies what a position in the source means.
	state() any
	// part answers isPart for a run that has ended early. whole has outputs that appear at the end.
	part(stopped, whole bool) bool
}

// newSource returns the config's source. A kind of source is a case here; the rest is in its file.
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
	Unseen bool // nobody can look at the times before: see decode.Parser.RefuseDays
}

// A decoder decodes batches B of records: it passes observations on, and rejects records that are
// none.
type decoder[B any] struct {
	*decode.Decoder
	run  *run
	each batchDecode[B]
}

// A batchDecode passes on what the records of a batch become, in one call or several.
type batchDecode[B any] func(d *decode.Decoder, batch B, pass func([]decode.Decoded))

// registerDecoder registers the decoder of a source's batches, and returns what names one of a setting.
func registerDecoder[B any](name string, each batchDecode[B]) func(decoding) transforms.Registered {
	transforms.Register(name, func(ctx context.Context, text string) transforms.Decoder {
		setting := jsontext.Read[decoding](text)
		p := parserOfFields(setting.Fields)
		if setting.Unseen {
			p.RefuseDays()
		}
		d := &decoder[B]{decode.NewDecoder(setting.Format, p), runOf(ctx), each}
		p.OnRounded = d.run.logRounded
		if d.run != nil {
			d.Folds = &d.run.folds
		}
		return d
	})
	return func(d decoding) transforms.Registered {
		return transforms.Registered{Name: name, Setting: jsontext.Of(d)}
	}
}

// logRounded logs once that a whole number is rounded. r may be nil.
func (r *run) logRounded(text string, read float64) {
	if r == nil {
		return
	}
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
					continue
				}
				key = []byte(e.Key)
			}
			n := max(1, e.Lost)
			d.run.findings().reject(reason.Error(), e.ID, e.Raw, n)
			reject(records.AppendReject(connectors.Chunk(nil).Begin(key, e.ID), place, e.Raw, reason.Error()), n)
		}
	})
}
