package statebackend

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors/kafkaio"
)

// Kafka is a pipeline that reads topics, and has the states of its keys in another topic, with the
// offsets up to which they hold.
type Kafka struct {
	Cluster kafkaio.Cluster
	Topics  []string // that are read, from the offsets of the group or else from the beginning
	Group   string
	States  string // the compacted topic of the states, which is created if it does not exist
	// Bounded ends the run where the topics end at its start.
	Bounded bool
	Config
}

// Run runs the pipeline that build makes of a PCollection<kafkaio.Record>, as Topic.Execute does. If ctx
// ends, what was read is dealt with and committed, Run returns nil, and the next run goes on there.
func (k Kafka) Run(ctx context.Context, build func(s beam.Scope, records beam.PCollection)) error {
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
