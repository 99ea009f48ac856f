// Package fit finds the parameters of a filter that maximise the log evidence of each key, and makes
// a table of them.
package fit

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/likelihood"
	"hafvf/internal/message"
	"hafvf/internal/parallel"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

// A Fit is of the keys of a config. It learns what they show as the observer of a run.
type Fit struct {
	paths  []path
	filter keyed.Config // with the rules of keys
	// Progress, if set, is called with how many keys are done; of a pooled fit, how often all keys were
	// filtered, and of is 0. Several goroutines call it.
	Progress func(done, of int)

	mu   sync.Mutex
	keys map[string]*key
	all  []*key // by name, once all is read
}

// A key is what one key has shown.
type key struct {
	name      string
	intervals [][]keyed.Observation // a key that was forgotten begins anew
	trials    int                   // that are not missing
	filter    hafvf.Config
	standing  float64 // evidence of the config as it stands
}

// New says what is searched in a config. An error is one of usage.
func New(c *config.Config, g *pipeline.Graph, over string) (*Fit, error) {
	filter, ok := g.Filter()
	switch {
	case !ok:
		return nil, errors.New("fit is of the filter: leave out transform: smooth and what belongs to it")
	case c.Source.Files() == nil:
		return nil, errors.New("fit reads files, whose input ends: give a config whose source is csv, jsonl or parquet")
	case g.Runner.Name == config.Flink:
		return nil, errors.New("fit runs here, not on Flink: leave out runner, or give --set runner.name=direct")
	case c.Detect != nil:
		return nil, errors.New("detect: alarms have no parameters that could be fitted: leave out detect, or give --set detect=false")
	}
	if err := fits("", filter.Filter); err != nil {
		return nil, err
	}
	f := &Fit{filter: filter, keys: map[string]*key{}}
	var err error
	if f.paths, err = pathsOf(over, filter.Filter); err != nil {
		return nil, err
	}
	for i, rule := range filter.Keys {
		at := fmt.Sprintf("keys.%d.", i)
		if err := fits(at, rule.Filter); err != nil {
			return nil, err
		}
		for _, p := range f.paths {
			if own, err := pathOf(p.name, rule.Filter); err != nil || own.start != p.start {
				return nil, fmt.Errorf("%s%s is another number than that of the config, which --over searches for all keys: leave out the exception", at, p.name)
			}
		}
	}
	return f, nil
}

// fits says why a filter cannot be fitted.
func fits(at string, f hafvf.Config) error {
	switch {
	case len(f.Bank) > 0:
		return fmt.Errorf("%sbank: the members of a bank cannot be told apart in a fit: give levels and top in its place", at)
	case f.WarmUp > 0:
		return fmt.Errorf("%smodel.prior: auto sets the prior from the same data: give the prior in numbers", at)
	}
	return nil
}

// Observer has the fit learn what a run reads.
func (f *Fit) Observer() *pipeline.Observer {
	return &pipeline.Observer{Estimate: func(name string, e *keyed.Estimate, _ []keyed.AlertEvent) {
		if e == nil {
			return
		}
		o := keyed.Observation{Time: e.Time, X: e.X, Shape: e.Shape, Aggregated: e.Aggregated, Events: e.Events}
		o = o.Clone()
		f.mu.Lock()
		defer f.mu.Unlock()
		k := f.keys[name]
		if k == nil {
			k = &key{name: strings.Clone(name)}
			f.keys[k.name] = k
		}
		if e.N == 1 {
			k.intervals = append(k.intervals, nil)
		}
		last := len(k.intervals) - 1
		k.intervals[last] = append(k.intervals[last], o)
		if !e.Missing {
			k.trials++
		}
	}}
}

