package transforms

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	register.Function8x1((&filterFn{}).ProcessElement)
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
	// Cells names the states that keys share, by hash. Keys that have a record now and
	// then cost less so, and a worker's memory. The names are the runner's keys. Default
	// none: every key has a state of its own.
	Cells []string
	// Migrate has states in Cells that were written under another configuration carried over,
	// as a Migrator does, when the first records come. Default: they are an error.
	Migrate bool
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

// waits reports whether observations can wait for earlier ones.
func (c Config) waits() bool { return c.Order == EventTime && c.Lateness > 0 }

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
// written under another configuration fails the pipeline, or with Config.Migrate is carried
// over.
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
	est, err := NewEstimator(cfg)
	if err != nil {
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
	if n := len(cfg.Cells); n > 0 {
		// A runner that resumes a job finds its steps by name: with another number of
		// cells, keys would not find their states.
		s = s.Scope(fmt.Sprintf("%d cells", n))
	}
	timed := live || est.cfg.waits()
	blocks, early := beam.ParDo2(s, &packFn{Config: string(text), Timed: timed}, col)
	if timed {
		blocks = beam.Flatten(s, blocks, beam.ParDo(s, &resumeFn{Config: string(text), Live: live}, beam.Impulse(s)))
	}
	estimates, silent, late := beam.ParDo3(s, &filterFn{Config: string(text), Live: live, State: state.MakeValueState[[]byte]("entity"), Log: state.MakeBagState[[]byte]("log"), Settings: state.MakeValueState[[]byte]("settings"), Due: timers.InEventTime("due")}, blocks)
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
	Timed  bool // cells have timers

	cfg       Config
	estimator *Estimator
	keys      []string
	blocks    map[string]*block
	size      int
	called    bool // all cells are, to be carried over
	counts    account.Counts
}

type block struct {
	bytes []byte
	at    mtime.Time // earliest event time
	times wait       // of all observations
}

// packBytes bounds what a bundle holds back.
const packBytes = 64 << 20

func (fn *packFn) Setup() (err error) {
	if fn.estimator, err = parseEstimator(fn.Config); err != nil {
		return err
	}
	fn.cfg = fn.estimator.cfg
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
	b.times.add(wait{o.Time, o.Time})
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
		if fn.cfg.Order == Arrival || fn.Timed {
			// A runner may sort by event time. Blocks of one time keep their order. Blocks
			// of that time do not wait for timers either: the embedded runner holds back
			// what is later than a timer of its cell, until the watermark has passed that.
			// The source of a topic waits for the records that are held back, and the
			// watermark for the source.
			b.at = mtime.ZeroTimestamp
		}
		emit(b.at, cellName(key, fn.cfg.Cells), encodeBlock(key, b.times, b.bytes))
	}
	clear(fn.blocks)
	fn.keys, fn.size = fn.keys[:0], 0
}

// encodeBlock encodes observations of the key, of those times.
func encodeBlock(key string, times wait, observations []byte) []byte {
	const header = 48 // bytes at most, but for the key
	b := appendString(make([]byte, 0, header+len(key)+len(observations)), key)
	b = appendTime(b, times.first)
	b = appendTime(b, times.last)
	return append(b, observations...)
}

// callCells has every cell read, and so carried over, those too of which no key has a
// record.
func (fn *packFn) callCells(emit func(beam.EventTime, string, []byte)) {
	if fn.called || !fn.cfg.Migrate {
		return
	}
	fn.called = true
	for _, cell := range fn.cfg.Cells {
		emit(mtime.ZeroTimestamp, cell, encodeBlock("", wait{}, nil))
	}
}

func (fn *packFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, []byte), _ func(Rejected)) {
	fn.callCells(emit)
	fn.flush(emit)
	addMetrics(ctx, fn.counts)
	n := int(fn.counts.Rejected)
	account.Of(fn.cfg.Account).Report(account.Report{Taken: n, Emitted: n, Counts: fn.counts})
	fn.counts = account.Counts{}
}

// filterFn runs the filter over blocks of one key's observations, which come to it by
// cells. Every read and write of a state is a round trip to the runner. So blocks are
// processed in batches, and the cells of a batch are read in parallel, as those of a
// bundle are written. The keys of a batch are worked in parallel too, each on one
// goroutine at a time.
type filterFn struct {
	Config   string
	Live     bool // keys are told that are silent
	State    state.Value[[]byte]
	Log      state.Bag[[]byte]
	Settings state.Value[[]byte] // of Cells
	Due      timers.EventTime

	cfg        Config
	states     cellState
	estimators []*Estimator // one per goroutine
	carry      carrying
	account    *account.Run
	queue      []arrival
	cells      map[string]*opened
	order      []*opened
	report     account.Report
	iterations []int64
}

// arrival is a block in the queue, with access to its cell's state.
type arrival struct {
	cell  string
	key   string
	block []byte
	state state.Provider
}

