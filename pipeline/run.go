package pipeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"hafvf/connectors"
	"hafvf/transforms"
)

// A Summary is what a run did.
type Summary struct {
	Keys, Records, Rejected, Missing, NotConverged int64
	Elapsed                                        time.Duration
	Stopped                                        bool     // before the end of the input
	Changed                                        []Forgot // per key, the most at one step, largest first; at most five keys
}

// Forgot is a step at which a key's filter let go of what it remembered.
type Forgot struct {
	Key          string
	ID           string
	Time         time.Time
	Observations float64 // effective observations dropped from memory
	Memory       float64 // what was left, with the step's own
}

// A Run executes a graph on the embedded runner. Progress, where it is set, is
// called a few times a second with the observations estimated and the records
// rejected so far.
type Run struct {
	Graph    *Graph
	Progress func(records, rejected int64)
}

// Execute runs the graph to the end of its input. When stop is closed, the
// source ends as if its input ended there, and what was read is worked on to the
// end. Output files appear when the run has ended well, and not otherwise. When
// ctx ends, the run is given up.
func (r Run) Execute(ctx context.Context, stop <-chan struct{}) (Summary, error) {
	start := time.Now()
	if err := connectors.Check(r.Graph.source); err != nil {
		return Summary{}, err
	}
	estimates, err := connectors.Create(r.Graph.sink)
	if err != nil {
		return Summary{}, err
	}
	defer estimates.Abort()
	rejected, err := connectors.Create(r.Graph.dead)
	if err != nil {
		return Summary{}, err
	}
	defer rejected.Abort()

	name := "run-" + rand.Text()
	connectors.Register(name+"/estimates", estimates)
	defer connectors.Unregister(name + "/estimates")
	connectors.Register(name+"/rejected", rejected)
	defer connectors.Unregister(name + "/rejected")
	state := &run{gate: connectors.NewGate(name)}
	defer state.gate.Close()
	runs.Store(name, state)
	defer runs.Delete(name)
	defer transforms.OnTaken(name, state.gate.Done)()

	done := make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				state.stop()
				stop = nil
			case <-tick.C:
				if r.Progress != nil {
					r.Progress(state.progress())
				}
			case <-done:
				return
			}
		}
	}()

	keys, err := execute(ctx, r.Graph.build(name))
	if err != nil {
		return Summary{}, err
	}
	if err := errors.Join(estimates.Commit(), rejected.Commit()); err != nil {
		return Summary{}, err
	}
	s := state.summary()
	s.Keys = keys
	s.Elapsed = time.Since(start)
	return s, nil
}

// splitting is an experiment that the embedded runner needs: it otherwise splits
// a stateful bundle within a key, runs the key twice at once and loses updates.
const splitting = "prism_disable_sdf_split"

var configureOnce sync.Once

// execute runs p on Prism and returns the number of keys.
func execute(ctx context.Context, p *beam.Pipeline) (keys int64, err error) {
	configureOnce.Do(func() {
		if !slices.Contains(jobopts.GetExperiments(), splitting) {
			*jobopts.Experiments = strings.Trim(*jobopts.Experiments+","+splitting, ",")
		}
	})
	result, err := prism.Execute(ctx, p)
	if err != nil {
		return 0, plain(err)
	}
	for _, c := range result.Metrics().Query(func(q beam.MetricResult) bool { return q.Namespace() == "hafvf" && q.Name() == "keys" }).Counters() {
		keys += c.Committed
	}
	return keys, nil
}

// plain takes the runner's layers off an error, which say where in the runner it
// passed.
func plain(err error) error {
	text := err.Error()
	for _, layer := range []string{"caused by:\n", " failed:\n"} {
		if i := strings.LastIndex(text, layer); i >= 0 {
			text = text[i+len(layer):]
		}
	}
	return errors.New(strings.TrimSpace(text))
}

// run is what the transforms of a run in this process share: its source's gate,
// and the summary.
type run struct {
	gate *connectors.Gate

	mu  sync.Mutex
	sum Summary
}

var runs sync.Map // of *run by name

func runOf(name string) *run {
	r, _ := runs.Load(name)
	found, _ := r.(*run)
	return found
}

func (r *run) stop() {
	r.mu.Lock()
	r.sum.Stopped = true
	r.mu.Unlock()
	r.gate.Stop()
}

func (r *run) reject(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Rejected += int64(n)
}

func (r *run) progress() (records, rejected int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum.Records, r.sum.Rejected
}

func (r *run) summary() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum
}

// note adds a tally to the summary.
func (r *run) note(t *tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Records += t.records
	r.sum.Missing += t.missing
	r.sum.NotConverged += t.notConverged
	for _, f := range t.changed {
		r.sum.Changed = keepLargest(r.sum.Changed, f)
	}
}

// A tally is a part of the summary, counted without a lock.
type tally struct {
	records, missing, notConverged int64
	changed                        []Forgot
}

func (t *tally) add(key string, e *transforms.Estimate) {
	t.records++
	if !e.Converged {
		t.notConverged++
	}
	if e.Missing {
		t.missing++
		return
	}
	// memory = E[w]·before + J: what went is (1 − E[w])·before.
	kept := e.Memory - float64(len(e.X))
	forgot := kept * (1 - e.Weight) / e.Weight
	if !(forgot > 1) || math.IsInf(forgot, 0) || len(t.changed) == changedKeys && forgot <= t.changed[changedKeys-1].Observations {
		return
	}
	t.changed = keepLargest(t.changed, Forgot{Key: key, ID: e.ID, Time: e.Time, Observations: forgot, Memory: e.Memory})
}

const changedKeys = 5

// keepLargest adds f to the largest few, one per key.
func keepLargest(list []Forgot, f Forgot) []Forgot {
	if i := slices.IndexFunc(list, func(o Forgot) bool { return o.Key == f.Key }); i >= 0 {
		if list[i].Observations >= f.Observations {
			return list
		}
		list = slices.Delete(list, i, i+1)
	}
	at, _ := slices.BinarySearchFunc(list, f, func(o, f Forgot) int {
		return cmp.Or(cmp.Compare(f.Observations, o.Observations), cmp.Compare(o.Key, f.Key))
	})
	list = slices.Insert(list, at, f)
	return list[:min(len(list), changedKeys)]
}

// String is the summary as a person reads it.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d keys, %d records (%d missing), %d rejected, %d not converged, %.1f s", s.Keys, s.Records, s.Missing, s.Rejected, s.NotConverged, s.Elapsed.Seconds())
	if s.Stopped {
		b.WriteString("; stopped before the end of the input, nothing read was lost")
	}
	b.WriteByte('\n')
	if len(s.Changed) > 0 {
		b.WriteString("what changed most (observations forgotten at one step):\n")
		for _, f := range s.Changed {
			at := f.ID
			if !f.Time.IsZero() {
				at = f.Time.UTC().Format(time.RFC3339)
			}
			fmt.Fprintf(&b, "  %-24s %s  forgot %.4g, kept %.4g\n", f.Key, at, f.Observations, f.Memory)
		}
	}
	return b.String()
}
