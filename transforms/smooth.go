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
	// Logs means that the observations have logs, whose times the watermark may pass: a session grows until its
	// logs have passed it. An observation may be behind its log by Disorder, the gap and the allowed lateness. No
	// clock decides this: if the logs are read again, the sessions are the same.
	Logs     bool
	Disorder time.Duration
	// Origins keeps the IDs of the observations in the results, which takes memory.
	Origins bool `json:",omitempty"`
}

// maxBehind returns the maximum time that an observation may be behind its log.
func (c SmoothConfig) maxBehind() time.Duration { return c.Gap + c.AllowedLateness + c.Disorder }

// A SmoothOutput has the results of Smooth, in the global window.
type SmoothOutput struct {
	// Smoothed is a PCollection<KV<string, keyed.Smoothed>> by key: one for each observation that the model
	// accepts, at the time of the observation.
	Smoothed beam.PCollection
	// Rejected is a PCollection<keyed.Rejected> of the other observations.
	Rejected beam.PCollection
}

// Smooth smooths the sessions of a collection in any window. observe returns the key and the observation of an
// element; it is as for Filter.
//
// Smooth groups the observations of a key into session windows, sorts them by time, and smooths them. A late
// observation within the allowed lateness emits its whole session again, with the next revision. The runner drops
// later observations. An observation of a log is too late if its LogTime is too far after its time. Sessions
// without times or without a gap are smoothed at the end of the input.
//
// Smooth panics if the configuration is invalid, or if observe does not take the elements.
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
	return SmoothOutput{beam.ParDo(familyScope(s, cfg.Filter.Family), unpackSmoothed, records), beam.Flatten(s, early, late)}
}

