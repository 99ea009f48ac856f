// Package fit finds the parameters of a filter that maximise the log evidence of each key, or the likelihood of the
// choices of each subject, and makes a table of them.
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
	"hafvf/pipeline/settings"
)

// A Fit fits the parameters of a config. It collects the observations of each key from a run.
type Fit struct {
	paths    []path       // parameters of the filter, followed by those that the response adds
	searched int          // number of parameters of the filter
	filter   keyed.Config // filter with the exceptions of keys
	response Response

	mu       sync.Mutex
	keys     map[string]*key
	subjects []*subject // subjects by name; set by Read
}

// A key is the observations of one key.
type key struct {
	intervals [][]trial // trials; a key that was reset begins a new interval
	learners  []string
	counts
}

// counts are the numbers of trials that are learned and not missing, and of choices that are not missed.
type counts struct{ trials, choices int }

func (c counts) plus(d counts) counts { return counts{c.trials + d.trials, c.choices + d.choices} }

type trial struct {
	keyed.Observation
	choice  *word   // nil without a choice
	offered []*word // options on offer; nil for all options
}

// A subject is the keys behind one row of the table.
type subject struct {
	name string
	keys []*key
	counts
	learner         keyed.Config // filter with the exceptions that match
	defaultEvidence float64      // log evidence at the values of the config
}

// A Source describes the records of a fit.
type Source struct {
	Key     []string // names of the parts of the key
	Missing []string // texts of missing values
	NotLong bool     // a record may have several observations
}

// New returns a Fit of the parameters in over. Its error is a usage error.
func New(c *settings.Settings, source Source, over string, r Response) (*Fit, error) {
	filter := c.Filter()
	switch {
	case c.Transform == settings.Smooth:
		return nil, errors.New("fit needs the filter: leave out transform: smooth and its settings")
	case c.Detect != nil:
		return nil, errors.New("detect: alarms have no parameters to fit: leave out detect, or give --set detect=false")
	}
	if err := checkFilter("", filter.Filter); err != nil {
		return nil, err
	}
	f := &Fit{filter: filter, response: r, keys: map[string]*key{}}
	var err error
	if f.paths, err = pathsOf(over, filter.Filter); err != nil {
		return nil, err
	}
	for i, rule := range filter.Keys {
		prefix := fmt.Sprintf("keys.%d.", i)
		if err := checkFilter(prefix, rule.Filter); err != nil {
			return nil, err
		}
		for _, p := range f.paths {
			if keyPath, err := pathOf(p.name, rule.Filter); err != nil || keyPath.Start != p.Start {
				return nil, fmt.Errorf("%s%s differs from the config, but --over searches one value for all keys: leave out the exception", prefix, p.name)
			}
		}
	}
	f.searched = len(f.paths)
	if f.response.Choice == "" {
		return f, nil
	}
	if err := f.response.prepare(c, source); err != nil {
		return nil, err
	}
	f.paths = append(f.paths, r.parameters()...)
	return f, nil
}

// Key returns the names of the parts of the key for the run, and whether they lack the choice. Trials of several options
// then keep the order of the records.
func (f *Fit) Key() (names []string, lacksChoice bool) {
	return f.response.names, f.response.Choice != "" && f.response.choiceIndex >= 0
}

// Carried returns the names of the columns that records must carry.
func (f *Fit) Carried() []string {
	return slices.DeleteFunc([]string{f.response.column, f.response.Offered}, func(name string) bool { return name == "" })
}

// checkFilter returns an error if a filter cannot be fitted. prefix is the path of the filter in the config.
func checkFilter(prefix string, f hafvf.Config) error {
	switch {
	case len(f.Bank) > 0:
		return fmt.Errorf("%sbank: fit cannot distinguish the members of a bank: give levels and top instead", prefix)
	case f.WarmUp > 0:
		return fmt.Errorf("%smodel.prior: auto sets the prior from the same data: give the prior in numbers", prefix)
	}
	return nil
}

