package keyed

import (
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
	"hafvf/internal/linear"
)

// An episode is a deviation of a key, from its onset, an alarm, until its values have returned to what was usual before
// the onset. The package comment has the rules.
type episode struct {
	openEpisode
	baseline
}

// An openEpisode is an episode that has not ended. It is zero if none is open.
type openEpisode struct {
	open       bool
	silent     bool // a FalseMark suppresses its reports
	faulty     bool // a fault that the scores do not show was reported
	id         string
	since      time.Time // Alert.Start of the first report
	reports    int64     // 1 at the onset
	reportTime time.Time // of the last report
	reportX    float64   // value of the output then; NaN if the observation does not have exactly one
	length     float64   // observations from the onset to the last far one
	normal     float64   // observations after the last far one
	normalSum  float64   // sum of their deviations
	normalFrom time.Time // time of the first of them
	score      float64   // largest score
	worst      Worst     // Size is 0 if there is none
}

// A baseline holds the usual values before the onset of an episode, which follow their seasons. It is known while the
// episode is open, and for a while after its end: the values may return later, or move on. Deviations are from it, in
// standard deviations.
type baseline struct {
	usual    Moments     // by output; SD is that of an hour and a number of events with a factor of 1; nil if not known
	band     band        // at the onset
	swing    []float64   // by output: largest effect of the seasons
	profile  hafvf.State // profile before the onset; nil if it must not be restored
	start    time.Time   // time of the onset
	output   int         // output of the onset
	n        float64     // observations since the onset
	idle     float64     // observations since the episode was open
	reported [2]float64  // largest reported deviations below and above, absolute
	run      float64     // last observations in a row that are worse than reported, negative below
	level    float64     // running mean of the deviations, over half a rest
	near     float64     // last observations in a row that are near the baseline
	nearSum  float64     // sum of their deviations
	restored float64     // near observations when the profile was restored; 0 if it was not
}

const (
	farScore      = 2.    // an open episode treats scores from this on as far
	minNormal     = 3.    // smallest number of observations that end an episode
	minNear       = 8.    // smallest number of values that show that a deviation is over
	maxReports    = 4     // of an episode
	worseTimes    = 2.    // an open episode is worse from this multiple of the reported deviation on
	movedBy       = 3.    // an ended one has moved on by this many standard deviations, or
	movedPart     = .25   // by this part of the reported deviation
	nearSD        = 2.5   // standard deviations
	grownRatio    = 1.2   // ratio from which an SD counts as grown
	knownDays     = 3.    // after the end, in which values can move on; at least usual.MaxRest observations
	returnDays    = 1.5   // after the end, in which a return is no anomaly; at least usual.MaxRest observations
	maxEpisodeObs = 600.  // observations of an episode after which the profile is not restored
	habitObs      = 1200. // observations after a restored episode in which another one is learned; F1 .04 on plans_1h
	maxDeviation  = 1e9
)

// A verdict is the decision on one observation.
type verdict struct {
	usual.Decision
	worse    bool // the alarm reports that the open episode is worse
	ended    bool // the open episode has ended
	accepted bool // it has ended because the profile has accepted its level
	resting  bool // only the open episode prevented an alarm, after normal scores
	marked   bool // a FalseMark suppresses the alarm
}

// toFloat32 rounds to the nearest float32, which takes less space in a state.
func toFloat32(v float64) float64 {
	return float64(float32(max(-math.MaxFloat32, min(v, math.MaxFloat32))))
}

// halfRest returns the largest number of normal observations that an episode needs to end.
func halfRest(p usual.Pace) float64 { return max(1, math.Ceil(float64(p.Rest())/2)) }

func (b *baseline) known() bool { return b.usual.Mean != nil }

// sd returns the standard deviation of an output at the last observation, for its hour and its number of events.
func (b *baseline) sd(d *decider, s *decisions, output int) float64 {
	return max(b.usual.SD[output]*d.spread[output], s.units[output]*rounding)
}

