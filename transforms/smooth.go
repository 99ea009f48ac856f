package transforms

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/compact"
	"hafvf/internal/dofn"
	"hafvf/internal/domain"
	"hafvf/internal/parallel"
)

func init() {
	register.Function5x0((&admitFn{}).ProcessElement)
	dofn.Register(func(f *admitFn) any { return f.ProcessElement })
	register.Function3x1((&gatherFn{}).ProcessElement)
	dofn.Register(func(f *gatherFn) any { return f.ProcessElement })
	register.Function5x1((&reviseFn{}).ProcessElement)
	dofn.Register(func(f *reviseFn) any { return f.ProcessElement })
	register.Function5x1((&encodeSmoothedFn{}).ProcessElement)
	dofn.Register(func(f *encodeSmoothedFn) any { return f.ProcessElement })
	register.Iter1[[]byte]()
}

// SmoothConfig is the configuration of SmoothEncoded.
type SmoothConfig struct {
	keyed.SmoothConfig
	// Logs says that the observations have logs, whose times the watermark may pass: a session grows
	// until its logs have passed it. An observation may be behind its log by Disorder, the gap and the
	// allowed lateness. No clock decides this: sessions are the same if the logs are read again.
	Logs     bool
	Disorder time.Duration
	// Origins has the smoothed name their observations, which takes memory.
	Origins bool `json:",omitempty"`
}

// late is how far an observation may be behind its log.
func (c SmoothConfig) late() time.Duration { return c.Gap + c.AllowedLateness + c.Disorder }

// A SmoothOutput is what Smooth makes of a collection, in the global window.
type SmoothOutput struct {
	// Smoothed is a PCollection<KV<string, keyed.Smoothed>>, one for every observation that the model
	// takes, by key, at the observation's own time.
	Smoothed beam.PCollection
	// Rejected is a PCollection<keyed.Rejected> of the other observations.
	Rejected beam.PCollection
}

// Smooth smooths sessions of the observations that observe makes of the elements of a collection in any
// window, each with its key; observe is as for Filter.
//
// Observations of a key are grouped into session windows, sorted by time, and
// smoothed. A late observation, within the allowed lateness, emits its session
// again, whole, with the next revision. The runner drops later ones. Of a log those come too
// late whose LogTime says so. Sessions without times, or without a gap, are smoothed when the input has ended.
//
// Smooth panics if the configuration is impossible, or if observe does not take the elements.
func Smooth[T any](s beam.Scope, cfg keyed.SmoothConfig, observe func(T) (string, keyed.Observation), col beam.PCollection) SmoothOutput {
	return smoothObserved(s, SmoothConfig{SmoothConfig: cfg}, registerObserve("Smooth", observe, withoutError(observe), col), col)
}

// SmoothParsed is Smooth with an observe that can fail: see FilterParsed.
func SmoothParsed[T any](s beam.Scope, cfg keyed.SmoothConfig, observe func(T) (string, keyed.Observation, error), col beam.PCollection) SmoothOutput {
	return smoothObserved(s, SmoothConfig{SmoothConfig: cfg}, registerObserve("SmoothParsed", observe, observe, col), col)
}

func smoothObserved(s beam.Scope, cfg SmoothConfig, in Registered, col beam.PCollection) SmoothOutput {
	records, early, late := SmoothEncoded(s, cfg, in, Registered{Name: objects}, col)
	early = beam.WindowInto(s, window.NewGlobalWindows(), beam.ParDo(s, unpackRejected, early))
	return SmoothOutput{beam.ParDo(found(s, cfg.Filter.Family), unpackSmoothed, records), beam.Flatten(s, early, late)}
}

// SmoothEncoded is Smooth of the elements of a source, which in decodes, and with out for
// the smoothed. It takes a PCollection of what the decoder takes. It returns
// PCollections<[]byte>: records, in chunks of what out has appended, and undecoded, which
// in has rejected. The PCollection<keyed.Rejected> late has the observations that could not be
// smoothed.
func SmoothEncoded(s beam.Scope, cfg SmoothConfig, in, out Registered, col beam.PCollection) (records, undecoded, late beam.PCollection) {
	_, err := keyed.NewSmoother(cfg.SmoothConfig)
	text := textOf("Smooth", cfg, err)
	s = s.Scope("hafvf.Smooth")
	admitted, undecoded := beam.ParDo2(s, &admitFn{Config: text, Decoder: in}, col)
	records, late = beam.ParDo2(s, &encodeSmoothedFn{Config: text, Encoder: out}, sessions(s, cfg, admitted))
	return records, undecoded, late
}

