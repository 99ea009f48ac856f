// Package fit finds the parameters of a filter that maximise the log evidence of each key, or the
// likelihood of the choices of each subject, and makes a table of them.
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
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/internal/parallel"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

// A Fit is of the keys of a config. It learns what they show as the observer of a run.
type Fit struct {
	paths    []path       // those of the filter, and then those of the response
	searched int          // how many are of the filter
	filter   keyed.Config // with the rules of keys
	graph    *pipeline.Graph
	response Response

	mu       sync.Mutex
	keys     map[string]*key
	subjects []*subject // by name, once all is read
}

// A key is what one key has shown.
type key struct {
	intervals [][]trial // a key that was forgotten begins anew
	learners  []string
	counts
}

// counts are of the trials that are learned and not missing, and of the choices that are not missed.
type counts struct{ trials, choices int }

func (c counts) and(d counts) counts { return counts{c.trials + d.trials, c.choices + d.choices} }

type trial struct {
	keyed.Observation
	choice *word // nil without one
}

// A subject is what a row of the table is of.
type subject struct {
	name string
	keys []*key
	counts
	learner  keyed.Config // with the rules that match
	standing float64      // log evidence of the config as it stands
}

// New says what is searched in a config, which it changes if choices are read. An error is one of usage.
func New(c *config.Config, g *pipeline.Graph, over string, r Response) (*Fit, error) {
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
	f := &Fit{filter: filter, graph: g, response: r, keys: map[string]*key{}}
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
			if own, err := pathOf(p.name, rule.Filter); err != nil || own.Start != p.Start {
				return nil, fmt.Errorf("%s%s is another number than that of the config, which --over searches for all keys: leave out the exception", at, p.name)
			}
		}
	}
	f.searched = len(f.paths)
	if f.response.Choice == "" {
		return f, nil
	}
	if err := f.response.choosing(c); err != nil {
		return nil, err
	}
	f.paths = append(f.paths, r.parameters()...)
	f.graph, err = pipeline.Compose(c)
	return f, err
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

// Run is the one that shows the fit what there is.
func (f *Fit) Run() pipeline.Run {
	return pipeline.Run{Graph: f.graph.Trial(), Observer: &pipeline.Observer{Estimate: func(name string, e *keyed.Estimate, _ []keyed.AlertEvent) {
		if e == nil {
			return
		}
		o := keyed.Observation{Time: e.Time, X: e.X, Shape: e.Shape, Aggregated: e.Aggregated, Events: e.Events}
		o = o.Clone()
		f.mu.Lock()
		defer f.mu.Unlock()
		k := f.keys[name]
		if k == nil {
			k = &key{}
			f.keys[strings.Clone(name)] = k
		}
		if e.N == 1 {
			k.intervals = append(k.intervals, nil)
		}
		t := trial{Observation: o}
		if f.response.Choice != "" {
			t.choice = f.response.word(e)
		}
		last := len(k.intervals) - 1
		k.intervals[last] = append(k.intervals[last], t)
		if t.choice != nil {
			k.choices++
		}
		if !e.Missing && f.response.learner(t.choice) >= 0 {
			k.trials++
		}
	}}}
}