// newBaseline returns the usual values at the onset e.
func (d *decider) newBaseline(s *decisions, e *Estimate, output int) baseline {
	b := baseline{usual: Moments{slices.Clone(d.usual.Mean), slices.Clone(d.usual.SD)}, swing: make([]float64, d.outputs), start: e.Time, output: output, band: slices.Clone(s.band)}
	if s.sinceRestored == 0 {
		b.profile = slices.Clone(d.profileBefore)
	}
	const steps = 56 // of three hours in a week
	for _, season := range d.cfg.Seasons {
		for k := range steps {
			ahead := d.profile(s).Seasonal(s.profile, s.plan, e.Time, e.Time.Add(season.Period/steps*time.Duration(k+1)))
			for i := range b.swing {
				b.swing[i] = max(b.swing[i], math.Abs(s.standard[2*i+1]*ahead[i]))
			}
		}
	}
	for i, sd := range b.usual.SD {
		b.usual.SD[i], b.swing[i] = max(toFloat32(sd/d.spread[i]), math.SmallestNonzeroFloat32), toFloat32(b.swing[i])
	}
	b.deviate(d, s, e.Time)
	return b
}

// deviate sets d.deviations to the deviations of the last observation. The seasons move the baseline by at most swing,
// because they may have learned from the episode (F1 .01 on plans_1h). If the spread has grown, the seasons before the
// onset apply (F1 .01 on planted_5min).
func (b *baseline) deviate(d *decider, s *decisions, t time.Time) {
	learned := s.profile
	if b.profile != nil && b.spreadGrew(d, s) {
		learned = b.profile
	}
	season := d.profile(s).Seasonal(learned, s.plan, b.start, t)
	for i, v := range d.y {
		moved := max(-b.swing[i], min(s.standard[2*i+1]*season[i], b.swing[i]))
		d.deviations[i] = max(-maxDeviation, min((v-b.usual.Mean[i]-moved)/b.sd(d, s, i), maxDeviation))
	}
}

// spreadGrew reports whether the usual standard deviation of an output has grown since the onset.
func (b *baseline) spreadGrew(d *decider, s *decisions) bool {
	for i, sd := range d.usual.SD {
		if sd > grownRatio*b.sd(d, s, i) {
			return true
		}
	}
	return false
}

// moments returns the usual values before the onset at the last observation.
func (b *baseline) moments(d *decider, s *decisions) Moments {
	m := Moments{slices.Clone(d.y), make([]float64, d.outputs)}
	for i, z := range d.deviations {
		m.SD[i] = b.sd(d, s, i)
		m.Mean[i] -= z * m.SD[i]
	}
	return m
}

// returned reports whether the last values are usual again.
func (b *baseline) returned() bool { return b.near > 0 && areUsual(b.nearSum, b.near) }

// smallest returns the mean deviation from which on values count as still deviating: a quarter of the largest reported
// deviation, at most two standard deviations. Two standard errors of the mean of n values are at most as large if
// n ≥ (2/smallest)².
func (b *baseline) smallest() float64 { return min(2, max(b.reported[0], b.reported[1])/4) }

// areUsual reports whether n values whose deviations have the given sum are usual: their mean deviates by less than one
// standard deviation of the values, or by less than two standard errors.
func areUsual(sum, n float64) bool { return !(math.Abs(sum) >= max(n, 2*math.Sqrt(n))) }

func sideOf(z float64) int {
	if z > 0 {
		return 1
	}
	return 0
}

// observe updates a known episode with the last observation, and returns its score. The largest deviation bounds the
// score, so a value that was usual before the onset scores below 1. Otherwise the return would raise an alarm, because
// means over several values still contain the earlier ones. Equal values in a row, and coordinates that are unusual
// together, keep their score.
func (ep *episode) observe(d *decider, s *decisions, t time.Time, score float64) float64 {
	ep.deviate(d, s, t)
	z, worst := d.deviations[ep.output], 0.
	for _, v := range d.deviations {
		if math.Abs(v) > math.Abs(worst) {
			worst = v
		}
	}
	ep.n++
	ep.idle++
	limit := worseTimes * max(ep.reported[0], ep.reported[1])
	ep.level = toFloat32(ep.level + (max(-limit, min(z, limit))-ep.level)/halfRest(s.pace))
	if ep.near, ep.nearSum = ep.near+1, ep.nearSum+z; math.Abs(worst) > nearSD {
		ep.near, ep.nearSum, ep.restored = 0, 0, 0
	}
	if !ep.open && ep.near >= minNear && ep.returned() {
		ep.reported = [2]float64{}
	}
	reported := ep.reported != [2]float64{} // the values have not returned since
	if d.stuck || d.joint || ep.stale(s.pace, knownDays) {
		ep.run = 0
		return score
	}
	step := math.Copysign(1, worst)
	switch {
	case !reported || math.Abs(worst) < worseTimes*max(far, ep.reported[sideOf(worst)]):
		ep.run = 0
	case ep.run*step < 0:
		ep.run = step
	default:
		ep.run += step
	}
	away := z*(d.y[ep.output]-d.usual.Mean[ep.output]) > 0
	d.farther = ep.open && math.Abs(ep.run) >= s.pace.InARow() || !ep.open && reported && ep.level*z > 0 && min(math.Abs(ep.level), math.Abs(z)) >= ep.nextReport(z)
	d.fromBaseline = d.farther || reported && away && math.Abs(z) >= far
	if ep.stale(s.pace, returnDays) {
		return score
	}
	d.covered = !ep.open && !d.farther && (!away || reported && math.Abs(z) < ep.nextReport(z))
	return min(score, -math.Log10(math.Erfc(math.Abs(worst)/math.Sqrt2)))
}

