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

// AlarmConfig says when detection raises an alarm. Begin with DefaultAlarms: every field
// means what it says, and none has another default. Other settings than before leave the
// states of keys as they are, but for Seasons, Zone and Order: with those a key's profile
// begins again, and raises no alarm until it has seen as many observations as a warm-up has.
type AlarmConfig struct {
	// Budget is the number of observations per alarm, at least 1; zero if BudgetTime holds.
	Budget float64
	// BudgetTime is the time per alarm, for keys whose observations have times: it
	// counts as many observations as come in it at the median step of the warm-up.
	// A key without times has usual.DefaultBudget.
	BudgetTime time.Duration
	// Rest is the number of observations after an alarm in which no other is raised, at
	// least 0, or usual.AutoRest: seven hours, within 6 to 60 observations. What comes in the
	// rest belongs to the same incident: a change that is found there shows in Detection and
	// raises no alarm of its own.
	Rest int
	// RestTime, if not zero, takes the place of Rest for keys whose observations have times: it
	// counts as many observations as come in it at the median step of the warm-up. A key
	// without times has usual.AutoRest then.
	RestTime time.Duration
	// Settling is how long the threshold of a key is higher at first, and an eighth of it how long
	// no change raises an alarm. Zero is not at all.
	Settling time.Duration
	// Lasting has an alarm last until its key is back to usual, as usual.Alarm.Follow says. What
	// would raise another one before that raises none and costs no budget, unless it is much
	// worse or on the other side of usual. Its end is Estimate.Recovered.
	Lasting bool
	// Seasons are those of the profile of a key whose observations have times. An empty
	// list is none.
	Seasons []usual.Season
	Zone    string // of the seasons, an IANA name; empty for UTC
	// Holidays are as another day of the week, for the profile and for silence. States do not depend on them.
	Holidays usual.Holidays
	// Order is that of the profile's autoregressive view; 0 for no such view.
	Order int
}

// DefaultAlarms are the settings to begin with: about one alarm a week, a rest of seven hours,
// and a profile of day, week and the last three values.
func DefaultAlarms() AlarmConfig {
	return AlarmConfig{
		BudgetTime: usual.DefaultBudgetTime, Rest: usual.AutoRest, Settling: usual.DefaultSettling, Lasting: true,
		Seasons: usual.DefaultSeasons(), Zone: "UTC", Order: usual.DefaultProfile().Order,
	}
}

// calendar is that of the seasons and of silence.
func (c AlarmConfig) calendar() *usual.Calendar {
	return checked(usual.NewCalendar(checked(domain.Zone(c.Zone)), c.Holidays))
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
	return usual.ProfileConfig{Seasons: c.Seasons, Order: c.Order}.Validate()
}

// BudgetOf returns the number of observations per alarm of a key whose warm-up has the
// median step between observations, 0 where it has none.
func (c AlarmConfig) BudgetOf(step time.Duration) float64 {
	if c.Budget != 0 {
		return c.Budget
	}
	return usual.BudgetOver(c.BudgetTime, step)
}

// PaceOf returns the pace of the alarms of such a key.
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

// A decider decides on the alarms of the keys of a rule.
type decider struct {
	counted     expfam.Counted // nil of other models
	cfg         AlarmConfig
	lookback    time.Duration // see Config
	warmUp      int           // first observations of a key, which standardise its values and tell whether it has times
	outputs     int
	timed       *usual.Profile      // of keys with times
	untimed     *usual.Profile      // of keys without
	fingerprint compact.Fingerprint // of the settings of the profiles
	y, standard []float64
	calendar    *usual.Calendar // of the profile, and of the times in messages
	evidence    usual.Evidence  // of the step at hand
	usual       Moments         // of the last step, on the scale of the filter; NaN where it has none
	shown       []float64       // its SD by how values scatter lately: no decision depends on it
	moves       bool            // the autoregressive view found the last step the least usual
	planned     []bool          // by output: what is usual is mainly so in this hour of the week
	stuck       bool            // equal values in a row were the least usual
	scatters    bool            // values scatter more than always: they lie on both sides
	farther     bool            // the last step was as far again from what was usual before an alarm
	missed      usual.Missed    // the alarm of the last step is that this has not come; on the scale of the filter
	distances   []float64       // of usualBefore.away
	apart       []float64       // those of event.was
	unalarmed   hafvf.State     // the profile before the observation at hand, if no alarm lasts
	// Whether the values are of categories, and whether those of the step at hand are of
	// one observation.
	categories, single bool
	averages           bool // intervals scatter the less the more events they have
	measured           bool // the family learns how values scatter: counts and rates scatter as they do
}

