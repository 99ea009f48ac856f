package statebackend_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/kafkaio/embedded"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
	"hafvf/pipeline/statebackend"
)

func TestMain(m *testing.M) {
	flag.Parse()
	expect.Together(8)
	beam.Init()
	os.Exit(m.Run())
}

func init() {
	register.Function1x3(parse)
	register.Function1x2(describe)
	register.Function1x3(reading)
	register.Function2x0(show)
	register.Function1x0(showRecord)
	register.Function1x0(showRejected)
}

// A service from Kafka to Kafka: it filters readings and writes alarms. Its states are in a topic, so the second run
// resumes where the first one ended, and recognises the change. A record that cannot be parsed goes to out.Rejected.
func ExampleKafka() {
	ctx := context.Background()
	broker, stop, err := embedded.Start("", "readings", "alarms")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	cluster := kafkaio.Cluster{Brokers: []string{broker}}
	readings := func(start, end int, bar float64) (lines []string) {
		for minute := start; minute < end; minute++ {
			lines = append(lines, fmt.Sprintf("%d,%g", 60*minute, bar+float64(minute*7%5)/2))
		}
		return lines
	}

	job := statebackend.Kafka{
		Cluster: cluster, Topics: []string{"readings"}, Group: "example", States: "states",
		Config:  statebackend.Config{Filter: keyed.Recommended("normal")},
		Bounded: true, // a service omits this, and cancels ctx to stop
	}
	for _, lines := range [][]string{readings(0, 90, 20), append(readings(90, 120, 30), "no reading")} {
		err := errors.Join(send(ctx, cluster, lines...), job.Run(ctx, func(s beam.Scope, records beam.PCollection) {
			out := statebackend.Filter(s, job.Config, parse, records)
			kafkaio.Write(s, kafkaio.Sink{Cluster: cluster, Topic: "alarms"}, beam.ParDo(s, describe, out.Alarms))
			beam.ParDo0(s, showRejected, out.Rejected)
		}))
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, showRecord, kafkaio.Read(s, kafkaio.Source{
		Cluster: cluster, Topics: []string{"alarms"}, Start: kafkaio.Start{At: kafkaio.Earliest}, Bounded: true,
	}))
	if _, err := direct.Execute(ctx, p); err != nil {
		fmt.Println(err)
	}
	// Output:
	// rejected readings-1-120: "no reading" is not seconds,value
	// pump novelty pump is 43 % above usual at 1970-01-01 01:30: 30, usual at this hour 21.0 ± 0.6.
}

// parse parses a record "seconds,value". The filter gets the offset of the record from the record.
func parse(r kafkaio.Record) (string, keyed.Observation, error) {
	var seconds int64
	var x float64
	if _, err := fmt.Sscanf(string(r.Value), "%d,%g", &seconds, &x); err != nil {
		return string(r.Key), keyed.Observation{}, fmt.Errorf("%q is not seconds,value", r.Value)
	}
	return string(r.Key), keyed.Value(time.Unix(seconds, 0), r.String(), x), nil
}

func showRejected(r keyed.Rejected) {
	fmt.Printf("rejected %s-%d: %s\n", r.Observation.Log, r.Observation.Seq, r.Reason)
}

func describe(a keyed.AlertEvent) (key, message []byte) {
	return []byte(a.Key), []byte(a.Kind + " " + a.Message)
}

func showRecord(r kafkaio.Record) { fmt.Printf("%s %s\n", r.Key, r.Value) }

// send writes readings of a pump.
func send(ctx context.Context, cluster kafkaio.Cluster, readings ...string) error {
	w, err := kafkaio.NewWriter(ctx, kafkaio.Sink{Cluster: cluster, Topic: "readings"}, slog.Default())
	if err != nil {
		return err
	}
	defer w.Close()
	var messages []kafkaio.Message
	for _, r := range readings {
		messages = append(messages, kafkaio.Message{Key: []byte("pump"), Value: []byte(r)})
	}
	return w.Write(ctx, messages)
}

// reading returns the reading of a pump in a minute.
func reading(minute int) (string, keyed.Observation, error) {
	return "pump", keyed.Value(time.Unix(60*int64(minute), 0), "", 10+float64(minute%3)), nil
}

func show(key string, e keyed.Estimate) {
	fmt.Printf("%s n %d: predicted %.1f\n", key, e.N, e.Predicted.Mean[0])
}

// A pipeline with its own source. Its states are in a file: the second run resumes with the states of the first.
func ExampleOpenFile() {
	folder, err := os.MkdirTemp("", "states")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "states.bin")

	run := func(minutes ...int) error {
		cfg := statebackend.Config{Filter: keyed.Recommended("normal")}
		states, err := statebackend.OpenFile(path, cfg)
		if err != nil {
			return err
		}
		defer states.Close()
		p, s := beam.NewPipelineWithRoot()
		beam.ParDo0(s, show, statebackend.Filter(s, cfg, reading, beam.CreateList(s, minutes)).Estimates)
		if _, err := direct.Execute(states.In(context.Background()), p); err != nil {
			return err
		}
		return states.Commit()
	}
	if err := errors.Join(run(0, 1, 2), run(3, 4)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// pump n 1: predicted NaN
	// pump n 2: predicted 10.0
	// pump n 3: predicted 10.4
	// pump n 4: predicted 11.0
	// pump n 5: predicted 10.5
}

// An upgrade: states of another configuration are an error that names the setting, unless Migrate converts them.
func ExampleConfig_migrate() {
	folder, err := os.MkdirTemp("", "states")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	run := func(cfg statebackend.Config, minutes ...int) {
		states, err := statebackend.OpenFile(filepath.Join(folder, "states.bin"), cfg)
		if err != nil {
			mismatch := new(statestore.MismatchError)
			fmt.Println("another configuration:", errors.As(err, &mismatch), mismatch)
			return
		}
		defer states.Close()
		p, s := beam.NewPipelineWithRoot()
		beam.ParDo0(s, show, statebackend.Filter(s, cfg, reading, beam.CreateList(s, minutes)).Estimates)
		if _, err = direct.Execute(states.In(context.Background()), p); err == nil {
			err = states.Commit()
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	before, after := keyed.Recommended("normal"), keyed.Recommended("normal")
	after.TimeUnit = time.Minute
	run(statebackend.Config{Filter: before}, 0, 1)
	run(statebackend.Config{Filter: after}, 2)
	run(statebackend.Config{Filter: after, Migrate: true}, 2)
	run(statebackend.Config{Filter: after}, 3)
	// Output:
	// pump n 1: predicted NaN
	// pump n 2: predicted 10.0
	// another configuration: true at the key "pump": state belongs to another configuration: it was written with other TimeUnit
	// pump n 3: predicted 10.4
	// pump n 4: predicted 11.0
}
