// Package fit finds the parameters of a filter that maximise the log evidence of each key, and makes
// a table of them.
package fit

import (
	"errors"
	"fmt"
	"maps"
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

	mu       sync.Mutex
	keys     map[string]*key
	subjects []*subject // by name, once all is read
}

// A key is what one key has shown.
type key struct {
	name      string
	intervals [][]keyed.Observation // a key that was forgotten begins anew
	trials    int                   // that are not missing
}

// A subject is what a row of the table is of.
type subject struct {
	name     string
	keys     []*key
	trials   int          // that are not missing
	learner  keyed.Config // with the rules that match
	standing float64      // log evidence of the config as it stands
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

// Read ends the reading of a run. An error is one of usage.
func (f *Fit) Read() error {
	if len(f.keys) == 0 {
		return errors.New("the source has no observations that could be fitted")
	}
	matched := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(f.keys)) {
		k := f.keys[name]
		s := &subject{name: name, keys: []*key{k}, trials: k.trials}
		s.learner = keyed.Config{Filter: f.filter.Filter, Order: f.filter.Order, TimeUnit: f.filter.TimeUnit}
		for _, rule := range f.filter.Keys {
			if rule.Matches(name) {
				matched[rule.Match] = true
				s.learner.Keys = append(s.learner.Keys, rule)
			}
		}
		f.subjects = append(f.subjects, s)
	}
	for _, rule := range f.filter.Keys {
		if !matched[rule.Match] {
			return fmt.Errorf("keys: no key of the data matches %s, so there are no trials to fit: leave out the exception", message.Quote(rule.Match))
		}
	}
	for _, s := range f.subjects {
		if s.trials == 0 {
			return fmt.Errorf("all trials of the key %s are missing: there is nothing to fit; leave it out of the data", message.Printable(s.name))
		}
	}
	return nil
}

// estimator is that of a subject at values of the paths; nil where numbers of a prior do not go together.
func (f *Fit) estimator(s *subject, at []float64) *keyed.Estimator {
	cfg := s.learner
	cfg.Filter = with(cfg.Filter, f.paths, at)
	cfg.Keys = slices.Clone(cfg.Keys)
	for i := range cfg.Keys {
		cfg.Keys[i].Filter = with(cfg.Keys[i].Filter, f.paths, at)
	}
	est, _ := keyed.NewEstimator(cfg)
	return est
}

// evidence is the log evidence of a subject's trials at values of the paths.
func (f *Fit) evidence(s *subject, at []float64) (nats float64) {
	est := f.estimator(s, at)
	if est == nil {
		return math.Inf(-1)
	}
	for _, k := range s.keys {
		for _, all := range k.intervals {
			nats += est.Evidence(k.name, all)
		}
	}
	return nats
}

// likelihood is what is maximised.
func (f *Fit) likelihood(s *subject, at []float64) float64 { return f.evidence(s, at) }

// problem is the one of a log likelihood.
func (f *Fit) problem(of func(at []float64) float64) likelihood.Problem {
	p := likelihood.Problem{Evidence: of}
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

// Table fits each subject, or all of them together.
func (f *Fit) Table(pooled bool) *Table {
	workers := runtime.GOMAXPROCS(0)
	each := func(do func(s *subject, i int)) {
		parallel.Do(len(f.subjects), workers, func(_, i int) { do(f.subjects[i], i) })
	}
	t := &Table{rows: make([]row, len(f.subjects))}
	for _, p := range f.paths {
		t.paths = append(t.paths, p.name)
	}
	var done atomic.Int64
	each(func(s *subject, i int) {
		s.standing = f.evidence(s, f.start())
		if pooled {
			return
		}
		m := f.problem(func(at []float64) float64 { return f.likelihood(s, at) }).Maximise()
		t.rows[i] = f.row(s, m.At, &m)
		f.progress(int(done.Add(1)), len(f.subjects))
	})
	if !pooled {
		return t
	}
	nats := make([]float64, len(f.subjects))
	m := f.problem(func(at []float64) (sum float64) {
		each(func(s *subject, i int) { nats[i] = f.likelihood(s, at) })
		for _, v := range nats {
			sum += v
		}
		f.progress(int(done.Add(1)), 0)
		return sum
	}).Maximise()
	each(func(s *subject, i int) { t.rows[i] = f.row(s, m.At, nil) })
	sum := row{maximum: &m}
	for _, r := range t.rows {
		sum.figures, sum.standing = sum.figures.and(r.figures), sum.standing+r.standing
	}
	t.rows = append([]row{f.judged(sum)}, t.rows...)
	return t
}

func (f *Fit) progress(done, of int) {
	if f.Progress != nil {
		f.Progress(done, of)
	}
}

// row is that of a subject at values of the paths, which are those of its own maximum or, where that is nil, of all.
func (f *Fit) row(s *subject, at []float64, m *likelihood.Maximum) row {
	r := row{key: s.name, figures: figures{trials: s.trials, evidence: f.evidence(s, at)}, maximum: m, standing: s.standing}
	return f.judged(r)
}

// judged is a row with its criteria, which the rows of a pooled fit do not have.
func (f *Fit) judged(r row) row {
	n := float64(len(f.paths))
	r.aic, r.bic = math.NaN(), math.NaN()
	if r.maximum != nil {
		r.aic, r.bic = 2*n-2*r.maximum.Evidence, n*math.Log(float64(r.trials))-2*r.maximum.Evidence
	}
	return r
}
