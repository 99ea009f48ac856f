package transforms

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/parallel"
)

func init() {
	register.Function4x0((&admitFn{}).ProcessElement)
	dofn.Register(func(f *admitFn) any { return f.ProcessElement })
	register.Function3x1((&gatherFn{}).ProcessElement)
	dofn.Register(func(f *gatherFn) any { return f.ProcessElement })
	register.Function5x1((&reviseFn{}).ProcessElement)
	dofn.Register(func(f *reviseFn) any { return f.ProcessElement })
	register.Function4x1((&smoothFn{}).ProcessElement)
	dofn.Register(func(f *smoothFn) any { return f.ProcessElement })
	register.Emitter3[beam.EventTime, string, Smoothed]()
	register.Iter1[[]byte]()
}

// SmoothConfig is the configuration of Smooth.
type SmoothConfig struct {
	// Filter needs a Family, and has neither bank nor detection. Where it has neither Levels
	// nor Top, a hafvf.Smoother finds the segments of a session, less the Season if there is
	// one. Where it has, there is no season, and the filter smooths by a forward and a backward pass, the smoother of the paper.
	// It looks back: levels {9, 1}, {1, 1} and top 1 suit that better than the filter's
	// default. With a WarmUp above zero the whole session sets its prior.
	Filter hafvf.Config
	// Keys are exceptions, as in Config.
	Keys []Rule
	// Gap ends a session: observations that are at least so far apart belong to
	// different ones. Required; whole milliseconds.
	Gap time.Duration
	// AllowedLateness is how long after its end a session still takes late
	// observations, and is emitted again. Default 0.
	AllowedLateness time.Duration
	// Max is the largest number of observations that are smoothed together; a
	// longer session is cut. Default 10 million.
	Max int
	// Odds is the Bayes factor in favour of a change above which it is reported.
	// Default 10.
	Odds float64
	// Account is as in Config.
	Account string
}

func (c SmoothConfig) withDefaults() SmoothConfig {
	c.Max = cmp.Or(c.Max, DefaultMax)
	c.Odds = cmp.Or(c.Odds, DefaultOdds)
	return c
}

// What zeros in a SmoothConfig stand for.
const (
	DefaultMax  = 10_000_000
	DefaultOdds = 10.0
)

// OddsDomain is that of SmoothConfig.Odds, MinChangeDomain that of the least sizes
// in an AlertConfig.
var (
	OddsDomain      = hafvf.Domain{Name: "greater than 0", Contains: func(v float64) bool { return v > 0 && v < math.Inf(1) }}
	MinChangeDomain = hafvf.Domain{Name: "at least 0", Contains: func(v float64) bool { return v >= 0 && v < math.Inf(1) }}
)

func (c SmoothConfig) validate() error {
	switch {
	case c.Gap < time.Millisecond || c.Gap%time.Millisecond != 0:
		return fmt.Errorf("gap %v is not a number of milliseconds above zero", c.Gap)
	case c.AllowedLateness < 0:
		return fmt.Errorf("allowed lateness %v is negative", c.AllowedLateness)
	case c.Max < 1:
		return fmt.Errorf("max %d is below 1", c.Max)
	case !OddsDomain.Contains(c.Odds):
		return fmt.Errorf("odds must be %s, not %g", OddsDomain.Name, c.Odds)
	}
	return checkRules(c.Filter, c.Keys)
}

