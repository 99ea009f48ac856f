package transforms

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"golang.org/x/sync/errgroup"

	"hafvf/hafvf"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/parallel"
	"hafvf/internal/portable"
)

func init() {
	register.Function5x0((&packFn{}).ProcessElement)
	dofn.Register(func(f *packFn) any { return f.ProcessElement })
	register.Function9x1((&filterFn{}).ProcessElement)
	dofn.Register(func(f *filterFn) any { return f.ProcessElement })
	register.Function3x1((&resumeFn{}).ProcessElement)
	dofn.Register(func(f *resumeFn) any { return f.ProcessElement })
	register.Emitter3[beam.EventTime, string, Silent]()
	register.Emitter3[beam.EventTime, string, []byte]()
	register.Emitter3[beam.EventTime, string, Estimate]()
	register.Emitter1[Rejected]()
}

// Order is the order in which a key's observations are learned.
type Order string

const (
	// EventTime releases an observation once its key has seen a time Lateness
	// later, the watermark has passed that time, or the input has ended. An
	// observation before one that its key has released is rejected as late. Equal
	// times keep their order of arrival.
	EventTime Order = "event_time"
	// Arrival takes observations as they come.
	Arrival Order = "arrival"
)

// Config is the configuration of Filter.
type Config struct {
	// Filter needs a Family; the rest has defaults.
	Filter hafvf.Config
	// Keys are exceptions: the first rule whose pattern matches a key holds instead
	// of Filter, whole. Family and dimension are those of Filter.
	Keys     []Rule
	Order    Order         // default EventTime
	Lateness time.Duration // of EventTime, at least 0; default 0: a key's observations are in order
	// TimeUnit makes the weight of memory act once per unit of time between
	// observations. Default 0: once per observation.
	TimeUnit time.Duration
	// Interval adds the central predictive interval of this probability, in (0, 1), to
	// every estimate. Default 0: none.
	Interval float64
	Alarms   AlarmConfig // with detection; its budget is that of silence too
	Alerts   AlertConfig // with detection
	// Silence tells of keys that have been silent for too long. Nil: it does not.
	Silence *SilenceConfig
	// Account connects the node with package pipeline. Leave it empty.
	Account string
}

// A Rule says how the keys that match a pattern are filtered.
type Rule struct {
	Match  string // as in path.Match, but * and ? match slashes too
	Filter hafvf.Config
}

func (c Config) withDefaults() Config {
	if c.Order == "" {
		c.Order = EventTime
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Order != EventTime && c.Order != Arrival:
		return fmt.Errorf("order %q is neither %q nor %q", c.Order, EventTime, Arrival)
	case c.Lateness < 0:
		return fmt.Errorf("lateness %v is negative", c.Lateness)
	case c.TimeUnit < 0:
		return fmt.Errorf("time unit %v is negative", c.TimeUnit)
	case c.Interval != 0 && !hafvf.IntervalDomain.Contains(c.Interval):
		return fmt.Errorf("interval must be %s, not %g", hafvf.IntervalDomain.Name, c.Interval)
	}
	if err := c.Alarms.validate(); err != nil {
		return fmt.Errorf("alarms: %w", err)
	}
	if err := c.Silence.validate(c.withDefaults().Order); err != nil {
		return fmt.Errorf("silence: %w", err)
	}
	if err := c.Alerts.validate(); err != nil {
		return fmt.Errorf("alerts: %w", err)
	}
	return checkRules(c.Filter, c.Keys)
}

func checkRules(base hafvf.Config, rules []Rule) error {
	for i, r := range rules {
		if _, err := path.Match(r.Match, ""); err != nil {
			return fmt.Errorf("keys.%d.match: %q is not a pattern", i, r.Match)
		}
		if r.Filter.Family != base.Family {
			return fmt.Errorf("keys.%d: family %s, but %s for all other keys", i, r.Filter.Family, base.Family)
		}
	}
	return nil
}

// ruled holds one value per rule, and one for all keys that match none.
type ruled[T any] struct {
	rules  []Rule
	rest   T
	byRule []T
}

func newRuled[T any](base hafvf.Config, rules []Rule, of func(hafvf.Config) (T, error)) (ruled[T], error) {
	rest, err := of(base)
	if err != nil {
		return ruled[T]{}, err
	}
	r := ruled[T]{rules: rules, rest: rest}
	for _, rule := range rules {
		t, err := of(rule.Filter)
		if err != nil {
			return ruled[T]{}, err
		}
		r.byRule = append(r.byRule, t)
	}
	return r, nil
}

