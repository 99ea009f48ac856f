package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/registry"
	"hafvf/hafvf/keyed"
	"hafvf/internal/jsontext"
	"hafvf/internal/tabular"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
	"hafvf/pipeline/flink"
	"hafvf/pipeline/settings"
	"hafvf/transforms"
)

var decodesTopics = registerDecoder("topics", func(d *decode.Decoder, b kafkaio.Batch, pass func([]decode.Decoded)) {
	for part := range slices.Chunk(b.Records, decode.MaxBatch) {
		pass(d.Topic(part))
	}
})

// payloadClock is the name of the clock that reads the time in a record's value. Its setting is the argument of
// parserOf.
const payloadClock = "payload"

func init() {
	kafkaio.RegisterClock(payloadClock, func(fields string) kafkaio.Clock {
		p := parserOf(fields)
		p.RefuseDays()
		return func(r kafkaio.Record) (time.Time, bool) { return p.Clock(&r) }
	})
}

// topicSource is a source of Kafka topics.
type topicSource struct{ config.Kafka }

func newTopicSource(c *config.Config, k *config.Kafka) topicSource {
	t := topicSource{*k}
	timed := c.SessionOrder() == keyed.EventTime
	t.SubtractLag = timed && c.Transform == settings.Smooth
	if t.Registry != nil {
		t.Form = registry.Source{Config: *t.Registry, Format: t.Format}.Form()
	}
	if timed && (c.Transform == settings.Smooth || c.Lateness > 0 || c.Silence != nil || c.Aggregate != nil || c.Incidents != nil || c.Expire > 0) {
		t.Clock, t.ClockSetting = payloadClock, jsontext.Of(t.Fields) // only these settings wait for the watermark
	}
	if r := c.Runner; r.Name == config.Flink {
		t.Readers, t.Poll = flink.Names(r.Parallelism, r.Parallelism, r.MaxParallelism), r.Poll
	}
	return t
}

func (t topicSource) check(ctx context.Context, pool *clients) error {
	if err := pool.client(t.Cluster).Check(ctx); err != nil || t.Registry == nil {
		return err
	}
	return t.Registry.Check(ctx)
}

// partitions returns the largest number of partitions of a topic.
func (t topicSource) partitions(ctx context.Context, pool *clients) (largest int, err error) {
	topics, err := pool.client(t.Cluster).Partitions(ctx, t.Topics)
	for _, n := range topics {
		largest = max(largest, n)
	}
	return largest, err
}

func (t topicSource) values() []string                 { return t.Fields.Values }
func (t topicSource) kind() tabular.Kind               { return tabular.String }
func (t topicSource) state() any                       { return t.Topics }
func (t topicSource) leavesOutputs(_, whole bool) bool { return whole }

func (t topicSource) describe() string {
	text := fmt.Sprintf("kafka %s from %s", strings.Join(t.Topics, ", "), t.Start.At)
	if t.Group != "" {
		text += ", group " + t.Group
	}
	if t.Changelog != "" {
		text += ", states in " + t.Changelog
	}
	if t.Bounded {
		text += ", to the present ends of the topics"
	}
	return text
}

func (t topicSource) read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered) {
	return kafkaio.ReadBatches(s, t.Source), decodesTopics(decoding{Fields: t.Fields, Unseen: true})
}
