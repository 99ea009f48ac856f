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

// encodeFn is the node that runs the filter. Its input is blocks of observations of one key, by cell; it emits the
// encoded estimates. Each read or write of a state is a round trip to the runner. Blocks are therefore processed in
// batches: the cells of a batch are read in parallel, and the cells of a bundle are written in parallel. The keys
// of a batch are also processed in parallel, each by one goroutine at a time.
type encodeFn struct {
	Config   string
	Encoder  Registered
	State    state.Value[[]byte]
	Log      state.Bag[[]byte]
	Settings state.Value[[]byte] // of Cells
	Due      timers.EventTime

	cfg          stepConfig
	patterns     *domain.Patterns // of cfg
	schedule     schedule
	states       cellState
	memory       *statestore.Memory   // of the run, instead of the runner's states; nil if the runner stores the states
	quiet        *QuietTimes          // of the run; nil if it has none
	appliedQuiet *[]keyed.QuietTime   // the quiet times that the workers have
	marks        *FalseMarks          // of the run; nil if it has none
	memoryCells  map[string]*openCell // cells that this node has used, if memory is not nil
	timersSet    map[string]time.Time // time of the timer that this node set last, by cell
	lastCheck    time.Time            // latest time at which keys of any cell were checked
	workers      []*worker            // one per goroutine
	resumed      *resumedCells
	account      *account.Run
	free         []*openKey // keys of previous bundles, for reuse
	lastLate     error      // error of the last known late observation
	rejections   rejections
	bundle
}

// A bundle is the state of a node from StartBundle to FinishBundle.
type bundle struct {
	// Beam passes a bundle's emitters to each call. The emitters of StartBundle are valid until FinishBundle.
	record, alert   func([]byte)
	reject          func(keyed.Rejected)
	queue           []queuedBlock
	cells           map[string]*openCell
	order, unread   []*openCell
	keys            map[string]*openKey // open keys
	report          account.Report
	records, alerts chunk // encoded, and not emitted yet
}

// A worker has the data of one goroutine.
type worker struct {
	*keyed.Estimator
	encoder    Encoder
	ongoing    bool    // Encoder.WantsOngoing
	encoded    Encoded // outputs of the keys that it has processed in a group
	memory     keyed.Memory
	o          keyed.Observation // the observation that is being read
	counts     account.Counts
	late       error // error of the first late observation of a group; nil if there is none
	iterations []int64
	state      []byte // buffer for a state that goes to encodeFn.memory
}

// A queuedBlock is a block in the queue, or a key that a timer opens.
type queuedBlock struct {
	cell  *openCell
	key   string
	block blockBytes
}

// blockBytes has the bytes of a block, and the same bytes as text.
type blockBytes struct {
	bytes []byte
	text  string
}

// An openCell is a cell during a bundle, with access to its state.
type openCell struct {
	*cell
	name     string
	provider state.Provider
	order    []*openKey // its open keys, and those that were dropped
	first    int        // index of its first key among all open keys
}

// alone returns the name of the only key of the cell, or "" if keys share cells.
func (c *openCell) alone(cfg stepConfig) string {
	if len(cfg.Cells) == 0 {
		return c.name
	}
	return ""
}

// readable returns the error of a cell that could not be read in full. Keys that were not found in it may still
// exist.
func (c *openCell) readable() error {
	if err := c.Err(); err != nil {
		return fmt.Errorf("state %q: %w", c.name, err)
	}
	return nil
}

// An openKey is an open key. If the runner stores the states, a key stays open until the end of the bundle, when
// the states are written. If the run has a memory, it stays open until the end of a batch, which costs little.
type openKey struct {
	keyed.KeyState
	key       string
	cell      *openCell
	state     []byte // encoded state, before the key was opened, and then after
	found     bool   // the key had a state
	touched   bool   // the state is from this run
	forgotten bool   // the key was forgotten, and has had no accepted observation since
	// counted means that the key is in the count of keys that were seen and not forgotten.
	counted bool

	blocks  []blockBytes       // blocks of the batch that are not started
	reading keyed.Observations // the rest of the block that is being read
	more    bool               // the key may have outputs in another round

	// The fields below belong to a round.
	worker     *worker // has encoded the outputs, from start to end of its buffers
	start, end Encoded // lengths of the worker's buffers before and after the round
	rejected   []keyed.Rejected
	outputs    int
	processed  int
	err        error
}