// of returns the value of the first rule that matches the key.
func (r ruled[T]) of(key string) T {
	if i := r.index(key); i >= 0 {
		return r.byRule[i]
	}
	return r.rest
}

// index returns that of the first rule that matches the key, -1 where none does.
func (r ruled[T]) index(key string) int {
	return slices.IndexFunc(r.rules, func(rule Rule) bool { return rule.Matches(key) })
}

// Matches reports whether the rule is for the key.
func (r Rule) Matches(key string) bool { return matches(r.Match, key) }

// matches is path.Match for keys, in which a slash is a character as any other.
func matches(pattern, key string) bool {
	const other = "\x00"
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", other), strings.ReplaceAll(key, "/", other))
	return ok
}

// Filter takes a PCollection<KV<string, Observation>> in the global window. It
// returns a PCollection<KV<string, Estimate>>, one for every observation that the
// model takes, and a PCollection<Rejected> with the others. An estimate has the
// event time of its observation, and the epoch where that has none. A state that was
// written under another configuration fails the pipeline.
//
// Filter panics where the configuration is impossible, or the input is not in the
// global window.
func Filter(s beam.Scope, cfg Config, col beam.PCollection) (estimates, rejected beam.PCollection) {
	estimates, _, rejected = filter(s, cfg, col, false)
	return estimates, rejected
}

// FilterLive is Filter for an input without an end, the watermark of which goes on while
// nothing comes. It also returns a PCollection<KV<string, Silent>> of the keys that
// Config.Silence asks for, each told once the watermark has passed its bound. The estimate
// that ends such a silence has Silence.Told. At its end, an input that ends makes all keys
// silent.
func FilterLive(s beam.Scope, cfg Config, col beam.PCollection) (estimates, silent, rejected beam.PCollection) {
	return filter(s, cfg, col, cfg.Silence != nil)
}

func filter(s beam.Scope, cfg Config, col beam.PCollection, live bool) (estimates, silent, rejected beam.PCollection) {
	s = s.Scope("hafvf.Filter")
	if _, err := NewEstimator(cfg); err != nil {
		panic("transforms.Filter: " + err.Error())
	}
	if w := col.WindowingStrategy(); w.Fn.Kind != "GLO" {
		panic(fmt.Sprintf("transforms.Filter: the input is in %v; a filter's state spans windows: take the global one", w.Fn))
	}
	portable.KeepBundlesWhole()
	text, err := json.Marshal(cfg)
	if err != nil {
		panic("transforms.Filter: " + err.Error())
	}
	blocks, early := beam.ParDo2(s, &packFn{Config: string(text), Live: live}, col)
	if live {
		blocks = beam.Flatten(s, blocks, beam.ParDo(s, &resumeFn{Config: string(text)}, beam.Impulse(s)))
	}
	estimates, silent, late := beam.ParDo3(s, &filterFn{Config: string(text), Live: live, State: state.MakeValueState[[]byte]("entity"), Due: timers.InEventTime("due")}, blocks)
	return estimates, silent, beam.Flatten(s, early, late)
}

// parseEstimator makes the estimator of a Config that Filter put into a DoFn. It
// travels as text, so that numbers, maps, and nil or empty lists come back as they
// were.
func parseEstimator(text string) (*Estimator, error) {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return nil, err
	}
	return NewEstimator(cfg)
}

// packFn checks the observations of a bundle and packs those of each key into a
// block: the stage boundary and the key's state then cost once per block.
type packFn struct {
	Config string
	Live   bool // resumeFn sets the timers of a restart

	cfg       Config
	timed     bool // keys have timers
	estimator *Estimator
	keys      []string
	blocks    map[string]*block
	size      int
	counts    account.Counts
}

type block struct {
	bytes []byte
	at    mtime.Time // earliest event time
}

// packBytes bounds what a bundle holds back.
const packBytes = 64 << 20

func (fn *packFn) Setup() (err error) {
	if fn.estimator, err = parseEstimator(fn.Config); err != nil {
		return err
	}
	fn.cfg = fn.estimator.cfg
	fn.timed = fn.Live || fn.cfg.Order == EventTime && fn.cfg.Lateness > 0
	return nil
}

