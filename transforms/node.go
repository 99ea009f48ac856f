package transforms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/compact"
	"hafvf/internal/domain"
	"hafvf/internal/message"
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
	patterns   *domain.Patterns // of cfg
	schedule   schedule
	states     cellState
	memory     *statestore.Memory   // of the run, in place of the runner's states; nil without one
	quiet      *QuietTimes          // of the run; nil without any
	quietNow   *[]keyed.QuietTime   // that the workers have
	marks      *FalseMarks          // of the run; nil without any
	own        map[string]*openCell // with memory, the cells that this node has used
	timersSet  map[string]time.Time // by cell, what this node has set the timer for
	woken      time.Time            // the latest time at which it has looked at keys of any cell
	workers    []*worker            // one per goroutine
	resumed    *resumedCells
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
	order, unread   []*openCell
	keys            map[string]*openKey // that are open
	report          account.Report
	records, alerts chunk // that are encoded and not emitted yet
}

// A worker is what one goroutine works with.
type worker struct {
	*keyed.Estimator
	encoder    Encoder
	encoded    Encoded // of all keys that it has worked on in a group
	memory     keyed.Memory
	o          keyed.Observation // that is read
	counts     account.Counts
	late       error // of the first observation of a group that is late; nil for none
	iterations []int64
	state      []byte // that goes to the memory
}

// queuedBlock is a block in the queue, or a key that a timer opens.
type queuedBlock struct {
	of    *openCell
	key   string
	block blockBytes
}

// blockBytes are a block's bytes, and the same as text.
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
	fn.own, fn.timersSet, fn.resumed = map[string]*openCell{}, map[string]time.Time{}, newResumedCells()
	fn.workers = make([]*worker, runtime.GOMAXPROCS(0))
	for i := range fn.workers {
		est, cfg, err := parseEstimator(fn.Config)
		if err != nil {
			return err
		}
		fn.cfg, fn.patterns = cfg, domain.NewPatterns(cfg.Patterns())
		fn.workers[i] = &worker{Estimator: est, encoder: registered[Encoder](ctx, fn.Encoder)}
	}
	fn.schedule = schedule{waits: fn.cfg.waits(), patience: fn.workers[0].MaxDelay(), silences: fn.cfg.Live && fn.cfg.Silence != nil}
	if fn.cfg.Live {
		fn.schedule.expire, fn.schedule.part = fn.cfg.Expire, fn.cfg.ExpiryPart()
	}
	fn.states = cellState{head: &fn.State, log: &fn.Log, settings: &fn.Settings}
	fn.memory = account.Value[*statestore.Memory](fn.account, "")
	if err := checkSettings(fn.memory, fn.cfg.Config); err != nil {
		return err
	}
	fn.quiet = account.Value[*QuietTimes](fn.account, "")
	fn.marks = account.Value[*FalseMarks](fn.account, "")
	if len(fn.cfg.Cells) > 0 { // the text would be larger than the state of one key
		fn.states.text = fn.cfg.Config.AllSettings().String()
		fn.states.own = compact.FingerprintOf(fn.states.text)
	}
	return nil
}

// checkSettings returns an error if a filter has other settings than the job whose states m holds. m may be nil.
func checkSettings(m *statestore.Memory, cfg keyed.Config) error {
	if m == nil || m.Settings == nil {
		return nil
	}
	own := cfg.AllSettings()
	if own.String() == m.Settings.String() {
		return nil
	}
	names := own.Diff(m.Settings.Settings, cfg.NameKeys)
	if len(names) == 0 {
		names = []string{"Keys"}
	}
	return fmt.Errorf("the configuration of the filter is not the job's: they differ in %s. Use statebackend.Filter, or give both the same configuration", message.List(names))
}

func (fn *encodeFn) StartBundle(emit, alert func([]byte), reject func(keyed.Rejected)) {
	if fn.cells != nil {
		clear(fn.timersSet) // the bundle before has failed
	}
	fn.bundle = bundle{record: emit, alert: alert, reject: reject, queue: fn.queue[:0], cells: map[string]*openCell{}, keys: map[string]*openKey{}}
	clear(fn.resumed.bundle)
	if fn.quiet != nil {
		fn.setQuiet(fn.quiet.Load())
	}
	passed := fn.account.Watermark()
	for _, w := range fn.workers {
		w.SetWatermark(passed)
		if fn.marks != nil {
			w.SetMarks(*fn.marks.Load())
		}
	}
}

