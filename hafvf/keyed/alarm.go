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
	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
	"hafvf/internal/domain"
	"hafvf/internal/linear"
)

// AlarmConfig configures when detection raises an alarm. Start with DefaultAlarms: a zero field is used as zero, not
// replaced by a default. Changed settings do not affect the states of keys, except for Seasons, Zone and Order: if one
// of these changes, the key's profile is reset, and raises no alarm until it has seen as many observations as a
// warm-up.
type AlarmConfig struct {
	// Budget is the number of observations per alarm, at least 1; zero if BudgetTime applies.
	Budget float64
	// BudgetTime is the time per alarm, for keys whose observations have times. It is converted to observations at
	// the median step of the warm-up. A key without times uses usual.DefaultBudget.
	BudgetTime time.Duration
	// Rest is in observations, at least 0, or usual.AutoRest: seven hours, within 6 to 60 observations. An episode ends
	// at the latest after half of it without an unusual observation: a later deviation is another incident.
	Rest int
	// RestTime, if not zero, replaces Rest for keys whose observations have times. It is converted to observations at
	// the median step of the warm-up. A key without times then uses usual.AutoRest.
	RestTime time.Duration
	// Settling is how long the threshold of a new key is raised. In the first eighth of this time, changes raise no
	// alarm. Zero disables both.
	Settling time.Duration
	// Seasons are the seasons of the profile, for keys whose observations have times. Empty: none.
	Seasons []usual.Season
	Zone    string // time zone of the seasons, an IANA name; empty for UTC
	// Holidays are treated as another day of the week, in the profile and for silences. States do not depend on them.
	Holidays usual.Holidays
	// Monthly are days of the month on which the usual values differ. States do not depend on their choice.
	Monthly []usual.MonthDay
	// Order is the order of the profile's autoregressive view; 0 disables the view.
	Order int
}

// DefaultAlarms returns the recommended settings: about one alarm a week, a rest of seven hours, and a profile of day,
// week and the last three values.
func DefaultAlarms() AlarmConfig {
	return AlarmConfig{
		BudgetTime: usual.DefaultBudgetTime, Rest: usual.AutoRest, Settling: usual.DefaultSettling,
		Seasons: usual.DefaultSeasons(), Zone: "UTC", Order: usual.DefaultProfile().Order,
	}
}

func (c AlarmConfig) calendar() *usual.Calendar {
	return checked(usual.NewCalendar(checked(domain.Zone(c.Zone)), c.Holidays, c.Monthly...))
}

func (c AlarmConfig) validate() error {
	switch {
	case c.Budget != 0 && !domain.Budget.Contains(c.Budget):
		return fmt.Errorf("budget must be %s, not %g", domain.Budget.Name, c.Budget)
	case c.Budget == 0 && c.BudgetTime <= 0:
		return fmt.Errorf("budget %v is not above zero", c.BudgetTime)
	case c.Rest < usual.AutoRest:
		return fmt.Errorf("rest %d is negative", c.Rest)
	case c.RestTime < 0:
		return fmt.Errorf("rest %v is negative", c.RestTime)
	case c.Settling < 0:
		return fmt.Errorf("settling %v is negative", c.Settling)
	}
	zone, err := domain.Zone(c.Zone)
	if err != nil {
		return fmt.Errorf("zone: %w", err)
	}
	if _, err := usual.NewCalendar(zone, c.Holidays); err != nil {
		return fmt.Errorf("holidays: %w", err)
	}
	for i, day := range c.Monthly {
		if !slices.Contains(usual.MonthDays(), day) {
			return fmt.Errorf("monthly.%d: unknown day %q of a month: use one of %v", i, day, usual.MonthDays())
		}
		if slices.Contains(c.Monthly[:i], day) {
			return fmt.Errorf("monthly.%d: %s is there twice", i, day)
		}
	}
	return usual.ProfileConfig{Seasons: c.Seasons, Order: c.Order}.Validate()
}

// BudgetOf returns the number of observations per alarm of a key. step is the median time between the observations of
// its warm-up, or 0 without times.
func (c AlarmConfig) BudgetOf(step time.Duration) float64 {
	if c.Budget != 0 {
		return c.Budget
	}
	return usual.BudgetOver(c.BudgetTime, step)
}