// stale reports whether the episode ended so many days ago. After knownDays, the baseline only serves to restore the
// profile.
func (b *baseline) stale(p usual.Pace, days float64) bool {
	return b.idle >= max(usual.MaxRest, days*p.Day())
}

// nextReport returns the deviation on the side of z at which an ended episode has moved on.
func (b *baseline) nextReport(z float64) float64 {
	reported := b.reported[sideOf(z)]
	return reported + max(movedBy, movedPart*reported)
}

// advance updates an open episode with the score of the last observation. It reports whether the episode has ended, and
// whether that is because the profile has accepted its level.
func (ep *episode) advance(d *decider, s *decisions, t time.Time, score float64) (ended, accepted bool) {
	if score >= farScore {
		ep.extend(ep.normal + 1)
	} else if ep.normal++; ep.normal == 1 {
		ep.normalFrom = t
	}
	if ep.known() && ep.normal > 0 {
		ep.normalSum += d.deviations[ep.output]
	}
	enough := halfRest(s.pace)
	if !math.IsNaN(score) {
		enough = min(max(minNormal, ep.length, math.Ceil(math.Pow(2/ep.smallest(), 2))), enough)
	}
	accepted = d.accepted && ep.known() && !ep.returned() && !ep.moves(d)
	return accepted || ep.normal >= enough, accepted
}

// moves reports whether the values move on while the profile accepts their level. The running mean lags behind such
// values, and by an eighth behind a level that began a rest ago.
func (b *baseline) moves(d *decider) bool {
	return math.Abs(d.deviations[b.output]-b.level) > 2+math.Abs(b.level)/5
}

// extend makes the episode longer and discards the normal observations after it.
func (ep *episode) extend(observations float64) {
	ep.length, ep.normal, ep.normalSum, ep.normalFrom = ep.length+observations, 0, 0, time.Time{}
}

// delay returns the number of observations from the onset to the last one.
func (ep *episode) delay() int64 { return int64(ep.length+ep.normal) - 1 }

// A Level says where the values of an ended episode are.
type Level string

// The levels.
const (
	LevelBack  Level = "back"  // usual again
	LevelStill Level = "still" // quiet, but not as before the onset
	LevelNew   Level = "new"   // usual from now on: the profile has accepted them
)

// endLevel returns the level of an episode that ends, and the side of the baseline, "above" or "below", on which the
// values are; "" if they are back or the side is not known. score is the last score.
func (ep *episode) endLevel(score float64, accepted bool) (level Level, side string) {
	switch {
	case !ep.known() && math.IsNaN(score) && !ep.faulty: // the rate of a category, which has no score, has changed
		return LevelNew, ""
	case !ep.known() || !accepted && math.Abs(ep.normalSum) < max(ep.smallest()*ep.normal, 2*math.Sqrt(ep.normal)):
		return LevelBack, ""
	}
	level, side = LevelStill, "above"
	if accepted {
		level = LevelNew
	}
	if ep.normalSum < 0 || ep.normal == 0 && ep.level < 0 {
		side = "below"
	}
	return level, side
}

// raise decides on an alarm for a fault that the scores do not show. In an open episode it is reported once.
func (s *decisions) raise(permitted bool) verdict {
	ep := &s.episode
	switch {
	case !permitted || ep.open && (ep.faulty || ep.silent || ep.reports == maxReports):
		return verdict{}
	case ep.open:
		return verdict{Decision: usual.Decision{Alarm: usual.NoveltyAlarm}, worse: true}
	}
	return verdict{Decision: usual.NewAlarm(s.pace).Raise(s.alarm)}
}

