package transforms

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/compact"
	"hafvf/internal/parallel"
	"hafvf/internal/reminder"
)

// encodeFn is the node that runs the filter over blocks of one key's observations, which come to it by
// cells, and emits what encoders make of the estimates. Every read and write of a state is a round
// trip to the runner. So blocks are processed in batches, and the cells of a batch are read in
// parallel, as those of a bundle are written. The keys of a batch are worked in parallel too, each on
// one goroutine at a time.
type encodeFn struct {
	Config   string
	Encoder  Registered
	State    state.Value[[]byte]
	Log      state.Bag[[]byte]
	Settings state.Value[[]byte] // of Cells
	Due      timers.EventTime

	cfg        stepConfig
	states     cellState
	memory     *statestore.Memory   // of the run, in place of the runner's states; nil without one
	own        map[string]*openCell // with memory, the cells that this node has used
	timersSet  map[string]time.Time // by cell, what this node has set the timer for
	woken      time.Time            // the latest time at which it has looked at keys of any cell
	workers    []*worker            // one per goroutine
	carry      migratingCells
	account    *account.Run
	free       []*openKey // of bundles before
	late       error      // of an observation that was late, the last that is known
	rejections rejections
	bundle
}

// A bundle is what a node works on from StartBundle to FinishBundle.
type bundle struct {
	// Beam hands a bundle's emitters to each call; those of StartBundle serve until FinishBundle.
	record, alert   func([]byte)
	reject          func(keyed.Rejected)
	queue           []queuedBlock
	cells           map[string]*openCell
	order           []*openCell
	keys            map[string]*openKey // that are open
	report          account.Report
	records, alerts chunk // that are encoded and not emitted yet
}

// A worker is what one goroutine works with.
type worker struct {
	*keyed.Estimator
	encoder    Encoder
	encoded    Encoded // of all keys that it has worked on in a group
	estimate   keyed.Estimate
	memory     keyed.Memory // of estimate
	x          [][]float64  // of the observation that is encoded
	counts     account.Counts
	late       error // of the first observation of a group that is late; nil for none
	iterations []int64
	state      []byte // that goes to the memory
}

// queuedBlock is a block in the queue, with access to its cell's state.
type queuedBlock struct {
	cell  string
	key   string
	block blockBytes
	state state.Provider
}

// A piece is a block's bytes, and the same as text.
type blockBytes struct {
	bytes []byte
	text  string
}

// openCell is a cell during a bundle, with access to its state.
type openCell struct {
	*cell
	name  string
	to    state.Provider
	order []*openKey // its keys that are open, and those that were dropped
	first int        // place of its first entity among all that are open
}

// alone names the only key of the cell, where it has but one.
func (c *openCell) alone(cfg stepConfig) string {
	if len(cfg.Cells) == 0 {
		return c.name
	}
	return ""
}

// readable returns the error after which what was not found in the cell may be there.
func (c *openCell) readable() error {
	if err := c.Err(); err != nil {
		return fmt.Errorf("state %q: %w", c.name, err)
	}
	return nil
}

// openKey is an entity that is open: until the end of the bundle, as the runner's states are written
// there, or until the end of a batch if the run has a memory, which costs little.
type openKey struct {
	keyed.KeyState
	key     string
	of      *openCell
	state   []byte // before it was opened, and then after
	found   bool   // the key had a state
	touched bool   // from this run
	forgot  bool   // the key was forgotten, and nothing of it has come since
	// counted says that the key is among those that were seen, and not forgotten since.
	counted bool

	blocks  []blockBytes       // of the batch, that are not begun yet
	reading keyed.Observations // of the block before these
	more    bool               // there may be outputs for another round

	// Of the round:
	by        *worker // that has encoded the estimates, in from to end
	from, end Encoded // as it was before and after
	rejected  []keyed.Rejected
	outputs   int
	taken     int
	err       error
}