// Smooth takes a PCollection<KV<string, Observation>> in any window. It returns a
// PCollection<KV<string, Smoothed>> in the global window, one for every observation
// that the model takes, at the observation's own time, and a PCollection<Rejected>
// with the others.
//
// Observations of a key are grouped into session windows, sorted by time, and
// smoothed. A late observation, within the allowed lateness, emits its session
// again, whole, with the next revision. The runner drops later ones.
//
// Smooth panics where the configuration is impossible.
func Smooth(s beam.Scope, cfg SmoothConfig, col beam.PCollection) (smoothed, rejected beam.PCollection) {
	s = s.Scope("hafvf.Smooth")
	if _, err := NewSmoother(cfg); err != nil {
		panic("transforms.Smooth: " + err.Error())
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		panic("transforms.Smooth: " + err.Error())
	}
	admitted, rejected := beam.ParDo2(s, &admitFn{Config: string(text)}, col)
	// A pane holds what came since the one before: reviseFn keeps the rest.
	windowed := beam.WindowInto(s, window.NewSessions(cfg.Gap+span(cfg.Gap)), admitted, beam.AllowedLateness(cfg.AllowedLateness), beam.PanesDiscard())
	sessions := beam.ParDo(s, &gatherFn{Gap: cfg.Gap}, beam.GroupByKey(s, windowed))
	sessions = beam.WindowInto(s, window.NewGlobalWindows(), sessions)
	if cfg.AllowedLateness > 0 {
		sessions = beam.ParDo(s, &reviseFn{
			Gap: cfg.Gap, AllowedLateness: cfg.AllowedLateness,
			Kept: state.MakeValueState[[]byte]("sessions"), Over: timers.InEventTime("over"),
		}, sessions)
	}
	return beam.ParDo(s, &smoothFn{Config: string(text), Revises: cfg.AllowedLateness > 0}, sessions), rejected
}

func parseSmoother(text string) (*Smoother, error) {
	var cfg SmoothConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return nil, err
	}
	return NewSmoother(cfg)
}

// admitFn checks observations and packs them into blocks of one key, without the
// fields that only a rejection needs: the runner's grouping then costs time and
// memory once per block. A block spans at most span(gap) and has the time of its
// first observation.
type admitFn struct {
	Config string

	smoother *Smoother
	cfg      SmoothConfig
	blocks   map[string]*block
	size     int
	report   account.Report
}

// span is the most time that a block covers. Sessions become due later by as much.
func span(gap time.Duration) time.Duration { return (gap / 10).Truncate(time.Millisecond) }

func (fn *admitFn) Setup() (err error) {
	if fn.smoother, err = parseSmoother(fn.Config); err != nil {
		return err
	}
	fn.cfg = fn.smoother.cfg
	return nil
}

func (fn *admitFn) StartBundle(_ func(beam.EventTime, string, []byte), _ func(Rejected)) {
	fn.blocks = map[string]*block{}
	fn.size = 0
}

func (fn *admitFn) ProcessElement(key string, o Observation, emit func(beam.EventTime, string, []byte), reject func(Rejected)) {
	fn.report.Taken++
	if err := fn.smoother.Check(key, o); err != nil {
		fn.report.Counts.Rejected++
		fn.report.Emitted++
		reject(Rejected{Key: key, Observation: o, Reason: err.Error()})
		return
	}
	ts := mtime.FromTime(o.Time)
	b := fn.blocks[key]
	if b != nil && (ts < b.at || ts > b.at.Add(span(fn.cfg.Gap))) {
		emit(b.at, key, b.bytes)
		b = nil
	}
	if b == nil {
		b = &block{at: ts}
		fn.blocks[key] = b
	}
	was := len(b.bytes)
	o.ID, o.Raw = "", ""
	b.bytes = appendObservation(b.bytes, o)
	if fn.size += len(b.bytes) - was; fn.size > packBytes {
		fn.flush(emit)
	}
}

func (fn *admitFn) flush(emit func(beam.EventTime, string, []byte)) {
	for _, key := range slices.Sorted(maps.Keys(fn.blocks)) {
		emit(fn.blocks[key].at, key, fn.blocks[key].bytes)
	}
	clear(fn.blocks)
	fn.size = 0
}

func (fn *admitFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, []byte), _ func(Rejected)) {
	fn.flush(emit)
	addMetrics(ctx, fn.report.Counts)
	account.Of(fn.cfg.Account).Report(fn.report)
	fn.report = account.Report{}
}

// gatherFn cuts a group into sessions: the windows are wider than the gap by the
// span of a block, and the embedded runner merges windows that only touch.
type gatherFn struct{ Gap time.Duration }

func (fn *gatherFn) ProcessElement(key string, values func(*[]byte) bool, emit func(beam.EventTime, string, []byte)) error {
	var all session
	var b []byte
	for values(&b) {
		r := &reader{b: b}
		for len(r.b) > 0 {
			all.observations = append(all.observations, r.observation())
		}
		if r.bad {
			return errCut
		}
	}
	all.sort()
	for _, s := range all.cut(fn.Gap) {
		emit(s.end(), key, s.append(nil))
	}
	return nil
}

