package statebackend_test

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/kafkaio/embedded"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/statebackend"
)

func init() { register.Function1x1(refuse) }

func refuse(r kafkaio.Record) error { return errors.New("no step takes " + string(r.Value)) }

// What ends a pipeline comes back from Execute. A run that is stopped ends without an error.
func TestExecuteReturnsErrors(t *testing.T) {
	broker, stop, err := embedded.Start("", "readings")
	expect.OK(t, err)
	defer stop()
	cluster := kafkaio.Cluster{Brokers: []string{broker}}
	client := kafkaio.NewClient(cluster)
	defer client.Close()
	run := func(ctx context.Context, group string, stop <-chan struct{}) error {
		states, err := statebackend.OpenTopic(t.Context(), kafkaio.LedgerConfig{Client: client, Topics: []string{"readings"}, Group: group, Changelog: group}, statebackend.Config{Filter: keyed.Recommended("normal")})
		expect.OK(t, err)
		p, s := beam.NewPipelineWithRoot()
		beam.ParDo0(s, refuse, kafkaio.Read(s, kafkaio.Source{Cluster: cluster, Topics: []string{"readings"}, Group: group, Start: kafkaio.Start{At: kafkaio.Committed}}))
		return states.Execute(ctx, p, stop)
	}
	stopped := make(chan struct{})
	close(stopped)
	expect.OK(t, run(t.Context(), "stopped", stopped))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(cancelled, "cancelled", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that is cancelled: %v", err)
	}
	expect.OK(t, send(t.Context(), cluster, "0,10"))
	expect.Error(t, run(t.Context(), "failing", nil), "no step takes 0,10")
}