const (
	batchBlocks = 512
	roundTrips  = 16 // concurrent round trips
	// roundSteps limits the outputs of a key in a round. They are buffered until the outputs of the keys before it
	// are emitted.
	roundSteps = 64
	// groupKeys is the number of keys per goroutine whose outputs are buffered.
	groupKeys = 32
	// maxFree is the maximum number of openKeys that are kept for reuse.
	maxFree = 1 << 12
)

func (fn *encodeFn) Setup(ctx context.Context) error {
	fn.account = account.From(ctx)
	fn.memoryCells, fn.timersSet, fn.resumed = map[string]*openCell{}, map[string]time.Time{}, newResumedCells()
	fn.workers = make([]*worker, runtime.GOMAXPROCS(0))
	for i := range fn.workers {
		est, cfg, err := parseEstimator(fn.Config)
		if err != nil {
			return err
		}
		fn.cfg, fn.patterns = cfg, domain.NewPatterns(cfg.Patterns())
		encoder := registered[Encoder](ctx, fn.Encoder)
		fn.workers[i] = &worker{Estimator: est, encoder: encoder, ongoing: encoder.WantsOngoing()}
	}
	fn.schedule = schedule{waits: fn.cfg.waits(), patience: fn.workers[0].MaxDelay(), silences: fn.cfg.Live && fn.cfg.Silence != nil}
	if fn.cfg.Live {
		fn.schedule.expire, fn.schedule.expiryStep = fn.cfg.Expire, fn.cfg.ExpiryPart()
	}
	fn.states = cellState{head: &fn.State, log: &fn.Log, settings: &fn.Settings}
	fn.memory = account.Value[*statestore.Memory](fn.account, "")
	if err := checkSettings(fn.memory, fn.cfg.Config); err != nil {
		return err
	}
	fn.quiet = account.Value[*QuietTimes](fn.account, "")
	fn.marks = account.Value[*FalseMarks](fn.account, "")
	if len(fn.cfg.Cells) > 0 { // larger than the state of one key, so only shared cells have it
		fn.states.text = fn.cfg.Config.AllSettings().String()
		fn.states.fingerprint = compact.FingerprintOf(fn.states.text)
	}
	return nil
}

// checkSettings returns an error if cfg differs from the settings of the job whose states m holds. m may be nil.
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
	return fmt.Errorf("the configurations of the filter and of the job differ in %s: use statebackend.Filter, or give both the same configuration", message.List(names))
}