// Read ends the reading of a run, in which these rules of keys matched nothing. An error is one of
// usage.
func (f *Fit) Read(unmatched []string) error {
	if len(f.keys) == 0 {
		return errors.New("the source has no observations that could be fitted")
	}
	if len(unmatched) > 0 {
		return fmt.Errorf("keys: no key of the data matches %s, so there are no trials to fit: leave out the exception", message.Quote(unmatched[0]))
	}
	f.all = nil
	for _, k := range f.keys {
		if k.trials == 0 {
			return fmt.Errorf("all trials of the key %s are missing: there is nothing to fit; leave it out of the data", message.Printable(k.name))
		}
		k.filter = f.filter.Filter
		if i := slices.IndexFunc(f.filter.Keys, func(r keyed.Rule) bool { return r.Matches(k.name) }); i >= 0 {
			k.filter = f.filter.Keys[i].Filter
		}
		f.all = append(f.all, k)
	}
	slices.SortFunc(f.all, func(a, b *key) int { return strings.Compare(a.name, b.name) })
	return nil
}

// evidence is the log evidence of a key at values of the paths.
func (f *Fit) evidence(k *key, at []float64) (nats float64) {
	est, err := keyed.NewEstimator(keyed.Config{Filter: with(k.filter, f.paths, at), Order: f.filter.Order, TimeUnit: f.filter.TimeUnit})
	if err != nil { // numbers of a prior that do not go together
		return math.Inf(-1)
	}
	for _, all := range k.intervals {
		nats += est.Evidence(k.name, all)
	}
	return nats
}

// problem is the one of an evidence.
func (f *Fit) problem(evidence func(at []float64) float64) likelihood.Problem {
	p := likelihood.Problem{Evidence: evidence}
	for i, q := range f.paths {
		p.Parameters = append(p.Parameters, q.parameter())
		if k := slices.IndexFunc(f.paths, func(r path) bool { return r.level == q.level && r.beta }); q.level >= 0 && !q.beta && k >= 0 {
			p.Pairs = append(p.Pairs, [2]int{i, k})
		}
	}
	return p
}

// start are the values of the config.
func (f *Fit) start() (at []float64) {
	for _, p := range f.paths {
		at = append(at, p.start)
	}
	return at
}

// Table fits each key, or all of them together.
func (f *Fit) Table(pooled bool) *Table {
	workers := runtime.GOMAXPROCS(0)
	each := func(do func(k *key, i int)) {
		parallel.Do(len(f.all), workers, func(_, i int) { do(f.all[i], i) })
	}
	t := &Table{rows: make([]row, len(f.all))}
	for _, p := range f.paths {
		t.paths = append(t.paths, p.name)
	}
	var done atomic.Int64
	each(func(k *key, i int) {
		k.standing = f.evidence(k, f.start())
		if pooled {
			return
		}
		t.rows[i] = f.row(k.name, k.trials, k.standing, f.problem(func(at []float64) float64 { return f.evidence(k, at) }).Maximise())
		f.progress(int(done.Add(1)), len(f.all))
	})
	if !pooled {
		return t
	}
	nats := make([]float64, len(f.all))
	together := func(at []float64) (sum float64) {
		each(func(k *key, i int) { nats[i] = f.evidence(k, at) })
		for _, v := range nats {
			sum += v
		}
		f.progress(int(done.Add(1)), 0)
		return sum
	}
	m := f.problem(together).Maximise()
	together(m.At)
	trials, standing := 0, 0.
	for i, k := range f.all {
		trials += k.trials
		standing += k.standing
		nan := math.NaN()
		t.rows[i] = row{key: k.name, trials: k.trials, evidence: nats[i], aic: nan, bic: nan, standing: k.standing}
	}
	t.rows = append([]row{f.row("", trials, standing, m)}, t.rows...)
	return t
}

func (f *Fit) progress(done, of int) {
	if f.Progress != nil {
		f.Progress(done, of)
	}
}

// row is that of a maximum.
func (f *Fit) row(name string, trials int, standing float64, m likelihood.Maximum) row {
	n := float64(len(f.paths))
	return row{key: name, trials: trials, maximum: &m, evidence: m.Evidence, aic: 2*n - 2*m.Evidence, bic: n*math.Log(float64(trials)) - 2*m.Evidence, standing: standing}
}