func (fn *packFn) StartBundle(_ func(beam.EventTime, string, []byte), _ func(Rejected)) {
	fn.blocks = map[string]*block{}
	fn.keys, fn.size = fn.keys[:0], 0
}

func (fn *packFn) ProcessElement(ts beam.EventTime, key string, o Observation, emit func(beam.EventTime, string, []byte), reject func(Rejected)) {
	if err := fn.check(key, o); err != nil {
		fn.counts.Rejected++
		reject(Rejected{Key: key, Observation: o, Reason: err.Error()})
		return
	}
	b := fn.blocks[key]
	if b == nil {
		b = &block{at: ts}
		fn.blocks[key] = b
		fn.keys = append(fn.keys, key)
	}
	b.at = min(b.at, ts)
	was := len(b.bytes)
	if fn.cfg.Order == Arrival {
		o.Raw = "" // only a rejection as late would need it
	}
	b.bytes = appendObservation(b.bytes, o)
	if fn.size += len(b.bytes) - was; fn.size > packBytes {
		fn.flush(emit)
	}
}

func (fn *packFn) check(key string, o Observation) error {
	if fn.cfg.Order == EventTime && o.Time.IsZero() {
		return fmt.Errorf("no time; observations without one need order: arrival")
	}
	return fn.estimator.Check(key, o)
}

func (fn *packFn) flush(emit func(beam.EventTime, string, []byte)) {
	for _, key := range fn.keys {
		b := fn.blocks[key]
		if fn.cfg.Order == Arrival || fn.timed {
			// A runner may sort by event time. Blocks of one time keep their order. Blocks
			// of that time do not wait for timers either: the embedded runner holds back
			// what is later than a timer of its key, until the watermark has passed that.
			// The source of a topic waits for the records that are held back, and the
			// watermark for the source.
			b.at = mtime.ZeroTimestamp
		}
		emit(b.at, key, b.bytes)
	}
	clear(fn.blocks)
	fn.keys, fn.size = fn.keys[:0], 0
}

func (fn *packFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, []byte), _ func(Rejected)) error {
	fn.flush(emit)
	addMetrics(ctx, fn.counts)
	acc := account.Of(fn.cfg.Account)
	n := int(fn.counts.Rejected)
	acc.Report(account.Report{Taken: n, Emitted: n, Counts: fn.counts})
	fn.counts = account.Counts{}
	if fn.cfg.Lateness == 0 || fn.Live {
		return nil // nothing ever waits, or resumeFn looks after it
	}
	return acc.RestoreTimers(func(key string, b []byte) error {
		e, err := fn.estimator.decodeEntity(key, b)
		if err == nil && len(e.waiting) > 0 {
			// An empty block sets the timer that the key had.
			emit(mtime.FromTime(e.waiting[0].Time), key, nil)
		}
		return err
	})
}

// filterFn runs the filter over blocks of one key's observations. Every read and
// write of a state is a round trip to the runner. So blocks are processed in
// batches, and the states of a batch are read in parallel, as those of a bundle are
// written. The keys of a batch are worked in parallel too, each on one goroutine at a
// time.
type filterFn struct {
	Config string
	Live   bool // keys are told that are silent
	State  state.Value[[]byte]
	Due    timers.EventTime

	cfg        Config
	estimators []*Estimator // one per goroutine
	account    *account.Run
	vigil      *vigil // nil unless it is live
	batch      int
	queue      []arrival
	bundle     map[string]*held
	order      []*held
	report     account.Report
	iterations []int64
}

// arrival is a block in the queue, with access to its key's state and timers.
type arrival struct {
	key    string
	packed []byte
	state  state.Provider
	timers timers.Provider
}

// held is an entity during its bundle, with access to its state.
type held struct {
	entity
	key   string
	to    state.Provider
	found bool // the key had a state
	warm  bool // the account has the key among those that warm up

	blocks   [][]byte // of the batch, that are not processed yet
	outputs  []output // of the round
	released []Observation
	counts   account.Counts // of the round
	taken    int
	err      error
}

// An output is what an observation becomes: an estimate, or a rejection.
type output struct {
	Estimate
	rejected *Rejected
}

const (
	batchBlocks = 512
	roundTrips  = 16 // at the same time
	// roundSteps bounds the outputs of a key that are held back until those of the keys
	// before it are emitted.
	roundSteps = 64
)