func (fn *encodeFn) StartBundle(emit, alert func([]byte), reject func(keyed.Rejected)) {
	if fn.cells != nil {
		clear(fn.timersSet) // the previous bundle has failed
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

// ProcessElement puts the blocks of an element into the queue. An element without blocks only sets the timers of
// its cell.
func (fn *encodeFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, cell string, packed []byte, _, _ func([]byte), _ func(keyed.Rejected)) error {
	if len(packed) == 0 {
		return fn.resume(tp, fn.cellOf(cell, sp))
	}
	if fn.cfg.AtEnd {
		fn.setEndTimer(tp)
	}
	c, text := fn.cellOf(cell, sp), string(packed) // one string for all blocks
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

// enqueue puts a block into the queue. times is the range of the times of its observations.
func (fn *encodeFn) enqueue(tp timers.Provider, b queuedBlock, times waitSpan) error {
	fn.queue = append(fn.queue, b)
	if !times.first.IsZero() { // otherwise it has only tombstones, observations out of the domain, or no times
		if err := fn.setTimers(tp, b, times); err != nil {
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
	opened, err := fn.open(fn.queue)
	if err != nil {
		return err
	}
	var active []*openKey
	for i, e := range opened {
		if len(e.blocks) == 0 {
			active = append(active, e)
		}
		e.blocks = append(e.blocks, fn.queue[i].block)
	}
	if err := fn.work(active); err != nil {
		return err
	}
	for _, e := range opened {
		fn.updateAgenda(e, time.Time{})
	}
	clear(fn.queue)
	fn.queue = fn.queue[:0]
	fn.storeStates()
	return nil
}

// work processes the blocks of the keys in rounds. In a round, each key computes its next outputs, in groups that
// run in parallel. Then the outputs are emitted, key by key in the order of active. The order does not depend on
// the number of goroutines. A key with most of the observations comes last.
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

// flush ends the work on a group whose encoded outputs are in chunks: it collects the counts and empties the
// buffers.
func (fn *encodeFn) flush() {
	for _, w := range fn.workers {
		fn.report.Counts.Add(w.counts)
		w.counts = account.Counts{}
		w.encoded.reset()
		w.encoder.Flush()
		if w.late != nil {
			logLate(w.late)
			fn.lastLate, w.late = w.late, nil
		}
	}
}

// lates limits the warnings about late observations of all nodes of this process.
var lates struct {
	sync.Mutex
	reminder.Reminder
}

// logLate logs that an observation is late, once a minute at most.
func logLate(reason error) {
	lates.Lock()
	defer lates.Unlock()
	if lates.Due(time.Minute) {
		slog.Warn("observation rejected as late: with a larger Lateness, observations wait longer for earlier ones", "reason", reason)
	}
}

// reset resets a key whose state cannot be read, and writes the reason to the dead letter. One state must not stop
// the other keys.
func (e *openKey) reset(w *worker) {
	e.rejected = append(e.rejected, keyed.Rejected{Key: e.key, Reason: fmt.Sprintf("the state of the key %q cannot be read, so the key is reset: %v", e.key, e.err), Reset: true})
	w.counts.Reset++
	e.KeyState, e.err = w.Open(e.key, nil)
}

// matched reports to the account which patterns match the key.
func matched(run *account.Run, patterns *domain.Patterns, key string) {
	for _, i := range patterns.Matching(nil, key) {
		run.Matched(patterns.Text(i))
	}
}

// roundTrip calls f for each cell, roundTrips at a time, and returns the first error with its cell.
func roundTrip(cells []*openCell, f func(*openCell) error) error {
	errs := make([]error, len(cells))
	parallel.Do(len(cells), roundTrips, func(_, i int) { errs[i] = f(cells[i]) })
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return fmt.Errorf("state %q: %w", cells[i].name, errs[i])
	}
	return nil
}

// step computes the key's next outputs, about roundSteps of them.
func (e *openKey) step(w *worker) {
	e.Bind(w.Estimator)
	e.worker, e.start, e.more = w, w.encoded, true
	defer func() { e.end = w.encoded }()
	for e.outputs < roundSteps {
		switch {
		case e.ProcessDue(&w.memory, e):
		case e.reading.More():
			o := &w.o
			if *o, e.err = e.reading.Next(o.X); e.err != nil {
				return
			}
			switch e.forgotten = e.forgotten && o.OutOfDomain || o.Shape == keyed.Forget; {
			case o.OutOfDomain:
				e.takeOutside(w, o)
			case e.forgotten:
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

// SilenceEnded encodes a silence that ended.
func (e *openKey) SilenceEnded(s keyed.SilenceEvent) {
	e.outputs++
	if !s.Reported || s.Until.IsZero() {
		e.worker.counts.Silences++
	}
	e.worker.encoder.Silent(&e.worker.encoded, e.key, s)
}

// Expired encodes that Config.Expire has reset the key.
func (e *openKey) Expired() {
	e.worker.counts.ExpiredKeys++
	e.worker.encoder.Forgotten(&e.worker.encoded, e.key)
}

// forget drops the key's state and its waiting observations.
func (e *openKey) forget(w *worker) {
	e.forgotten = true
	e.KeyState, e.err = w.Open(e.key, nil)
	w.encoder.Forgotten(&w.encoded, e.key)
}

// takeTombstone forgets the key. If the key is unknown, it rejects the tombstone.
func (e *openKey) takeTombstone(w *worker, o *keyed.Observation) {
	e.processed++
	if e.found || !e.IsNew() {
		w.counts.Forgotten++
		e.found = false
		e.forget(w)
	} else {
		e.outputs++
		if e.counted {
			w.counts.Keys--
		}
		e.reject(w, o, fmt.Sprintf("tombstone for the unknown key %q: nothing to forget", e.key))
	}
	e.counted = false
}

// takeOutside processes an observation out of the domain: it encodes the alarm, if there is one. It does not create
// a state for a new key.
func (e *openKey) takeOutside(w *worker, o *keyed.Observation) {
	e.processed++
	if e.IsNew() {
		if e.forgotten = true; e.counted {
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

func (e *openKey) take(w *worker, o *keyed.Observation) {
	if e.processed++; !e.counted {
		e.counted = true
		w.counts.Keys++
	}
	e.Process(&w.memory, e, o)
}

// Rejected counts and rejects an observation that is late, or for which there is no space.
func (e *openKey) Rejected(o *keyed.Observation, err error) {
	w := e.worker
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

// Rewound encodes that the key was set back from a wrong time.
func (e *openKey) Rewound(from time.Time, o *keyed.Observation) {
	e.worker.counts.Rewound++
	e.worker.encoder.Rewound(e.key, from, o.Time)
}

// Estimated encodes the estimate of an observation, or rejects the observation if it was skipped.
func (e *openKey) Estimated(o *keyed.Observation, out *keyed.Estimate) {
	w := e.worker
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
	if w.ongoing { // the message of each observation costs time
		if t, ok := w.Ongoing(e.Track, out); ok {
			w.encoder.Ongoing(&w.encoded, e.key, t)
		}
	}
	countEstimate(&w.counts, out)
	if !out.Missing {
		w.iterations = append(w.iterations, int64(out.Iterations))
	}
}

func (e *openKey) reject(w *worker, o *keyed.Observation, reason string) {
	w.counts.Rejected++
	e.rejected = append(e.rejected, keyed.Rejected{Key: e.key, Observation: o.Clone(), Reason: reason})
}

// emit emits the key's outputs of a round.
func (fn *encodeFn) emit(e *openKey) {
	fn.put(e.worker.encoded, e.start, e.end)
	for _, r := range e.rejected {
		fn.reject(r)
	}
	fn.report.Taken += e.processed
	clear(e.rejected)
	e.rejected, e.worker = e.rejected[:0], nil
	e.outputs, e.processed = 0, 0
}

// put adds the encoded bytes from start to end to the chunks.
func (fn *encodeFn) put(buffers, start, end Encoded) {
	fn.records.add(buffers.Records[len(start.Records):len(end.Records)], fn.record)
	fn.alerts.add(buffers.Alerts[len(start.Alerts):len(end.Alerts)], fn.alert)
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
		err = roundTrip(fn.order, func(c *openCell) error { return fn.states.write(c.provider, c.cell, c.alone(fn.cfg), c.order) })
		fn.release()
	}
	for _, w := range fn.workers {
		for _, n := range w.iterations {
			iterationsDist.Update(ctx, n)
		}
		w.iterations = w.iterations[:0]
	}
	addMetrics(ctx, fn.report.Counts)
	fn.rejections.count(int64(fn.report.Taken), fn.report.Counts.Late, fn.lastLate)
	if err == nil {
		fn.account.Report(fn.report)
		fn.resumed.report(ctx)
	}
	for _, c := range fn.order {
		c.provider = nil
	}
	fn.bundle = bundle{queue: fn.queue}
	return err
}

// storeStates puts the states of the open keys into the memory, if there is one.
func (fn *encodeFn) storeStates() {
	if fn.memory != nil {
		fn.encode()
		fn.release()
	}
}

// encode encodes the open keys, for the runner or into the memory.
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
			case e.forgotten:
				e.state = nil
			case reports || fn.memory == nil:
				e.state, _ = e.AppendBinary(make([]byte, 0, len(e.state)+64)) // a state grows little
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

// release keeps the open keys for reuse.
func (fn *encodeFn) release() {
	for _, c := range fn.order {
		for _, e := range c.order {
			*e = openKey{rejected: e.rejected[:0]}
			if len(fn.free) < maxFree {
				fn.free = append(fn.free, e)
			}
		}
		clear(c.order)
		c.order = c.order[:0]
	}
	clear(fn.keys)
}