// untimed reports whether sessions have no times.
func (c SmoothConfig) untimed() bool { return c.Order == keyed.Arrival || c.Order == keyed.Trials }

// sessions groups blocks of admitted observations into sessions.
func sessions(s beam.Scope, cfg SmoothConfig, admitted beam.PCollection) beam.PCollection {
	if cfg.untimed() || cfg.Gap == 0 {
		grouped := beam.GroupByKey(s, beam.WindowInto(s, window.NewGlobalWindows(), admitted))
		return beam.ParDo(s, &gatherFn{Config: textOf("Smooth", cfg, nil)}, grouped)
	}
	// A pane holds what came since the one before: reviseFn keeps the rest.
	windowed := beam.WindowInto(s, window.NewSessions(cfg.Gap+span(cfg.Gap)), admitted, beam.AllowedLateness(cfg.AllowedLateness), beam.PanesDiscard())
	sessions := beam.ParDo(s, &gatherFn{Config: textOf("Smooth", cfg, nil)}, beam.GroupByKey(s, windowed))
	sessions = beam.WindowInto(s, window.NewGlobalWindows(), sessions)
	if cfg.AllowedLateness > 0 || cfg.Logs {
		sessions = beam.ParDo(s, &reviseFn{
			Gap: cfg.Gap, AllowedLateness: cfg.AllowedLateness, Late: cfg.late(),
			Kept: state.MakeValueState[[]byte]("sessions"), Over: timers.InEventTime("over"),
		}, sessions)
	}
	return sessions
}

func parseSmoother(text string) (sm *keyed.Smoother, cfg SmoothConfig, err error) {
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return nil, cfg, err
	}
	sm, err = keyed.NewSmoother(cfg.SmoothConfig)
	return sm, cfg, err
}

// admitFn decodes elements of a source, checks their observations and packs them into blocks of one
// key, without the fields that only a rejection needs: the runner's grouping then costs time and
// memory once per block. A block spans at most span(gap) and has the time of its
// first observation.
type admitFn struct {
	Config  string
	Decoder Registered

	in       decoding
	smoother *keyed.Smoother
	cfg      SmoothConfig
	blocks   map[string]*admitted
	size     int
	taken    int
}

// admitted is a block of a key, and its time.
type admitted struct {
	bytes []byte
	at    mtime.Time
}

// span is the most time that a block covers. Sessions become due later by as much.
func span(gap time.Duration) time.Duration { return (gap / 10).Truncate(time.Millisecond) }

func (a *admitFn) Setup(ctx context.Context) (err error) {
	a.in.decoder = registered[Decoder](ctx, a.Decoder)
	a.smoother, a.cfg, err = parseSmoother(a.Config)
	return err
}

func (a *admitFn) StartBundle(func(beam.EventTime, string, []byte), func([]byte)) {
	a.in.begin()
	a.blocks = map[string]*admitted{}
	a.size, a.taken = 0, 0
}

func (a *admitFn) ProcessElement(_ context.Context, came beam.EventTime, element beam.T, emit func(beam.EventTime, string, []byte), reject func([]byte)) {
	if came >= mtime.EndOfGlobalWindowTime {
		came = mtime.MinTimestamp // it is out of a grouping, and nobody knows when it came
	}
	take := func(key string, o *keyed.Observation) error { return a.add(key, o, came, emit) }
	a.in.decode(element, take, reject)
}