const (
	batchBlocks = 512
	roundTrips  = 16 // at the same time
	// roundSteps bounds the outputs of a key that are held back until those of the keys
	// before it are emitted.
	roundSteps = 64
	// groupKeys is the number of keys per goroutine of which outputs are held back.
	groupKeys = 32
	// mostFree is the number of entities whose memory is kept for the next ones.
	mostFree = 1 << 12
)

func (fn *encodeFn) Setup(ctx context.Context) error {
	fn.account = account.From(ctx)
	fn.own, fn.timersSet = map[string]*openCell{}, map[string]time.Time{}
	fn.workers = make([]*worker, runtime.GOMAXPROCS(0))
	for i := range fn.workers {
		est, cfg, err := parseEstimator(fn.Config)
		if err != nil {
			return err
		}
		fn.cfg = cfg
		fn.workers[i] = &worker{Estimator: est, encoder: registered[Encoder](ctx, fn.Encoder)}
	}
	fn.states = cellState{head: &fn.State, log: &fn.Log, settings: &fn.Settings}
	fn.memory = account.Value[*statestore.Memory](fn.account, "")
	if len(fn.cfg.Cells) > 0 { // the text would be larger than the state of one key
		fn.states.text = fn.cfg.Config.AllSettings().String()
		fn.states.own = keyed.FingerprintOf(fn.states.text)
	}
	return nil
}

func (fn *encodeFn) StartBundle(emit, alert func([]byte), reject func(keyed.Rejected)) {
	if fn.cells != nil {
		clear(fn.timersSet) // the bundle before has failed
	}
	fn.bundle = bundle{record: emit, alert: alert, reject: reject, queue: fn.queue[:0], cells: map[string]*openCell{}, keys: map[string]*openKey{}}
	fn.carry.outcomes = nil
	passed := fn.account.Watermark()
	for _, w := range fn.workers {
		w.SetWatermark(passed)
	}
}

// ProcessElement takes the blocks of an element into the queue. Without one the cell is called.
func (fn *encodeFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, cell string, packed []byte, _, _ func([]byte), _ func(keyed.Rejected)) error {
	if len(packed) == 0 {
		if err := fn.read([]queuedBlock{{cell: cell, state: sp}}); err != nil {
			return err
		}
		return fn.resume(tp, fn.cells[cell])
	}
	if fn.cfg.AtEnd {
		fn.awaitEnd(tp)
	}
	text := string(packed) // once for all blocks
	for r := (&compact.Reader{B: packed}); len(r.B) > 0; {
		key, times := r.Text(), waitSpan{r.Time(), r.Time()}
		size := r.Count(1)
		if r.Bad {
			return compact.ErrCut
		}
		from := len(packed) - len(r.B)
		b := blockBytes{r.B[:size:size], text[from : from+size]}
		if err := fn.enqueue(tp, queuedBlock{cell, key, b, sp}, times); err != nil {
			return err
		}
		r.B = r.B[size:]
	}
	return nil
}

// enqueue takes a block of those times into the queue.
func (fn *encodeFn) enqueue(tp timers.Provider, a queuedBlock, times waitSpan) error {
	fn.queue = append(fn.queue, a)
	if !times.first.IsZero() { // else the key is forgotten, or has shown nothing that its family has
		if fn.emitsSilences() || fn.cfg.waits() {
			if err := fn.read(fn.queue[len(fn.queue)-1:]); err != nil {
				return err
			}
		}
		fn.planBlock(tp, fn.cells[a.cell], a.cell, a.key, times)
	}
	if len(fn.queue) < batchBlocks {
		return nil
	}
	return fn.drain()
}