// ProcessElement takes the blocks of an element into the queue. Without one the cell is called.
func (fn *encodeFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, cell string, packed []byte, _, _ func([]byte), _ func(keyed.Rejected)) error {
	if len(packed) == 0 {
		return fn.resume(tp, fn.cellOf(cell, sp))
	}
	if fn.cfg.AtEnd {
		fn.awaitEnd(tp)
	}
	c, text := fn.cellOf(cell, sp), string(packed) // once for all blocks
	for r := (&compact.Reader{B: packed}); len(r.B) > 0; {
		key, times, block := r.Text(), waitSpan{r.Time(), r.Time()}, r.Part()
		if r.Bad {
			return compact.ErrCut
		}
		end := len(packed) - len(r.B)
		b := blockBytes{block, text[end-len(block) : end]}
		if err := fn.enqueue(tp, queuedBlock{c, key, b}, times); err != nil {
			return err
		}
	}
	return nil
}

// enqueue takes a block of those times into the queue.
func (fn *encodeFn) enqueue(tp timers.Provider, a queuedBlock, times waitSpan) error {
	fn.queue = append(fn.queue, a)
	if !times.first.IsZero() { // else the key is forgotten, or has shown nothing that its family has
		if err := fn.setTimers(tp, a, times); err != nil {
			return err
		}
	}
	if len(fn.queue) < batchBlocks {
		return nil
	}
	return fn.drain()
}

// drain processes the queue.
func (fn *encodeFn) drain() error {
	all, err := fn.open(fn.queue)
	if err != nil {
		return err
	}
	var active []*openKey
	for i, e := range all {
		if len(e.blocks) == 0 {
			active = append(active, e)
		}
		e.blocks = append(e.blocks, fn.queue[i].block)
	}
	if err := fn.work(active); err != nil {
		return err
	}
	for _, e := range all {
		fn.note(e, time.Time{})
	}
	clear(fn.queue)
	fn.queue = fn.queue[:0]
	fn.storeStates()
	return nil
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

// reset has a key begin anew whose state cannot be read, and says so in the dead letter. One
// state must not stop the others.
func (e *openKey) reset(w *worker) {
	e.rejected = append(e.rejected, keyed.Rejected{Key: e.key, Reason: fmt.Sprintf("the state of the key %q cannot be read, and the key begins anew: %v", e.key, e.err), Reset: true})
	w.counts.Reset++
	e.KeyState, e.err = w.Open(e.key, nil)
}

// matched notes in the account which patterns match the key.
func matched(a *account.Run, patterns *domain.Patterns, key string) {
	for _, i := range patterns.Matching(nil, key) {
		a.Matched(patterns.Text(i))
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
		switch {
		case e.ProcessDue(&w.memory, e):
		case e.reading.More():
			o := &w.o
			if *o, e.err = e.reading.Next(o.X); e.err != nil {
				return
			}
			switch e.forgot = e.forgot && o.OutOfDomain || o.Shape == keyed.Forget; {
			case o.OutOfDomain:
				e.takeOutside(w, o)
			case e.forgot:
				e.takeTombstone(w, o)
			default:
				e.take(w, o)
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

// SilenceEnded emits a silence that ended.
func (e *openKey) SilenceEnded(s keyed.SilenceEvent) {
	e.outputs++
	if !s.Reported || s.Until.IsZero() {
		e.by.counts.Silences++
	}
	e.by.encoder.Silent(&e.by.encoded, e.key, s)
}

// Expired emits that Config.Expire has reset the key.
func (e *openKey) Expired() {
	e.by.counts.ExpiredKeys++
	e.by.encoder.Forgotten(&e.by.encoded, e.key)
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

// take processes an observation.
func (e *openKey) take(w *worker, o *keyed.Observation) {
	if e.taken++; !e.counted {
		e.counted = true
		w.counts.Keys++
	}
	e.Process(&w.memory, e, o)
}

// Rejected counts and rejects an observation that is late, or for which there is no room.
func (e *openKey) Rejected(o *keyed.Observation, err error) {
	w := e.by
	e.outputs++
	if late := (*keyed.LateError)(nil); errors.As(err, &late) {
		w.counts.Late++
		if w.late == nil {
			w.late = fmt.Errorf("key %q: %w", e.key, err)
		}
		switch {
		case late.Idle:
			w.counts.LateIdle++
		case late.Behind > account.FarBehind:
			w.counts.LateFar++
		default:
			w.counts.MaxBehind(late.Behind, late.Time)
		}
	}
	e.reject(w, o, err.Error())
}

// Rewound reports a key whose time was wrong.
func (e *openKey) Rewound(from time.Time, o *keyed.Observation) {
	e.by.counts.Rewound++
	e.by.encoder.Rewound(e.key, from, o.Time)
}

// Estimated emits the estimate of an observation, or rejects the observation if it was skipped.
func (e *openKey) Estimated(o *keyed.Observation, out *keyed.Estimate) {
	w := e.by
	e.outputs++
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

// reject rejects an observation.
func (e *openKey) reject(w *worker, o *keyed.Observation, why string) {
	w.counts.Rejected++
	e.rejected = append(e.rejected, keyed.Rejected{Key: e.key, Observation: o.Clone(), Reason: why})
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
		fn.resumed.report(ctx)
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