// SmoothEncoded is Smooth for the elements of a source: the Decoder in decodes them, and the SmoothedEncoder out
// encodes the results. col has elements of the type that the decoder takes. SmoothEncoded returns
// PCollections<[]byte>: records are chunks of the bytes that out appends, and undecoded has the bytes that in
// rejects. late is a PCollection<keyed.Rejected> of the observations that could not be smoothed.
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
	// A pane has the elements since the previous pane. reviseFn stores the earlier ones.
	windowed := beam.WindowInto(s, window.NewSessions(cfg.Gap+span(cfg.Gap)), admitted, beam.AllowedLateness(cfg.AllowedLateness), beam.PanesDiscard())
	sessions := beam.ParDo(s, &gatherFn{Config: textOf("Smooth", cfg, nil)}, beam.GroupByKey(s, windowed))
	sessions = beam.WindowInto(s, window.NewGlobalWindows(), sessions)
	if cfg.AllowedLateness > 0 || cfg.Logs {
		sessions = beam.ParDo(s, &reviseFn{
			Gap: cfg.Gap, AllowedLateness: cfg.AllowedLateness, Late: cfg.maxBehind(),
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

// admitFn decodes elements of a source, checks their observations and packs them into blocks of one key, without
// the fields that only a rejection needs. The runner's grouping then costs time and memory once per block. A block
// spans at most span(gap) and has the time of its first observation.
type admitFn struct {
	Config  string
	Decoder Registered

	in       decoding
	smoother *keyed.Smoother
	cfg      SmoothConfig
	blocks   map[string]*admitted
	size     int
	accepted int
}

// admitted is a block of a key, and its time.
type admitted struct {
	bytes []byte
	ts    mtime.Time
}

// span is the maximum time that a block covers. It delays the end of a session by the same time.
func span(gap time.Duration) time.Duration { return (gap / 10).Truncate(time.Millisecond) }

func (a *admitFn) Setup(ctx context.Context) (err error) {
	a.in.decoder = registered[Decoder](ctx, a.Decoder)
	a.smoother, a.cfg, err = parseSmoother(a.Config)
	return err
}

func (a *admitFn) StartBundle(func(beam.EventTime, string, []byte), func([]byte)) {
	a.in.begin()
	a.blocks = map[string]*admitted{}
	a.size, a.accepted = 0, 0
}

func (a *admitFn) ProcessElement(_ context.Context, arrival beam.EventTime, element beam.T, emit func(beam.EventTime, string, []byte), reject func([]byte)) {
	if arrival >= mtime.EndOfGlobalWindowTime {
		arrival = mtime.MinTimestamp // the element comes from a grouping: its time of arrival is unknown
	}
	take := func(key string, o *keyed.Observation) error { return a.add(key, o, arrival, emit) }
	a.in.decode(element, take, reject)
}

// add packs an observation, or returns the reason why it is refused. arrival is at most the source's watermark. add
// does not retain o.
func (a *admitFn) add(key string, o *keyed.Observation, arrival mtime.Time, emit func(beam.EventTime, string, []byte)) error {
	if err := a.smoother.Check(key, *o); err != nil {
		return err
	}
	stored := *o
	stored.ID, stored.Raw, stored.LogTime = "", "", time.Time{}
	if a.cfg.Origins {
		stored.ID = o.ID
	}
	ts := arrival
	if a.cfg.untimed() {
		key = string(sessionKeyOf(key, o))
		if stored.Time = (time.Time{}); a.cfg.Order == keyed.Trials {
			stored.ID, stored.Raw = o.ID, o.Raw // for rejecting a repeat
		} else {
			stored.Trial = 0
		}
	} else {
		if lag := o.LogTime.Sub(o.Time); !o.LogTime.IsZero() && lag > a.cfg.maxBehind() && a.cfg.Gap != 0 {
			return fmt.Errorf("late by %v, by the times of its log: session.gap, session.allowed_lateness and disorder of the source allow %v", lag, a.cfg.maxBehind())
		}
		// The runner would drop a session that the watermark has passed. With the time of its arrival, the session
		// reaches reviseFn, which uses the times of the observations.
		ts = max(mtime.FromTime(o.Time), arrival)
	}
	a.accepted++
	b := a.blocks[key]
	if b == nil {
		key = strings.Clone(key) // key may be part of a larger string
		b = &admitted{ts: ts}
		a.blocks[key] = b
	} else if a.cfg.Gap != 0 && (ts < b.ts || ts > b.ts.Add(span(a.cfg.Gap))) {
		emit(b.ts, key, b.bytes)
		*b = admitted{ts: ts}
	}
	oldSize := len(b.bytes)
	b.bytes, _ = stored.AppendBinary(b.bytes)
	if a.size += len(b.bytes) - oldSize; a.size > packBytes {
		a.flush(emit)
	}
	return nil
}

func (a *admitFn) flush(emit func(beam.EventTime, string, []byte)) {
	for _, key := range slices.Sorted(maps.Keys(a.blocks)) {
		emit(a.blocks[key].ts, key, a.blocks[key].bytes)
	}
	clear(a.blocks)
	a.size = 0
}

// FinishBundle emits the remaining blocks, and reports the counts.
func (a *admitFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, []byte), _ func([]byte)) {
	a.flush(emit)
	a.in.report(ctx, a.accepted)
}

// gatherFn splits a group into sessions: the windows are wider than the gap by the span of a block. Without a gap,
// a group has all observations of a key. The key of a group without times is a sessionKey.
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
	var observations []keyed.Observation
	var b []byte
	for values(&b) {
		var err error
		if observations, err = appendObservations(observations, b); err != nil {
			return err
		}
	}
	if fn.cfg.untimed() {
		key = sessionKey(key).Key()
	}
	gap := fn.cfg.Gap
	if gap == 0 && !fn.cfg.untimed() {
		slices.SortStableFunc(observations, keyed.Observation.Compare)
		gap = fn.cfg.DefaultGap(observations)
		fn.account.SetGap(gap)
	}
	for _, o := range keyed.SplitSessions(observations, gap) {
		s := sessionRevision{Observations: o}
		emit(mtime.FromTime(s.End()), key, compact.Encode(nil, s, sessionForm))
	}
	return nil
}

// reviseFn stores the sessions that can still grow, with their revisions. When a late observation of a session
// arrives, it emits the whole session again. It does not use the numbers of panes, which differ between runners.
//
// A session grows until its logs have passed it, if the run knows their times. The watermark may have passed it
// only because a log paused; when the log is read again, there is no pause.
type reviseFn struct {
	Gap, AllowedLateness time.Duration
	Late                 time.Duration // see SmoothConfig.maxBehind
	Kept                 state.Value[[]byte]
	Over                 timers.EventTime

	account *account.Run
}

const (
	// recheckFactor sets when a session that its logs have not passed is checked again: after this many times the
	// time since its end.
	recheckFactor = 64
	// century is a time in milliseconds. The watermark is this far after a session only at the end of the input.
	century = 100 * 365 * 24 * 60 * 60 * 1000
)

func (fn *reviseFn) Setup(ctx context.Context) { fn.account = account.From(ctx) }

func (fn *reviseFn) ProcessElement(sp state.Provider, tp timers.Provider, key string, b []byte, emit func(beam.EventTime, string, []byte)) error {
	var s sessionRevision
	if err := compact.Decode(b, &s, sessionForm); err != nil {
		return err
	}
	stored, err := fn.read(sp)
	if err != nil {
		return err
	}
	latest := mtime.FromTime(s.End())
	for _, earlier := range stored {
		latest = max(latest, mtime.FromTime(earlier.End()))
	}
	rest := s.Join(stored, fn.Gap)
	emit(mtime.FromTime(s.End()), key, compact.Encode(nil, s, sessionForm))
	s.Earlier = nil
	// The watermark has passed the window of the latest session. The window ends no earlier than a gap after the
	// session.
	return fn.write(sp, tp, append(rest, s), latest.Add(-fn.AllowedLateness-span(fn.Gap)))
}

// OnTimer drops the sessions that can no longer grow.
func (fn *reviseFn) OnTimer(ts beam.EventTime, sp state.Provider, tp timers.Provider, _ string, _ timers.Context, _ func(beam.EventTime, string, []byte)) error {
	stored, err := fn.read(sp)
	if err != nil {
		return err
	}
	return fn.write(sp, tp, stored, ts.Add(-fn.grace()))
}

func (fn *reviseFn) read(sp state.Provider) (stored []sessionRevision, err error) {
	b, _, err := fn.Kept.Read(sp)
	if err != nil {
		return nil, err
	}
	for r := (&compact.Reader{B: b}); len(r.B) > 0; {
		var s sessionRevision
		if err := compact.Decode(r.Part(), &s, sessionForm); err != nil {
			return nil, err
		}
		stored = append(stored, s)
	}
	return stored, nil
}

// grace returns the time after its last observation for which a session may still grow.
func (fn *reviseFn) grace() time.Duration { return fn.Gap + span(fn.Gap) + fn.AllowedLateness }

// write stores the sessions that end after horizon, and those that their logs have not passed.
func (fn *reviseFn) write(sp state.Provider, tp timers.Provider, stored []sessionRevision, horizon mtime.Time) error {
	var b []byte
	var over mtime.Time
	for _, s := range stored {
		end := mtime.FromTime(s.End())
		dropAt := end.Add(fn.grace())
		if end <= horizon {
			if horizon-end > century || fn.logsPast(&s) {
				continue
			}
			dropAt = end + recheckFactor*(horizon.Add(fn.grace())-end)
		}
		b = compact.AppendString(b, compact.Encode(nil, s, sessionForm))
		over = max(over, dropAt)
	}
	if b == nil {
		return fn.Kept.Clear(sp)
	}
	fn.Over.Set(tp, min(over, mtime.EndOfGlobalWindowTime).ToTime())
	return fn.Kept.Write(sp, b)
}

// logsPast reports whether all logs of a session have passed it. Logs that the run does not know count as passed.
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

// encodeSmoothedFn smooths sessions in batches, in parallel, and emits the encoded results.
type encodeSmoothedFn struct {
	Config  string
	Encoder Registered

	cfg       SmoothConfig
	patterns  *domain.Patterns  // of cfg
	smoothers []*keyed.Smoother // one per goroutine
	encoders  []SmoothedEncoder // one per goroutine
	account   *account.Run
	sessionBundle
}

// A sessionBundle is the state of an encodeSmoothedFn from StartBundle to FinishBundle.
type sessionBundle struct {
	record  func([]byte)
	reject  func(keyed.Rejected)
	queue   []*pending
	size    int // encoded size of the queued sessions
	records chunk
	counts  account.Counts
}

// pending is a session that waits for smoothing, and later its results.
type pending struct {
	key      string
	session  []byte
	encoded  Encoded
	rejected []keyed.Rejected
	counts   account.Counts
	moves    bool // its level drifts or wanders
	err      error
}

// smoothBytes is the encoded size from which the queued sessions are smoothed. It limits the buffered records: each
// takes about fifty times the bytes of its observation.
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

// ProcessElement puts a session into the queue.
func (fn *encodeSmoothedFn) ProcessElement(_ context.Context, key string, b []byte, _ func([]byte), _ func(keyed.Rejected)) error {
	p := &pending{key: key, session: b}
	if len(b) >= smoothBytes || len(fn.smoothers) == 1 {
		if err := fn.drain(); err != nil {
			return err
		}
		// A long session uses two goroutines by itself. Its records are not buffered.
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

// drain smooths the queued sessions and emits their records in the order of the queue.
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
	var record keyed.Smoothed // reused for all records
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

// add counts and encodes a record.
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

// emit emits the encoded records of the session.
func (fn *encodeSmoothedFn) emit(p *pending) {
	fn.records.add(p.encoded.Records, fn.record)
	p.encoded.reset()
}

// done counts a session whose records were emitted, or returns its error.
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
