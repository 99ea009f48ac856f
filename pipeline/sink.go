package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/promio"
	"hafvf/connectors/registry"
	"hafvf/connectors/webhook"
	"hafvf/internal/tabular"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

// A graphSink is a destination of records: a file, a topic, a webhook or Prometheus. The zero value discards them.
type graphSink struct {
	file  *connectors.Sink
	topic *kafkaio.Sink
	avro  *registry.Sink // of the topic; nil for JSON
	hook  *webhook.Sink
	store *promio.Sink // remote write to Prometheus

	maxAge       time.Duration // maximum age of an alert
	runnerStores bool          // pending alerts are in the state of the runner
}

// newSink returns the sink of a graph with the given source. If the source has no end, files grow during the run.
// schema is the Avro schema of the records.
func newSink(s *config.Sink, columns []tabular.Column, schema string, source *config.Source) graphSink {
	file := &connectors.Sink{Columns: columns, Append: source.Unbounded(), Live: source.StandardInput()}
	switch {
	case s.Discard:
		return graphSink{}
	case s.Kafka != nil:
		topic := *s.Kafka
		if s.Format != registry.Avro {
			return graphSink{topic: &topic}
		}
		avro := &registry.Sink{Config: *s.Registry, Subject: topic.Topic + "-value", Schema: schema}
		topic.Form = avro.Form()
		return graphSink{topic: &topic, avro: avro}
	case s.Webhook != nil:
		return graphSink{hook: s.Webhook}
	case s.Prometheus != nil:
		return graphSink{store: s.Prometheus}
	}
	file.Format, file.Path = s.File.Format, s.File.Path
	return graphSink{file: file}
}

func (s graphSink) describe() string {
	switch {
	case s.topic != nil:
		return "kafka " + s.topic.Topic
	case s.hook != nil:
		return s.hook.String()
	case s.store != nil:
		return "prometheus, as hafvf_score, hafvf_usual and hafvf_alarm"
	case s.file == nil:
		return "nothing is written"
	case s.file.Path == "-":
		return s.file.Format + " on standard output"
	case s.file.Path == connectors.Stderr:
		return s.file.Format + " on standard error"
	}
	return s.file.Format + " " + s.file.Path
}

// form returns the form of the records.
func (s graphSink) form() records.Form {
	switch {
	case s.file == nil && s.topic == nil && s.hook == nil && s.store == nil:
		return records.Nothing
	case s.file != nil && connectors.FormatOf(s.file.Format).Columns:
		return records.Row
	}
	return records.Object
}

// write writes chunks, see connectors.Chunk. name is the name of the sink within the run. It returns the chunks for the
// dead letter; only webhooks and Prometheus have some.
func (s graphSink) write(scope beam.Scope, name string, chunks beam.PCollection) (rejects []beam.PCollection) {
	switch {
	case s.topic != nil:
		kafkaio.WriteChunks(scope, *s.topic, chunks)
		return nil
	case s.hook != nil:
		var refused beam.PCollection
		if s.runnerStores {
			refused = webhook.WriteStored(scope, *s.hook, s.maxAge, chunks)
		} else {
			refused = webhook.Write(scope, name, chunks)
		}
		return []beam.PCollection{beam.ParDo(scope, &encodeRefusedFn{}, refused)}
	case s.store != nil:
		return []beam.PCollection{beam.ParDo(scope, &encodeRefusedFn{Estimates: true}, promio.Write(scope, *s.store, chunks))}
	case s.file == nil:
		name = "" // discards the chunks
	}
	connectors.Write(scope, name, chunks)
	return nil
}

// prepare creates a missing topic with the given number of partitions and the broker's defaults, and registers its
// schema.
func (s graphSink) prepare(ctx context.Context, pool *clients, partitions int, log *slog.Logger) error {
	if s.hook != nil {
		_, err := webhook.NewClient(*s.hook, nil) // reads the secrets
		return err
	}
	if s.store != nil {
		return promio.CheckSink(*s.store)
	}
	if s.topic == nil {
		return nil
	}
	client := pool.client(s.topic.Cluster)
	if err := client.Check(ctx); err != nil {
		return err
	}
	if s.avro != nil { // before the topic: if the schema is refused, no topic is left
		if err := s.avro.Register(ctx); err != nil {
			return err
		}
	}
	created, err := client.Create(ctx, s.topic.Topic, partitions, nil)
	if created {
		log.Info("topic created", "topic", s.topic.Topic)
	}
	return err
}