// follow begins, updates or ends the episode of the key after the verdict on e, which is on the data's scale.
func (t *Track) follow(e *Estimate, v verdict, cfg *Config) {
	d, s := t.stages.decider, &t.decisions
	ep, scored := &s.episode, !math.IsNaN(d.usual.Mean[0])
	valued := scored && d.missed.Score == 0 // an alarm reports the values
	if v.Alarm != usual.NoAlarm || v.marked {
		output := 0
		if e.Alarm != nil {
			output = e.Alarm.Output
		}
		if valued && (!ep.known() || ep.stale(s.pace, returnDays) && !d.farther) {
			ep.baseline = d.newBaseline(s, e, output)
		} else if valued && !ep.open && ep.profile == nil && s.sinceRestored == 0 {
			ep.profile = slices.Clone(d.profileBefore)
			ep.n, ep.near, ep.nearSum, ep.restored = 0, 0, 0, 0
		}
		ep.report(d, e, v, d.missed.Score > 0)
		if valued {
			ep.recordDeviation(d)
		}
	}
	if ep.open && valued {
		t.recordPeak(e)
	}
	if ep.open && !ep.silent {
		e.Detection.Episode = t.describe(v, ep.known() && scored)
	}
	if v.ended {
		t.end(e, v.accepted, cfg)
	}
	if scored {
		s.updateKnown(d)
	}
	if e.Alarm != nil {
		e.Alarm.Episode = e.Detection.Episode
	}
}

// report records an alarm: the onset, or a report of the open episode. faulty means that the scores do not show it.
func (ep *episode) report(d *decider, e *Estimate, v verdict, faulty bool) {
	if !ep.open {
		ep.openEpisode = openEpisode{open: true, silent: true, length: 1}
	} else if ep.extend(ep.normal); v.marked {
		return
	}
	if !v.marked {
		if ep.silent {
			ep.id, ep.since, ep.silent = strings.Clone(e.ID), e.Alarm.Start, false // the ID may be part of a larger text
		}
		ep.reports++
		ep.reportTime, ep.reportX = e.Time, math.NaN()
		if x, seen := d.seen(e.Alarm, e); seen {
			ep.reportX = x
		}
	}
	ep.faulty = ep.faulty || faulty
}

// recordDeviation records that the last deviation is reported. If the values had returned before, nothing else is: the
// other side counts as reported half as far.
func (ep *episode) recordDeviation(d *decider) {
	z := d.deviations[ep.output]
	side, size := sideOf(z), toFloat32(max(far, math.Abs(z)))
	if ep.reported == [2]float64{} {
		ep.reported[1-side], ep.reported[side] = size/worseTimes, 0
	}
	ep.reported[side], ep.run = max(ep.reported[side], size), 0
}

// recordPeak updates the largest score and the worst observation of the open episode.
func (t *Track) recordPeak(e *Estimate) {
	d, s, ep := t.stages.decider, &t.decisions, &t.decisions.episode
	ep.score = max(ep.score, e.Detection.Score)
	from := d.recentUsual()
	if ep.known() {
		from = ep.moments(d, s)
	}
	largest := from.shift(d.y, t.stages.scale)
	if !(math.Abs(largest.size) > math.Abs(ep.worst.Size)) || math.IsInf(largest.size, 0) {
		return
	}
	ep.worst = Worst{Time: e.Time, Value: math.NaN(), Size: largest.size, Output: largest.output}
	if x, seen := d.seen(&Alert{Output: largest.output, Before: e.Detection.Usual}, e); seen {
		ep.worst.Value = x
	}
}

