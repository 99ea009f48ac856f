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
	surprise []float64 // −log p(x|past) of the bank, nats, for x in units of the scale
	changes  []bool    // commits
	timed    [][]usual.ViewStep
	untimed  [][]usual.ViewStep // by a profile that does not know the times
	week     float64            // in observations
}

func (s nabSeries) trace(t testing.TB) nabTrace {
	t.Helper()
	out := nabTrace{nabSeries: s, week: usual.BudgetOver(usual.DefaultBudgetTime, usual.MedianStep(s.times[:alarmWarmUp]))}
	b := defaultDetector(t, "normal", nil, s.x, alarmWarmUp)
	state := b.NewState()
	_, scale := expfam.LocationScale(s.x[:alarmWarmUp])
	for i := range s.x {
		o := b.Update(state, s.x[i:i+1])
		out.surprise = append(out.surprise, -o.LogPredictive-math.Log(scale))
		out.changes = append(out.changes, o.Detection.Kind == hafvf.Change)
	}
	c := usual.DefaultProfile()
	out.timed = s.views(c)
	c.Seasons = nil
	out.untimed = s.views(c)
	return out
}

func (s nabSeries) views(c usual.ProfileConfig) (steps [][]usual.ViewStep) {
	location, scale := expfam.LocationScale(s.x[:alarmWarmUp])
	p := profileOf(c)
	state := p.NewState()
	for i, x := range s.x {
		step := p.Update(state, s.times[i], []float64{(x - location) / scale})
		steps = append(steps, slices.Clone(step.Views))
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
	for i, views := range s.timed {
		scores[i] = number(views[0])
	}
	return scores
}

// meanScore is the score of a profile that has the first n views.
func meanScore(steps [][]usual.ViewStep, n int) []float64 {
	scores := make([]float64, len(steps))
	for i, views := range steps {
		for _, v := range views[:n] {
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
	// budget is in observations, of a rule that is a hafvf.Alarm, and changes says
	// whether commits may raise its alarms.
	budget  func(nabTrace) float64
	changes bool
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
	week := func(s nabTrace) float64 { return s.week }
	untimedBudget := func(nabTrace) float64 { return usual.DefaultBudget }
	return []nabRow{
		{name: "kind change", scores: nabTrace.commits},
		{name: "kind change, rest 60", scores: nabTrace.commits, rest: 60},
		{name: "surprise", scores: surprise},
		{name: "surprise, rest 60", scores: surprise, rest: 60},
		{name: "level z", scores: level(func(v usual.ViewStep) float64 { return v.Surprise }), rest: 60},
		{name: "running mean", scores: level(func(v usual.ViewStep) float64 { return v.Mean }), rest: 60},
		{name: "calibrator", scores: timed(1), rest: 60},
		{name: "budget", scores: timed(1), budget: week},
		{name: "season", scores: timed(2), budget: week},
		{name: "season, changes", scores: timed(2), budget: week, changes: true},
		{name: "three views", scores: timed(3), budget: week},
		{name: "default", scores: timed(3), budget: week, changes: true},
		{name: "season, changes, 2000 observations", scores: timed(2), budget: untimedBudget, changes: true},
		{name: "default, 2000 observations", scores: timed(3), budget: untimedBudget, changes: true},
		{name: "level, changes, no times", scores: untimed(1), budget: untimedBudget, changes: true},
		{name: "default, no times", scores: untimed(2), budget: untimedBudget, changes: true},
	}
}()

// alarms are those of the row on a series with the given scores. A row with a budget
// adds threshold to the one of its own.
func (r nabRow) alarms(s nabTrace, scores []float64, threshold float64) (alarms []int) {
	if r.budget == nil {
		for i, v := range scores {
			if i >= alarmWarmUp && v >= threshold && (len(alarms) == 0 || i-alarms[len(alarms)-1] > r.rest) {
				alarms = append(alarms, i)
			}
		}
		return alarms
	}
	a := alarmOf(r.budget(s), usual.DefaultRest)
	state := a.NewState()
	for i := alarmWarmUp; i < len(scores); i++ {
		if kind, _ := a.Update(state, scores[i]-threshold, r.changes && s.changes[i], nil); kind != usual.NoAlarm {
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
	if r.budget != nil {
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
	if r.budget == nil {
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
// false alarms, lowFP, the number of windows hit, and false alarms per 10,000
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
			b.ReportMetric(float64(fixed.hit), "hit")
			b.ReportMetric(fixed.falseAlarms(), "false/10k")
		})
	}
}
