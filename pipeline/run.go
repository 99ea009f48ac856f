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
	Keys, Sessions                           int64 // of the filter; of the smoother
	Records, Rejected, Missing, NotConverged int64
	Changes                                  int64 // that the smoother found
	Elapsed                                  time.Duration
	Stopped                                  bool    // before the end of the input
	Largest                                  []Break // per key, the largest; at most five keys, largest first
}

// A Break is where something of a key came to an end: for the filter a step at
// which it let go of what it remembered, for the smoother a change.
type Break struct {
	Key    string
	ID     string
	Time   time.Time
	Size   float64 // effective observations dropped from memory; nats of evidence
	Memory float64 // what was left, with the step's own; of the smoother, nothing
}

// Progress is how far a run has come.
type Progress struct {
	Read              int64 // records taken up
	Records, Rejected int64 // written
}

// A Run executes a graph on the embedded runner. Progress, where it is set, is
// called a few times a second.
type Run struct {
	Graph    *Graph
	Progress func(Progress)
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
	records, err := connectors.Create(r.Graph.sink)
	if err != nil {
		return Summary{}, err
	}
	defer records.Abort()
	rejected, err := connectors.Create(r.Graph.dead)
	if err != nil {
		return Summary{}, err
	}
	defer rejected.Abort()

	name := "run-" + rand.Text()
	connectors.Register(name+"/records", records)
	defer connectors.Unregister(name + "/records")
	connectors.Register(name+"/rejected", rejected)
	defer connectors.Unregister(name + "/rejected")
	state := &run{gate: connectors.NewGate(name)}
	defer state.gate.Close()
	runs.Store(name, state)
	defer runs.Delete(name)
	defer transforms.OnTaken(name, state.take)()

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

	counters, err := execute(ctx, r.Graph.build(name))
	if err != nil {
		return Summary{}, err
	}
	if err := errors.Join(records.Commit(), rejected.Commit()); err != nil {
		return Summary{}, err
	}
	s := state.summary()
	s.Keys, s.Sessions, s.NotConverged = counters["keys"], counters["sessions"], counters["not_converged"]
	s.Elapsed = time.Since(start)
	return s, nil
}

// splitting is an experiment that the embedded runner needs: it otherwise splits
// a stateful bundle within a key, runs the key twice at once and loses updates.
const splitting = "prism_disable_sdf_split"

var configureOnce sync.Once

// execute runs p on Prism and returns what the transforms counted.
func execute(ctx context.Context, p *beam.Pipeline) (counters map[string]int64, err error) {
	configureOnce.Do(func() {
		if !slices.Contains(jobopts.GetExperiments(), splitting) {
			*jobopts.Experiments = strings.Trim(*jobopts.Experiments+","+splitting, ",")
		}
	})
	result, err := prism.Execute(ctx, p)
	if err != nil {
		return nil, plain(err)
	}
	counters = map[string]int64{}
	for _, c := range result.Metrics().Query(func(q beam.MetricResult) bool { return q.Namespace() == "hafvf" }).Counters() {
		counters[c.Name()] += c.Committed
	}
	return counters, nil
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

	mu   sync.Mutex
	sum  Summary
	read int64
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

// take notes that n records were taken up downstream of the source.
func (r *run) take(n int) {
	r.gate.Done(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read += int64(n)
}

func (r *run) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{r.read, r.sum.Records, r.sum.Rejected}
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
	r.sum.Changes += t.changes
	for _, b := range t.largest {
		r.sum.Largest = keepLargest(r.sum.Largest, b)
	}
}

// A tally is a part of the summary, counted without a lock.
type tally struct {
	records, missing, changes int64
	largest                   []Break
}

func (t *tally) estimate(key string, e *transforms.Estimate) {
	t.records++
	if e.Missing {
		t.missing++
		return
	}
	// memory = E[w]·before + J: what went is (1 − E[w])·before.
	kept := e.Memory - float64(len(e.X))
	if forgot := kept * (1 - e.Weight) / e.Weight; forgot > 1 {
		t.add(Break{Key: key, ID: e.ID, Time: e.Time, Size: forgot, Memory: e.Memory})
	}
}

func (t *tally) smoothed(key string, s *transforms.Smoothed) {
	t.records++
	if s.Missing {
		t.missing++
	}
	if s.Change {
		t.changes++
		t.add(Break{Key: key, ID: s.ID, Time: s.Time, Size: s.ChangeEvidence})
	}
}

func (t *tally) add(b Break) {
	if math.IsInf(b.Size, 0) || len(t.largest) == largestKeys && b.Size <= t.largest[largestKeys-1].Size {
		return
	}
	t.largest = keepLargest(t.largest, b)
}

const largestKeys = 5

// keepLargest adds b to the largest few, one per key.
func keepLargest(list []Break, b Break) []Break {
	if i := slices.IndexFunc(list, func(o Break) bool { return o.Key == b.Key }); i >= 0 {
		if list[i].Size >= b.Size {
			return list
		}
		list = slices.Delete(list, i, i+1)
	}
	at, _ := slices.BinarySearchFunc(list, b, func(o, b Break) int {
		return cmp.Or(cmp.Compare(b.Size, o.Size), cmp.Compare(o.Key, b.Key))
	})
	list = slices.Insert(list, at, b)
	return list[:min(len(list), largestKeys)]
}

// String is the summary as a person reads it.
func (s Summary) String() string {
	var b strings.Builder
	units := fmt.Sprintf("%d keys", s.Keys)
	if s.Sessions > 0 {
		units = fmt.Sprintf("%d sessions, %d changes", s.Sessions, s.Changes)
	}
	fmt.Fprintf(&b, "%s, %d records (%d missing), %d rejected, %d not converged, %.1f s", units, s.Records, s.Missing, s.Rejected, s.NotConverged, s.Elapsed.Seconds())
	if s.Stopped {
		b.WriteString("; stopped before the end of the input, nothing read was lost")
	}
	b.WriteByte('\n')
	if len(s.Largest) == 0 {
		return b.String()
	}
	if s.Sessions > 0 {
		b.WriteString("the clearest changes (evidence in nats):\n")
	} else {
		b.WriteString("what changed most (observations forgotten at one step):\n")
	}
	for _, f := range s.Largest {
		at := f.ID
		if !f.Time.IsZero() {
			at = f.Time.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "  %-24s %s", f.Key, at)
		if s.Sessions > 0 {
			fmt.Fprintf(&b, "  %.4g\n", f.Size)
		} else {
			fmt.Fprintf(&b, "  forgot %.4g, kept %.4g\n", f.Size, f.Memory)
		}
	}
	return b.String()
}