// updateKnown restores the profile from before the onset if the values have returned, and the episode has moved the
// usual values or increased their spread: the next deviation would be missed. The values have returned after as many
// usual observations as the deviation had, or after half a rest. A long episode is not undone, and neither is one soon
// after another: episodes may be normal for the stream. updateKnown forgets the baseline of an ended episode if the
// values have been back for half a rest, or after knownDays.
func (s *decisions) updateKnown(d *decider) {
	if s.sinceRestored > 0 {
		if s.sinceRestored++; s.sinceRestored > habitObs {
			s.sinceRestored = 0
		}
	}
	ep := &s.episode
	if !ep.known() {
		return
	}
	half, back := halfRest(s.pace), ep.returned()
	if ep.profile != nil && back && ep.near >= max(1, min(ep.n-ep.near, half)) {
		s.plan.ResetRecentSpread() // F1 .02 on plans_15min
		was := ep.moments(d, s)
		if ep.spreadGrew(d, s) || !s.pace.Fine() && math.Abs(d.usual.Mean[ep.output]-was.Mean[ep.output]) > nearSD*was.SD[ep.output] {
			copy(s.profile, ep.profile)
			ep.restored, s.sinceRestored = ep.near, 1
		}
		if !ep.open {
			ep.profile = nil
		}
	}
	if ep.n >= maxEpisodeObs {
		ep.profile = nil
	}
	switch {
	case ep.open:
		ep.idle = 0
	case back && ep.near-ep.restored >= s.pace.Aftermath(), ep.stale(s.pace, knownDays) && ep.profile == nil:
		ep.baseline = baseline{}
	}
}

// An EpisodeState says what an estimate or an alert reports of an episode.
type EpisodeState string

// The states.
const (
	EpisodeOpen   EpisodeState = "open"
	EpisodeWorse  EpisodeState = "worse" // reported again at this observation
	EpisodeClosed EpisodeState = "closed"
)

// An EpisodeReport describes an episode at an observation.
type EpisodeReport struct {
	ID      string    // of the onset
	Since   time.Time // Alert.Start of the onset
	Reports int64     // so far, from 1
	State   EpisodeState
	// UsualBefore are the usual values before the onset, with the seasons of this observation. They are NaN for an
	// alarm of a change or of an impossible value.
	UsualBefore Moments
	Worst       Worst
}

// Worst is the observation of an episode that is farthest from UsualBefore.
type Worst struct {
	Time   time.Time // zero if there is none
	Value  float64   // of the output; NaN if the observation does not have exactly one
	Size   float64   // standard deviations, signed; NaN if there is none
	Output int
}

// describe returns the report of the open episode. withBaseline is true if the last observation has deviations.
func (t *Track) describe(v verdict, withBaseline bool) *EpisodeReport {
	ep := &t.decisions.episode
	r := &EpisodeReport{ID: ep.id, Since: ep.since, Reports: ep.reports, State: EpisodeOpen, UsualBefore: unknown(t.stages.decider.outputs), Worst: ep.worst}
	switch {
	case v.ended:
		r.State = EpisodeClosed
	case v.worse:
		r.State = EpisodeWorse
	}
	if withBaseline {
		r.UsualBefore = t.before()
	}
	if r.Worst.Size == 0 {
		r.Worst = Worst{Value: math.NaN(), Size: math.NaN()}
	}
	return r
}

// Ongoing returns the present state of the track's open episode as an alert with the ID, the start and the kind of its
// onset: the last value, compared with what was usual before, and the worst value so far. e is the last estimate of the
// track; the track must not have changed since. ok is false if no episode is open that was reported by its values, if e
// has no value, and if e has an alarm, which reports the same.
func (est *Estimator) Ongoing(t *Track, e *Estimate) (event AlertEvent, ok bool) {
	d, ep := t.stages.decider, &t.decisions.episode
	if e.Detection == nil || e.Detection.Episode == nil || e.Alarm != nil || !ep.open || ep.faulty || math.IsNaN(e.Detection.Episode.UsualBefore.Mean[0]) {
		return event, false
	}
	present, nothing := ep.moments(d, &t.decisions).shift(d.y, t.stages.scale), unknown(d.outputs)
	a := &Alert{
		Kind: string(usual.NoveltyAlarm), Start: ep.since, Delay: ep.delay(), LogOdds: math.NaN(), Size: present.size, Output: present.output, Before: nothing, After: nothing,
		Score: e.Detection.Score, Threshold: e.Detection.Threshold, Usual: e.Detection.Episode.UsualBefore, Episode: e.Detection.Episode,
	}
	a.Message = t.sentence(&est.cfg, a, e)
	a.Start, a.Delay = ep.since, ep.delay() // sentence may set them to the start of equal values
	return e.event(t.key, ep.id, a, SourceOngoing), true
}