func (fn *filterFn) Setup() error {
	fn.estimators = make([]*Estimator, runtime.GOMAXPROCS(0))
	for i := range fn.estimators {
		var err error
		if fn.estimators[i], err = parseEstimator(fn.Config); err != nil {
			return err
		}
	}
	fn.cfg = fn.estimators[0].cfg
	fn.batch = batchBlocks
	if fn.cfg.Order == EventTime && fn.cfg.Lateness > 0 {
		fn.batch = 1 // a timer can be set for the key at hand only
	}
	if fn.Live {
		fn.vigil = newVigil()
	}
	return nil
}

func (fn *filterFn) StartBundle(func(beam.EventTime, string, Estimate), func(beam.EventTime, string, Silent), func(Rejected)) {
	fn.queue, fn.order = fn.queue[:0], nil
	fn.bundle = map[string]*held{}
	fn.account = account.Of(fn.cfg.Account)
}

func (fn *filterFn) ProcessElement(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, key string, packed []byte, emit func(beam.EventTime, string, Estimate), _ func(beam.EventTime, string, Silent), reject func(Rejected)) error {
	fn.guard(ts, tp, key, packed)
	if len(packed) == 0 && fn.cfg.Lateness == 0 {
		return nil // that was all
	}
	fn.queue = append(fn.queue, arrival{key, packed, sp, tp})
	if len(fn.queue) < fn.batch {
		return nil
	}
	return fn.drain(emit, reject)
}

// drain processes the queue.
func (fn *filterFn) drain(emit func(beam.EventTime, string, Estimate), reject func(Rejected)) error {
	var unread []*held
	for _, a := range fn.queue {
		if fn.bundle[a.key] == nil {
			e := &held{key: a.key, to: a.state}
			fn.bundle[a.key] = e
			unread = append(unread, e)
		}
	}
	if err := fn.read(unread); err != nil {
		return err
	}
	var active []*held
	for _, a := range fn.queue {
		e := fn.bundle[a.key]
		if e.blocks == nil {
			active = append(active, e)
		}
		e.blocks = append(e.blocks, a.packed)
	}
	if err := fn.work(active, emit, reject); err != nil {
		return err
	}
	for _, a := range fn.queue {
		e := fn.bundle[a.key]
		fn.schedule(a.timers, &e.entity)
		if fn.vigil != nil {
			fn.vigil.note(a.key, e.deadline(fn.cfg))
		}
	}
	fn.queue = fn.queue[:0]
	return nil
}

// work processes the blocks of the keys in rounds. In a round every key makes its next
// outputs, in parallel; then they are emitted, key by key in the order of active. That
// order does not depend on the number of goroutines, and a key with most of the
// observations comes last.
func (fn *filterFn) work(active []*held, emit func(beam.EventTime, string, Estimate), reject func(Rejected)) error {
	for len(active) > 0 {
		parallel.Do(len(active), len(fn.estimators), func(worker, i int) {
			active[i].step(fn.estimators[worker], fn.cfg)
		})
		rest := active[:0]
		for _, e := range active {
			if e.err != nil {
				return fmt.Errorf("key %q: %w", e.key, e.err)
			}
			fn.emit(e, emit, reject)
			if len(e.blocks) > 0 || len(e.released) > 0 {
				rest = append(rest, e)
			}
		}
		active = rest
	}
	return nil
}

// read reads the entities from their states.
func (fn *filterFn) read(unread []*held) error {
	fn.order = append(fn.order, unread...)
	states := make([][]byte, len(unread))
	if err := roundTrip(unread, func(i int, e *held) (err error) {
		if states[i], e.found, err = fn.State.Read(e.to); err == nil && !e.found {
			states[i] = fn.account.Restore(e.key)
		}
		return err
	}); err != nil {
		return err
	}
	parallel.Do(len(unread), len(fn.estimators), func(worker, i int) {
		unread[i].open(fn.estimators[worker], states[i])
	})
	for _, e := range unread {
		if e.err != nil {
			return fmt.Errorf("key %q: %w", e.key, e.err)
		}
		if !e.found {
			fn.report.Counts.Keys++
		}
		if i := fn.estimators[0].streams.index(e.key); i >= 0 {
			fn.account.Matched(i)
		}
		if e.warm = e.warming(); e.warm {
			fn.account.WarmsUp(e.key, true)
		}
	}
	return nil
}