// reviseFn keeps the sessions that may still grow, each with its revision, and
// emits a session again, whole, when an observation of it comes late. It does not
// rely on the runner's panes: the embedded runner fires the window of a late
// observation alone, without its session.
type reviseFn struct {
	Gap, AllowedLateness time.Duration
	Kept                 state.Value[[]byte]
	Over                 timers.EventTime
}

func (fn *reviseFn) ProcessElement(sp state.Provider, tp timers.Provider, key string, b []byte, emit func(beam.EventTime, string, []byte)) error {
	s, err := decodeSession(b)
	if err != nil {
		return err
	}
	kept, err := fn.read(sp)
	if err != nil {
		return err
	}
	rest := kept[:0]
	latest := s.end()
	for _, k := range kept {
		latest = max(latest, k.end())
		if !k.near(s, fn.Gap) {
			rest = append(rest, k)
			continue
		}
		s.revision = max(s.revision, k.revision+1)
		s.earlier = append(s.earlier, k)
		// Equal times keep their order: the earlier revision's come first.
		s.observations = append(k.observations, s.observations...)
		s.sort()
	}
	emit(s.end(), key, s.appendRevision(nil))
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

func (fn *reviseFn) read(sp state.Provider) (kept []session, err error) {
	b, _, err := fn.Kept.Read(sp)
	if err != nil {
		return nil, err
	}
	for r := (&reader{b: b}); len(r.b) > 0; {
		s, err := decodeSession([]byte(r.string()))
		if err != nil {
			return nil, err
		}
		kept = append(kept, s)
	}
	return kept, nil
}

// grace is how long after its last observation a session may still grow.
func (fn *reviseFn) grace() time.Duration { return fn.Gap + span(fn.Gap) + fn.AllowedLateness }

// write keeps the sessions that end after horizon.
func (fn *reviseFn) write(sp state.Provider, tp timers.Provider, kept []session, horizon mtime.Time) error {
	var b []byte
	var over mtime.Time
	for _, s := range kept {
		if s.end() > horizon {
			b = appendString(b, string(s.append(nil)))
			over = max(over, s.end().Add(fn.grace()))
		}
	}
	if b == nil {
		return fn.Kept.Clear(sp)
	}
	fn.Over.Set(tp, over.ToTime())
	return fn.Kept.Write(sp, b)
}

// smoothFn smooths sessions, a batch of them in parallel.
type smoothFn struct {
	Config  string
	Revises bool // sessions come with those of which they are the next revision

	smoothers []*Smoother // one for each goroutine
	account   *account.Run
	queue     []*pending
	size      int // of the sessions in the queue, in bytes
	counts    account.Counts
}

// pending is a session that waits to be smoothed, and then its records.
type pending struct {
	key          string
	session      []byte
	revises      bool
	records      []Smoothed
	notConverged int
	err          error
}

// smoothBytes is the size from which waiting sessions are smoothed. It bounds the records
// that are held back, each of which takes about fifty times the bytes of its observation.
const smoothBytes = 64 << 10

func (fn *smoothFn) Setup() error {
	fn.smoothers = make([]*Smoother, runtime.GOMAXPROCS(0))
	for i := range fn.smoothers {
		var err error
		if fn.smoothers[i], err = parseSmoother(fn.Config); err != nil {
			return err
		}
	}
	fn.account = account.Of(fn.smoothers[0].cfg.Account)
	return nil
}

func (fn *smoothFn) StartBundle(_ func(beam.EventTime, string, Smoothed)) {
	fn.queue, fn.size, fn.counts = nil, 0, account.Counts{}
}

func (fn *smoothFn) ProcessElement(_ context.Context, key string, b []byte, emit func(beam.EventTime, string, Smoothed)) error {
	p := &pending{key: key, session: b, revises: fn.Revises}
	if len(b) >= smoothBytes || len(fn.smoothers) == 1 {
		if err := fn.drain(emit); err != nil {
			return err
		}
		// A long session takes two goroutines by itself. No record is held back.
		p.smooth(fn.smoothers[0], func(s Smoothed) { fn.emit(key, s, emit) })
		return fn.done(p)
	}
	fn.queue = append(fn.queue, p)
	if fn.size += len(b); fn.size < smoothBytes {
		return nil
	}
	return fn.drain(emit)
}

// drain smooths the sessions of the queue and emits their records in its order.
func (fn *smoothFn) drain(emit func(beam.EventTime, string, Smoothed)) error {
	parallel.Do(len(fn.queue), len(fn.smoothers), func(worker, i int) {
		p := fn.queue[i]
		p.smooth(fn.smoothers[worker], func(s Smoothed) {
			if p.records == nil {
				p.records = make([]Smoothed, 0, s.Session.N)
			}
			p.records = append(p.records, s)
		})
	})
	for i, p := range fn.queue {
		for _, s := range p.records {
			fn.emit(p.key, s, emit)
		}
		if err := fn.done(p); err != nil {
			return err
		}
		fn.queue[i] = nil
	}
	fn.queue, fn.size = fn.queue[:0], 0
	return nil
}

func (p *pending) smooth(sm *Smoother, emit func(Smoothed)) {
	decode := decodeSession
	if p.revises {
		decode = decodeRevision
	}
	s, err := decode(p.session)
	if err != nil {
		p.err = fmt.Errorf("key %q: %w", p.key, err)
		return
	}
	p.notConverged = sm.revise(p.key, s, emit)
}

func (fn *smoothFn) emit(key string, s Smoothed, emit func(beam.EventTime, string, Smoothed)) {
	fn.counts.Records++
	if s.Missing {
		fn.counts.Missing++
	}
	if s.Change {
		fn.counts.Changes++
	}
	emit(mtime.FromTime(s.Time), key, s)
}

// done counts a session whose records are emitted, or returns its error.
func (fn *smoothFn) done(p *pending) error {
	if p.err != nil {
		return p.err
	}
	if i := fn.smoothers[0].keys.index(p.key); i >= 0 {
		fn.account.Matched(i)
	}
	fn.counts.Sessions++
	fn.counts.NotConverged += int64(p.notConverged)
	return nil
}

func (fn *smoothFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, string, Smoothed)) error {
	if err := fn.drain(emit); err != nil {
		return err
	}
	addMetrics(ctx, fn.counts)
	fn.account.Report(account.Report{Emitted: int(fn.counts.Records), Counts: fn.counts})
	return nil
}