// PaceOf returns the pace of the alarms of a key. step is as in BudgetOf.
func (c AlarmConfig) PaceOf(step time.Duration) usual.Pace {
	rest := c.Rest
	switch {
	case c.RestTime > 0 && step > 0:
		rest = int(c.RestTime / step)
	case c.RestTime > 0:
		rest = usual.AutoRest
	}
	return checked(usual.NewPace(c.BudgetOf(step), step, rest, c.Settling))
}

// A decider decides whether keys raise alarms. One decider serves all keys that match the same rules.
type decider struct {
	observed
	counted     expfam.Counted // nil for other models
	cfg         AlarmConfig
	lookback    time.Duration // see Config
	warmUp      int           // number of first observations, which set decisions.standard and timed
	outputs     int
	timed       *usual.Profile      // for keys with times
	untimed     *usual.Profile      // for keys without times
	fingerprint compact.Fingerprint // of the settings of the profiles
	calendar    *usual.Calendar     // for the profile, and for the times in messages
	categories  bool                // the values are categories
	averages    bool                // intervals vary less if they have more events
	measured    bool                // the values are measured, and not counted
}

// observed describes the observation that a decider processed last.
type observed struct {
	y, standard   []float64
	single        bool // the step has one vector
	evidence      usual.Evidence
	usual         Moments           // usual values, on the scale of the filter; NaN if there are none
	recentSD      []float64         // recent SD of usual, by output; no decision depends on it
	spread        []float64         // by output: factor of SD for the hour and the number of events
	planned       []bool            // by output: the offset of the hour of the week is larger than recentSD
	movesMost     bool              // the autoregressive view gave the largest score
	stuck         bool              // equal values in a row gave the largest score
	joint         bool              // the coordinates together gave the largest score, and
	pair          [2]int            // the two outputs that show it best
	accepted      bool              // the profile has accepted a new level
	missed        usual.MissedSpike // the missed spike of the alarm, on the scale of the filter; else zero
	profileBefore hafvf.State       // profile before the observation, if no episode is open
	// Of a known episode:
	deviations   []float64 // by output
	farther      bool      // the values are worse than reported
	covered      bool      // an ended episode has reported the deviation, or the values return
	fromBaseline bool      // an alarm is reported relative to the baseline
}

// newDecider returns the decider for the keys of all that have the filter. m is the model of the filter.
func newDecider(config Config, filter hafvf.Config, m expfam.Model) *decider {
	cfg := *config.Alarms
	n := m.Outputs()
	_, categories := m.(expfam.Discrete)
	counted, _ := m.(expfam.Counted)
	d := &decider{
		cfg: cfg, lookback: config.Lookback, warmUp: cmp.Or(filter.WarmUp, DefaultWarmUp), outputs: n, fingerprint: compact.FingerprintOf(textOf([]any{cfg.Seasons, cfg.Zone, cfg.Order})),
		categories: categories, counted: counted, calendar: cfg.calendar(),
		averages: config.Aggregate == nil || config.Aggregate.Value.Averages(),
		measured: hafvf.Scalable(filter.Family) == nil,
		observed: observed{planned: make([]bool, n)},
	}
	for _, list := range [...]*[]float64{&d.y, &d.standard, &d.usual.Mean, &d.usual.SD, &d.recentSD, &d.spread, &d.deviations} {
		*list = make([]float64, n)
	}
	settings := usual.ProfileConfig{Dim: n, Order: cfg.Order, Indicators: categories}
	d.untimed = checked(usual.NewProfile(settings))
	settings.Seasons, settings.Calendar = cfg.Seasons, d.calendar
	d.timed = checked(usual.NewProfile(settings))
	return d
}

// values returns the model's outputs for a step: the mean of its vectors, of the shares for trials, of the indicators
// of each category, or of the target for a regression. It returns nil if the step is missing. The result is valid until
// the next call.
func (d *decider) values(step [][]float64) []float64 {
	clear(d.y)
	d.evidence = usual.Evidence{}
	n := 0.0
	for _, x := range step {
		if slices.ContainsFunc(x, math.IsNaN) {
			continue
		}
		n++
		switch {
		case d.counted != nil:
			d.y[0] += (d.counted.Share(x) - d.y[0]) / n
			d.evidence.Events = min(d.evidence.Events+d.counted.Trials(x), usual.MaxEvents)
			d.evidence.Share = true
		case d.outputs == 1:
			d.y[0] += (x[len(x)-1] - d.y[0]) / n
		case len(x) == 1:
			for i := range d.y {
				indicator := 0.0
				if i == int(x[0]) {
					indicator = 1
				}
				d.y[i] += (indicator - d.y[i]) / n
			}
		default:
			for i, v := range x {
				d.y[i] += (v - d.y[i]) / n
			}
		}
	}
	if n == 0 {
		return nil
	}
	d.single = n == 1
	return d.y
}

