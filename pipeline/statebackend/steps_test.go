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
	register.Function2x0(thin)
	register.Function2x0(double)
	register.Function3x0(tell)
	register.Function3x0(tellSome)
	register.Function2x2(keyed2)
	register.Function3x0(tellGroup)
	register.Function1x2(keyedRecord)
	register.Function4x0(tellWindow)
	register.DoFn2x0[kafkaio.Record, func(kafkaio.Record)](&countFn{})
	register.Emitter1[kafkaio.Record]()
	register.Iter1[string]()
	register.Emitter2[[]byte, []byte]()
}

// thin drops every third record, and double emits each two times, as of two keys.
func thin(r kafkaio.Record, emit func(kafkaio.Record)) {
	if r.Offset%3 > 0 {
		emit(r)
	}
}

func double(r kafkaio.Record, emit func(kafkaio.Record)) {
	emit(r)
	r.Key = append(slices.Clone(r.Key), '2')
	emit(r)
}

// tell makes a message of an estimate, whose key is its id, and tellSome of one in five.
func tell(key string, e keyed.Estimate, emit func(id, text []byte)) {
	emit([]byte(e.ID+" "+key), fmt.Appendf(nil, "%d %x", e.N, e.Predicted.Mean))
}

func tellSome(key string, e keyed.Estimate, emit func(id, text []byte)) {
	if e.N%5 == 0 {
		tell(key, e, emit)
	}
}

func keyed2(key string, e keyed.Estimate) (string, string) {
	return key, fmt.Sprintf("%s %x", e.ID, e.Predicted.Mean)
}

// tellGroup makes a message of a group.
func tellGroup(key string, values func(*string) bool, emit func(id, text []byte)) {
	var all []string
	for v := ""; values(&v); {
		all = append(all, v)
	}
	slices.Sort(all)
	emit([]byte(key), []byte(strings.Join(all, ",")))
}

func keyedRecord(r kafkaio.Record) (key, value string) {
	return string(r.Key), fmt.Sprint(r.Offset, " ", string(r.Value))
}

// tellWindow is tellGroup for a group of a window.
func tellWindow(w beam.Window, key string, values func(*string) bool, emit func(id, text []byte)) {
	tellGroup(fmt.Sprint(key, " ", w.MaxTimestamp()), values, emit)
}

// A countFn counts the records of a run, and calls kill when there are as many as are to be.
type countFn struct{ Run string }

type counted struct {
	n, most atomic.Int64
	kill    func()
}

var counts sync.Map // of *counted, by run

func (fn *countFn) ProcessElement(r kafkaio.Record, emit func(kafkaio.Record)) {
	v, _ := counts.Load(fn.Run)
	c := v.(*counted)
	if c.n.Add(1) == c.most.Load() {
		c.kill()
	}
	emit(r)
}

// A step of a user may emit nothing of an element, or several, a collection may have several readers, or
// none, and a grouping may keep elements back: a run ends, and one that is killed amid it loses nothing.
// Its outputs are those of a run that is not killed, and repeats are equal.
func TestStepsOfAUser(t *testing.T) {
	expect.Waits(t, "commits")
	estimates := func(s beam.Scope, records beam.PCollection) beam.PCollection {
		return transforms.FilterParsed(s, keyed.Recommended("normal"), parse, records).Estimates
	}
	for name, c := range map[string]struct {
		build func(s beam.Scope, records beam.PCollection) []beam.PCollection // of messages
		holds bool                                                            // nothing is committed before the end
	}{
		"filter before": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			return []beam.PCollection{beam.ParDo(s, tell, estimates(s, beam.ParDo(s, thin, records)))}
		}},
		"filter behind": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			return []beam.PCollection{beam.ParDo(s, tellSome, estimates(s, records))}
		}},
		"fan-out": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			return []beam.PCollection{beam.ParDo(s, tell, estimates(s, beam.ParDo(s, double, records)))}
		}},
		"two sinks": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			all := estimates(s, records)
			return []beam.PCollection{beam.ParDo(s, tell, all), beam.ParDo(s, tellSome, all)}
		}},
		"grouping": {holds: true, build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			return []beam.PCollection{beam.ParDo(s, tellGroup, beam.GroupByKey(s, beam.ParDo(s, keyed2, estimates(s, records))))}
		}},
		"windows": {build: func(s beam.Scope, records beam.PCollection) []beam.PCollection {
			windowed := beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.ParDo(s, keyedRecord, records))
			return []beam.PCollection{beam.ParDo(s, tellWindow, beam.GroupByKey(s, windowed)), beam.ParDo(s, tell, estimates(s, records))}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kafkatest.Fake(t, kfake.SeedTopics(1, "readings", "a0", "a1", "b0", "b1"))
			to := kafkaio.Cluster{Brokers: cluster.ListenAddrs()}
			client := kafkaio.NewClient(to)
			t.Cleanup(client.Close)
			// run runs once, up to the end of the topic, or, if it is to be killed, on and on.
			run := func(group string, killed bool, meanwhile func(*counted)) (found int64) {
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				of := &counted{kill: kill}
				counts.Store(t.Name(), of)
				st := expect.Get(statebackend.OpenTopic(ctx, kafkaio.LedgerConfig{
					Client: client, Topics: []string{"readings"}, Group: group, Changelog: group + "-states",
				}, statebackend.Config{Filter: keyed.Recommended("normal")}))(t)
				p, s := beam.NewPipelineWithRoot()
				records := kafkaio.Read(s, kafkaio.Source{Cluster: to, Topics: []string{"readings"}, Group: group, Start: kafkaio.Start{At: kafkaio.Committed}, Bounded: !killed})
				for i, messages := range c.build(s, beam.ParDo(s, &countFn{t.Name()}, records)) {
					kafkaio.Write(s, kafkaio.Sink{Cluster: to, Topic: group + strconv.Itoa(i)}, messages)
				}
				go meanwhile(of)
				if err := st.Execute(ctx, p, nil); err != nil && !killed || killed && !errors.Is(err, context.Canceled) {
					t.Errorf("killed %t, error %v", killed, err)
				}
				return st.OpeningOffsets()["readings-0"]
			}
			const part = 200
			sent := 0
			feed := func() {
				var all []string
				for range part {
					all = append(all, fmt.Sprintf("%d,%d", 60*sent, sent*sent%17))
					sent++
				}
				expect.OK(t, send(t.Context(), to, all...))
			}
			feed()
			for range 2 {
				was := offsetOf(t, cluster, "a")
				run("a", true, func(of *counted) {
					expect.Soon(t, "all were read", func() bool { return of.n.Load() >= part })
					if c.holds {
						time.Sleep(1500 * time.Millisecond) // a commit would come
					} else {
						expect.Soon(t, "a commit", func() bool { return offsetOf(t, cluster, "a") > was })
					}
					of.most.Store(of.n.Load() + part/2)
					feed()
				})
			}
			if found := run("a", false, func(*counted) {}); (found == 0) != c.holds {
				t.Errorf("the last run begins at %d", found)
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

// offsetOf is what a group has committed of the topic.
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

// messagesOf are the messages of a topic by their keys, of which repeats are equal.
func messagesOf(t *testing.T, cluster *kfake.Cluster, topic string) map[string]string {
	all := map[string]string{}
	for _, r := range kafkatest.Dial(cluster.ListenAddrs()).Consume(t, topic) {
		if was, repeats := all[string(r.Key)]; repeats && was != string(r.Value) {
			t.Errorf("%s is %q and %q", r.Key, was, r.Value)
		}
		all[string(r.Key)] = string(r.Value)
	}
	return all
}
