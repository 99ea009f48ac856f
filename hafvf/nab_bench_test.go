package hafvf_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// alarmWarmUp is the number of values to which prior, location, scale and budget are
// fitted, and among which nothing is an alarm.
const alarmWarmUp = 50

// A nabTrace is what bank and profile make of a series, by observation.
type nabTrace struct {
	nabSeries
	surprise []float64           // −log p(x|past) of the bank, nats, for x in units of the scale
	changes  []bool              // commits
	sides    []int               // of usual, by the profile that knows the times
	timed    []usual.ProfileStep // at the pace of a week
	untimed  []usual.ProfileStep // by a profile that does not know the times, at the pace of 2,000 observations
	week     usual.Pace          // the budget of a week
	fixed    usual.Pace          // that of 2,000 observations, without times
}

func (s nabSeries) trace(t testing.TB) nabTrace {
	t.Helper()
	step := usual.MedianStep(s.times[:alarmWarmUp])
	out := nabTrace{nabSeries: s, week: paceOf(usual.BudgetOver(usual.DefaultBudgetTime, step), step), fixed: paceOf(usual.DefaultBudget, 0)}
	b := defaultDetector(t, "normal", nil, s.x, alarmWarmUp)
	state := b.NewState()
	location, scale := expfam.LocationScale(s.x[:alarmWarmUp])
	for i := range s.x {
		o := b.Update(state, s.x[i:i+1])
		out.surprise = append(out.surprise, -o.LogPredictive-math.Log(scale))
		out.changes = append(out.changes, o.Detection.Kind == hafvf.Change)
	}
	c := usual.DefaultProfile()
	out.timed = s.steps(c, out.week)
	for i, x := range s.x {
		out.sides = append(out.sides, sideOf((x-location)/scale, out.timed[i]))
	}
	c.Seasons = nil
	out.untimed = s.steps(c, out.fixed)
	return out
}

// sideOf is the side of usual on which a value is far from it.
func sideOf(y float64, step usual.ProfileStep) int {
	switch z := (y - step.Mean[0]) / step.SD[0]; {
	case z >= 2:
		return 1
	case z <= -2:
		return -1
	}
	return 0
}

func (s nabSeries) steps(c usual.ProfileConfig, pace usual.Pace) (steps []usual.ProfileStep) {
	location, scale := expfam.LocationScale(s.x[:alarmWarmUp])
	p := profileOf(c)
	state := p.NewState()
	for i, x := range s.x {
		step := p.Update(state, pace, s.times[i], []float64{(x - location) / scale})
		step.Views, step.Mean, step.SD = slices.Clone(step.Views), slices.Clone(step.Mean), slices.Clone(step.SD)
		steps = append(steps, step)
	}
	return steps
}

// commits score 1 where the bank commits to a change, and elsewhere less than any
// threshold.
func (s nabTrace) commits() []float64 {
	scores := slices.Repeat([]float64{math.Inf(-1)}, len(s.x))
	for i, change := range s.changes {
		if change {
			scores[i] = 1
		}
	}
	return scores
}

// ofLevel is a number of the level view.
func (s nabTrace) ofLevel(number func(usual.ViewStep) float64) []float64 {
	scores := make([]float64, len(s.x))
	for i, step := range s.timed {
		scores[i] = number(step.Views[0])
	}
	return scores
}

// scoresOf are the scores of the steps.
func scoresOf(steps []usual.ProfileStep) (scores []float64) {
	for _, step := range steps {
		scores = append(scores, step.Score)
	}
	return scores
}

// meanScore is the mean score of the first n views.
func meanScore(steps []usual.ProfileStep, n int) []float64 {
	scores := make([]float64, len(steps))
	for i, step := range steps {
		for _, v := range step.Views[:n] {
			scores[i] += v.Score / float64(n)
		}
	}
	return scores
}

// A nabRow is a rule for alarms.
type nabRow struct {
	name   string
	scores func(nabTrace) []float64
	// rest is the number of observations after an alarm without another, of a rule
	// that compares the scores with a threshold.
	rest int
	// pace is that of a rule that is a usual.Alarm, and changes says whether commits may
	// raise its alarms.
	pace    func(nabTrace) usual.Pace
	changes bool
	lasting bool // the alarms last
}