// newDecider makes the decider of the keys of all that have the filter, whose model is m.
func newDecider(all Config, filter hafvf.Config, m expfam.Model) *decider {
	cfg := *all.Alarms
	n := m.Outputs()
	_, categories := m.(expfam.Discrete)
	counted, _ := m.(expfam.Counted)
	d := &decider{
		cfg: cfg, lookback: all.Lookback, warmUp: cmp.Or(filter.WarmUp, DefaultWarmUp), outputs: n, fingerprint: compact.FingerprintOf(textOf([]any{cfg.Seasons, cfg.Zone, cfg.Order})),
		y: make([]float64, n), standard: make([]float64, n), distances: make([]float64, n), apart: make([]float64, n), categories: categories, counted: counted, calendar: cfg.calendar(),
		averages: all.Aggregate == nil || all.Aggregate.Value.Averages(),
		measured: hafvf.Scalable(filter.Family) == nil,
		usual:    Moments{make([]float64, n), make([]float64, n)}, shown: make([]float64, n), planned: make([]bool, n),
	}
	settings := usual.ProfileConfig{Dim: n, Order: cfg.Order, Indicators: categories}
	d.untimed = checked(usual.NewProfile(settings))
	settings.Seasons, settings.Calendar = cfg.Seasons, d.calendar
	d.timed = checked(usual.NewProfile(settings))
	return d
}