// drain processes the queue.
func (fn *encodeFn) drain() error {
	if err := fn.read(fn.queue); err != nil {
		return err
	}
	var unopened, active []*openKey
	for _, a := range fn.queue {
		e, known := fn.openState(fn.cells[a.cell], a.key)
		if !known {
			unopened = append(unopened, e)
		}
		if len(e.blocks) == 0 {
			active = append(active, e)
		}
		e.blocks = append(e.blocks, a.block)
	}
	if err := fn.open(unopened); err != nil {
		return err
	}
	if err := fn.work(active); err != nil {
		return err
	}
	for _, a := range fn.queue {
		fn.note(fn.cells[a.cell], fn.keys[a.key])
	}
	clear(fn.queue)
	fn.queue = fn.queue[:0]
	fn.storeStates()
	return nil
}

// openState returns the entity of the key, and whether it was open already.
func (fn *encodeFn) openState(c *openCell, key string) (e *openKey, known bool) {
	if e = fn.keys[key]; e != nil {
		return e, true
	}
	if n := len(fn.free); n > 0 {
		e, fn.free = fn.free[n-1], fn.free[:n-1]
	} else {
		e = &openKey{}
	}
	e.key, e.of = key, c
	fn.keys[key] = e
	c.order = append(c.order, e)
	return e, false
}

// openIn are the entities of a cell that are open, without those that were dropped.
func (fn *encodeFn) openIn(c *openCell) iter.Seq[*openKey] {
	return func(yield func(*openKey) bool) {
		for _, e := range c.order {
			if fn.keys[e.key] == e && !yield(e) {
				return
			}
		}
	}
}

// work processes the blocks of the keys in rounds. In a round every key makes its next
// outputs, groups of them in parallel; then these are emitted, key by key in the order of
// active. That order does not depend on the number of goroutines, and a key with most of
// the observations comes last.
func (fn *encodeFn) work(active []*openKey) error {
	for len(active) > 0 {
		rest := active[:0]
		for group := range slices.Chunk(active, groupKeys*len(fn.workers)) {
			parallel.Do(len(group), len(fn.workers), func(worker, i int) {
				group[i].step(fn.workers[worker])
			})
			for _, e := range group {
				if e.err != nil {
					return fmt.Errorf("key %q: %w", e.key, e.err)
				}
				fn.emit(e)
				if e.more {
					rest = append(rest, e)
				}
			}
			fn.flush()
		}
		active = rest
	}
	return nil
}

// flush ends the work on a group: what the workers have encoded is in chunks.
func (fn *encodeFn) flush() {
	for _, w := range fn.workers {
		fn.report.Counts.Add(w.counts)
		w.counts = account.Counts{}
		w.encoded.reset()
		w.encoder.Flush()
		if w.late != nil {
			logLate(w.late)
			fn.late, w.late = w.late, nil
		}
	}
}

// lates is of late observations of all nodes of this process.
var lates struct {
	sync.Mutex
	reminder.Reminder
}

// logLate says of an observation that it is late, at first and then once a minute.
func logLate(why error) {
	lates.Lock()
	defer lates.Unlock()
	if lates.Due(time.Minute) {
		slog.Warn("an observation is rejected; a longer Lateness lets observations wait for earlier ones", "reason", why)
	}
}