// setEvents stores the number of events of an interval whose value is an average of events.
func (d *decider) setEvents(o *Observation) {
	if o.Aggregated && d.averages && d.counted == nil {
		d.evidence.Events = min(float64(o.Events), usual.MaxEvents)
	}
}

// decisions hold the alarm state of a key.
type decisions struct {
	warmUp   []timedValues // the first observations, until there are enough
	standard []float64     // location and scale of every output, alternating; nil in the warm-up
	units    []float64     // by output: the unit to which values are rounded, or 0; as long as runs
	timed    bool          // all observations of the warm-up had times
	step     time.Duration // median time between the observations of the warm-up; 0 without times
	pace     usual.Pace    // from step and the configuration; zero in the warm-up
	profile  hafvf.State   // nil in the warm-up
	plan     usual.Plan    // nil in the warm-up
	alarm    hafvf.State   // nil in the first warm-up
	last     time.Time     // time of the last alarm
	runs     []oneSidedRun // by output: the run of recent values
	band     band          // nil before the first score
	episode  episode
	// sinceRestored is the number of observations since an episode was undone, at most habitObs; 0 if there was none.
	sinceRestored float64
}

func medianStep(values []timedValues) time.Duration {
	times := make([]time.Time, len(values))
	for i, w := range values {
		times[i] = w.time
	}
	return usual.MedianStep(times)
}

type timedValues struct {
	time   time.Time
	y      []float64
	events float64 // number of events of the interval, or trials; 0 if unknown
}

// update learns the values of an observation and decides on an alarm. y is the last result of values; nil means that
// the observation is missing. Score and Threshold are NaN if the observation is not scored: if it is missing, in the
// warm-up, or without a time although the key has times. A single category has a threshold and no score.
func (d *decider) update(s *decisions, t time.Time, y []float64, change bool, permit func(usual.AlarmKind) bool) (v verdict, score float64) {
	for i := range d.usual.Mean {
		d.usual.Mean[i], d.usual.SD[i], d.recentSD[i] = math.NaN(), math.NaN(), math.NaN()
	}
	d.stuck, d.joint, d.accepted, d.farther, d.fromBaseline, d.covered, d.missed = false, false, false, false, false, false, usual.MissedSpike{}
	switch {
	case y == nil:
	case s.standard == nil:
		d.addToWarmUp(s, t, y)
	case s.timed && t.IsZero():
		// A key with times has seasons, which need the time of every observation.
	default:
		var missed usual.MissedSpike
		ep := &s.episode
		score = math.NaN() // a single category is not unusual; a change of its rate is
		if !(d.categories && d.single) {
			if score, missed = d.score(s, t, y); ep.known() {
				score = ep.observe(d, s, t, score)
			}
		}
		wasNormal := ep.normal > 0
		v.Decision = usual.NewAlarm(s.pace).Update(s.alarm, score, usual.Context{Change: change, Farther: d.farther, Covered: ep.open || d.covered}, permit)
		if ep.open {
			if v.ended, v.accepted = ep.advance(d, s, t, score); v.ended {
				return v, score
			}
		}
		switch {
		case !ep.open:
		case d.farther && v.Due && ep.silent:
			v.Decision = usual.NewAlarm(s.pace).Raise(s.alarm)
		case d.farther && v.Due && ep.reports < maxReports:
			v.Alarm, v.worse = usual.NoveltyAlarm, true
		default:
			v.resting = wasNormal && v.Due
		}
		return d.applyMissed(s, missed, v, score, permit)
	}
	v.Threshold = math.NaN()
	return v, math.NaN()
}