// values are what a step shows of the model's outputs, valid until the next call:
// the mean of its vectors, of trials of their shares, of a category the indicator of each, of a
// regression the target. Nil where the step is missing.
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
			d.evidence.Events = min(d.evidence.Events+d.counted.Trials(x), usual.MostEvents)
			d.evidence.Share = true
		case d.outputs == 1:
			d.y[0] += (x[len(x)-1] - d.y[0]) / n
		case len(x) == 1:
			for i := range d.y {
				is := 0.0
				if i == int(x[0]) {
					is = 1
				}
				d.y[i] += (is - d.y[i]) / n
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

// behind notes how many events are behind the values of an interval, if they are averages of them.
func (d *decider) behind(o *Observation) {
	if o.Aggregated && d.averages && d.counted == nil {
		d.evidence.Events = min(float64(o.Events), usual.MostEvents)
	}
}

// decisions hold what the alarms of a key depend on.
type decisions struct {
	warmUp   []timedValues // the first observations, until there are enough
	standard []float64     // location and scale of every output, one after the other; nil in the warm-up
	units    []float64     // to which the values of every output are rounded, 0 where they are not; as long as lately
	timed    bool          // all observations of the warm-up had times
	step     time.Duration // median of the steps between them; 0 where there was none
	pace     usual.Pace    // by step and configuration; not in the warm-up
	profile  hafvf.State   // nil in the warm-up
	plan     usual.Plan    // as the profile
	alarm    hafvf.State   // nil in the first warm-up
	last     time.Time     // of the last alarm
	lately   []oneSidedRun // of every output
	lasting  lastingAlarm
	before   preAlarmBaseline // that alarm, or one whose values have stayed
	event    event            // of the alarm that lasts, or of one whose values have not returned
}

// medianStep is the median of the steps between observations.
func medianStep(all []timedValues) time.Duration {
	times := make([]time.Time, len(all))
	for i, w := range all {
		times[i] = w.time
	}
	return usual.MedianStep(times)
}

type timedValues struct {
	time   time.Time
	y      []float64
	events float64 // behind them; 0 where that is not known
}

// update learns the values y of an observation, nil where it is missing. They are those
// that values returned last. It returns the decision, and the score. The score and the threshold
// are NaN where there is none.
func (d *decider) update(s *decisions, at time.Time, y []float64, change bool, permit func(usual.AlarmKind) bool) (decision usual.Decision, score float64) {
	for i := range d.usual.Mean {
		d.usual.Mean[i], d.usual.SD[i], d.shown[i] = math.NaN(), math.NaN(), math.NaN()
	}
	d.farther, d.stuck, d.missed = false, false, usual.Missed{}
	switch {
	case y == nil:
	case s.standard == nil:
		d.wait(s, at, y)
	case s.timed && at.IsZero():
		// A key with times has seasons: without its time an observation has no place.
	default:
		var missed usual.Missed
		score = math.NaN() // a category is not unusual by itself; its rate is, where it changes
		if !(d.categories && d.single) {
			score, missed = d.score(s, at, y)
			score = d.capScore(s, at, y, score)
		}
		alarm := usual.NewAlarm(s.pace)
		if !d.cfg.Lasting {
			decision = alarm.Update(s.alarm, score, change, permit)
			return d.miss(s, missed, decision, score, permit)
		}
		of := usual.Context{Change: change, Side: d.usual.side(y), Farther: d.farther, Stuck: d.stuck}
		if d.stuck || d.scatters { // it is the usual value that moves, or values lie on both sides
			of.Side = 0
		}
		decision = alarm.Follow(s.alarm, score, of, permit)
		return d.miss(s, missed, decision, score, permit)
	}
	return usual.Decision{Threshold: math.NaN()}, math.NaN()
}

// miss is the decision and the score of a step after which something is missed. That is a novelty if the step raises no
// other alarm, and its score is that of one alarm in a budget: what the key's scores are by habit does not matter.
func (d *decider) miss(s *decisions, missed usual.Missed, decision usual.Decision, score float64, permit func(usual.AlarmKind) bool) (usual.Decision, float64) {
	threshold := math.Log10(s.pace.Budget())
	if missed.Score == 0 || missed.Score < threshold || decision.Alarm != usual.NoAlarm {
		return decision, score
	}
	d.missed = missed
	d.missed.Most, _ = s.onScale(missed.Output, missed.Most, 0, 1)
	d.missed.Usual, _ = s.onScale(missed.Output, missed.Usual, 0, 1)
	raised := usual.NewAlarm(s.pace).Raise(s.alarm, permit(usual.NoveltyAlarm))
	decision.Muted = decision.Muted || raised.Muted
	if decision.Alarm = raised.Alarm; decision.Alarm == usual.NoAlarm {
		d.missed = usual.Missed{}
		return decision, score
	}
	decision.Threshold = threshold
	return decision, missed.Score
}

// missing is by how much what was missed was less than usual.
func (d *decider) missing(sc *scaling) shift {
	m := &d.missed
	was := sc.value(m.Usual)
	return shift{(m.Most - m.Usual) / d.shown[m.Output], sc.value(m.Most) - was, was, m.Output}
}

// shownUsual is what is usual with the scatter of lately, by which sizes go.
func (d *decider) shownUsual() Moments { return Moments{d.usual.Mean, d.shown} }

// profile is that of a key.
func (d *decider) profile(s *decisions) *usual.Profile {
	if s.timed {
		return d.timed
	}
	return d.untimed
}

func (d *decider) score(s *decisions, at time.Time, y []float64) (float64, usual.Missed) {
	for i, v := range y {
		d.standard[i] = (v - s.standard[2*i]) / s.standard[2*i+1]
	}
	if d.cfg.Lasting && !s.lasting.lasts {
		d.unalarmed = append(d.unalarmed[:0], s.profile...)
	}
	if s.lately == nil {
		s.lately = make([]oneSidedRun, d.outputs)
	}
	within := int64(0)
	for i, v := range y {
		within = max(within, s.lately[i].add(at, v, d.lookback))
	}
	e := d.evidence
	e.Uncounted, e.Location, e.Scale = int(within), s.standard[0], s.standard[1]
	step := d.profile(s).UpdatePlan(s.profile, s.plan, s.pace, at, d.standard, e)
	for i := range y {
		d.usual.Mean[i], d.usual.SD[i] = s.onScale(i, step.Mean[i], step.SD[i], 1)
		_, d.shown[i] = s.onScale(i, step.Mean[i], step.SD[i], step.Lately[i])
		d.planned[i] = math.Abs(s.standard[2*i+1]*step.Offset[i]) > d.shown[i]
		s.lately[i].addDeviation(at, d.usual.Mean[i], d.usual.SD[i])
	}
	last := len(step.Views) - 1
	d.stuck, d.scatters = step.Stuck, step.Scatters
	d.moves = d.cfg.Order > 0
	for _, v := range step.Views[:last] {
		d.moves = d.moves && max(step.Views[last].Score, step.Fast) > v.Score
	}
	return step.Score, step.Missed
}

// onScale are moments of a standardised output on the scale of the filter, if values scatter so many times as much.
// Rounding explains some of the scatter.
func (s *decisions) onScale(output int, mean, sd, times float64) (onMean, onSD float64) {
	location, scale := s.standard[2*output], s.standard[2*output+1]
	return location + scale*mean, max(scale*sd*times, s.units[output]*rounding)
}

// wait adds an observation to the warm-up. The last one standardises the values, and
// has the profile learn them all.
func (d *decider) wait(s *decisions, at time.Time, y []float64) {
	s.warmUp = append(s.warmUp, timedValues{at, slices.Clone(y), d.evidence.Events})
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

// paceOf is the pace of a key after its warm-up, zero if its observations have no times.
func (d *decider) paceOf(s *decisions) Pace {
	const longest = 1 << 62 // ns
	return Pace{Step: s.step, Budget: time.Duration(min(d.cfg.BudgetOf(s.step)*float64(s.step), longest))}
}

// rounding is the standard deviation of values of a unit that are rounded to it.
var rounding = 1 / math.Sqrt(12)

// unitOf is the largest power of ten to which all values are rounded: of values that reach 1 one of 1, .1, …, 1e-6, of smaller
// ones down to a millionth of their size. It is 0 if there is none.
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

// pays has the budget of the key's alarms pay another one, and reports whether it does. Without
// a budget, as in the warm-up and without detection, all are paid.
func (t *Track) pays() bool {
	s := t.decisions.alarm
	return s == nil || usual.NewAlarm(t.decisions.pace).Pay(s)
}

// noteAlarm notes that the alarm was raised.
func (s *decisions) noteAlarm(a *Alert) {
	if a.Output < len(s.lately) {
		s.lately[a.Output].markAlarmed(a.Size)
	}
}

// written is what a state has of decisions in another form than they are kept in.
type written struct {
	fingerprint                               compact.Fingerprint
	standardised, same, repeats, eventRepeats bool
	event                                     string // the profile before it
}

// append encodes what the alarms of a key depend on. The warm-up of the filter has set
// locationScale.
func (d *decider) append(c *coder, s *decisions, locationScale []float64) {
	w := written{fingerprint: d.fingerprint, standardised: s.standard != nil}
	if w.standardised {
		w.same, w.repeats = slices.EqualFunc(s.standard, locationScale, sameBits), d.profile(s).Repeats(s.profile)
	}
	if s.event.known() {
		w.event, w.eventRepeats = string(d.profile(s).Append(nil, s.event.profile)), d.profile(s).Repeats(s.event.profile)
	}
	if d.form(c, s, &w, locationScale); w.standardised {
		c.B = compact.AppendString(c.B, compact.Encode(nil, s.plan, d.profile(s).PlanForm(s.profile)))
		c.B = d.profile(s).Append(c.B, s.profile)
	}
}

// form is that of the decisions before their plan and profile.
func (d *decider) form(c *coder, s *decisions, w *written, locationScale []float64) {
	alarms, kept, event := s.alarm != nil, s.before.known(), s.event.known() || s.event.since > 0
	c.Raw(w.fingerprint[:])
	c.Bits(&s.timed, &s.lasting.lasts, &alarms)
	c.Bits(&w.standardised, &w.same, &w.repeats)
	if c.Bits(&kept, &event, &w.eventRepeats); kept {
		s.before.form(c, d.outputs)
	}
	if s.lasting.lasts {
		s.lasting.form(c)
	}
	if event {
		s.event.form(c, &w.event, d.outputs)
	}
	compact.Signed(&c.Codec, &s.step)
	c.near(&s.last)
	compact.List(&c.Codec, &s.warmUp, 1, func(v *timedValues) {
		c.near(&v.time)
		c.Lists(&v.y)
		c.Packs(&v.events)
	})
	if alarms && !c.Writes {
		s.alarm = usual.Alarm{}.NewState()
	}
	if alarms {
		usual.Alarm{}.Form(&c.Codec, s.alarm)
	}
	if !w.standardised {
		return
	}
	if !c.Writes {
		s.standard, s.units, s.lately = make([]float64, 2*d.outputs), make([]float64, d.outputs), make([]oneSidedRun, d.outputs)
		copy(s.standard, locationScale)
	}
	if !w.same {
		c.Pack(s.standard)
	}
	c.Pack(s.units)
	for i := range s.lately {
		s.lately[i].form(c)
	}
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

var errDecisions = errors.New("state is corrupt: alarms")

// decode reads what append wrote, the rest of r. A profile of other settings begins
// anew; debt and rest of the alarms stay.
func (d *decider) decode(r *coder, locationScale []float64) (s decisions, err error) {
	var w written
	d.form(r, &s, &w, locationScale)
	if r.Bad || !w.standardised && len(r.B) > 0 || w.same && (!w.standardised || len(locationScale) != 2*d.outputs) {
		return s, compact.ErrCut
	}
	if s.lasting.peak.output >= d.outputs {
		return s, errDecisions
	}
	if s.alarm != nil {
		if err := (usual.Alarm{}).Valid(s.alarm); err != nil {
			return s, err
		}
	}
	if w.fingerprint != d.fingerprint {
		return decisions{alarm: s.alarm, last: s.last, lasting: s.lasting}, nil // the moments before are of other seasons
	}
	if !d.valid(&s) {
		return s, errDecisions
	}
	if s.standard == nil {
		return s, nil
	}
	s.pace = d.cfg.PaceOf(s.step)
	err = s.readProfiles(r, d.profile(&s), &w)
	return s, err
}

// readProfiles reads the profile and its plan, the rest of r, and the profile of before an event.
func (s *decisions) readProfiles(r *coder, p *usual.Profile, w *written) (err error) {
	plan := r.Text()
	if s.profile, err = p.Decode(r.B, w.repeats); err == nil && w.event != "" {
		s.event.profile, err = p.Decode([]byte(w.event), w.eventRepeats)
	}
	if err != nil {
		return err
	}
	if compact.Decode([]byte(plan), &s.plan, p.PlanForm(s.profile)) != nil {
		return errDecisions
	}
	return nil
}

// valid reports whether append can have written the decisions.
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
