package statebackend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/kafkaio/embedded"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
	"hafvf/pipeline/statebackend"
	"hafvf/transforms"
)

func init() { register.Function1x1(refuse) }

func refuse(r kafkaio.Record) error { return errors.New("no step takes " + string(r.Value)) }

// Execute returns the error that ended a pipeline. A run that was stopped ends without an error.
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
		t.Errorf("cancelled run: %v", err)
	}
	expect.OK(t, send(t.Context(), cluster, "0,10"))
	expect.Error(t, run(t.Context(), "failing", nil), "no step takes 0,10")
}

// A job without a topic of states is an error: it would lose all states at each start.
func TestKafkaNeedsStates(t *testing.T) {
	err := statebackend.Kafka{Topics: []string{"readings"}, Group: "g"}.Run(t.Context(), nil)
	expect.Error(t, err, "States is empty: name the topic of the states, or store them in a file by OpenFile")
}

// If two runs use one file of states, also by a link, the second fails with an error that names the first.
func TestOpenFileLocked(t *testing.T) {
	path, link := filepath.Join(t.TempDir(), "states.bin"), filepath.Join(t.TempDir(), "link")
	cfg := statebackend.Config{Filter: keyed.Recommended("normal")}
	first := expect.Get(statebackend.OpenFile(path, cfg))(t)
	expect.OK(t, first.Commit())
	expect.OK(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		_, err := statebackend.OpenFile(name, cfg)
		expect.Error(t, err, fmt.Sprintf("%s: another run holds it: process %d on ", name, os.Getpid()))
	}
	first.Close()
	expect.Get(statebackend.OpenFile(link, cfg))(t).Close()
}

// A filter with another configuration than the job's states fails. Without the check its states would be stored as the
// job's.
func TestFilterConfigDiffers(t *testing.T) {
	states, err := statebackend.OpenFile(filepath.Join(t.TempDir(), "states.bin"), statebackend.Config{Filter: keyed.Recommended("normal")})
	expect.OK(t, err)
	defer states.Close()
	for differ, change := range map[string]func(*keyed.Config){
		"TimeUnit": func(c *keyed.Config) { c.TimeUnit = time.Minute },
		"Keys": func(c *keyed.Config) {
			c.Keys = []keyed.Rule{{Match: "a*", Filter: c.Filter}}
			c.Keys[0].Filter.WarmUp = 7
		},
		"": func(*keyed.Config) {},
	} {
		cfg := keyed.Recommended("normal")
		change(&cfg)
		p, s := beam.NewPipelineWithRoot()
		transforms.FilterParsed(s, cfg, reading, beam.CreateList(s, []int{0, 1}))
		_, err := direct.Execute(states.In(t.Context()), p)
		if differ == "" {
			expect.OK(t, err)
			continue
		}
		expect.Error(t, err, "the configurations of the filter and of the job differ in "+differ+":")
	}
}
