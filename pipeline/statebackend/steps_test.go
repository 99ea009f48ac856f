package statebackend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
	"hafvf/pipeline/statebackend"
	"hafvf/transforms"
)

func init() {
	register.Function2x0(dropThird)
	register.Function2x0(duplicate)
	register.Function3x0(estimateMessage)
	register.Function3x0(everyFifthMessage)
	register.Function2x2(keyedEstimate)
	register.Function3x0(groupMessage)
	register.Function1x2(keyedRecord)
	register.Function4x0(windowMessage)
	register.DoFn2x0[kafkaio.Record, func(kafkaio.Record)](&countFn{})
	register.Emitter1[kafkaio.Record]()
	register.Iter1[string]()
	register.Emitter2[[]byte, []byte]()
}

// dropThird drops every third record. duplicate emits each record twice, with two keys.
func dropThird(r kafkaio.Record, emit func(kafkaio.Record)) {
	if r.Offset%3 > 0 {
		emit(r)
	}
}

func duplicate(r kafkaio.Record, emit func(kafkaio.Record)) {
	emit(r)
	r.Key = append(slices.Clone(r.Key), '2')
	emit(r)
}

// estimateMessage makes a message of an estimate, with the ID of the estimate in its key. everyFifthMessage does so
// for one in five estimates.
func estimateMessage(key string, e keyed.Estimate, emit func(id, text []byte)) {
	emit([]byte(e.ID+" "+key), fmt.Appendf(nil, "%d %x", e.N, e.Predicted.Mean))
}

func everyFifthMessage(key string, e keyed.Estimate, emit func(id, text []byte)) {
	if e.N%5 == 0 {
		estimateMessage(key, e, emit)
	}
}

func keyedEstimate(key string, e keyed.Estimate) (string, string) {
	return key, fmt.Sprintf("%s %x", e.ID, e.Predicted.Mean)
}

// groupMessage makes a message of a group.
func groupMessage(key string, values func(*string) bool, emit func(id, text []byte)) {
	var texts []string
	for v := ""; values(&v); {
		texts = append(texts, v)
	}
	slices.Sort(texts)
	emit([]byte(key), []byte(strings.Join(texts, ",")))
}

func keyedRecord(r kafkaio.Record) (key, value string) {
	return string(r.Key), fmt.Sprint(r.Offset, " ", string(r.Value))
}

// windowMessage is groupMessage for a group of a window.
func windowMessage(w beam.Window, key string, values func(*string) bool, emit func(id, text []byte)) {
	groupMessage(fmt.Sprint(key, " ", w.MaxTimestamp()), values, emit)
}

// A countFn counts the records of a run, and calls kill when their number reaches the limit.
type countFn struct{ Run string }

type counted struct {
	n, limit atomic.Int64
	kill     func()
}

var counts sync.Map // of *counted, by run

func (fn *countFn) ProcessElement(r kafkaio.Record, emit func(kafkaio.Record)) {
	v, _ := counts.Load(fn.Run)
	c := v.(*counted)
	if c.n.Add(1) == c.limit.Load() {
		c.kill()
	}
	emit(r)
}

