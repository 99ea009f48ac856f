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
	"hafvf/hafvf"
	"hafvf/transforms"
)

// A Summary is what a run did.
type Summary struct {
	Keys, Sessions                           int64 // of the filter; of the smoother
	Records, Rejected, Missing, NotConverged int64
	Outliers, Changes                        int64 // that detection or the smoother found
	Elapsed                                  time.Duration
	Stopped                                  bool    // before the end of the input
	Largest                                  []Break // per key, the largest; a few keys, largest first

	detects bool
}

// A Break is where something of a key came to an end: a change that detection or
// the smoother found, or without them a step at which the filter let go of what
// it remembered.
type Break struct {
	Key  string
	ID   string
	Time time.Time // of a change, its start
	// Size is that of the change in standard deviations, nats of evidence, or the
	// effective observations dropped from memory.
	Size  float64
	About string // what else there is to say
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
	name := "run-" + rand.Text()
	outputs := map[string]connectors.Sink{"records": r.Graph.sink, "rejected": r.Graph.dead}
	if r.Graph.alerts != nil {
		outputs["alerts"] = *r.Graph.alerts
	}
	var writers []*connectors.Writer
	for output, sink := range outputs {
		w, err := connectors.Create(sink)
		if err != nil {
			return Summary{}, err
		}
		defer w.Abort()
		writers = append(writers, w)
		connectors.Register(name+"/"+output, w)
		defer connectors.Unregister(name + "/" + output)
	}
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
	for _, w := range writers {
		err = errors.Join(err, w.Commit())
	}
	if err != nil {
		return Summary{}, err
	}
	s := state.summary()
	s.Keys, s.Sessions, s.NotConverged = counters["keys"], counters["sessions"], counters["not_converged"]
	s.Outliers, s.Changes = counters["outliers"], counters["changes"]
	s.detects = r.Graph.detects
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
	for _, b := range t.largest {
		r.sum.Largest = keepLargest(r.sum.Largest, b)
	}
}

// A tally is a part of the summary, counted without a lock.
type tally struct {
	records, missing int64
	largest          []Break
}

func (t *tally) estimate(key string, e *transforms.Estimate) {
	t.records++
	switch {
	case e.Missing:
		t.missing++
	case e.Detection != nil:
		if a := e.Alert; a != nil && a.Kind != hafvf.Outlier {
			t.add(Break{Key: key, ID: e.ID, Time: a.Start, Size: a.Size,
				About: fmt.Sprintf("%.4g → %.4g, told %d observations later", a.Before.Mean[0], a.After.Mean[0], a.Delay)})
		}
	default:
		// memory = E[w]·before + J: what went is (1 − E[w])·before.
		kept := e.Memory - float64(len(e.X))
		if forgot := kept * (1 - e.Weight) / e.Weight; forgot > 1 {
			t.add(Break{Key: key, ID: e.ID, Time: e.Time, Size: forgot, About: fmt.Sprintf("kept %.4g", e.Memory)})
		}
	}
}

func (t *tally) smoothed(key string, s *transforms.Smoothed) {
	t.records++
	if s.Missing {
		t.missing++
	}
	if s.Change {
		t.add(Break{Key: key, ID: s.ID, Time: s.Time, Size: s.ChangeEvidence})
	}
}

func (t *tally) add(b Break) {
	if math.IsInf(b.Size, 0) || len(t.largest) == largestKeys && b.Size <= t.largest[largestKeys-1].Size {
		return
	}
	t.largest = keepLargest(t.largest, b)
}

const largestKeys = 10

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
	title, unit := "what changed most (observations forgotten at one step)", "forgot"
	switch {
	case s.Sessions > 0:
		title, unit = "the clearest change of each key (evidence in nats)", "evidence"
		fmt.Fprintf(&b, "%d sessions, %d changes, ", s.Sessions, s.Changes)
	case s.detects:
		title, unit = "changed, the largest change of each key (in standard deviations)", "by"
		fmt.Fprintf(&b, "%d keys, %d changes, %d outliers, ", s.Keys, s.Changes, s.Outliers)
	default:
		fmt.Fprintf(&b, "%d keys, ", s.Keys)
	}
	fmt.Fprintf(&b, "%d records (%d missing), %d rejected, %d not converged, %.1f s", s.Records, s.Missing, s.Rejected, s.NotConverged, s.Elapsed.Seconds())
	if s.Stopped {
		b.WriteString("; stopped before the end of the input, nothing read was lost")
	}
	b.WriteByte('\n')
	if len(s.Largest) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "%s:\n", title)
	for _, f := range s.Largest {
		at := f.ID
		if !f.Time.IsZero() {
			at = f.Time.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "  %-24s %s  %s %.4g", f.Key, at, unit, f.Size)
		if f.About != "" {
			fmt.Fprintf(&b, ", %s", f.About)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