// before returns the usual values before the onset at the last observation, on the data's scale.
func (t *Track) before() Moments {
	m := t.decisions.episode.moments(t.stages.decider, &t.decisions)
	t.clip(m)
	t.stages.scale.momentsToData(m)
	t.decisions.episode.band.scale(m)
	return m
}

// end ends the open episode at estimate e, and sets e.Recovered unless it was silent.
func (t *Track) end(e *Estimate, accepted bool, cfg *Config) {
	d, s, ep := t.stages.decider, &t.decisions, &t.decisions.episode
	level, side := ep.endLevel(e.Detection.Score, accepted)
	if !ep.silent {
		outputs := len(e.Detection.Usual.Mean)
		a := &Alert{
			Kind: RecoveredAlarm, Start: ep.since, LogOdds: math.NaN(), Size: e.Detection.Episode.Worst.Size, Output: ep.worst.Output, Before: unknown(outputs), After: unknown(outputs),
			Score: ep.score, Threshold: e.Detection.Threshold, Usual: e.Detection.Usual, Episode: e.Detection.Episode, Level: level, NormalFrom: ep.normalFrom,
		}
		if a.NormalFrom.IsZero() {
			a.NormalFrom = e.Time
		}
		a.Message = t.ended(cfg, a, side)
		e.Recovered = &EndedAlarm{ep.id, a}
	}
	if level == LevelBack {
		d.profile(s).ForgetSurprises(s.profile, s.pace)
	}
	if ep.known() {
		moved := toFloat32(min(math.Abs(ep.level), maxDeviation))
		ep.reported[sideOf(ep.level)] = max(ep.reported[sideOf(ep.level)], moved)
	}
	ep.openEpisode = openEpisode{}
}

// BackToUsual reports whether the alert is the end of an episode. The end of a silence has no threshold.
func (a *Alert) BackToUsual() bool { return a.Kind == RecoveredAlarm && !math.IsNaN(a.Threshold) }

// IsWorse reports whether the alert only reports that the episode of an earlier alarm is worse. Such an alert does not
// count as another alarm.
func (a *Alert) IsWorse() bool { return a.Episode != nil && a.Episode.State == EpisodeWorse }

func (ep *episode) form(c *coder, profile *string, outputs int) {
	known := ep.known()
	if c.Bits(&ep.open, &ep.silent, &ep.faulty, &known); ep.open {
		w := &ep.worst
		compact.Texts(&c.Codec, &ep.id)
		c.near(&ep.since, &ep.reportTime, &ep.normalFrom, &w.Time)
		compact.Unsigned(&c.Codec, &ep.reports)
		compact.Unsigned(&c.Codec, &w.Output)
		c.Packs(&ep.length, &ep.normal, &ep.normalSum, &ep.score, &ep.reportX, &w.Value, &w.Size)
		c.Check(ep.reports <= maxReports && w.Output < outputs && ep.length >= 0 && ep.normal >= 0 && ep.score >= 0 && !math.IsNaN(w.Size+ep.normalSum))
	}
	if b := &ep.baseline; known {
		b.form(c, profile, outputs)
	}
}

func (b *baseline) form(c *coder, profile *string, outputs int) {
	b.usualForm(c, outputs)
	b.band.form(c, outputs)
	c.Shorts(&b.reported[0], &b.reported[1], &b.level)
	compact.Unsigned(&c.Codec, &b.output)
	compact.Unsigned(&c.Codec, &b.n, &b.idle, &b.near, &b.restored)
	c.Packs(&b.run, &b.nearSum)
	compact.Texts(&c.Codec, profile)
	b.near = min(b.near, b.n) // earlier builds stored more
	c.Check(b.valid(outputs))
}

func (b *baseline) usualForm(c *coder, outputs int) {
	if c.near(&b.start); !c.Writes {
		b.usual, b.swing = Moments{make([]float64, outputs), make([]float64, outputs)}, make([]float64, outputs)
	}
	c.Pack(b.usual.Mean)
	for _, list := range [...][]float64{b.usual.SD, b.swing} {
		for i := range list {
			c.Shorts(&list[i])
		}
	}
}

func (b *baseline) valid(outputs int) bool {
	return linear.Finite(slices.Concat(b.usual.Mean, b.usual.SD, b.swing, b.reported[:], []float64{b.level, b.nearSum, b.run})) &&
		b.output < outputs && slices.Min(b.reported[:]) >= 0 && b.n >= b.near && slices.Min(b.usual.SD) > 0
}