// A user's step may emit no element or several for each input. A collection may have no reader or several, and a
// grouping may buffer elements. A run with such steps ends. If it is killed, it loses nothing: its outputs equal
// those of a run that is not killed, and repeats are equal.
func TestUserSteps(t *testing.T) {
	expect.Waits(t, "commits")
	estimates := func(s beam.Scope, records beam.PCollection) beam.PCollection {
		return transforms.FilterParsed(s, keyed.Recommended("normal"), parse, records).Estimates
	}
	for name, c := range map[string]struct {
		build        func(s beam.Scope, records beam.PCollection) []beam.PCollection // of messages
		commitsAtEnd bool                                                            // nothing is committed before the end
	}{
		"filter before": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			return []beam.PCollection{beam.ParDo(s, estimateMessage, estimates(s, beam.ParDo(s, dropThird, records)))}
		}},
		"filter after": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			return []beam.PCollection{beam.ParDo(s, everyFifthMessage, estimates(s, records))}
		}},
		"fan-out": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			return []beam.PCollection{beam.ParDo(s, estimateMessage, estimates(s, beam.ParDo(s, duplicate, records)))}
		}},
		"two sinks": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			found := estimates(s, records)
			return []beam.PCollection{beam.ParDo(s, estimateMessage, found), beam.ParDo(s, everyFifthMessage, found)}
		}},
		"grouping": {commitsAtEnd: true, build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			return []beam.PCollection{beam.ParDo(s, groupMessage, beam.GroupByKey(s, beam.ParDo(s, keyedEstimate, estimates(s, records))))}
		}},
		"windows": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			windowed := beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.ParDo(s, keyedRecord, records))
			return []beam.PCollection{beam.ParDo(s, windowMessage, beam.GroupByKey(s, windowed)), beam.ParDo(s, estimateMessage, estimates(s, records))}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kafkatest.Fake(t, kfake.SeedTopics(1, "readings", "a0", "a1", "b0", "b1"))
			target := kafkaio.Cluster{Brokers: cluster.ListenAddrs()}
			client := kafkaio.NewClient(target)
			t.Cleanup(client.Close)
			// run runs once, to the end of the topic or, with killed, until the counter kills it.
			run := func(group string, killed bool, during func(*counted)) (offset int64) {
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				counter := &counted{kill: kill}
				counts.Store(t.Name(), counter)
				st := expect.Get(statebackend.OpenTopic(ctx, kafkaio.LedgerConfig{
					Client: client, Topics: []string{"readings"}, Group: group, Changelog: group + "-states",
				}, statebackend.Config{Filter: keyed.Recommended("normal")}))(t)
				p, s := beam.NewPipelineWithRoot()
				records := kafkaio.Read(s, kafkaio.Source{Cluster: target, Topics: []string{"readings"}, Group: group, Start: kafkaio.Start{At: kafkaio.Committed}, Bounded: !killed})
				for i, messages := range c.build(s, beam.ParDo(s, &countFn{t.Name()}, records)) {
					kafkaio.Write(s, kafkaio.Sink{Cluster: target, Topic: group + strconv.Itoa(i)}, messages)
				}
				go during(counter)
				if err := st.Execute(ctx, p, nil); err != nil && !killed || killed && !errors.Is(err, context.Canceled) {
					t.Errorf("killed %t, error %v", killed, err)
				}
				return st.OpeningOffsets()["readings-0"]
			}
			const part = 200
			sent := 0
			feed := func() {
				var lines []string
				for range part {
					lines = append(lines, fmt.Sprintf("%d,%d", 60*sent, sent*sent%17))
					sent++
				}
				expect.OK(t, send(t.Context(), target, lines...))
			}
			feed()
			for range 2 {
				committed := offsetOf(t, cluster, "a")
				run("a", true, func(counter *counted) {
					expect.Soon(t, "all records are read", func() bool { return counter.n.Load() >= part })
					if c.commitsAtEnd {
						time.Sleep(1500 * time.Millisecond) // a commit would occur in this time
					} else {
						expect.Soon(t, "a commit", func() bool { return offsetOf(t, cluster, "a") > committed })
					}
					counter.limit.Store(counter.n.Load() + part/2)
					feed()
				})
			}
			if start := run("a", false, func(*counted) {}); (start == 0) != c.commitsAtEnd {
				t.Errorf("the last run starts at offset %d", start)
			}
			run("b", false, func(*counted) {})
			for i := range 2 {
				got, want := messagesOf(t, cluster, "a"+strconv.Itoa(i)), messagesOf(t, cluster, "b"+strconv.Itoa(i))
				if i == 0 && len(want) == 0 {
					t.Error("there are no messages")
				}
				expect.Same(t, want, got, "topic ", i)
			}
		})
	}
}

// offsetOf returns the offset that a group has committed for the topic.
func offsetOf(t *testing.T, cluster *kfake.Cluster, group string) (offset int64) {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req.Groups = append(req.Groups, g)
	kafkatest.Dial(cluster.ListenAddrs()).Do(t, "offsets", func(ctx context.Context, cl *kgo.Client) error {
		res, err := req.RequestWith(ctx, cl)
		if err == nil && len(res.Groups[0].Topics) > 0 {
			offset = res.Groups[0].Topics[0].Partitions[0].Offset
		}
		return err
	})
	return offset
}

// messagesOf returns the messages of a topic by key. It reports repeats that differ.
func messagesOf(t *testing.T, cluster *kfake.Cluster, topic string) map[string]string {
	messages := map[string]string{}
	for _, r := range kafkatest.Dial(cluster.ListenAddrs()).Consume(t, topic) {
		if prev, repeats := messages[string(r.Key)]; repeats && prev != string(r.Value) {
			t.Errorf("%s is %q and %q", r.Key, prev, r.Value)
		}
		messages[string(r.Key)] = string(r.Value)
	}
	return messages
}