// applyMissed returns the verdict and the score of a step, including a missed spike. A missed spike is a novelty if
// the step raises no other alarm. Its threshold is the score of one alarm per budget, independent of the key's usual
// scores.
func (d *decider) applyMissed(s *decisions, missed usual.MissedSpike, v verdict, score float64, permit func(usual.AlarmKind) bool) (verdict, float64) {
	threshold := math.Log10(s.pace.Budget())
	if missed.Score == 0 || missed.Score < threshold || v.Alarm != usual.NoAlarm {
		return v, score
	}
	d.missed = missed
	d.missed.Extreme, _ = s.onScale(missed.Output, missed.Extreme, 0, 1)
	d.missed.Usual, _ = s.onScale(missed.Output, missed.Usual, 0, 1)
	raised := s.raise(permit(usual.NoveltyAlarm))
	if raised.Alarm == usual.NoAlarm {
		d.missed = usual.MissedSpike{}
		v.Muted = v.Muted || raised.Muted
		return v, score
	}
	raised.Threshold = threshold
	return raised, missed.Score
}

// missedShift returns the shift from the usual value of the missed spike to the value that occurred.
func (d *decider) missedShift(sc *scaling) shift {
	m := &d.missed
	usualValue := sc.value(m.Usual)
	return shift{(m.Extreme - m.Usual) / d.recentSD[m.Output], sc.value(m.Extreme) - usualValue, usualValue, m.Output}
}

// recentUsual returns the usual values with their recent SD. The sizes of alerts use it.
func (d *decider) recentUsual() Moments { return Moments{d.usual.Mean, d.recentSD} }

// profile returns the profile of a key, depending on whether its observations have times.
func (d *decider) profile(s *decisions) *usual.Profile {
	if s.timed {
		return d.timed
	}
	return d.untimed
}

// score learns the values y in the profile and in the runs of recent values, and sets the fields of d that describe the
// observation. It returns the score, and the spike that the observation shows to be missed, if there is one.
func (d *decider) score(s *decisions, t time.Time, y []float64) (float64, usual.MissedSpike) {
	for i, v := range y {
		d.standard[i] = (v - s.standard[2*i]) / s.standard[2*i+1]
	}
	if !s.episode.open {
		d.profileBefore = append(d.profileBefore[:0], s.profile...)
	}
	if s.runs == nil {
		s.runs = make([]oneSidedRun, d.outputs)
	}
	within := int64(0)
	for i, v := range y {
		within = max(within, s.runs[i].add(t, v, d.lookback))
	}
	e := d.evidence
	e.Uncounted, e.Location, e.Scale = int(within), s.standard[0], s.standard[1]
	step := d.profile(s).UpdatePlan(s.profile, s.plan, s.pace, t, d.standard, e)
	for i := range y {
		d.usual.Mean[i], d.usual.SD[i] = s.onScale(i, step.Mean[i], step.SD[i], 1)
		_, d.recentSD[i] = s.onScale(i, step.Mean[i], step.SD[i], step.RecentSpread[i])
		d.spread[i] = step.Spread[i]
		d.planned[i] = math.Abs(s.standard[2*i+1]*step.Offset[i]) > d.recentSD[i]
		s.runs[i].addDeviation(t, d.usual.Mean[i], d.usual.SD[i])
	}
	last := len(step.Views) - 1
	d.stuck, d.joint, d.pair, d.accepted = step.Repeated, step.Joint, step.Pair, step.Accepted
	d.movesMost = d.cfg.Order > 0
	for _, v := range step.Views[:last] {
		d.movesMost = d.movesMost && max(step.Views[last].Score, step.Fast) > v.Score
	}
	return step.Score, step.MissedSpike
}

// onScale converts the mean and sd of a standardized output to the scale of the filter, and multiplies sd by the factor
// times. The result onSD is at least the standard deviation of rounding.
func (s *decisions) onScale(output int, mean, sd, times float64) (onMean, onSD float64) {
	location, scale := s.standard[2*output], s.standard[2*output+1]
	return location + scale*mean, max(scale*sd*times, s.units[output]*rounding)
}