// A session holds a key's observations between two gaps, by time, and how often it
// was emitted before. Earlier are the sessions of which it is the next revision.
type session struct {
	revision     int64
	earlier      []session
	observations []Observation
}

func (s *session) start() mtime.Time { return mtime.FromTime(s.observations[0].Time) }

// end is the time of the last observation.
func (s *session) end() mtime.Time {
	return mtime.FromTime(s.observations[len(s.observations)-1].Time)
}

// near reports whether no gap lies between two sessions.
func (s *session) near(o session, gap time.Duration) bool {
	return s.start() < o.end().Add(gap) && o.start() < s.end().Add(gap)
}

func (s *session) sort() { sortByTime(s.observations) }

// cut splits the session at every gap.
func (s *session) cut(gap time.Duration) (parts []session) {
	from := 0
	for i := 1; i <= len(s.observations); i++ {
		if i == len(s.observations) || mtime.FromTime(s.observations[i].Time) >= mtime.FromTime(s.observations[i-1].Time).Add(gap) {
			parts = append(parts, session{revision: s.revision, observations: s.observations[from:i]})
			from = i
		}
	}
	return parts
}

func (s *session) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.revision))
	for _, o := range s.observations {
		b = appendObservation(b, o)
	}
	return b
}

// appendRevision appends the session with those of which it is the next revision.
func (s *session) appendRevision(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s.earlier)))
	for _, e := range s.earlier {
		b = appendString(b, string(e.append(nil)))
	}
	return s.append(b)
}

func decodeRevision(b []byte) (s session, err error) {
	r := &reader{b: b}
	var earlier []session
	for range r.count(1) {
		e, err := decodeSession([]byte(r.string()))
		if err != nil {
			return s, err
		}
		earlier = append(earlier, e)
	}
	if r.bad {
		return s, errCut
	}
	s, err = decodeSession(r.b)
	s.earlier = earlier
	return s, err
}

func decodeSession(b []byte) (s session, err error) {
	r := &reader{b: b}
	s.revision = int64(r.uvarint())
	for len(r.b) > 0 {
		s.observations = append(s.observations, r.observation())
	}
	if r.bad || len(s.observations) == 0 {
		return s, errCut
	}
	return s, nil
}