// add takes an observation that came at a time of the source's watermark or before, or says why it is
// refused. Nothing of it is kept.
func (a *admitFn) add(key string, o *keyed.Observation, came mtime.Time, emit func(beam.EventTime, string, []byte)) error {
	if err := a.smoother.Check(key, *o); err != nil {
		return err
	}
	kept := *o
	kept.ID, kept.Raw, kept.LogTime = "", "", time.Time{}
	if a.cfg.Origins {
		kept.ID = o.ID
	}
	ts := came
	if a.cfg.untimed() {
		key = string(sessionKeyOf(key, o))
		if kept.Time = (time.Time{}); a.cfg.Order == keyed.Trials {
			kept.ID, kept.Raw = o.ID, o.Raw // for the rejection of a repeat
		} else {
			kept.Trial = 0
		}
	} else {
		if behind := o.LogTime.Sub(o.Time); !o.LogTime.IsZero() && behind > a.cfg.late() && a.cfg.Gap != 0 {
			return fmt.Errorf("late by %v, by the times of its log: session.gap, session.allowed_lateness and disorder of the source allow %v", behind, a.cfg.late())
		}
		// The runner would drop a session that the watermark has passed. As one of the present it comes to
		// reviseFn, which goes by the times of observations.
		ts = max(mtime.FromTime(o.Time), came)
	}
	a.taken++
	b := a.blocks[key]
	if b == nil {
		key = strings.Clone(key) // it may be part of a larger text
		b = &admitted{at: ts}
		a.blocks[key] = b
	} else if a.cfg.Gap != 0 && (ts < b.at || ts > b.at.Add(span(a.cfg.Gap))) {
		emit(b.at, key, b.bytes)
		*b = admitted{at: ts}
	}
	was := len(b.bytes)
	b.bytes, _ = kept.AppendBinary(b.bytes)
	if a.size += len(b.bytes) - was; a.size > packBytes {
		a.flush(emit)
	}
	return nil
}

func (a *admitFn) flush(emit func(beam.EventTime, string, []byte)) {
	for _, key := range slices.Sorted(maps.Keys(a.blocks)) {
		emit(a.blocks[key].at, key, a.blocks[key].bytes)
	}
	clear(a.blocks)
	a.size = 0
}

// FinishBundle emits what is left, and reports what was taken and what was rejected.
func (a *admitFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, []byte), _ func([]byte)) {
	a.flush(emit)
	a.in.report(ctx, a.taken)
}

// gatherFn cuts a group into sessions: the windows are wider than the gap by the span of a
// block. Without a gap the group is all of a key, and of sessions without times it has a Group for the key.
type gatherFn struct {
	Config string

	cfg     SmoothConfig
	account *account.Run
}

func (fn *gatherFn) Setup(ctx context.Context) error {
	fn.account = account.From(ctx)
	return json.Unmarshal([]byte(fn.Config), &fn.cfg)
}

func (fn *gatherFn) ProcessElement(key string, values func(*[]byte) bool, emit func(beam.EventTime, string, []byte)) error {
	var all []keyed.Observation
	var b []byte
	for values(&b) {
		var err error
		if all, err = appendObservations(all, b); err != nil {
			return err
		}
	}
	if fn.cfg.untimed() {
		key = sessionKey(key).Key()
	}
	gap := fn.cfg.Gap
	if gap == 0 && !fn.cfg.untimed() {
		slices.SortStableFunc(all, keyed.Observation.Compare)
		gap = fn.cfg.DefaultGap(all)
		fn.account.SetGap(gap)
	}
	for _, s := range splitSessions(all, gap) {
		emit(mtime.FromTime(s.End()), key, compact.Encode(nil, s, sessionForm))
	}
	return nil
}

// reviseFn keeps the sessions that may still grow, each with its revision, and
// emits a session again, whole, when an observation of it comes late. It does not rely on
// the numbers of panes, which are not the same on every runner.
//
// A session grows until its logs have passed it, as far as the run knows that: the watermark may
// have passed it because a log paused, and a repeat of the log has no pause.
type reviseFn struct {
	Gap, AllowedLateness time.Duration
	Late                 time.Duration // see SmoothConfig.late
	Kept                 state.Value[[]byte]
	Over                 timers.EventTime

	account *account.Run
}

const (
	// recheckFactor is the factor of time after which a session that its logs have not passed is looked at
	// again.
	recheckFactor = 64
	// century is after a session in milliseconds where the watermark only is at the end of the input.
	century = 100 * 365 * 24 * 60 * 60 * 1000
)

func (fn *reviseFn) Setup(ctx context.Context) { fn.account = account.From(ctx) }

func (fn *reviseFn) ProcessElement(sp state.Provider, tp timers.Provider, key string, b []byte, emit func(beam.EventTime, string, []byte)) error {
	var s sessionRevision
	if err := compact.Decode(b, &s, sessionForm); err != nil {
		return err
	}
	kept, err := fn.read(sp)
	if err != nil {
		return err
	}
	latest := mtime.FromTime(s.End())
	for _, k := range kept {
		latest = max(latest, mtime.FromTime(k.End()))
	}
	rest := s.Join(kept, fn.Gap)
	emit(mtime.FromTime(s.End()), key, compact.Encode(nil, s, sessionForm))
	s.Earlier = nil
	// The watermark has passed the window of the latest session, which ends no
	// earlier than a gap after it.
	return fn.write(sp, tp, append(rest, s), latest.Add(-fn.AllowedLateness-span(fn.Gap)))
}

