package keyed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// SmoothConfig configures the smoothing of sessions.
type SmoothConfig struct {
	// Filter needs a Family. It must have neither a bank nor detection. Without a Member, a segments.Segmenter
	// finds the segments of a session, after the Season, if there is one, is subtracted. With a Member, a Season is
	// an error, and the filter smooths by a forward and a backward pass, the smoother of the paper. It also uses
	// later observations, so levels {9, 1}, {1, 1} and top 1 suit it better than the filter's default. With a
	// WarmUp above zero, the whole session sets its prior.
	Filter hafvf.Config
	// Keys are exceptions, as in Config.
	Keys []Rule
	// Aggregate summarises the events of a session in intervals, including empty ones before the last event. Nil:
	// the input consists of observations.
	Aggregate *Aggregation
	// Order defines a session. With EventTime, the default, it is the observations of a key between two gaps. With
	// Arrival or Trials it is all observations of a key with the same Observation.Session, in that order. These
	// orders do not use times, so Season, Aggregate, Gap and AllowedLateness must not be set. Trials accepts one
	// observation of each number.
	Order Order
	// Gap ends a session: observations that are at least Gap apart belong to different sessions. It needs the order
	// EventTime, and is a whole number of milliseconds. Zero means DefaultGap, for bounded input.
	Gap time.Duration
	// AllowedLateness is the time after the end of a session in which it accepts late observations and is emitted
	// again. Default 0.
	AllowedLateness time.Duration
	// Max is the maximum number of observations that are smoothed together. A longer session is divided. Default 10
	// million.
	Max int
	// Odds is the Bayes factor for a change above which the change is reported. Default: DefaultOdds.
	Odds float64
	// LevelsOnly says that sessions of the family normal have levels by design, as in segments.Segmenter.LevelsOnly.
	// It needs the family normal without levels.
	LevelsOnly bool
}

func (c SmoothConfig) withDefaults() SmoothConfig {
	c.Order = cmp.Or(c.Order, EventTime)
	c.Max = cmp.Or(c.Max, DefaultMax)
	c.Odds = cmp.Or(c.Odds, c.DefaultOdds())
	return c
}

// RecommendedSmoothing returns a configuration to start with. Sessions end at gaps of the given duration, or of
// DefaultGap if it is zero. Each session sets its prior, and a segments.Segmenter finds its segments. It equals the
// program's config with transform: smooth and prior: auto. Some families need more settings, see Recommended.
func RecommendedSmoothing(family string, gap time.Duration) SmoothConfig {
	return SmoothConfig{Filter: hafvf.Config{Family: family, WarmUp: defaultWarmUp(family)}, Order: EventTime, Gap: gap, Max: DefaultMax}
}

// DefaultMax is the default of SmoothConfig.Max.
const DefaultMax = 10_000_000

// DefaultOdds returns the default of Odds: 10, or 4 for segments of a family without a scale. For such a family, odds
// of 4 report a change in about 2 % of short sessions without a change, and in fewer of long ones; odds of 3 in 3 %.
func (c SmoothConfig) DefaultOdds() float64 {
	if m, err := expfam.New(c.Filter.Family, c.Filter.Prior, c.Filter.Dim); err == nil && findsSegments(c.Filter) {
		if _, scaleless := m.(expfam.Scaleless); scaleless {
			return 4
		}
	}
	return 10
}

