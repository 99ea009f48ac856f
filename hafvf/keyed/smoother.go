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

// SmoothConfig says how the sessions of keys are smoothed.
type SmoothConfig struct {
	// Filter needs a Family, and has neither bank nor detection. If it has no Member, a
	// segments.Segmenter finds the segments of a session, less the Season if there is one. If
	// it has one, there is no season, and the filter smooths by a forward and a backward pass,
	// the smoother of the paper. That looks back: levels {9, 1}, {1, 1} and top 1 suit it
	// better than the filter's default. With a WarmUp above zero the whole session sets its
	// prior.
	Filter hafvf.Config
	// Keys are exceptions, as in Config.
	Keys []Rule
	// Aggregate makes the observations of intervals from the events of a session. Intervals
	// without events go on up to its last event. Nil: what comes are observations.
	Aggregate *Aggregation
	// Order says what a session is. By EventTime, the default, it is the observations of a key
	// between two gaps. By Arrival or Trials it is all observations of a key that have the same
	// Observation.Session, in that order, and there is nothing that goes by times: no Season, Aggregate,
	// Gap or AllowedLateness. Trials takes an observation of each number alone.
	Order Order
	// Gap ends a session: observations that are at least so far apart belong to
	// different ones. It is of the order EventTime; whole milliseconds. Zero is that of GapOf, for an
	// input that ends.
	Gap time.Duration
	// AllowedLateness is how long after its end a session still takes late
	// observations, and is emitted again. Default 0.
	AllowedLateness time.Duration
	// Max is the largest number of observations that are smoothed together; a
	// longer session is divided. Default 10 million.
	Max int
	// Odds is the Bayes factor in favour of a change above which it is reported.
	// Default: DefaultOdds.
	Odds float64
}

func (c SmoothConfig) withDefaults() SmoothConfig {
	c.Order = cmp.Or(c.Order, EventTime)
	c.Max = cmp.Or(c.Max, DefaultMax)
	c.Odds = cmp.Or(c.Odds, c.DefaultOdds())
	return c
}

// RecommendedSmoothing is the configuration to begin with for sessions that end at a gap of that time, or at GapOf if it is zero:
// each sets its prior, and a segments.Segmenter finds its segments. It is that of a config of the
// program with transform: smooth and prior: auto. As for Recommended, some families need more.
func RecommendedSmoothing(family string, gap time.Duration) SmoothConfig {
	return SmoothConfig{Filter: hafvf.Config{Family: family, WarmUp: defaultWarmUp(family)}, Order: EventTime, Gap: gap, Max: DefaultMax}
}

// DefaultMax is what zero stands for in SmoothConfig.Max.
const DefaultMax = 10_000_000