// OnTimer drops the sessions that can no longer grow.
func (fn *reviseFn) OnTimer(ts beam.EventTime, sp state.Provider, tp timers.Provider, _ string, _ timers.Context, _ func(beam.EventTime, string, []byte)) error {
	kept, err := fn.read(sp)
	if err != nil {
		return err
	}
	return fn.write(sp, tp, kept, ts.Add(-fn.grace()))
}

func (fn *reviseFn) read(sp state.Provider) (kept []sessionRevision, err error) {
	b, _, err := fn.Kept.Read(sp)
	if err != nil {
		return nil, err
	}
	for r := (&compact.Reader{B: b}); len(r.B) > 0; {
		var s sessionRevision
		if err := compact.Decode(r.Part(), &s, sessionForm); err != nil {
			return nil, err
		}
		kept = append(kept, s)
	}
	return kept, nil
}

// grace is how long after its last observation a session may still grow.
func (fn *reviseFn) grace() time.Duration { return fn.Gap + span(fn.Gap) + fn.AllowedLateness }

// write keeps the sessions that end after horizon, and those that their logs have not passed.
func (fn *reviseFn) write(sp state.Provider, tp timers.Provider, kept []sessionRevision, horizon mtime.Time) error {
	var b []byte
	var over mtime.Time
	for _, s := range kept {
		end := mtime.FromTime(s.End())
		at := end.Add(fn.grace())
		if end <= horizon {
			if horizon-end > century || fn.logsPast(&s) {
				continue
			}
			at = end + recheckFactor*(horizon.Add(fn.grace())-end)
		}
		b = compact.AppendString(b, compact.Encode(nil, s, sessionForm))
		over = max(over, at)
	}
	if b == nil {
		return fn.Kept.Clear(sp)
	}
	fn.Over.Set(tp, min(over, mtime.EndOfGlobalWindowTime).ToTime())
	return fn.Kept.Write(sp, b)
}

// logsPast reports whether all logs of a session have passed it. It is true of logs that the run does not
// know.
func (fn *reviseFn) logsPast(s *sessionRevision) bool {
	end, last := s.End().Add(fn.Gap+fn.Late), ""
	for i := range s.Observations {
		if log := s.Observations[i].Log; log != last {
			if passed, known := fn.account.LogTime(log); known && !passed.After(end) {
				return false
			}
			last = log
		}
	}
	return true
}

// encodeSmoothedFn smooths sessions, a batch of them in parallel, and emits what encoders make of that.
type encodeSmoothedFn struct {
	Config  string
	Encoder Registered

	cfg       SmoothConfig
	patterns  *domain.Patterns  // of cfg
	smoothers []*keyed.Smoother // one for each goroutine
	encoders  []SmoothedEncoder // likewise
	account   *account.Run
	sessionBundle
}

// A sessionBundle is what an encodeSmoothedFn works on from StartBundle to FinishBundle.
type sessionBundle struct {
	record  func([]byte)
	reject  func(keyed.Rejected)
	queue   []*pending
	size    int // of the sessions in the queue, in bytes
	records chunk
	counts  account.Counts
}

// pending is a session that waits to be smoothed, and then what has become of it.
type pending struct {
	key      string
	session  []byte
	encoded  Encoded
	rejected []keyed.Rejected
	counts   account.Counts
	moves    bool // without a change: it drifts or wanders
	err      error
}

// smoothBytes is the size from which waiting sessions are smoothed. It bounds the records
// that are held back, each of which takes about fifty times the bytes of its observation.
const smoothBytes = 64 << 10

func (fn *encodeSmoothedFn) Setup(ctx context.Context) error {
	fn.account = account.From(ctx)
	fn.smoothers = make([]*keyed.Smoother, runtime.GOMAXPROCS(0))
	fn.encoders = make([]SmoothedEncoder, len(fn.smoothers))
	for i := range fn.smoothers {
		var err error
		if fn.smoothers[i], fn.cfg, err = parseSmoother(fn.Config); err != nil {
			return err
		}
		fn.encoders[i] = registered[SmoothedEncoder](ctx, fn.Encoder)
	}
	fn.patterns = domain.NewPatterns((&keyed.Config{Keys: fn.cfg.Keys}).Patterns())
	return nil
}