func (c SmoothConfig) validate() error {
	switch {
	case c.Order == EventTime && c.Gap == 0:
		if c.AllowedLateness != 0 {
			return errors.New("allowed lateness: only sessions with a configured gap are revised: set a gap")
		}
	case c.Order == EventTime:
		if err := domain.CheckGap(c.Gap); err != nil {
			return fmt.Errorf("gap: %w", err)
		}
	case c.Order != Arrival && c.Order != Trials:
		return fmt.Errorf("unknown order %q: use %q, %q or %q", c.Order, EventTime, Arrival, Trials)
	case c.timed() != "":
		return fmt.Errorf("%s needs times, and the order %q has none", c.timed(), c.Order)
	}
	switch {
	case c.AllowedLateness < 0:
		return fmt.Errorf("allowed lateness %v is negative", c.AllowedLateness)
	case c.Max < 1:
		return fmt.Errorf("max %d is below 1", c.Max)
	case !domain.Odds.Contains(c.Odds):
		return fmt.Errorf("odds must be %s, not %g", domain.Odds.Name, c.Odds)
	case c.LevelsOnly && (c.Filter.Family != "normal" || !findsSegments(c.Filter)):
		return errors.New("levels only: this is for segments of the family normal")
	}
	if a := c.Aggregate; a != nil {
		if err := a.Check(); err != nil {
			return fmt.Errorf("aggregate: %w", err)
		}
		if c.Gap != 0 && c.Gap < a.Every {
			return fmt.Errorf("gap %v is below the %v of an interval, which two sessions would share", c.Gap, a.Every)
		}
	}
	return checkRules(c.Filter, c.Keys)
}

// Default end of a session.
const (
	GapSteps = 30 // median steps of the key
	MinGap   = 30 * time.Minute
)

// DefaultGap returns the default gap for a key with these observations, sorted by time: GapSteps median steps, and at
// least MinGap. With Aggregate, a step is an interval.
func (c SmoothConfig) DefaultGap(observations []Observation) time.Duration {
	var step time.Duration
	if c.Aggregate != nil {
		step = c.Aggregate.Every
	} else {
		times := make([]time.Time, len(observations))
		for i := range observations {
			times[i] = observations[i].Time
		}
		step = usual.MedianStep(times)
	}
	return max(GapSteps*step.Truncate(time.Millisecond), MinGap)
}

// timed returns the name of a setting that needs times, or "".
func (c SmoothConfig) timed() string {
	switch {
	case c.Filter.Season != nil || slices.ContainsFunc(c.Keys, func(r Rule) bool { return r.Filter.Season != nil }):
		return "season"
	case c.Aggregate != nil:
		return "aggregate"
	case c.Gap != 0:
		return "gap"
	case c.AllowedLateness != 0:
		return "allowed lateness"
	}
	return ""
}

// A Smoothed is the posterior at one observation given its whole session. Numbers that do not apply or are
// undefined are NaN; infinite numbers are ±Inf.
type Smoothed struct {
	Time time.Time
	// ID is key/time/k, with k = 0, 1, … for equal times of the key. It depends neither on the source nor on the
	// bounds of the session, so that a later revision replaces an earlier one. Without times it is key/session/n,
	// or key/n.
	ID string
	// Origin is the ID of the observation, if it has one.
	Origin string
	N      int64 // position in the session, from 1
	X      [][]float64
	Shape
	Aggregated  bool
	Events      int64
	ExtraFields string // of the observation

	Estimate          Moments   // of the likelihood's mean
	Memory            float64   // θ^η − θ₀^η: forward + backward − J
	Posterior         []float64 // in the order of the model's Params
	Forward, Backward Pass      // only of the smoother with levels

	// Segment is the regime of the observation. Outlier is the probability that the observation says nothing about
	// the regime. They are nil and NaN for the smoother with levels.
	Segment *Segment
	Outlier float64

	Session  Session
	Revision int64 // number of earlier emissions of the session, each with fewer observations
	// Split is the reason why the session was divided into parts that were smoothed separately; "" if it was not.
	Split string

	ChangeEvidence float64        // log Bayes factor, nats, of a change since the previous observation; NaN on the first
	Change         bool           // this is the first observation of a new regime
	ChangeInterval ChangeInterval // of the change

	// Changed is for Revision above 0. It reports that the previous revision had no record of this ID, or that the
	// observation, its position, the outlier, the change or the start of the segment differs, or that the estimate
	// differs by more than a hundredth of its standard deviation. Segment.N, Segment.Estimate, Segment.Scatter and
	// Session do not count: every record of a segment contains them, and a new observation at its end changes them.
	// The last record of the segment has their current values.
	Changed bool
	Missing bool
}