// opened is a cell during a bundle, with access to its state.
type opened struct {
	*cell
	name  string
	to    state.Provider
	keys  map[string]*held
	order []*held
}

// held is an entity during its bundle.
type held struct {
	entity
	key   string
	state []byte // at the beginning of the bundle, and at its end
	found bool   // the key had a state
	warm  bool   // the account has the key among those that warm up

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
	fn.states = cellState{head: &fn.State, log: &fn.Log, settings: &fn.Settings}
	if len(fn.cfg.Cells) > 0 { // the text would be larger than the state of one key
		fn.states.text = settingsText(fn.cfg.jobSettings())
		fn.states.own = fingerprintOf(fn.states.text)
	}
	return nil
}

func (fn *filterFn) StartBundle(func(beam.EventTime, string, Estimate), func(beam.EventTime, string, Silent), func(Rejected)) {
	fn.queue, fn.order = fn.queue[:0], nil
	fn.cells = map[string]*opened{}
	fn.carry.outcomes = nil
	fn.account = account.Of(fn.cfg.Account)
}

func (fn *filterFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, cell string, packed []byte, emit func(beam.EventTime, string, Estimate), _ func(beam.EventTime, string, Silent), reject func(Rejected)) error {
	r := &reader{b: packed}
	a := arrival{cell: cell, key: r.string(), state: sp}
	times := wait{r.time(), r.time()}
	if a.block = r.b; r.bad {
		return errCut
	}
	if len(a.block) == 0 && times == (wait{}) { // the cell is called, and no key of it
		return fn.read([]arrival{a})
	}
	fn.queue = append(fn.queue, a)
	if fn.Live || fn.cfg.waits() {
		// A timer can be set for the cell at hand only. What it is set for is known when
		// the block is processed. Until then all its observations may wait, and the key
		// may be silent as soon as it has spoken.
		if err := fn.read(fn.queue[len(fn.queue)-1:]); err != nil {
			return err
		}
		c := fn.cells[cell]
		if fn.cfg.waits() && c.timers.add(times) {
			fn.schedule(tp, c)
		}
		if fn.Live {
			fn.guard(tp, c, a.key, times.first)
		}
	}
	if len(fn.queue) < batchBlocks {
		return nil
	}
	return fn.drain(emit, reject)
}

// drain processes the queue.
func (fn *filterFn) drain(emit func(beam.EventTime, string, Estimate), reject func(Rejected)) error {
	if err := fn.read(fn.queue); err != nil {
		return err
	}
	var unopened, active []*held
	for _, a := range fn.queue {
		e, known := fn.cells[a.cell].hold(a.key)
		if !known {
			unopened = append(unopened, e)
		}
		if e.blocks == nil {
			active = append(active, e)
		}
		e.blocks = append(e.blocks, a.block)
	}
	if err := fn.open(unopened); err != nil {
		return err
	}
	if err := fn.work(active, emit, reject); err != nil {
		return err
	}
	for _, a := range fn.queue {
		c := fn.cells[a.cell]
		fn.note(c, c.keys[a.key])
	}
	fn.queue = fn.queue[:0]
	return nil
}

