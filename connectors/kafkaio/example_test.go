package kafkaio_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/kafkaio/embedded"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
)

// show prints a record.
func show(r kafkaio.Record) {
	fmt.Printf("offset %d: %s=%s\n", r.Offset, r.Key, r.Value)
}

// showPair prints the key and the value of a record.
func showPair(r kafkaio.Record) { fmt.Printf("%s=%s\n", r.Key, r.Value) }

// toMessage returns the message of a word: its key is the word, and its value the length.
func toMessage(word string) (key, value []byte) {
	return []byte(word), fmt.Append(nil, len(word))
}

func TestMain(m *testing.M) {
	flag.Parse()
	expect.Together(8)
	// A test that sets variables itself could not run in parallel with others.
	os.Setenv("RIGHT", "secret&sound")
	os.Setenv("WRONG", "secret&wrong")
	beam.Init()
	os.Exit(m.Run())
}

func init() {
	register.Function1x0(show)
	register.Function1x0(showPair)
	register.Function1x2(toMessage)
}

// A pipeline reads a topic up to the end that the topic has when the pipeline starts.
func ExampleRead() {
	ctx := context.Background()
	broker, stop, err := embedded.Start("", "greetings")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	cluster := kafkaio.Cluster{Brokers: []string{broker}}
	w, err := kafkaio.NewWriter(ctx, kafkaio.Sink{Cluster: cluster, Topic: "greetings"}, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	// Messages of one key are in one partition, in their order.
	if err := w.Write(ctx, []kafkaio.Message{
		{Key: []byte("en"), Value: []byte("hello")},
		{Key: []byte("en"), Value: []byte("goodbye")},
	}); err != nil {
		fmt.Println(err)
		return
	}

	p, s := beam.NewPipelineWithRoot()
	records := kafkaio.Read(s, kafkaio.Source{
		Cluster: cluster,
		Topics:  []string{"greetings"},
		Start:   kafkaio.Start{At: kafkaio.Earliest},
		Bounded: true,
	})
	beam.ParDo0(s, show, records)
	if _, err := direct.Execute(ctx, p); err != nil {
		fmt.Println(err)
	}
	// Output:
	// offset 0: en=hello
	// offset 1: en=goodbye
}

// A pipeline writes to a topic. A second pipeline reads the messages.
func ExampleWrite() {
	ctx := context.Background()
	broker, stop, err := embedded.Start("", "lengths")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	cluster := kafkaio.Cluster{Brokers: []string{broker}}

	p, s := beam.NewPipelineWithRoot()
	messages := beam.ParDo(s, toMessage, beam.Create(s, "change", "drift", "noise"))
	kafkaio.Write(s, kafkaio.Sink{Cluster: cluster, Topic: "lengths"}, messages)
	if _, err := direct.Execute(ctx, p); err != nil {
		fmt.Println(err)
		return
	}

	p, s = beam.NewPipelineWithRoot()
	records := kafkaio.Read(s, kafkaio.Source{
		Cluster: cluster, Topics: []string{"lengths"}, Start: kafkaio.Start{At: kafkaio.Earliest}, Bounded: true,
	})
	beam.ParDo0(s, showPair, records)
	if _, err := direct.Execute(ctx, p); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// change=6
	// drift=5
	// noise=5
}