// Read ends the reading of a run. An error is one of usage.
func (f *Fit) Read() error {
	if len(f.keys) == 0 {
		return errors.New("the source has no observations that could be fitted")
	}
	if f.response.Choice != "" {
		if err := f.response.read(); err != nil {
			return err
		}
	}
	// There are no alarms, and the default ones take longer to make than 200 trials to learn.
	learner := keyed.Config{Filter: f.filter.Filter, Order: f.filter.Order, TimeUnit: f.filter.TimeUnit, Alarms: &keyed.AlarmConfig{Budget: 1}}
	all := map[string]*subject{}
	for _, name := range slices.Sorted(maps.Keys(f.keys)) {
		k, of := f.keys[name], ""
		if of, k.learners = f.response.owners(name); all[of] == nil {
			all[of] = &subject{name: of, learner: learner}
		}
		s := all[of]
		s.keys, s.counts = append(s.keys, k), s.counts.and(k.counts)
	}
	for _, rule := range f.filter.Keys {
		matched := false
		for _, s := range all {
			if slices.ContainsFunc(s.keys, func(k *key) bool { return slices.ContainsFunc(k.learners, rule.Matches) }) {
				s.learner.Keys, matched = append(s.learner.Keys, rule), true
			}
		}
		if !matched {
			return fmt.Errorf("keys: no key of the data matches %s, so there are no trials to fit: leave out the exception", domain.ShowPattern(rule.Match))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch s := all[name]; {
		case f.response.Choice == "" && s.trials == 0:
			return fmt.Errorf("all trials of the key %s are missing: there is nothing to fit; leave it out of the data", message.Printable(name))
		case f.response.Choice != "" && s.choices == 0:
			return fmt.Errorf("all choices of %s are missed: there is nothing to fit; leave it out of the data", message.Printable(name))
		case f.response.Choice != "" && math.IsInf(f.likelihood(s, f.start()), -1):
			return fmt.Errorf("model.prior: it predicts no mean before the first trials, from which %s could choose: give another prior in numbers", message.Printable(name))
		default:
			f.subjects = append(f.subjects, s)
		}
	}
	return nil
}

// nats are the log evidence of a subject's trials at values of the paths, and the log likelihood that is
// maximised: the same or, of a response, that of the choices.
func (f *Fit) nats(s *subject, at []float64) (evidence, likelihood float64) {
	none, paths := math.Inf(-1), f.paths[:f.searched]
	cfg := s.learner
	cfg.Filter = with(cfg.Filter, paths, at)
	cfg.Keys = slices.Clone(cfg.Keys)
	for i := range cfg.Keys {
		cfg.Keys[i].Filter = with(cfg.Keys[i].Filter, paths, at)
	}
	est, err := keyed.NewEstimator(cfg)
	if err != nil { // numbers of a prior that do not go together
		return none, none
	}
	logP := f.response.logP(est, at[f.searched:])
	for _, k := range s.keys {
		for _, all := range k.intervals {
			var tracks []*keyed.Track
			for _, name := range k.learners {
				tracks = append(tracks, est.NewTrack(name))
			}
			sum, last := 0., (*word)(nil)
			for _, t := range all {
				if t.choice != nil {
					likelihood += logP(tracks, t.Time, t.choice, last)
					last = t.choice
				}
				if i := f.response.learner(t.choice); i >= 0 {
					sum += est.Learn(tracks[i], t.Observation)
				}
				if math.IsInf(sum+likelihood, -1) {
					return none, none
				}
			}
			evidence += sum
		}
	}
	if f.response.Choice == "" {
		likelihood = evidence
	}
	return evidence, likelihood
}

func (f *Fit) likelihood(s *subject, at []float64) float64 {
	_, nats := f.nats(s, at)
	return nats
}

// problem is the one of a log likelihood.
func (f *Fit) problem(of func(at []float64) float64) likelihood.Problem {
	p := likelihood.Problem{Evidence: of}
	for i, q := range f.paths {
		p.Parameters = append(p.Parameters, q.Parameter)
		if k := slices.IndexFunc(f.paths, func(r path) bool { return r.level == q.level && r.beta }); q.level >= 0 && !q.beta && k >= 0 {
			p.Pairs = append(p.Pairs, [2]int{i, k})
		}
	}
	return p
}

// start are the values of the config.
func (f *Fit) start() (at []float64) {
	for _, p := range f.paths {
		at = append(at, p.Start)
	}
	return at
}

// Table fits each subject, or all of them together. Progress is called with how many keys are done; of a pooled fit, how
// often all keys were filtered, and of is 0. Several goroutines call it.
func (f *Fit) Table(pooled bool, progress func(done, of int)) *Table {
	workers := runtime.GOMAXPROCS(0)
	each := func(do func(s *subject, i int)) {
		parallel.Do(len(f.subjects), workers, func(_, i int) { do(f.subjects[i], i) })
	}
	t := &Table{choices: f.response.Choice != "", rows: make([]row, len(f.subjects))}
	for _, p := range f.paths {
		t.paths = append(t.paths, p.name)
	}
	var done atomic.Int64
	each(func(s *subject, i int) {
		s.standing, _ = f.nats(s, f.start())
		if pooled {
			return
		}
		m, other := f.maximise(func(at []float64) float64 { return f.likelihood(s, at) })
		t.rows[i] = f.row(s, m.At, other)
		f.judge(&t.rows[i], &m)
		progress(int(done.Add(1)), len(f.subjects))
	})
	if !pooled {
		return t
	}
	nats := make([]float64, len(f.subjects))
	m, other := f.maximise(func(at []float64) (sum float64) {
		each(func(s *subject, i int) { nats[i] = f.likelihood(s, at) })
		for _, v := range nats {
			sum += v
		}
		progress(int(done.Add(1)), 0)
		return sum
	})
	each(func(s *subject, i int) { t.rows[i] = f.row(s, m.At, other) })
	var sum row
	for _, r := range t.rows {
		sum.figures, sum.standing = sum.figures.and(r.figures), sum.standing+r.standing
	}
	f.judge(&sum, &m)
	t.rows = append([]row{sum}, t.rows...)
	return t
}

// maximise finds the maximum of a log likelihood and, if two words stand for outcomes, where it would be the
// other way round.
func (f *Fit) maximise(of func(at []float64) float64) (m likelihood.Maximum, other []float64) {
	if f.response.mapped() {
		other = f.turned(f.problem(func(at []float64) float64 { return of(f.turned(at)) }).Peak())
	}
	m = f.problem(of).Maximise()
	if f.response.Choice == "" {
		return m, nil
	}
	// If predictions do not vary any β is as good, and the least one says so.
	flat := slices.Clone(m.At)
	if flat[f.searched] = f.paths[f.searched].Lower; of(flat) >= m.Evidence-flatness {
		m.At = flat
	}
	return m, other
}

// flatness is by how many nats a likelihood differs only in its last digits.
const flatness = 1e-9

// turned are values at which the words stand for the other outcomes: β is below 0.
func (f *Fit) turned(at []float64) []float64 {
	at = slices.Clone(at)
	at[f.searched] *= -1
	return at
}

// row is that of a subject at values of the paths. other are those if words stand for the other outcomes, if they can.
func (f *Fit) row(s *subject, at, other []float64) row {
	nan := math.NaN()
	r := row{key: s.name, figures: figures{counts: s.counts, aic: nan, bic: nan}, standing: s.standing}
	r.evidence, r.likelihood = f.nats(s, at)
	r.turned = other != nil && f.likelihood(s, other) > r.likelihood+flatness
	return r
}

// judge gives a row its maximum, and the criteria of that.
func (f *Fit) judge(r *row, m *likelihood.Maximum) {
	paths, n := float64(len(f.paths)), float64(r.trials)
	if f.response.Choice != "" {
		n = float64(r.choices)
	}
	r.maximum, r.aic, r.bic = m, 2*paths-2*m.Evidence, paths*math.Log(n)-2*m.Evidence
}