// addToWarmUp adds an observation to the warm-up. If the warm-up is then complete, addToWarmUp computes the
// standardization, and the profile learns all observations of the warm-up.
func (d *decider) addToWarmUp(s *decisions, obsTime time.Time, y []float64) {
	s.warmUp = append(s.warmUp, timedValues{obsTime, slices.Clone(y), d.evidence.Events})
	if len(s.warmUp) < d.warmUp {
		return
	}
	var cases, events, squares float64
	for _, w := range s.warmUp {
		if d.counted != nil {
			cases += w.y[0] * w.events
		}
		events, squares = events+w.events, squares+w.events*w.events
	}
	for i := range y {
		x := make([]float64, len(s.warmUp))
		for t, w := range s.warmUp {
			x[t] = w.y[i]
		}
		location, scale := expfam.LocationScale(x)
		if cases > 0 && cases < events {
			location = cases / events
			scale = math.Sqrt(location * (1 - location) * events / squares)
		}
		s.standard = append(s.standard, location, scale)
		unit := 0.
		if d.measured {
			unit = unitOf(x)
		}
		s.units = append(s.units, unit)
	}
	s.timed = !slices.ContainsFunc(s.warmUp, func(w timedValues) bool { return w.time.IsZero() })
	if s.timed {
		s.step = medianStep(s.warmUp)
	}
	s.pace = d.cfg.PaceOf(s.step)
	s.profile = d.profile(s).NewState()
	s.plan = d.profile(s).NewPlan(s.profile)
	if events > 0 {
		s.plan.Prime(cases, events, squares)
	}
	for _, w := range s.warmUp {
		d.evidence.Events = w.events
		d.score(s, w.time, w.y)
	}
	s.warmUp = nil
	if s.alarm == nil {
		s.alarm = usual.NewAlarm(s.pace).NewState()
	}
}

// paceOf returns the pace of a key after its warm-up. Step and Budget are zero if its observations have no times.
func (d *decider) paceOf(s *decisions) Pace {
	const longest = 1 << 62 // ns
	return Pace{Step: s.step, Budget: time.Duration(min(d.cfg.BudgetOf(s.step)*float64(s.step), longest))}
}

// rounding is the standard deviation of the error of rounding to a unit, in units. Sizes in messages need it (F1 .008
// on services_1min).
var rounding = 1 / math.Sqrt(12)

// unitOf returns the largest power of ten, at most 1, to which all values are rounded: at least 1e-6, or for values
// below 1 about a millionth of the largest. It returns 0 if there is none.
func unitOf(x []float64) float64 {
	size := 0.
	for _, v := range x {
		size = max(size, math.Abs(v))
	}
	if !(size > 0) {
		return 1
	}
	for exponent := 0; exponent <= 6+max(0, -int(math.Floor(math.Log10(size)))); exponent++ {
		scale := math.Pow10(exponent)
		if !slices.ContainsFunc(x, func(v float64) bool {
			v *= scale
			return math.Abs(v-math.Round(v)) > 1e-9*max(min(1, size*scale), math.Abs(v))
		}) {
			return 1 / scale
		}
	}
	return 0
}

// pays charges the key's alarm budget for another alarm. It reports whether the budget allowed it. Without a budget, as
// in the warm-up and without detection, every alarm is allowed.
func (t *Track) pays() bool {
	s := t.decisions.alarm
	return s == nil || usual.NewAlarm(t.decisions.pace).Charge(s)
}

// recordAlarm marks the run of recent values of the alarm's output as alarmed.
func (s *decisions) recordAlarm(a *Alert) {
	s.run(a.Output).markAlarmed(a.Size)
}

// storedForm holds the fields of encoded decisions that differ from their form in memory. standardized reports that
// decisions.standard is set, and same that it equals the location and scale of the filter's warm-up. repeats and
// beforeRepeats are usual.Profile.Repeats of the two profiles.
type storedForm struct {
	fingerprint                                compact.Fingerprint
	standardized, same, repeats, beforeRepeats bool
	before                                     string // the encoded profile before the episode
}

// append encodes the alarm state of a key. locationScale is from the warm-up of the filter.
func (d *decider) append(c *coder, s *decisions, locationScale []float64) {
	stored := storedForm{fingerprint: d.fingerprint, standardized: s.standard != nil}
	if stored.standardized {
		stored.same, stored.repeats = slices.EqualFunc(s.standard, locationScale, sameBits), d.profile(s).Repeats(s.profile)
	}
	if before := s.episode.profile; before != nil {
		stored.before, stored.beforeRepeats = string(d.profile(s).Append(nil, before)), d.profile(s).Repeats(before)
	}
	if d.form(c, s, &stored, locationScale); stored.standardized {
		c.B = compact.AppendString(c.B, d.profile(s).AppendPlan(nil, s.profile, s.plan))
		c.B = d.profile(s).Append(c.B, s.profile)
	}
}