// open sets the entity to its state, or to that of a new key where there is none.
func (e *held) open(est *Estimator, state []byte) {
	if state == nil {
		e.entity = entity{Track: est.NewTrack(e.key)}
		return
	}
	e.entity, e.err = est.decodeEntity(e.key, state)
}

// roundTrip calls f for every entity, roundTrips at a time, and returns the first
// error with its key.
func roundTrip(list []*held, f func(i int, e *held) error) error {
	var g errgroup.Group
	g.SetLimit(roundTrips)
	for i, e := range list {
		g.Go(func() error {
			if err := f(i, e); err != nil {
				return fmt.Errorf("key %q: %w", e.key, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// step makes the key's next outputs, about roundSteps of them.
func (e *held) step(est *Estimator, cfg Config) {
	est.bind(e.key, e.Track)
	for len(e.outputs) < roundSteps {
		switch {
		case len(e.released) > 0:
			e.learn(est, e.released[0])
			e.released = e.released[1:]
		case len(e.blocks) == 0:
			return
		case len(e.blocks[0]) == 0:
			if e.blocks = e.blocks[1:]; len(e.blocks) == 0 {
				e.blocks = nil
			}
		default:
			r := &reader{b: e.blocks[0]}
			o := r.observation()
			if r.bad {
				e.err = errCut
				return
			}
			e.blocks[0] = r.b
			e.take(o, est, cfg)
		}
	}
}

// take admits an observation, or rejects it, and releases what is due.
func (e *held) take(o Observation, est *Estimator, cfg Config) {
	e.taken++
	if e.repeats(o) {
		return
	}
	if cfg.Order == Arrival {
		e.learn(est, o)
		return
	}
	if err := e.admit(o); err != nil {
		e.counts.Rejected++
		e.counts.Late++
		e.counts.Behind = max(e.counts.Behind, e.clock.Sub(o.Time))
		e.outputs = append(e.outputs, output{rejected: &Rejected{Key: e.key, Observation: o, Reason: err.Error()}})
		return
	}
	e.released = e.due(e.clock.Add(-cfg.Lateness))
}

// learn makes the estimate of one observation: predict, then learn.
func (e *held) learn(est *Estimator, o Observation) {
	e.outputs = append(e.outputs, output{Estimate: est.Estimate(e.Track, o)})
	countEstimate(&e.counts, &e.outputs[len(e.outputs)-1].Estimate)
}

// emit emits the outputs of the key's round.
func (fn *filterFn) emit(e *held, emit func(beam.EventTime, string, Estimate), reject func(Rejected)) {
	for i := range e.outputs {
		out := &e.outputs[i]
		if out.rejected != nil {
			reject(*out.rejected)
			continue
		}
		if !out.Missing {
			fn.iterations = append(fn.iterations, int64(out.Iterations))
		}
		ts := mtime.ZeroTimestamp
		if !out.Time.IsZero() {
			ts = mtime.FromTime(out.Time)
		}
		emit(ts, e.key, out.Estimate)
	}
	if e.warm && !e.warming() {
		e.warm = false
		fn.account.WarmsUp(e.key, false)
	}
	fn.report.Taken += e.taken
	fn.report.Emitted += len(e.outputs)
	fn.report.Counts.Add(e.counts)
	clear(e.outputs)
	e.outputs, e.counts, e.taken = e.outputs[:0], account.Counts{}, 0
}

// schedule sets a timer for the earliest observation that waits, and one for the
// latest. At the end of a bounded input the watermark passes both at once, and the
// second saves one timer for each observation between.
func (fn *filterFn) schedule(tp timers.Provider, e *entity) {
	if n := len(e.waiting); n > 0 {
		fn.Due.Set(tp, e.waiting[0].Time.Add(fn.cfg.Lateness), timers.WithTag("first"))
		fn.Due.Set(tp, e.waiting[n-1].Time.Add(fn.cfg.Lateness), timers.WithTag("last"))
	}
}

// OnTimer releases the observations that the watermark has passed, and tells of a key that
// is silent.
func (fn *filterFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, key string, timer timers.Context, emit func(beam.EventTime, string, Estimate), tell func(beam.EventTime, string, Silent), reject func(Rejected)) error {
	silent := timer.Tag == silentTag
	if silent {
		select {
		case <-fn.account.Stopped():
			return nil // the input ends, and no key is silent for that
		default:
		}
		if deadline, ok := fn.vigil.later(key, ts); ok {
			fn.Due.Set(tp, deadline.ToTime(), timers.WithTag(silentTag))
			return nil
		}
	}
	fn.queue = append(fn.queue, arrival{key: key, state: sp, timers: tp})
	if err := fn.drain(emit, reject); err != nil {
		return err
	}
	e := fn.bundle[key]
	e.released = e.due(ts.ToTime().Add(-fn.cfg.Lateness))
	if err := fn.work([]*held{e}, emit, reject); err != nil {
		return err
	}
	fn.schedule(tp, &e.entity)
	if silent {
		fn.silent(ts, tp, e, tell)
	}
	return nil
}

// FinishBundle processes the rest of the queue and writes the states of all keys in
// the bundle.
func (fn *filterFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, Estimate), _ func(beam.EventTime, string, Silent), reject func(Rejected)) error {
	if err := fn.drain(emit, reject); err != nil {
		return err
	}
	states := make([]account.KeyState, len(fn.order))
	err := roundTrip(fn.order, func(i int, e *held) error {
		states[i] = account.KeyState{Key: e.key, State: e.append(nil), Waiting: e.places()}
		return fn.State.Write(e.to, states[i].State)
	})
	fn.report.States = states
	addMetrics(ctx, fn.report.Counts)
	for _, n := range fn.iterations {
		iterationsDist.Update(ctx, n)
	}
	if err == nil {
		fn.account.Report(fn.report)
	}
	fn.bundle, fn.order, fn.report, fn.iterations = nil, nil, account.Report{}, fn.iterations[:0]
	return err
}

var (
	recordsCounter      = beam.NewCounter("hafvf", "records")
	rejectedCounter     = beam.NewCounter("hafvf", "rejected")
	lateCounter         = beam.NewCounter("hafvf", "late")
	missingCounter      = beam.NewCounter("hafvf", "missing")
	notConvergedCounter = beam.NewCounter("hafvf", "not_converged")
	keysCounter         = beam.NewCounter("hafvf", "keys")
	sessionsCounter     = beam.NewCounter("hafvf", "sessions")
	changesCounter      = beam.NewCounter("hafvf", "changes")
	outliersCounter     = beam.NewCounter("hafvf", "outliers")
	noveltyCounter      = beam.NewCounter("hafvf", "novelty_alarms")
	changeAlarmCounter  = beam.NewCounter("hafvf", "change_alarms")
	silencesCounter     = beam.NewCounter("hafvf", "silences")
	iterationsDist      = beam.NewDistribution("hafvf", "iterations")
)

// countEstimate counts an estimate.
func countEstimate(c *account.Counts, e *Estimate) {
	c.Records++
	if e.Missing {
		c.Missing++
	}
	if !e.Converged {
		c.NotConverged++
	}
	if d := e.Detection; d != nil {
		switch d.Kind {
		case hafvf.Outlier:
			c.Outliers++
		case hafvf.Change:
			c.Changes++
		}
	}
	if e.Silence != nil && !e.Silence.Told {
		c.Silences++
	}
	if a := e.Alarm; a != nil {
		switch hafvf.AlarmKind(a.Kind) {
		case hafvf.NoveltyAlarm:
			c.NoveltyAlarms++
		case hafvf.ChangeAlarm:
			c.ChangeAlarms++
		}
	}
}

// addMetrics adds a bundle's counts to the metrics.
func addMetrics(ctx context.Context, c account.Counts) {
	for _, m := range []struct {
		counter beam.Counter
		n       int64
	}{
		{recordsCounter, c.Records}, {rejectedCounter, c.Rejected}, {lateCounter, c.Late},
		{missingCounter, c.Missing}, {notConvergedCounter, c.NotConverged}, {keysCounter, c.Keys},
		{sessionsCounter, c.Sessions}, {changesCounter, c.Changes}, {outliersCounter, c.Outliers},
		{noveltyCounter, c.NoveltyAlarms}, {changeAlarmCounter, c.ChangeAlarms}, {silencesCounter, c.Silences},
	} {
		if m.n > 0 {
			m.counter.Inc(ctx, m.n)
		}
	}
}