// hold returns the entity of the key, and whether the bundle had it already.
func (c *opened) hold(key string) (e *held, known bool) {
	if e = c.keys[key]; e != nil {
		return e, true
	}
	e = &held{key: key, state: c.entity(key)}
	e.found = e.state != nil
	c.keys[key] = e
	c.order = append(c.order, e)
	return e, false
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

// read reads the cells of arrivals that the bundle has not got.
func (fn *filterFn) read(queue []arrival) error {
	var unread []*opened
	for _, a := range queue {
		if fn.cells[a.cell] == nil {
			c := &opened{name: a.cell, to: a.state, keys: map[string]*held{}}
			fn.cells[a.cell] = c
			unread = append(unread, c)
		}
	}
	fn.order = append(fn.order, unread...)
	err := roundTrip(unread, func(c *opened) (err error) {
		alone := ""
		if len(fn.cfg.Cells) == 0 {
			alone = c.name
		}
		if c.cell, err = fn.states.read(c.to, alone); err != nil {
			return err
		}
		if err := fn.carry.over(fn.states, c, fn.cfg); err != nil {
			return err
		}
		if fn.cfg.waits() {
			c.findWaits()
		}
		return nil
	})
	if err != nil || !fn.Live {
		return err
	}
	for _, c := range unread {
		if err := fn.findDeadlines(c.cell); err != nil {
			return fmt.Errorf("state %q: %w", c.name, err)
		}
	}
	return nil
}

// open decodes the states of entities, or those of the previous run where they have none.
func (fn *filterFn) open(unopened []*held) error {
	for _, e := range unopened {
		if !e.found {
			e.state = fn.account.Restore(e.key)
		}
	}
	parallel.Do(len(unopened), len(fn.estimators), func(worker, i int) {
		unopened[i].open(fn.estimators[worker])
	})
	for _, e := range unopened {
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
func (e *held) open(est *Estimator) {
	if e.state == nil {
		e.entity = entity{Track: est.NewTrack(e.key)}
		return
	}
	e.entity, e.err = est.decodeEntity(e.key, e.state)
}

// roundTrip calls f for every cell, roundTrips at a time, and returns the first error
// with its cell.
func roundTrip(list []*opened, f func(*opened) error) error {
	var g errgroup.Group
	g.SetLimit(roundTrips)
	for _, c := range list {
		g.Go(func() error {
			if err := f(c); err != nil {
				return fmt.Errorf("state %q: %w", c.name, err)
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

// note notes when a key of the cell has to be looked at again.
func (fn *filterFn) note(c *opened, e *held) {
	if fn.cfg.waits() {
		c.waits[e.key] = e.wait()
		if len(e.waiting) == 0 {
			delete(c.waits, e.key)
		}
	}
	if fn.Live {
		c.deadlines[e.key] = e.deadline(fn.cfg)
		if c.deadlines[e.key].IsZero() {
			delete(c.deadlines, e.key)
		}
	}
}

// schedule sets a timer for the earliest observation of a cell that may wait, and one for
// the latest. At the end of a bounded input the watermark passes both at once, and the
// second saves one timer for each observation between.
func (fn *filterFn) schedule(tp timers.Provider, c *opened) {
	fn.set(tp, c.timers.first.Add(fn.cfg.Lateness), "first")
	fn.set(tp, c.timers.last.Add(fn.cfg.Lateness), "last")
}

// set sets a timer of the cell at hand. Timers count milliseconds: it fires at the end of
// the one that t is in.
func (fn *filterFn) set(tp timers.Provider, t time.Time, tag string) {
	fn.Due.Set(tp, t.Add(time.Millisecond-1), timers.WithTag(tag))
}

// OnTimer releases the observations that the watermark has passed, and tells of the keys
// that are silent.
func (fn *filterFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, cell string, timer timers.Context, emit func(beam.EventTime, string, Estimate), tell func(beam.EventTime, string, Silent), reject func(Rejected)) error {
	silence := timer.Tag == silentTag
	if silence {
		select {
		case <-fn.account.Stopped():
			return nil // the input ends, and no key is silent for that
		default:
		}
	}
	if err := fn.drain(emit, reject); err != nil {
		return err
	}
	if err := fn.read([]arrival{{cell: cell, state: sp}}); err != nil {
		return err
	}
	c := fn.cells[cell]
	now := ts.ToTime()
	horizon := now.Add(-fn.cfg.Lateness)
	due := map[string]bool{}
	for key, w := range c.waits {
		if !w.first.After(horizon) {
			due[key] = true
		}
	}
	if silence {
		for key, deadline := range c.deadlines {
			if !deadline.After(now) {
				due[key] = true
			}
		}
	}
	var unopened, active []*held
	for _, key := range slices.Sorted(maps.Keys(due)) { // the output has one order
		e, known := c.hold(key)
		if !known {
			unopened = append(unopened, e)
		}
		active = append(active, e)
	}
	if err := fn.open(unopened); err != nil {
		return err
	}
	for _, e := range active {
		e.released = e.due(horizon)
	}
	if err := fn.work(slices.Clone(active), emit, reject); err != nil {
		return err
	}
	for _, e := range active {
		if silence {
			fn.tell(now, e, tell)
		}
		fn.note(c, e)
	}
	if c.timers = c.wait(); len(c.waits) > 0 {
		fn.schedule(tp, c)
	}
	if fn.Live {
		fn.watch(tp, c)
	}
	return nil
}

// FinishBundle processes the rest of the queue and writes the cells of the bundle.
func (fn *filterFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, Estimate), _ func(beam.EventTime, string, Silent), reject func(Rejected)) error {
	if err := fn.drain(emit, reject); err != nil {
		return err
	}
	var all []*held
	for _, c := range fn.order {
		all = append(all, c.order...)
	}
	fn.report.States = make([]account.KeyState, len(all))
	parallel.Do(len(all), len(fn.estimators), func(_, i int) {
		e := all[i]
		e.state = e.append(nil)
		fn.report.States[i] = account.KeyState{Key: e.key, State: e.state, Waiting: e.places()}
	})
	err := roundTrip(fn.order, func(c *opened) error { return fn.states.write(c.to, c.cell, c.order) })
	addMetrics(ctx, fn.report.Counts)
	for _, n := range fn.iterations {
		iterationsDist.Update(ctx, n)
	}
	if err == nil {
		fn.account.Report(fn.report)
		fn.carry.report(ctx)
	}
	fn.cells, fn.order, fn.report, fn.iterations = nil, nil, account.Report{}, fn.iterations[:0]
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
	migratedCounter     = beam.NewCounter("hafvf", "migrated")
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