// A Segment is a regime of a session, between two changes.
type Segment struct {
	Start    Point   // of its first observation
	N        int64   // observations
	Estimate Moments // of the likelihood's mean, as if it did not drift in the segment
	// Scatter is the standard deviation of one observation that is no accident, as if the mean did not drift. It is
	// NaN for families without a scale, because their mean determines it.
	Scatter []float64
	Before  Moments // Level of the previous segment, on the first observation; empty on others
}

// A ChangeInterval locates a change: if there is one, the new regime starts at one of the observations From to To
// with a probability of 95 %.
type ChangeInterval struct {
	From, To    time.Time // zero without times
	FromN, ToN  int64     // positions in the session, from 1
	Probability float64   // that there is a change in the interval
}

// changeIntervalOf converts an interval of steps to observations. The first step is observation start.
func changeIntervalOf(observations []Observation, start int, p expfam.ChangeInterval) ChangeInterval {
	first, last := start+p.From, start+p.To
	return ChangeInterval{observations[first].Time, observations[last].Time, int64(first + 1), int64(last + 1), p.Probability}
}

// A Pass is the part of the forward or of the backward pass in a smoothed observation.
type Pass struct {
	Weight float64 // E[w]
	Memory float64
	Levels []float64 // alpha, beta of every level, bottom up
}

// A Session is observations of a key that are smoothed together, see SmoothConfig.Order.
type Session struct {
	Start, End Point // of the first and the last observation
	N          int64
	// Drift and Wanders are for sessions without a change: a line explains the level, or the level is a random
	// walk. They are not set for sessions that are divided into parts.
	Drift   *Drift
	Wanders bool
	// Kind is the explanation of the session that has the highest evidence: levels, correlated, walk or line. Against
	// is its log Bayes factor against the next kind, in nats. They are "" and 0 for families other than normal, and for
	// long or divided sessions.
	Kind    string
	Against float64
}

// Moves reports whether the session drifts or wanders.
func (s *Session) Moves() bool { return s.Drift != nil || s.Wanders }

// A Smoother smooths the sessions of keys. It is not safe for concurrent use.
type Smoother struct {
	cfg  SmoothConfig
	keys *byRules[*smoothing]

	aggregator *aggregator // nil without SmoothConfig.Aggregate
}

// A smoothing smooths the sessions of keys that match the same rules. Either filter or smoother is nil.
type smoothing struct {
	cfg      hafvf.Config
	filter   *hafvf.Filter // smoother with levels
	smoother *segments.Segmenter
	checks   *hafvf.Filter  // checks observations before they are scaled
	model    expfam.Model   // as configured
	fits     bool           // each session sets its prior
	season   *sessionSeason // nil without a season
	scale    *scaling
	params   int
}

// NewSmoother returns a Smoother. The error names what is wrong with cfg.
func NewSmoother(cfg SmoothConfig) (*Smoother, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	withRules := Config{Filter: cfg.Filter, Keys: cfg.Keys}.withDefaults()
	keys, err := newByRules(withRules, func(keyCfg Config) (*smoothing, error) { return newSmoothing(keyCfg.Filter, cfg) })
	if err != nil {
		return nil, err
	}
	var a *aggregator
	if cfg.Aggregate != nil {
		a = newAggregator(&AggregateConfig{Aggregation: *cfg.Aggregate}, cfg.Filter.Family)
	}
	return &Smoother{cfg, keys, a}, nil
}

func newSmoothing(cfg hafvf.Config, sessions SmoothConfig) (*smoothing, error) {
	if len(cfg.Bank) > 0 || cfg.Detect != nil {
		return nil, errors.New("a bank or detection is for the filter, not for smoothing")
	}
	if cfg.Season != nil && !findsSegments(cfg) {
		return nil, errors.New("season: smoothing with levels does not support it: remove the levels or the season")
	}
	bank, err := cfg.NewBank()
	if err != nil {
		return nil, err
	}
	z := &smoothing{cfg: cfg, checks: newChecks(cfg), model: bank.Model(), fits: cfg.WarmUp > 0, scale: newScaling(cfg, bank)}
	if cfg.Season != nil {
		z.season = newSessionSeason(cfg, bank)
	}
	if findsSegments(cfg) {
		z.smoother = segments.NewSegmenter(z.model, sessions.Odds)
		if sessions.LevelsOnly {
			z.smoother.LevelsOnly()
		}
	} else {
		z.filter = bank.Filter(0)
	}
	for _, p := range z.model.Params() {
		z.params += p.Size()
	}
	return z, nil
}