var nabRows = func() []nabRow {
	level := func(number func(usual.ViewStep) float64) func(nabTrace) []float64 {
		return func(s nabTrace) []float64 { return s.ofLevel(number) }
	}
	timed := func(views int) func(nabTrace) []float64 {
		return func(s nabTrace) []float64 { return meanScore(s.timed, views) }
	}
	untimed := func(views int) func(nabTrace) []float64 {
		return func(s nabTrace) []float64 { return meanScore(s.untimed, views) }
	}
	surprise := func(s nabTrace) []float64 { return s.surprise }
	all := func(s nabTrace) []float64 { return scoresOf(s.timed) }
	week := func(s nabTrace) usual.Pace { return s.week }
	fixed := func(s nabTrace) usual.Pace { return s.fixed }
	return []nabRow{
		{name: "kind change", scores: nabTrace.commits},
		{name: "kind change, rest 60", scores: nabTrace.commits, rest: 60},
		{name: "surprise", scores: surprise},
		{name: "surprise, rest 60", scores: surprise, rest: 60},
		{name: "level z", scores: level(func(v usual.ViewStep) float64 { return v.Surprise }), rest: 60},
		{name: "running mean", scores: level(func(v usual.ViewStep) float64 { return v.Mean }), rest: 60},
		{name: "calibrator", scores: timed(1), rest: 60},
		{name: "budget", scores: timed(1), pace: week},
		{name: "season", scores: timed(2), pace: week},
		{name: "season, changes", scores: timed(2), pace: week, changes: true},
		{name: "three views", scores: timed(3), pace: week},
		{name: "three views, changes", scores: timed(3), pace: week, changes: true},
		{name: "default, every alarm", scores: all, pace: week, changes: true},
		{name: "default", scores: all, pace: week, changes: true, lasting: true},
		{name: "season, changes, 2000 observations", scores: timed(2), pace: fixed, changes: true},
		{name: "level, changes, no times", scores: untimed(1), pace: fixed, changes: true},
		{name: "default, no times, every alarm", scores: func(s nabTrace) []float64 { return scoresOf(s.untimed) }, pace: fixed, changes: true},
		{name: "default, no times", scores: func(s nabTrace) []float64 { return scoresOf(s.untimed) }, pace: fixed, changes: true, lasting: true},
	}
}()

// alarms are those of the row on a series with the given scores. A row with a budget
// adds threshold to the one of its own.
func (r nabRow) alarms(s nabTrace, scores []float64, threshold float64) (alarms []int) {
	if r.pace == nil {
		for i, v := range scores {
			if i >= alarmWarmUp && v >= threshold && (len(alarms) == 0 || i-alarms[len(alarms)-1] > r.rest) {
				alarms = append(alarms, i)
			}
		}
		return alarms
	}
	a := usual.NewAlarm(r.pace(s))
	state := a.NewState()
	for i := alarmWarmUp; i < len(scores); i++ {
		var d usual.Decision
		if q, change := scores[i]-threshold, r.changes && s.changes[i]; r.lasting {
			d = a.Follow(state, q, s.sides[i], change, nil)
		} else {
			d = a.Update(state, q, change, nil)
		}
		if d.Alarm != usual.NoAlarm {
			alarms = append(alarms, i)
		}
	}
	return alarms
}

// sweep returns the tally of the row at the threshold that is best for the standard
// profile, and at the fixed one. A row with a budget has a fixed threshold of its
// own. The fixed threshold of other rows is the best one.
func (r nabRow) sweep(traces []nabTrace) (best, fixed nabTally) {
	var scores [][]float64
	var thresholds []float64
	for _, s := range traces {
		scores = append(scores, r.scores(s))
		thresholds = append(thresholds, scores[len(scores)-1]...)
	}
	tally := func(threshold float64) (c nabTally) {
		for k, s := range traces {
			c.add(s.tally(r.alarms(s, scores[k], threshold)))
		}
		return c
	}
	if r.pace != nil {
		fixed = tally(0)
		thresholds = nil
		for k := -40; k <= 80; k++ {
			thresholds = append(thresholds, float64(k)/20)
		}
	} else {
		// The ranks grow by 1 up to a hundred, and then by a hundredth, up to a tenth of
		// all scores.
		slices.SortFunc(thresholds, func(a, b float64) int { return cmp.Compare(b, a) })
		var some []float64
		for i := 0; i < len(thresholds)/10; i += 1 + i/100 {
			some = append(some, thresholds[i])
		}
		thresholds = slices.DeleteFunc(slices.Compact(some), func(v float64) bool { return math.IsInf(v, -1) })
	}
	for i, v := range thresholds {
		if c := tally(v); i == 0 || c.score(nabStandard) > best.score(nabStandard) {
			best = c
		}
	}
	if r.pace == nil {
		fixed = best
	}
	return best, fixed
}

// BenchmarkNAB scores rules for alarms on the series of the Numenta Anomaly Benchmark,
// from the kinds of the bank with detection to Profile and Alarm, step by step:
//
//	go test ./hafvf -run - -bench NAB -benchtime 1x -nab DIR
//
// It reports the benchmark's score at the best threshold in hindsight, swept, as the
// benchmark does, and at a fixed threshold. A rule with a budget has a fixed threshold
// of its own. The fixed threshold of other rules is the best one. The other figures
// are at the fixed threshold: the score under the profile that doubles the cost of
// false alarms, lowFP, the numbers of alarms and of windows hit, and false alarms per 10,000
// observations outside windows.
func BenchmarkNAB(b *testing.B) {
	if *nabDir == "" {
		b.Skip("-nab DIR names no dataset")
	}
	var traces []nabTrace
	for _, s := range nab(b) {
		traces = append(traces, s.trace(b))
	}
	for _, r := range nabRows {
		b.Run(r.name, func(b *testing.B) {
			var best, fixed nabTally
			for b.Loop() {
				best, fixed = r.sweep(traces)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(best.score(nabStandard), "swept")
			b.ReportMetric(fixed.score(nabStandard), "fixed")
			b.ReportMetric(fixed.score(nabLowFalse), "lowFP")
			b.ReportMetric(float64(fixed.alarms), "alarms")
			b.ReportMetric(float64(fixed.hit), "hit")
			b.ReportMetric(fixed.falseAlarms(), "false/10k")
		})
	}
}