// form encodes or decodes the part of the decisions before the plan and the profile.
func (d *decider) form(c *coder, s *decisions, stored *storedForm, locationScale []float64) {
	c.Raw(stored.fingerprint[:])
	hasAlarm, decodeAlarm := s.alarm != nil, usual.Alarm{}.Decode
	if c.format == formatOfLasting {
		hasAlarm, decodeAlarm = d.formerForm(c, s, stored), usual.Alarm{}.DecodeFormer
	} else {
		hasEpisode, restored := s.episode.open || s.episode.known(), s.sinceRestored > 0
		c.Bits(&s.timed, &hasAlarm, &hasEpisode, &restored, &stored.standardized, &stored.same, &stored.repeats, &stored.beforeRepeats)
		if hasEpisode {
			s.episode.form(c, &stored.before, d.outputs)
		}
		if restored {
			c.Packs(&s.sinceRestored)
		}
	}
	compact.Signed(&c.Codec, &s.step)
	c.near(&s.last)
	compact.List(&c.Codec, &s.warmUp, 1, func(v *timedValues) {
		c.near(&v.time)
		c.Lists(&v.y)
		c.Packs(&v.events)
	})
	if hasAlarm && !c.Writes {
		s.alarm = usual.Alarm{}.NewState()
	}
	if hasAlarm {
		c.Nested(
			func(b []byte) []byte { return usual.Alarm{}.Append(b, s.alarm) },
			func(b []byte) ([]byte, error) { return decodeAlarm(b, s.alarm) })
	}
	if !stored.standardized {
		return
	}
	if !c.Writes {
		s.standard, s.units, s.runs = make([]float64, 2*d.outputs), make([]float64, d.outputs), make([]oneSidedRun, d.outputs)
		copy(s.standard, locationScale)
	}
	if !stored.same {
		c.Pack(s.standard)
	}
	c.Pack(s.units)
	for i := range s.runs {
		s.runs[i].form(c)
	}
	s.band.form(c, d.outputs)
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

var errDecisions = errors.New("state is corrupt: alarms")

// decode decodes the result of append, which is the rest of r. If the profile was written under other settings, decode
// resets it; debt and rest of the alarms remain.
func (d *decider) decode(r *coder, locationScale []float64) (s decisions, err error) {
	var stored storedForm
	d.form(r, &s, &stored, locationScale)
	if r.Bad || !stored.standardized && len(r.B) > 0 || stored.same && (!stored.standardized || len(locationScale) != 2*d.outputs) {
		return s, compact.ErrCut
	}
	if s.alarm != nil {
		if err := (usual.Alarm{}).Valid(s.alarm); err != nil {
			return s, err
		}
	}
	if stored.fingerprint != d.fingerprint {
		return decisions{alarm: s.alarm, last: s.last, episode: episode{openEpisode: s.episode.openEpisode}}, nil // the baseline depends on the other seasons
	}
	if !d.valid(&s) {
		return s, errDecisions
	}
	if s.standard == nil {
		return s, nil
	}
	s.pace = d.cfg.PaceOf(s.step)
	err = s.readProfiles(r, d.profile(&s), &stored)
	return s, err
}

// readProfiles decodes the profile and its plan, which are the rest of r, and the profile before an episode.
func (s *decisions) readProfiles(r *coder, p *usual.Profile, stored *storedForm) (err error) {
	plan := r.Text()
	decode := p.Decode
	if r.format <= formatOfWeekends {
		decode = p.DecodeFormer
	}
	if s.profile, err = decode(r.B, stored.repeats); err == nil && stored.before != "" {
		s.episode.profile, err = decode([]byte(stored.before), stored.beforeRepeats)
	}
	if err != nil {
		return err
	}
	if s.plan, err = p.DecodePlan([]byte(plan), s.profile); err != nil {
		return errDecisions
	}
	return nil
}

// valid reports whether append could have written the decisions.
func (d *decider) valid(s *decisions) bool {
	for _, w := range s.warmUp {
		if len(w.y) != d.outputs || !linear.Finite(w.y) || !(w.events >= 0) {
			return false
		}
	}
	switch {
	case s.step < 0 || len(s.warmUp) >= d.warmUp:
		return false
	case s.standard == nil:
		return !s.timed && s.step == 0
	}
	for i := range d.outputs {
		if s.standard[2*i+1] <= 0 || !(s.units[i] >= 0 && s.units[i] <= 1) {
			return false
		}
	}
	return linear.Finite(s.standard) && s.warmUp == nil && s.alarm != nil
}