// Segments reports whether Smooth finds segments in the sessions of keys that match no rule, because the
// configuration has neither a Member nor a Bank.
func (c SmoothConfig) Segments() bool { return findsSegments(c.Filter) }

func findsSegments(cfg hafvf.Config) bool { return cfg.Member == nil && len(cfg.Bank) == 0 }

// vectors returns the complete vectors of steps, from which to set a prior.
func vectors(steps [][][]float64, dim int) (xs [][]float64) {
	for _, step := range steps {
		xs = append(xs, complete(step)...)
	}
	if len(xs) == 0 {
		xs = [][]float64{make([]float64, dim)} // nothing is learned, so the prior does not matter
	}
	return xs
}

// Check returns an error if Smooth cannot use o as an observation of the key.
func (sm *Smoother) Check(key string, o Observation) error {
	if err := domain.CheckKey(key); err != nil {
		return err
	}
	switch {
	case sm.cfg.Order == EventTime && o.Time.IsZero():
		return fmt.Errorf("%w; a session needs one", ErrNoTime)
	case len(o.Session) > domain.MaxKey:
		return fmt.Errorf("the name of its session has %d bytes; at most %d are allowed", len(o.Session), domain.MaxKey)
	}
	if sm.aggregator != nil && sm.aggregator.Value.Counts() {
		return nil
	}
	z := sm.keys.ofKey(key)
	return z.scale.check(z.checks, &o)
}

// Smooth smooths a session of a key, and calls emit for each observation. Check must have accepted the
// observations. Smooth sorts them in place by point and Seq. notConverged is the number of updates that did not
// converge. Repeated trials are rejected. If the mathematics panic, the observations that are not emitted yet are
// also rejected, the first of them with the PanicError.
func (sm *Smoother) Smooth(key string, observations []Observation, revision int64, emit func(Smoothed)) (notConverged int, rejected []Rejected) {
	observations, rejected = sm.arrange(key, observations)
	z := sm.keys.ofKey(key)
	if sm.aggregator != nil {
		observations = sm.aggregator.observations(key, observations, z.checks.Dim())
	}
	n := len(observations)
	c := division{n: n, parts: (n + sm.cfg.Max - 1) / sm.cfg.Max}
	k := 0                     // counts equal times
	id := func(i int) string { // call it for increasing i
		if sm.cfg.Order != EventTime {
			return fmt.Sprintf("%s/%d", nameOf(key, observations[i].Session), i+1)
		}
		if i > 0 && observations[i].Time.Equal(observations[i-1].Time) {
			k++
		} else {
			k = 0
		}
		return fmt.Sprintf("%s/%s/%d", key, stamp(observations[i].Time), k)
	}
	done, emitting := 0, false
	record := func(i int, out Smoothed) {
		o := observations[i]
		out.Time, out.N, out.X, out.Shape = o.Time, int64(i+1), o.X, o.Shape
		out.Aggregated, out.Events, out.ExtraFields = o.Aggregated, o.Events, o.ExtraFields
		out.ID, out.Origin = id(i), o.ID
		out.Session.Start, out.Session.End, out.Session.N = observations[0].Point(), observations[n-1].Point(), int64(n)
		out.Revision = revision
		if c.parts > 1 {
			out.Split = fmt.Sprintf("%d observations, at most %d are smoothed as one: part %d of %d", n, sm.cfg.Max, c.partOf(i)+1, c.parts)
		}
		emitting = true
		emit(out)
		emitting = false
		done = i + 1
	}
	notConverged, failed := z.try(observations, c, sm.cfg.Odds, &emitting, record)
	if failed == nil {
		return notConverged, rejected
	}
	z.renew(sm.cfg)
	first := len(rejected)
	for i := done; i < n; i++ {
		o := observations[i]
		o.ID = id(i)
		rejected = append(rejected, Rejected{Key: key, Observation: o, Reason: "not smoothed: with the session of this record " + failed.Error()})
	}
	if len(rejected) > first {
		rejected[first].Panic = failed
	}
	return notConverged, rejected
}

