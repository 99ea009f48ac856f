package statebackend_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/kafkaio/embedded"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/pipeline/direct"
	"hafvf/pipeline/statebackend"
	"hafvf/transforms"
)

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

func init() {
	register.Function1x2(observe)
	register.Function3x0(describe)
	register.Emitter2[[]byte, []byte]()
	register.Function1x2(reading)
	register.Function2x0(show)
	register.Function1x0(showRecord)
}

// A pipeline from Kafka through a filter to Kafka. Its states are in a topic: the second run goes on
// where the first has ended, with what that has learned.
func ExampleKafka() {
	ctx := context.Background()
	broker, stop, err := embedded.Start("", "readings", "estimates")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	cluster := kafkaio.Cluster{Brokers: []string{broker}}
	cfg := keyed.Recommended("normal")
	job := statebackend.Kafka{
		Cluster: cluster, Topics: []string{"readings"}, Group: "example", States: "states", Config: statebackend.Config{Filter: cfg},
		Bounded: true, // a service leaves this out, and cancels ctx when it is to end
	}
	for _, readings := range [][]string{{"0,10", "60,11", "120,9"}, {"180,10", "240,10.5"}} {
		err := errors.Join(send(ctx, cluster, readings...), job.Run(ctx, func(s beam.Scope, records beam.PCollection) {
			out := transforms.Filter(s, cfg, observe, records)
			kafkaio.Write(s, kafkaio.Sink{Cluster: cluster, Topic: "estimates"}, beam.ParDo(s, describe, out.Estimates))
		}))
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, showRecord, kafkaio.Read(s, kafkaio.Source{
		Cluster: cluster, Topics: []string{"estimates"}, Start: kafkaio.Start{At: kafkaio.Earliest}, Bounded: true,
	}))
	if _, err := direct.Execute(ctx, p); err != nil {
		fmt.Println(err)
	}
	// Output:
	// pump n 2: predicted 10.0, is 11
	// pump n 3: predicted 10.4, is 9
	// pump n 4: predicted 10.6, is 10
	// pump n 5: predicted 10.1, is 10
}

// observe makes an observation of a record "time,value". Its place lets a filter know repeats.
func observe(r kafkaio.Record) (string, keyed.Observation) {
	at, value, _ := strings.Cut(string(r.Value), ",")
	seconds, _ := strconv.ParseInt(at, 10, 64)
	x, _ := strconv.ParseFloat(value, 64)
	o := keyed.Value(time.Unix(seconds, 0), fmt.Sprint(r.Log(), ":", r.Offset), x)
	o.Log, o.Seq = r.Log(), r.Offset
	return string(r.Key), o
}

// describe makes a message of an estimate, unless it is the first of its key: nothing was predicted.
func describe(key string, e keyed.Estimate, emit func(k, message []byte)) {
	if e.N > 1 {
		emit([]byte(key), fmt.Appendf(nil, "n %d: predicted %.1f, is %.0f", e.N, e.Predicted.Mean[0], e.X[0][0]))
	}
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

// reading makes an observation of a number of minutes.
func reading(minute int) (string, keyed.Observation) {
	return "pump", keyed.Value(time.Unix(60*int64(minute), 0), "", 10+float64(minute%3))
}

func show(key string, e keyed.Estimate) {
	fmt.Printf("%s n %d: predicted %.1f\n", key, e.N, e.Predicted.Mean[0])
}

// A pipeline with a source of its own. Its states are in a file: the second run goes on with what the
// first has learned.
func ExampleOpenFile() {
	folder, err := os.MkdirTemp("", "states")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "states.bin")

	run := func(minutes ...int) error {
		cfg := keyed.Recommended("normal")
		states, err := statebackend.OpenFile(path, statebackend.Config{Filter: cfg})
		if err != nil {
			return err
		}
		defer states.Close()
		p, s := beam.NewPipelineWithRoot()
		beam.ParDo0(s, show, transforms.Filter(s, cfg, reading, beam.CreateList(s, minutes)).Estimates)
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

// An upgrade: states of another configuration are an error that names the setting, unless they are
// carried over.
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
		beam.ParDo0(s, show, transforms.Filter(s, cfg.Filter, reading, beam.CreateList(s, minutes)).Estimates)
		if _, err = direct.Execute(states.In(context.Background()), p); err == nil {
			err = states.Commit()
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	was, is := keyed.Recommended("normal"), keyed.Recommended("normal")
	is.TimeUnit = time.Minute
	run(statebackend.Config{Filter: was}, 0, 1)
	run(statebackend.Config{Filter: is}, 2)
	run(statebackend.Config{Filter: is, Migrate: true}, 2)
	run(statebackend.Config{Filter: is}, 3)
	// Output:
	// pump n 1: predicted NaN
	// pump n 2: predicted 10.0
	// another configuration: true at the key "pump": state belongs to another configuration: it was written with other TimeUnit
	// pump n 3: predicted 10.4
	// pump n 4: predicted 11.0
}