// Add adds a trial of a key, in the order of the key's trials. It ignores a nil estimate.
func (f *Fit) Add(name string, e *keyed.Estimate) {
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
		t.choice, t.offered = f.response.choice(e)
	}
	last := len(k.intervals) - 1
	k.intervals[last] = append(k.intervals[last], t)
	if t.choice != nil {
		k.choices++
	}
	if !e.Missing && f.response.learner(t.choice) >= 0 {
		k.trials++
	}
}

// Read prepares the fit after the run. Its error is a usage error.
func (f *Fit) Read() error {
	if len(f.keys) == 0 {
		return errors.New("the source has no observations to fit")
	}
	if f.response.Choice != "" {
		if err := f.response.read(); err != nil {
			return err
		}
	}
	// Without detection the alarms do not matter, and making the default ones takes longer than learning 200 trials.
	learner := keyed.Config{Filter: f.filter.Filter, Order: f.filter.Order, TimeUnit: f.filter.TimeUnit, Alarms: &keyed.AlarmConfig{Budget: 1}}
	subjects := map[string]*subject{}
	for _, name := range slices.Sorted(maps.Keys(f.keys)) {
		k, owner := f.keys[name], ""
		if owner, k.learners = f.response.owners(name); subjects[owner] == nil {
			subjects[owner] = &subject{name: owner, learner: learner}
		}
		s := subjects[owner]
		s.keys, s.counts = append(s.keys, k), s.counts.plus(k.counts)
	}
	for _, rule := range f.filter.Keys {
		matched := false
		for _, s := range subjects {
			if slices.ContainsFunc(s.keys, func(k *key) bool { return slices.ContainsFunc(k.learners, rule.Matches) }) {
				s.learner.Keys, matched = append(s.learner.Keys, rule), true
			}
		}
		if !matched {
			return fmt.Errorf("keys: no key of the data matches %s, so there are no trials to fit: leave out the exception", domain.ShowPattern(rule.Match))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(subjects)) {
		switch s := subjects[name]; {
		case f.response.Choice == "" && s.trials == 0:
			return fmt.Errorf("all trials of the key %s are missing: there is nothing to fit; leave it out of the data", message.Printable(name))
		case f.response.Choice != "" && s.choices == 0:
			return fmt.Errorf("all choices of %s are missed: there is nothing to fit; leave it out of the data", message.Printable(name))
		case f.response.Choice != "" && math.IsInf(f.likelihood(s, f.start()), -1):
			return fmt.Errorf("model.prior: it predicts no mean before the first trials of %s, so their choices have no probability: give another prior in numbers", message.Printable(name))
		default:
			f.subjects = append(f.subjects, s)
		}
	}
	return nil
}

// nats returns the log evidence of a subject's trials at the given values of the parameters, and the log likelihood
// to maximise, which is the likelihood of the choices or, without a response, the evidence. Both are -Inf if the
// values are invalid or the trials impossible.
func (f *Fit) nats(s *subject, values []float64) (evidence, likelihood float64) {
	impossible, paths := math.Inf(-1), f.paths[:f.searched]
	cfg := s.learner
	cfg.Filter = withValues(cfg.Filter, paths, values)
	cfg.Keys = slices.Clone(cfg.Keys)
	for i := range cfg.Keys {
		cfg.Keys[i].Filter = withValues(cfg.Keys[i].Filter, paths, values)
	}
	est, err := keyed.NewEstimator(cfg)
	if err != nil { // values of a prior that do not fit together
		return impossible, impossible
	}
	logP := f.response.logP(est, values[f.searched:])
	for _, k := range s.keys {
		for _, trials := range k.intervals {
			var tracks []*keyed.Track
			for _, name := range k.learners {
				tracks = append(tracks, est.NewTrack(name))
			}
			sum, last := 0., (*word)(nil)
			for i := range trials {
				t := &trials[i]
				if t.choice != nil {
					likelihood += logP(tracks, t, last)
					last = t.choice
				}
				if i := f.response.learner(t.choice); i >= 0 {
					sum += est.Learn(tracks[i], t.Observation)
				}
				if math.IsInf(sum+likelihood, -1) {
					return impossible, impossible
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

func (f *Fit) likelihood(s *subject, values []float64) float64 {
	_, nats := f.nats(s, values)
	return nats
}

// problem returns the problem of maximising a log likelihood.
func (f *Fit) problem(logLikelihood func(values []float64) float64) likelihood.Problem {
	p := likelihood.Problem{Evidence: logLikelihood}
	for i, q := range f.paths {
		p.Parameters = append(p.Parameters, q.Parameter)
		if k := slices.IndexFunc(f.paths, func(r path) bool { return r.level == q.level && r.beta }); q.level >= 0 && !q.beta && k >= 0 {
			p.Pairs = append(p.Pairs, [2]int{i, k})
		}
	}
	return p
}

// start returns the values in the config.
func (f *Fit) start() (values []float64) {
	for _, p := range f.paths {
		values = append(values, p.Start)
	}
	return values
}

// Table fits each subject, or all of them together. It calls progress with the number of finished subjects and their
// total; for a pooled fit, with the number of passes over all keys and 0. Several goroutines call progress.
func (f *Fit) Table(pooled bool, progress func(done, total int)) *Table {
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
		s.defaultEvidence, _ = f.nats(s, f.start())
		if pooled {
			return
		}
		m, other := f.maximise(func(values []float64) float64 { return f.likelihood(s, values) })
		t.rows[i] = f.row(s, m.Values, other)
		f.setCriteria(&t.rows[i], &m)
		progress(int(done.Add(1)), len(f.subjects))
	})
	if !pooled {
		return t
	}
	nats := make([]float64, len(f.subjects))
	m, other := f.maximise(func(values []float64) (sum float64) {
		each(func(s *subject, i int) { nats[i] = f.likelihood(s, values) })
		for _, v := range nats {
			sum += v
		}
		progress(int(done.Add(1)), 0)
		return sum
	})
	each(func(s *subject, i int) { t.rows[i] = f.row(s, m.Values, other) })
	var sum row
	for _, r := range t.rows {
		sum.figures, sum.defaultEvidence = sum.figures.plus(r.figures), sum.defaultEvidence+r.defaultEvidence
	}
	f.setCriteria(&sum, &m)
	t.rows = append([]row{sum}, t.rows...)
	return t
}

// maximise returns the maximum of a log likelihood and, if two words stand for outcomes, the values with the words
// swapped.
func (f *Fit) maximise(logLikelihood func(values []float64) float64) (m likelihood.Maximum, other []float64) {
	if f.response.mapped() {
		other = f.swapped(f.problem(func(values []float64) float64 { return logLikelihood(f.swapped(values)) }).Peak())
	}
	m = f.problem(logLikelihood).Maximise()
	if f.response.Choice == "" {
		return m, nil
	}
	// If predictions do not vary, every β is equally good. The lower bound shows this.
	flat := slices.Clone(m.Values)
	if flat[f.searched] = f.paths[f.searched].Lower; logLikelihood(flat) >= m.Evidence-flatness {
		m.Values = flat
	}
	return m, other
}

// flatness is the difference in nats up to which two likelihoods count as equal.
const flatness = 1e-9

// swapped returns values at which the two words stand for the other outcomes: with -β.
func (f *Fit) swapped(values []float64) []float64 {
	values = slices.Clone(values)
	values[f.searched] *= -1
	return values
}

// row returns the row of a subject at the given values. other are the values with the words swapped; nil if they
// cannot be.
func (f *Fit) row(s *subject, values, other []float64) row {
	nan := math.NaN()
	r := row{key: s.name, figures: figures{counts: s.counts, aic: nan, bic: nan}, defaultEvidence: s.defaultEvidence}
	r.evidence, r.likelihood = f.nats(s, values)
	r.swapped = other != nil && f.likelihood(s, other) > r.likelihood+flatness
	return r
}

// setCriteria sets the maximum of a row, and its AIC and BIC.
func (f *Fit) setCriteria(r *row, m *likelihood.Maximum) {
	paths, n := float64(len(f.paths)), float64(r.trials)
	if f.response.Choice != "" {
		n = float64(r.choices)
	}
	r.maximum, r.aic, r.bic = m, 2*paths-2*m.Evidence, paths*math.Log(n)-2*m.Evidence
}