// arrange sorts the observations of a session. For Arrival it numbers them as trials. For Trials it rejects an
// observation whose trial occurred before.
func (sm *Smoother) arrange(key string, observations []Observation) (accepted []Observation, rejected []Rejected) {
	slices.SortStableFunc(observations, Observation.Compare)
	switch sm.cfg.Order {
	case Arrival:
		for i := range observations {
			observations[i].Trial = int64(i + 1)
		}
	case Trials:
		accepted = observations[:0]
		for _, o := range observations {
			if n := len(accepted); n > 0 && accepted[n-1].Trial == o.Trial {
				rejected = append(rejected, Rejected{Key: key, Observation: o, Reason: fmt.Sprintf("trial %d of the session %s occurs twice: the first is %s", o.Trial, nameOf(key, o.Session), accepted[n-1].ID)})
				continue
			}
			accepted = append(accepted, o)
		}
		return accepted, rejected
	}
	return observations, nil
}

// nameOf returns the name of a session without times.
func nameOf(key, session string) string {
	if session == "" {
		return key
	}
	return key + "/" + session
}

// try smooths a session. It returns a panic of the mathematics, but does not recover one of record.
func (z *smoothing) try(observations []Observation, c division, odds float64, emitting *bool, record func(int, Smoothed)) (notConverged int, failed *PanicError) {
	defer func() {
		if *emitting {
			return
		}
		if p := recover(); p != nil {
			failed = newPanicError(p)
		}
	}()
	if z.smoother != nil {
		z.segments(observations, c, record)
		return 0, nil
	}
	return z.smoothByPasses(observations, c, odds, record), nil
}

// renew resets z to its initial state, as Estimator.renew does.
func (z *smoothing) renew(sessions SmoothConfig) {
	*z = *checked(newSmoothing(z.cfg, sessions))
}

// A division divides n observations into parts of nearly equal length.
type division struct{ n, parts int }

func (c division) part(i int) (start, end int) { return i * c.n / c.parts, (i + 1) * c.n / c.parts }

// partOf returns the part that contains observation i.
func (c division) partOf(i int) int { return ((i+1)*c.parts - 1) / c.n }

// divide divides the steps.
func (c division) divide(steps [][][]float64) (parts [][][][]float64) {
	for i := range c.parts {
		start, end := c.part(i)
		parts = append(parts, steps[start:end])
	}
	return parts
}

// steps returns the observations on the scale of the filter.
func (z *smoothing) steps(observations []Observation) [][][]float64 {
	steps := make([][][]float64, len(observations))
	for i, o := range observations {
		scaled, _ := z.scale.toScale(o)
		steps[i] = withoutEmptyTrials(z.model, scaled.X)
	}
	return steps
}

// smoothByPasses smooths by a forward and a backward pass of the filter, separately for each part.
func (z *smoothing) smoothByPasses(observations []Observation, c division, odds float64, record func(int, Smoothed)) (notConverged int) {
	for part := range c.parts {
		start, end := c.part(part)
		steps := z.steps(observations[start:end])
		if z.fits {
			base := z.model.(expfam.Fitted)
			z.filter.Use(base.Fit(base.LocationScale(vectors(steps, z.filter.Dim()))))
		}
		s := z.filter.Smooth(steps)
		notConverged += s.NotConverged
		changes := hafvf.Changes(s.Evidence, odds)
		changeIntervals := s.ChangeIntervals(changes)
		for t := range steps {
			out := z.smoothedByPasses(s, t)
			z.scale.momentsToData(out.Estimate)
			if len(changes) > 0 && changes[0] == t {
				out.Change, out.ChangeInterval = true, changeIntervalOf(observations, start, changeIntervals[0])
				changes, changeIntervals = changes[1:], changeIntervals[1:]
			}
			record(start+t, out)
		}
	}
	return notConverged
}