// DefaultOdds are those of a configuration without Odds: 10, and 4 for segments of a family without a scale: there about two sessions in
// a hundred without a change are said to have one if they are short, and fewer if they are long. At 3
// they are three.
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
			return errors.New("allowed lateness: sessions are revised whose gap is known before, and there is none")
		}
	case c.Order == EventTime:
		if err := domain.CheckGap(c.Gap); err != nil {
			return fmt.Errorf("gap: %w", err)
		}
	case c.Order != Arrival && c.Order != Trials:
		return fmt.Errorf("order %q is none of %q, %q and %q", c.Order, EventTime, Arrival, Trials)
	case c.timed() != "":
		return fmt.Errorf("%s goes by times, and the order %q has none", c.timed(), c.Order)
	}
	switch {
	case c.AllowedLateness < 0:
		return fmt.Errorf("allowed lateness %v is negative", c.AllowedLateness)
	case c.Max < 1:
		return fmt.Errorf("max %d is below 1", c.Max)
	case !domain.Odds.Contains(c.Odds):
		return fmt.Errorf("odds must be %s, not %g", domain.Odds.Name, c.Odds)
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

// What ends a session if no gap is configured.
const (
	GapSteps = 30 // of the key
	LeastGap = 30 * time.Minute
)

// GapOf is the gap that ends the sessions of a key with these observations, sorted by time, if none is configured:
// GapSteps median steps between them, and at least LeastGap. The steps of Aggregate are its intervals.
func (c SmoothConfig) GapOf(all []Observation) time.Duration {
	var step time.Duration
	if c.Aggregate != nil {
		step = c.Aggregate.Every
	} else {
		times := make([]time.Time, len(all))
		for i := range all {
			times[i] = all[i].Time
		}
		step = usual.MedianStep(times)
	}
	return max(GapSteps*step.Truncate(time.Millisecond), LeastGap)
}

// timed names a setting that goes by times, or is empty.
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

// A Smoothed is the posterior at one observation given its whole session. Numbers
// that do not apply or are undefined are NaN; infinite ones are ±Inf.
type Smoothed struct {
	Time time.Time
	// ID is key/time/k, k = 0, 1, … among equal times of the key: it depends
	// neither on the source nor on the session's bounds, so that a later
	// revision replaces an earlier one. Without times it is key/session/n, or key/n.
	ID string
	// Origin is the ID of the observation, if that was kept.
	Origin string
	N      int64 // position in the session, from 1
	X      [][]float64
	Shape
	Aggregated bool
	Events     int64
	Carried    string // that of the observation

	Estimate          Moments   // of the likelihood's mean
	Memory            float64   // θ^η − θ₀^η: forward + backward − J
	Posterior         []float64 // as the model's Params describe it
	Forward, Backward Pass      // only of the smoother with levels

	// Segment is the regime that the observation is in, and Outlier the probability that
	// it says nothing of that: an accident. Nil and NaN of the smoother with levels.
	Segment *Segment
	Outlier float64

	Session  Session
	Revision int64 // how often the session was emitted before, with less in it
	// Split says why the session was divided into parts, each smoothed on its own. It is
	// "" where it was not.
	Split string

	ChangeEvidence float64        // log Bayes factor, nats, of a change between the observation before and this one; NaN on the first
	Change         bool           // on the first observation of a new regime
	ChangeInterval ChangeInterval // of the change

	// Changed says, where Revision is above 0, that the revision before had no record of
	// this ID, or one of another observation, place, outlier or change, of a segment that
	// begins elsewhere, or of an estimate that is off by more than a hundredth of its
	// standard deviation. Segment.N, Segment.Estimate and Session do not count: they are on every
	// record of a segment, and an observation at its end changes them. The segment's last
	// record has them as they are.
	Changed bool
	Missing bool
}

// A Segment is a regime of a session, between two changes.
type Segment struct {
	Start    Point     // of its first observation
	N        int64     // observations
	Estimate Moments   // of the likelihood's mean, as if that did not drift in it
	Before   []float64 // mean of the segment before, on the first observation; nil on the others
}

// A ChangeInterval is where a change is, as far as the session tells: the new regime begins, if there
// is one, with an observation From, …, To, with a probability of 95 %.
type ChangeInterval struct {
	From, To    time.Time // zero without times
	FromN, ToN  int64     // positions in the session, from 1
	Probability float64   // of a change that begins there
}

// changeIntervalOf is a place of steps, of which the first is observation from.
func changeIntervalOf(observations []Observation, from int, p expfam.ChangeInterval) ChangeInterval {
	first, last := from+p.From, from+p.To
	return ChangeInterval{observations[first].Time, observations[last].Time, int64(first + 1), int64(last + 1), p.Probability}
}

// A Pass is one direction's part in a smoothed observation.
type Pass struct {
	Weight float64 // E[w]
	Memory float64
	Levels []float64 // alpha, beta of every level, bottom up
}

// A Session is observations of a key that are smoothed together, see SmoothConfig.Order.
type Session struct {
	Start, End Point // of the first and the last observation
	N          int64
	// Drift and Wanders are of sessions without a change, of which a line explains the level, or it walks. A session
	// that is divided into parts has neither.
	Drift   *Drift
	Wanders bool
}

// Moves reports whether the session drifts or wanders.
func (s *Session) Moves() bool { return s.Drift != nil || s.Wanders }

// A Smoother smooths the sessions of keys. It is not safe for concurrent use.
type Smoother struct {
	cfg  SmoothConfig
	keys *byRules[*smoothing]

	aggregator *aggregator // nil without SmoothConfig.Aggregate
}

// A smoothing smooths the sessions of the keys that match the same rules. It has one of filter and
// smoother.
type smoothing struct {
	cfg      hafvf.Config
	filter   *hafvf.Filter // with levels
	smoother *segments.Segmenter
	checks   *hafvf.Filter  // of observations as they come
	model    expfam.Model   // as configured
	fits     bool           // each session sets its prior
	season   *sessionSeason // nil without one
	scale    *scaling
	params   int
}

// NewSmoother makes a smoother. An error names what is wrong with cfg.
func NewSmoother(cfg SmoothConfig) (*Smoother, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	of := Config{Filter: cfg.Filter, Keys: cfg.Keys}.withDefaults()
	keys, err := newByRules(of, func(of Config) (*smoothing, error) { return newSmoothing(of.Filter, cfg.Odds) })
	if err != nil {
		return nil, err
	}
	var a *aggregator
	if cfg.Aggregate != nil {
		a = newAggregator(&AggregateConfig{Aggregation: *cfg.Aggregate}, cfg.Filter.Family)
	}
	return &Smoother{cfg, keys, a}, nil
}

func newSmoothing(cfg hafvf.Config, odds float64) (*smoothing, error) {
	if len(cfg.Bank) > 0 || cfg.Detect != nil {
		return nil, errors.New("a bank or detection is for the filter, not for smoothing")
	}
	if cfg.Season != nil && !findsSegments(cfg) {
		return nil, errors.New("season: smoothing with levels has none; without levels it has segments, which have one")
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
		z.smoother = segments.NewSegmenter(z.model, odds)
	} else {
		z.filter = bank.Filter(0)
	}
	for _, p := range z.model.Params() {
		z.params += p.Size()
	}
	return z, nil
}

// Segments reports whether Smooth finds segments in the sessions of keys that match no rule: the configuration
// gives no filter.
func (c SmoothConfig) Segments() bool { return findsSegments(c.Filter) }

func findsSegments(cfg hafvf.Config) bool { return cfg.Member == nil && len(cfg.Bank) == 0 }

// vectors are those of steps, without missing values, by which a prior is set.
func vectors(steps [][][]float64, dim int) (xs [][]float64) {
	for _, step := range steps {
		xs = append(xs, complete(step)...)
	}
	if len(xs) == 0 {
		xs = [][]float64{make([]float64, dim)} // any prior will do: there is nothing to learn
	}
	return xs
}

// Check says why o is not an observation of the key that Smooth takes.
func (sm *Smoother) Check(key string, o Observation) error {
	if err := domain.CheckKey(key); err != nil {
		return err
	}
	switch {
	case sm.cfg.Order == EventTime && o.Time.IsZero():
		return errors.New("no time; a session needs one")
	case len(o.Session) > domain.MaxKey:
		return fmt.Errorf("the name of its session has %d bytes; at most %d are allowed", len(o.Session), domain.MaxKey)
	}
	if sm.aggregator != nil && sm.aggregator.Value.Counts() {
		return nil
	}
	z := sm.keys.ofKey(key)
	return z.scale.check(z.checks, &o)
}

// Smooth sorts the observations of a key's session, which Check has passed, by point
// and Seq, in place, and calls emit for each. It returns how many updates did not
// converge. Repeats of a trial are rejected. Where the mathematics of the session panic, the
// observations that are not emitted by then are rejected too, the first of them with the PanicError.
func (sm *Smoother) Smooth(key string, observations []Observation, revision int64, emit func(Smoothed)) (notConverged int, rejected []Rejected) {
	observations, rejected = sm.arrange(key, observations)
	z := sm.keys.ofKey(key)
	if sm.aggregator != nil {
		observations = sm.aggregator.observations(key, observations, z.checks.Dim())
	}
	n := len(observations)
	c := division{n: n, parts: (n + sm.cfg.Max - 1) / sm.cfg.Max}
	k := 0                     // among equal times
	id := func(i int) string { // of the observations in their order
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
		out.Aggregated, out.Events, out.Carried = o.Aggregated, o.Events, o.Carried
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
	z.renew(sm.cfg.Odds)
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

// arrange sorts the observations of a session. By Arrival it numbers them as trials, and by Trials it
// rejects those whose trial is there already.
func (sm *Smoother) arrange(key string, observations []Observation) (kept []Observation, rejected []Rejected) {
	slices.SortStableFunc(observations, Observation.Compare)
	switch sm.cfg.Order {
	case Arrival:
		for i := range observations {
			observations[i].Trial = int64(i + 1)
		}
	case Trials:
		kept = observations[:0]
		for _, o := range observations {
			if n := len(kept); n > 0 && kept[n-1].Trial == o.Trial {
				rejected = append(rejected, Rejected{Key: key, Observation: o, Reason: fmt.Sprintf("trial %d of the session %s is there twice: %s has it already", o.Trial, nameOf(key, o.Session), kept[n-1].ID)})
				continue
			}
			kept = append(kept, o)
		}
		return kept, rejected
	}
	return observations, nil
}

// nameOf is the name of a session without times.
func nameOf(key, session string) string {
	if session == "" {
		return key
	}
	return key + "/" + session
}

// try smooths a session. It returns the panic of the mathematics; that of record is raised.
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

// renew makes the smoothing what it was at first, as Estimator.rebuild does.
func (z *smoothing) renew(odds float64) {
	*z = *checked(newSmoothing(z.cfg, odds))
}

// A division divides n observations into parts of about the same length.
type division struct{ n, parts int }

func (c division) part(i int) (from, end int) { return i * c.n / c.parts, (i + 1) * c.n / c.parts }

// partOf is the part that observation i is in.
func (c division) partOf(i int) int { return ((i+1)*c.parts - 1) / c.n }

// divide divides the steps.
func (c division) divide(steps [][][]float64) (parts [][][][]float64) {
	for i := range c.parts {
		from, end := c.part(i)
		parts = append(parts, steps[from:end])
	}
	return parts
}

// steps are the observations as the filter sees them.
func (z *smoothing) steps(observations []Observation) [][][]float64 {
	steps := make([][][]float64, len(observations))
	for i, o := range observations {
		scaled, _ := z.scale.to(o)
		steps[i] = tried(z.model, scaled.X)
	}
	return steps
}

// smoothByPasses smooths by a forward and a backward pass of the filter, each part on its own.
func (z *smoothing) smoothByPasses(observations []Observation, c division, odds float64, record func(int, Smoothed)) (notConverged int) {
	for part := range c.parts {
		from, end := c.part(part)
		steps := z.steps(observations[from:end])
		if z.fits {
			base := z.model.(expfam.Fitted)
			z.filter.Use(base.Fit(base.LocationScale(vectors(steps, z.filter.Dim()))))
		}
		s := z.filter.Smooth(steps)
		notConverged += s.NotConverged
		changes := hafvf.Changes(s.Evidence, odds)
		places := s.ChangeIntervals(changes)
		for t := range steps {
			out := z.smoothedByPasses(s, t)
			z.scale.moments(out.Estimate)
			if len(changes) > 0 && changes[0] == t {
				out.Change, out.ChangeInterval = true, changeIntervalOf(observations, from, places[0])
				changes, places = changes[1:], places[1:]
			}
			record(from+t, out)
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
		to   *Pass
		from hafvf.PassStep
	}{{&out.Forward, s.Forward(t)}, {&out.Backward, s.Backward(t)}} {
		*dir.to = Pass{dir.from.Weight, dir.from.Memory, slice(levels)}
		copyLevels(dir.to.Levels, z.filter, dir.from.State)
	}
	return out
}

// segments smooths inside of segments, which go on over the cuts between parts.
func (z *smoothing) segments(observations []Observation, c division, record func(int, Smoothed)) {
	steps := z.steps(observations)
	var season *seasonOf
	if z.season != nil {
		season = z.season.of(observations, steps)
		season.learn(func(int) float64 { return 1 }, func(int) bool { return false })
		steps = season.removed()
		if season.rhythm != nil {
			z.use(steps)
			parts := z.smoother.Segment(c.divide(steps)...)
			at := func(i int) (*segments.Segmentation, int) {
				from, _ := c.part(c.partOf(i))
				return parts[c.partOf(i)], i - from
			}
			begins := map[int]bool{}
			for i, g := range parts {
				from, _ := c.part(i)
				for _, t := range g.Changes() {
					begins[from+t] = true
				}
			}
			season.learn(func(i int) float64 { g, t := at(i); return 1 - g.Outlier(t) }, func(i int) bool { return begins[i] })
			steps = season.removed()
		}
	}
	z.use(steps)
	var parts []*segments.Segmentation
	var session Session // its trend
	if c.parts == 1 {
		g := z.smoother.Smooth(steps)
		parts = append(parts, g)
		session.Drift = z.drift(observations, steps, g)
		session.Wanders = session.Drift == nil && g.Trend() == segments.Wanders
	} else {
		parts = z.smoother.Segment(c.divide(steps)...)
	}
	var before []float64 // mean of the last observation's segment
	for i, g := range parts {
		from, _ := c.part(i)
		if c.parts > 1 {
			z.smoother.Estimate(g)
		}
		changes, places := g.Changes(), g.Places()
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
				season.restore(from+t, out.Estimate, out.Segment.Estimate, noise[len(noise)/2:])
			}
			z.scale.moments(out.Estimate, out.Segment.Estimate)
			out.Segment.Start = observations[from+g.Segments[k].Start].Point()
			if len(changes) > 0 && changes[0] == t {
				out.Change, out.ChangeInterval = true, changeIntervalOf(observations, from, places[0])
				changes, places = changes[1:], places[1:]
				out.Segment.Before = before
			}
			before = out.Segment.Estimate.Mean
			record(from+t, out)
		}
		parts[i] = nil
	}
}

// use has the smoother use the prior that the steps set, if they set one.
func (z *smoothing) use(steps [][][]float64) {
	if z.fits {
		z.smoother.Fit(vectors(steps, z.smoother.Dim()))
	}
}

// segmented returns the posterior at step t, which is in segment k.
func (z *smoothing) segmented(g *segments.Segmentation, k, t int) Smoothed {
	m := z.smoother.Model()
	outputs := m.Outputs()
	slice := slicer(make([]float64, 4*outputs+z.params))
	out := Smoothed{
		Estimate: Moments{slice(outputs), slice(outputs)}, Posterior: slice(z.params),
		Memory: m.Memory(g.Sample(t)), ChangeEvidence: g.Evidence[t], Missing: g.Missing[t], Outlier: g.Outlier(t),
		Segment: &Segment{N: int64(g.Segments[k].N), Estimate: Moments{slice(outputs), slice(outputs)}},
	}
	copy(out.Estimate.Mean, g.Mean(t))
	copy(out.Estimate.SD, g.SD(t))
	m.Posterior(out.Posterior, g.Sample(t))
	g.SegmentEstimate(out.Segment.Estimate.Mean, out.Segment.Estimate.SD, k, t)
	return out
}

// Revise is Smooth of a session that takes the place of earlier ones, whose observations it
// has too, with Changed of its records. It smooths the earlier ones once more: late
// observations are rare, and nothing else is kept.
func (sm *Smoother) Revise(key string, observations []Observation, revision int64, earlier [][]Observation, emit func(Smoothed)) (notConverged int, rejected []Rejected) {
	if revision == 0 {
		return sm.Smooth(key, observations, 0, emit)
	}
	before := map[string]Smoothed{}
	for _, e := range earlier {
		sm.Smooth(key, e, 0, func(was Smoothed) { before[was.ID] = was })
	}
	return sm.Smooth(key, observations, revision, func(now Smoothed) {
		was, known := before[now.ID]
		now.Changed = !known || now.differs(was)
		emit(now)
	})
}

// differs reports whether a record says something else than that of the revision before.
// Evidence from afar changes every number a little: what is below a hundredth of a standard
// deviation is the same.
func (s *Smoothed) differs(was Smoothed) bool {
	equal := func(x, y []float64) bool {
		return slices.EqualFunc(x, y, func(a, b float64) bool { return near(a, b, 0) })
	}
	if s.N != was.N || !slices.EqualFunc(s.X, was.X, equal) || s.Change != was.Change || !near(s.Outlier, was.Outlier, leastDifference) {
		return true
	}
	if s.Segment != nil && s.Segment.Start.Compare(was.Segment.Start) != 0 {
		return true
	}
	for i, sd := range s.Estimate.SD {
		if sd != sd { // of a scale that has none
			sd = math.Abs(s.Estimate.Mean[i])
		}
		if !near(s.Estimate.Mean[i], was.Estimate.Mean[i], leastDifference*sd) || !near(s.Estimate.SD[i], was.Estimate.SD[i], leastDifference*sd) {
			return true
		}
	}
	return false
}

// leastDifference is the difference of probabilities, or of estimates in standard deviations,
// below which a revision says the same.
const leastDifference = .01

// near reports whether two numbers are at most so far apart, or the same infinity or NaN.
func near(a, b, far float64) bool {
	return math.Abs(a-b) <= far || a == b || a != a && b != b
}