// read reads the cells of arrivals that the bundle has not got.
func (fn *encodeFn) read(queue []queuedBlock) error {
	var unread []*openCell
	for _, a := range queue {
		if fn.cells[a.cell] == nil {
			c := fn.own[a.cell]
			if c == nil {
				c = &openCell{name: a.cell}
			}
			c.to = a.state
			fn.cells[a.cell] = c
			unread = append(unread, c)
		}
	}
	fn.order = append(fn.order, unread...)
	err := fn.fetch(unread)
	if err != nil {
		return err
	}
	if !fn.emitsSilences() && !fn.cfg.waits() {
		return nil
	}
	for _, c := range unread {
		if c.agenda.first == nil {
			if err := fn.plan(c, time.Time{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch gets cells from the memory, or else from the runner.
func (fn *encodeFn) fetch(unread []*openCell) error {
	if fn.memory == nil {
		return roundTrip(unread, func(c *openCell) (err error) {
			if c.cell, err = fn.states.read(c.to, c.alone(fn.cfg)); err != nil {
				return err
			}
			return fn.carry.over(fn.states, c, fn.cfg)
		})
	}
	for _, c := range unread {
		if c.cell == nil {
			c.cell = &cell{Cell: fn.memory.Cell(c.name)}
			fn.own[c.name] = c
		}
	}
	return nil
}

// open gets and decodes the states of entities, or those of the previous run where they have none.
func (fn *encodeFn) open(unopened []*openKey) error {
	readers := len(fn.workers)
	if fn.memory == nil {
		readers = roundTrips // some are on a disk
	}
	parallel.Do(len(unopened), readers, func(_, i int) {
		e := unopened[i]
		e.state = e.of.Get(e.key)
		e.found = e.state != nil
		e.touched = e.found && (fn.memory == nil || !e.of.Marked(e.key))
	})
	for _, e := range unopened {
		if err := e.of.readable(); err != nil {
			return err
		}
		if !e.found {
			e.state, e.err = fn.account.Restore(e.key)
		}
	}
	parallel.Do(len(unopened), len(fn.workers), func(worker, i int) {
		e := unopened[i]
		if e.err == nil {
			e.KeyState, e.err = fn.workers[worker].Open(e.key, e.state)
		}
		if e.err != nil && !errors.Is(e.err, keyed.ErrOtherConfig) {
			e.reset(fn.workers[worker])
		}
	})
	for _, e := range unopened {
		if e.err != nil {
			return fmt.Errorf("key %q: %w", e.key, e.err)
		}
		if e.counted = true; !e.touched {
			fn.report.Counts.Keys++
		}
		matched(fn.account, fn.cfg.Keys, e.key)
	}
	return nil
}

// opened returns the entities of keys of a cell, open.
func (fn *encodeFn) opened(c *openCell, keys []string) ([]*openKey, error) {
	var all, unopened []*openKey
	for _, key := range keys {
		e, known := fn.openState(c, key)
		if !known {
			unopened = append(unopened, e)
		}
		all = append(all, e)
	}
	return all, fn.open(unopened)
}

// reset has a key begin anew whose state cannot be read, and says so in the dead letter. One
// state must not stop the others.
func (e *openKey) reset(w *worker) {
	e.rejected = append(e.rejected, keyed.Rejected{Key: e.key, Reason: fmt.Sprintf("the state of the key %q cannot be read, and the key begins anew: %v", e.key, e.err), Reset: true})
	w.counts.Reset++
	e.KeyState, e.err = w.Open(e.key, nil)
}

// matched tells the account which rule the key matches.
func matched(a *account.Run, rules []keyed.Rule, key string) {
	if i := slices.IndexFunc(rules, func(r keyed.Rule) bool { return r.Matches(key) }); i >= 0 {
		a.Matched(i)
	}
}

// roundTrip calls f for every cell, roundTrips at a time, and returns the first error
// with its cell.
func roundTrip(list []*openCell, f func(*openCell) error) error {
	errs := make([]error, len(list))
	parallel.Do(len(list), roundTrips, func(_, i int) { errs[i] = f(list[i]) })
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return fmt.Errorf("state %q: %w", list[i].name, errs[i])
	}
	return nil
}

// step makes the key's next outputs, about roundSteps of them.
func (e *openKey) step(w *worker) {
	e.Bind(w.Estimator)
	e.by, e.from, e.more = w, w.encoded, true
	defer func() { e.end = w.encoded }()
	for e.outputs < roundSteps {
		o, due := e.Due()
		e.emitEndedSilences(w)
		switch {
		case due:
			e.learn(w, &o)
		case e.reading.More():
			o, err := e.reading.Next(w.x)
			if err != nil {
				e.err = err
				return
			}
			w.x = o.X
			switch e.forgot = e.forgot && o.OutOfDomain || o.Shape == keyed.Forget; {
			case o.OutOfDomain:
				e.takeOutside(w, &o)
			case e.forgot:
				e.takeTombstone(w, &o)
			default:
				e.take(w, &o)
			}
		case len(e.blocks) > 0:
			e.reading = keyed.ReadObservations(e.blocks[0].bytes, e.blocks[0].text)
			e.blocks = e.blocks[1:]
		default:
			e.blocks, e.reading, e.more = nil, keyed.Observations{}, false
			return
		}
	}
}

// emitEndedSilences tells of silences that are over, and then that the key has begun anew.
func (e *openKey) emitEndedSilences(w *worker) {
	for _, s := range e.EndedSilences() {
		e.outputs++
		if !s.Reported || s.Until.IsZero() {
			w.counts.Silences++
		}
		w.encoder.Silent(&w.encoded, e.key, s)
	}
	if e.Expired() {
		w.counts.ExpiredKeys++
		w.encoder.Forgotten(&w.encoded, e.key)
	}
}

// forget forgets the key, and what waits of it.
func (e *openKey) forget(w *worker) {
	e.forgot = true
	e.KeyState, e.err = w.Open(e.key, nil)
	w.encoder.Forgotten(&w.encoded, e.key)
}

// takeTombstone forgets the key. If nothing is known of it, it rejects the tombstone.
func (e *openKey) takeTombstone(w *worker, o *keyed.Observation) {
	e.taken++
	if e.found || !e.IsNew() {
		w.counts.Forgotten++
		e.found = false
		e.forget(w)
	} else {
		e.outputs++
		if e.counted {
			w.counts.Keys--
		}
		e.reject(w, o, fmt.Sprintf("a tombstone of the key %q, of which nothing is known: nothing is forgotten", e.key))
	}
	e.counted = false
}

// takeOutside tells of an observation that was rejected for its numbers, if that is an alarm. If
// nothing is known of the key, no state begins with it.
func (e *openKey) takeOutside(w *worker, o *keyed.Observation) {
	e.taken++
	if e.IsNew() {
		if e.forgot = true; e.counted {
			e.counted = false
			w.counts.Keys--
		}
		return
	}
	switch out := e.OutOfDomain(o); {
	case out == nil:
	case out.Detection.Muted:
		w.counts.Muted++
	default:
		e.outputs++
		w.counts.NoveltyAlarms++
		w.encoder.Outside(&w.encoded, e.key, out)
	}
}

// take learns an observation, or has it wait, or rejects it.
func (e *openKey) take(w *worker, o *keyed.Observation) {
	if e.taken++; !e.counted {
		e.counted = true
		w.counts.Keys++
	}
	now, err := e.Take(o)
	if err != nil {
		e.outputs++
		if late := (*keyed.LateError)(nil); errors.As(err, &late) {
			w.counts.Late++
			if w.late == nil {
				w.late = fmt.Errorf("key %q: %w", e.key, err)
			}
			if late.Idle {
				w.counts.LateIdle++
			} else {
				w.counts.Behind = max(w.counts.Behind, late.Behind)
			}
		}
		e.reject(w, o, err.Error())
		return
	}
	e.emitEndedSilences(w)
	if from, turned := e.Rewound(); turned {
		w.counts.Rewound++
		w.encoder.Rewound(e.key, from, o.Time)
	}
	if now {
		e.learn(w, o)
	}
}

// reject rejects an observation.
func (e *openKey) reject(w *worker, o *keyed.Observation, why string) {
	w.counts.Rejected++
	e.rejected = append(e.rejected, keyed.Rejected{Key: e.key, Observation: o.Clone(), Reason: why})
}

// learn makes the estimate of one observation: predict, then learn.
func (e *openKey) learn(w *worker, o *keyed.Observation) {
	e.outputs++
	out := &w.estimate
	e.Learn(&w.memory, out, o)
	if out.Reset {
		w.counts.Reset++
	}
	if out.SkipReason != "" {
		e.reject(w, o, out.SkipReason)
		if out.Panic != nil {
			w.counts.Panics++
			e.rejected[len(e.rejected)-1].Panic = out.Panic
		}
		return
	}
	w.encoder.Estimate(&w.encoded, e.key, out)
	countEstimate(&w.counts, out)
	if !out.Missing {
		w.iterations = append(w.iterations, int64(out.Iterations))
	}
}

// emit emits the outputs of the key's round.
func (fn *encodeFn) emit(e *openKey) {
	fn.put(e.by.encoded, e.from, e.end)
	for _, r := range e.rejected {
		fn.reject(r)
	}
	fn.report.Taken += e.taken
	clear(e.rejected)
	e.rejected, e.by = e.rejected[:0], nil
	e.outputs, e.taken = 0, 0
}

// put adds what was encoded between two moments to the chunks.
func (fn *encodeFn) put(all, from, end Encoded) {
	fn.records.add(all.Records[len(from.Records):len(end.Records)], fn.record)
	fn.alerts.add(all.Alerts[len(from.Alerts):len(end.Alerts)], fn.alert)
}

// note notes when a key of the cell has to be looked at again.
func (fn *encodeFn) note(c *openCell, e *openKey) {
	if c.agenda.first != nil {
		c.agenda.set(e.key, fn.nextOf(e), c.Len(), time.Time{})
	}
}

// set sets a timer of the cell at hand.
func (fn *encodeFn) set(tp timers.Provider, cell string, t time.Time, tag string) {
	fn.Due.Set(tp, fn.account.NextStep(wholeMillis(t)), timers.WithTag(tag))
}

// wholeMillis is the end of the millisecond that t is in: timers count milliseconds, and are never
// too early.
func wholeMillis(t time.Time) time.Time {
	return t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// OnTimer looks at the keys of a cell when a timer fires: it releases the observations that the
// watermark has passed, tells of the keys that are silent, and forgets those that have expired.
func (fn *encodeFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, cell string, timer timers.Context, _, _ func([]byte), _ func(keyed.Rejected)) error {
	ends, stopped, aggregates := timer.Tag == endTag, fn.account.IsStopped(), fn.cfg.Aggregate != nil
	switch {
	case fn.account.Suspended(): // asked after IsStopped: it is not a run whose input ends
		return nil
	case ends && stopped && !aggregates:
		return nil // the input ends, and no key is silent for that
	}
	if err := fn.drain(); err != nil {
		return err
	}
	if err := fn.read([]queuedBlock{{cell: cell, state: sp}}); err != nil {
		return err
	}
	c, now := fn.cells[cell], later(ts.ToTime(), fn.account.Watermark()) // all at once that it has passed
	horizon := now.Add(-fn.workers[0].MaxDelay())
	if ends {
		now = fn.account.Latest()
	}
	due, err := fn.dueIn(c, now, ends)
	if err != nil {
		return err
	}
	if !ends {
		fn.woken, c.woken = later(fn.woken, now), later(c.woken, now) // what is due by now is known
	}
	for part := range slices.Chunk(due, batchBlocks) {
		active, err := fn.opened(c, part)
		if err != nil {
			return err
		}
		for _, e := range active {
			switch {
			case !aggregates || !ends && !stopped:
				e.Release(horizon)
			case stopped: // the input ends there, and nothing is known of the time after it
				e.End(time.Time{})
			case fn.cfg.GoesOn:
				e.Release(now.Add(-fn.workers[0].MaxDelay()))
			default:
				e.End(now)
			}
		}
		if err := fn.work(slices.Clone(active)); err != nil {
			return err
		}
		for _, e := range active {
			if !stopped && (ends || fn.emitsSilences()) {
				fn.emitSilence(now, e)
			}
		}
		if ends && aggregates {
			// Intervals without events go on after a silence that is not told. In an input without an
			// end a timer sees to that.
			if err := fn.work(slices.Clone(active)); err != nil {
				return err
			}
		}
		for _, e := range active {
			switch {
			case stopped:
				delete(c.agenda.first, e.key)
			case fn.expired(e, now):
				fn.drop(c, e)
			default:
				fn.note(c, e)
			}
		}
		fn.storeStates()
	}
	if !stopped {
		delete(fn.timersSet, cell)
		fn.setTimer(tp, cell, c.agenda.next())
	}
	return c.readable()
}

// resume sets the timers of a cell of a run before.
func (fn *encodeFn) resume(tp timers.Provider, c *openCell) error {
	if fn.memory == nil {
		return nil // the runner has them
	}
	if fn.cfg.AtEnd {
		fn.awaitEnd(tp)
	}
	if c.agenda.first == nil {
		if err := fn.plan(c, time.Time{}); err != nil {
			return err
		}
	}
	fn.setTimer(tp, c.name, c.agenda.next())
	if fn.cfg.waits() && !c.last.IsZero() {
		fn.set(tp, c.name, c.last.Add(fn.workers[0].MaxDelay()), lastTag)
	}
	return nil
}

// FinishBundle processes the rest of the queue and writes the cells of the bundle.
func (fn *encodeFn) FinishBundle(ctx context.Context, _, _ func([]byte), _ func(keyed.Rejected)) error {
	if err := fn.drain(); err != nil {
		return err
	}
	fn.records.flush(fn.record)
	fn.alerts.flush(fn.alert)
	var err error
	if fn.memory == nil {
		fn.encode()
		err = roundTrip(fn.order, func(c *openCell) error { return fn.states.write(c.to, c.cell, c.alone(fn.cfg), c.order) })
		fn.release()
	}
	for _, w := range fn.workers {
		for _, n := range w.iterations {
			iterationsDist.Update(ctx, n)
		}
		w.iterations = w.iterations[:0]
	}
	addMetrics(ctx, fn.report.Counts)
	fn.rejections.count(int64(fn.report.Taken), fn.report.Counts.Late, fn.late)
	if err == nil {
		fn.account.Report(fn.report)
		fn.carry.report(ctx)
	}
	for _, c := range fn.order {
		c.to = nil
	}
	fn.bundle = bundle{queue: fn.queue}
	return err
}

// storeStates puts the states of the entities that are open into the memory, if there is one.
func (fn *encodeFn) storeStates() {
	if fn.memory != nil {
		fn.encode()
		fn.release()
	}
}

// encode encodes the entities that are open, for the runner or into the memory.
func (fn *encodeFn) encode() {
	n := len(fn.report.States)
	for _, c := range fn.order {
		c.first = n
		n += len(c.order)
	}
	reports := fn.account.WantsStates()
	if reports {
		fn.report.States = slices.Grow(fn.report.States, n-len(fn.report.States))[:n]
	}
	parallel.Do(len(fn.order), len(fn.workers), func(worker, i int) {
		w, c := fn.workers[worker], fn.order[i]
		for i, e := range c.order {
			switch {
			case e.forgot:
				e.state = nil
			case reports || fn.memory == nil:
				e.state, _ = e.AppendBinary(make([]byte, 0, len(e.state)+64)) // it grows little
			default:
				w.state, _ = e.AppendBinary(w.state[:0])
				e.state = w.state
			}
			if fn.memory != nil {
				c.Put(e.key, e.state)
			}
			if !reports {
				continue
			}
			s := account.EncodedState{Key: e.key, State: e.state}
			for _, p := range e.WaitingOffsets() {
				s.Waiting = append(s.Waiting, account.Offset(p))
			}
			fn.report.States[c.first+i] = s
		}
	})
}

// release lets go of the entities that are open.
func (fn *encodeFn) release() {
	for _, c := range fn.order {
		for _, e := range c.order {
			*e = openKey{rejected: e.rejected[:0]}
			if len(fn.free) < mostFree {
				fn.free = append(fn.free, e)
			}
		}
		clear(c.order)
		c.order = c.order[:0]
	}
	clear(fn.keys)
}