// smoothedByPasses returns the posterior at step t.
func (z *smoothing) smoothedByPasses(s *hafvf.Posteriors, t int) Smoothed {
	m := z.filter.Model()
	outputs, levels := m.Outputs(), 2*z.filter.Levels()
	slice := slicer(make([]float64, 2*outputs+2*levels+z.params))
	out := Smoothed{
		Estimate: Moments{slice(outputs), slice(outputs)}, Posterior: slice(z.params),
		Memory: s.Memory(t), ChangeEvidence: s.Evidence[t], Missing: s.Missing[t], Outlier: math.NaN(),
	}
	s.Estimate(out.Estimate.Mean, out.Estimate.SD, t)
	m.Posterior(out.Posterior, s.Sample(t))
	for _, dir := range []struct {
		dst  *Pass
		step hafvf.PassStep
	}{{&out.Forward, s.Forward(t)}, {&out.Backward, s.Backward(t)}} {
		*dir.dst = Pass{dir.step.Weight, dir.step.Memory, slice(levels)}
		copyLevels(dir.dst.Levels, z.filter, dir.step.State)
	}
	return out
}

// segments smooths within segments. A segment can extend over several parts.
func (z *smoothing) segments(observations []Observation, c division, record func(int, Smoothed)) {
	steps := z.steps(observations)
	var season *fittedSeason
	if z.season != nil {
		season = z.season.start(observations, steps)
		season.learn(func(int) float64 { return 1 }, func(int) bool { return false })
		steps = season.removeAll()
		if season.rhythm != nil {
			z.use(steps)
			parts := z.smoother.Segment(c.divide(steps)...)
			find := func(i int) (*segments.Segmentation, int) {
				start, _ := c.part(c.partOf(i))
				return parts[c.partOf(i)], i - start
			}
			starts := map[int]bool{}
			for i, g := range parts {
				start, _ := c.part(i)
				for _, t := range g.Changes() {
					starts[start+t] = true
				}
			}
			season.learn(func(i int) float64 { g, t := find(i); return 1 - g.Outlier(t) }, func(i int) bool { return starts[i] })
			steps = season.removeAll()
		}
	}
	z.use(steps)
	var parts []*segments.Segmentation
	var session Session // with the trend and the kind
	if c.parts == 1 {
		g := z.smoother.Smooth(steps)
		parts = append(parts, g)
		session.Drift = z.drift(observations, steps, g)
		session.Wanders = session.Drift == nil && g.Trend() == segments.Wanders
		kind, against := g.Kind()
		session.Kind, session.Against = kind.String(), against
	} else {
		parts = z.smoother.Segment(c.divide(steps)...)
	}
	var before Moments // level of the previous observation's segment
	for i, g := range parts {
		start, _ := c.part(i)
		if c.parts > 1 {
			z.smoother.Estimate(g)
		}
		changes, changeIntervals := g.Changes(), g.Places()
		k := 0
		for t := range g.Len() {
			for k+1 < len(g.Segments) && g.Segments[k+1].Start <= t {
				k++
			}
			out := z.segmented(g, k, t)
			out.Session = session
			if season != nil {
				noise := make([]float64, 2*len(out.Estimate.Mean))
				g.Predict(noise[:len(noise)/2], noise[len(noise)/2:], t)
				season.restore(start+t, out.Estimate, out.Segment.Estimate, noise[len(noise)/2:])
			}
			// The scatter is converted at the mean of the segment, too.
			z.scale.momentsToData(out.Estimate, Moments{slices.Clone(out.Segment.Estimate.Mean), out.Segment.Scatter}, out.Segment.Estimate)
			out.Segment.Start = observations[start+g.Segments[k].Start].Point()
			if len(changes) > 0 && changes[0] == t {
				out.Change, out.ChangeInterval = true, changeIntervalOf(observations, start, changeIntervals[0])
				changes, changeIntervals = changes[1:], changeIntervals[1:]
				out.Segment.Before = before
			}
			before = out.Segment.Level()
			record(start+t, out)
		}
		parts[i] = nil
	}
}