func (fn *encodeSmoothedFn) StartBundle(emit func([]byte), reject func(keyed.Rejected)) {
	fn.sessionBundle = sessionBundle{record: emit, reject: reject}
}

// ProcessElement takes a session into the queue.
func (fn *encodeSmoothedFn) ProcessElement(_ context.Context, key string, b []byte, _ func([]byte), _ func(keyed.Rejected)) error {
	p := &pending{key: key, session: b}
	if len(b) >= smoothBytes || len(fn.smoothers) == 1 {
		if err := fn.drain(); err != nil {
			return err
		}
		// A long session takes two goroutines by itself. No record is held back.
		p.smooth(fn.smoothers[0], func(s *keyed.Smoothed) {
			p.add(fn.encoders[0], s)
			fn.emit(p)
		})
		return fn.done(p)
	}
	fn.queue = append(fn.queue, p)
	if fn.size += len(b); fn.size < smoothBytes {
		return nil
	}
	return fn.drain()
}

// drain smooths the sessions of the queue and emits their records in its order.
func (fn *encodeSmoothedFn) drain() error {
	parallel.Do(len(fn.queue), len(fn.smoothers), func(worker, i int) {
		p := fn.queue[i]
		p.smooth(fn.smoothers[worker], func(s *keyed.Smoothed) { p.add(fn.encoders[worker], s) })
	})
	for i, p := range fn.queue {
		fn.emit(p)
		if err := fn.done(p); err != nil {
			return err
		}
		fn.queue[i] = nil
	}
	fn.queue, fn.size = fn.queue[:0], 0
	for _, e := range fn.encoders {
		e.Flush()
	}
	return nil
}

// smooth smooths the session, and calls emit for each record.
func (p *pending) smooth(sm *keyed.Smoother, emit func(*keyed.Smoothed)) {
	var s sessionRevision
	if err := compact.Decode(p.session, &s, sessionForm); err != nil {
		p.err = fmt.Errorf("key %q: %w", p.key, err)
		return
	}
	p.counts.Sessions++
	var record keyed.Smoothed // one for all records
	var earlier [][]keyed.Observation
	for _, e := range s.Earlier {
		earlier = append(earlier, e.Observations)
	}
	var notConverged int
	notConverged, p.rejected = sm.Revise(p.key, s.Observations, s.Revision, earlier, func(s keyed.Smoothed) {
		record = s
		emit(&record)
	})
	p.counts.NotConverged += int64(notConverged)
	p.counts.Rejected += int64(len(p.rejected))
	if slices.ContainsFunc(p.rejected, func(r keyed.Rejected) bool { return r.Panic != nil }) {
		p.counts.Panics++
	}
}

// add counts a record, and encodes it.
func (p *pending) add(encoder SmoothedEncoder, s *keyed.Smoothed) {
	p.counts.Records++
	if s.Missing {
		p.counts.Missing++
	}
	if s.Change {
		p.counts.Changes++
	}
	p.moves = s.Session.Moves()
	encoder.Smoothed(&p.encoded, p.key, s)
}

// emit emits the records of the session so far.
func (fn *encodeSmoothedFn) emit(p *pending) {
	fn.records.add(p.encoded.Records, fn.record)
	p.encoded.reset()
}

// done counts a session whose records are emitted, or returns its error.
func (fn *encodeSmoothedFn) done(p *pending) error {
	if p.err != nil {
		return p.err
	}
	for _, r := range p.rejected {
		fn.reject(r)
	}
	matched(fn.account, fn.patterns, p.key)
	if p.counts.Changes == 0 {
		p.counts.Unchanged++
		if p.moves {
			p.counts.Drifting++
		}
	}
	fn.counts.Add(p.counts)
	return nil
}

func (fn *encodeSmoothedFn) FinishBundle(ctx context.Context, _ func([]byte), _ func(keyed.Rejected)) error {
	if err := fn.drain(); err != nil {
		return err
	}
	fn.records.flush(fn.record)
	addMetrics(ctx, fn.counts)
	fn.account.Report(account.Report{Counts: fn.counts})
	return nil
}
