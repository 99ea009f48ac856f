package statebackend

import (
	"context"
	"errors"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors/kafkaio"
)

// Kafka is a job that reads topics. It stores the states of its keys in another topic, together with the offsets that
// they include.
type Kafka struct {
	Cluster kafkaio.Cluster
	Topics  []string // read from the offsets of the group, or from the beginning if it has none
	Group   string
	States  string // the compacted topic of the states; it is created if it does not exist
	// Bounded ends the run where the topics end when it starts.
	Bounded bool
	Config
}

// Run runs a pipeline until its source ends, or until ctx ends. build adds the steps; records is a
// PCollection<kafkaio.Record>. If ctx ends, Run processes the records that were read, commits, and returns nil. The
// next run resumes there. See Topic.Execute.
func (k Kafka) Run(ctx context.Context, build func(s beam.Scope, records beam.PCollection)) error {
	if k.States == "" {
		return errors.New("statebackend.Kafka: States is empty: name the topic of the states, or store them in a file by OpenFile")
	}
	client := kafkaio.NewClient(k.Cluster)
	defer client.Close()
	t, err := OpenTopic(ctx, kafkaio.LedgerConfig{Client: client, Topics: k.Topics, Group: k.Group, Changelog: k.States}, k.Config)
	if err != nil {
		return err
	}
	p, s := beam.NewPipelineWithRoot()
	build(s, kafkaio.Read(s, kafkaio.Source{
		Cluster: k.Cluster, Topics: k.Topics, Group: k.Group, Start: kafkaio.Start{At: kafkaio.Committed}, Bounded: k.Bounded,
	}))
	return t.Execute(context.WithoutCancel(ctx), p, ctx.Done())
}