// use sets the prior of the smoother from the steps, if sessions set their prior.
func (z *smoothing) use(steps [][][]float64) {
	if z.fits {
		z.smoother.Fit(vectors(steps, z.smoother.Dim()))
	}
}

// segmented returns the posterior at step t, which is in segment k.
func (z *smoothing) segmented(g *segments.Segmentation, k, t int) Smoothed {
	m := z.smoother.Model()
	outputs := m.Outputs()
	slice := slicer(make([]float64, 5*outputs+z.params))
	out := Smoothed{
		Estimate: Moments{slice(outputs), slice(outputs)}, Posterior: slice(z.params),
		Memory: m.Memory(g.Sample(t)), ChangeEvidence: g.Evidence[t], Missing: g.Missing[t], Outlier: g.Outlier(t),
		Segment: &Segment{N: int64(g.Segments[k].N), Estimate: Moments{slice(outputs), slice(outputs)}, Scatter: slice(outputs)},
	}
	copy(out.Estimate.Mean, g.Mean(t))
	copy(out.Estimate.SD, g.SD(t))
	m.Posterior(out.Posterior, g.Sample(t))
	if _, scaleless := m.(expfam.Scaleless); scaleless {
		out.Segment.Scatter = slices.Repeat([]float64{math.NaN()}, outputs)
	} else {
		g.PredictSegment(out.Segment.Estimate.Mean, out.Segment.Scatter, k, t) // the mean is overwritten below
	}
	g.SegmentEstimate(out.Segment.Estimate.Mean, out.Segment.Estimate.SD, k, t)
	return out
}

// Revise is Smooth for a session that replaces the earlier ones and contains their observations. It sets Changed.
// To compare, it smooths the earlier sessions again: late observations are rare, and their results are not stored.
func (sm *Smoother) Revise(key string, observations []Observation, revision int64, earlier [][]Observation, emit func(Smoothed)) (notConverged int, rejected []Rejected) {
	if revision == 0 {
		return sm.Smooth(key, observations, 0, emit)
	}
	before := map[string]Smoothed{}
	for _, e := range earlier {
		sm.Smooth(key, e, 0, func(old Smoothed) { before[old.ID] = old })
	}
	return sm.Smooth(key, observations, revision, func(now Smoothed) {
		old, known := before[now.ID]
		now.Changed = !known || now.differs(old)
		emit(now)
	})
}

// differs reports whether a record differs from the record old of the previous revision. It ignores differences
// below a hundredth of a standard deviation, because distant observations change every number a little.
func (s *Smoothed) differs(old Smoothed) bool {
	equal := func(x, y []float64) bool {
		return slices.EqualFunc(x, y, func(a, b float64) bool { return near(a, b, 0) })
	}
	if s.N != old.N || !slices.EqualFunc(s.X, old.X, equal) || s.Change != old.Change || !near(s.Outlier, old.Outlier, minDifference) {
		return true
	}
	if s.Segment != nil && s.Segment.Start.Compare(old.Segment.Start) != 0 {
		return true
	}
	for i, sd := range s.Estimate.SD {
		if sd != sd { // the scale has no standard deviation
			sd = math.Abs(s.Estimate.Mean[i])
		}
		if !near(s.Estimate.Mean[i], old.Estimate.Mean[i], minDifference*sd) || !near(s.Estimate.SD[i], old.Estimate.SD[i], minDifference*sd) {
			return true
		}
	}
	return false
}

// minDifference is the minimum difference of probabilities, or of estimates in standard deviations, that a revision
// reports.
const minDifference = .01

// near reports whether a and b differ by at most tolerance, or are the same infinity or both NaN.
func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance || a == b || a != a && b != b
}
