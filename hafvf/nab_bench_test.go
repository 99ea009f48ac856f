package hafvf_test

import (
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/familytest"
)

// alarmWarmUp is the number of values to which prior, location, scale and budget are
// fitted, and among which nothing is an alarm.
const alarmWarmUp = 50

// An alarmTrace is what bank and profile make of a series, by observation.
type alarmTrace struct {
	pace    usual.Pace
	changes []bool // commits
	sides   []int  // of usual
	scores  []float64
}

// traceOf has the default bank with detection and the default profile follow a series. A
// profile without times knows no season.
func traceOf(t testing.TB, family string, x []float64, times []time.Time, pace usual.Pace) alarmTrace {
	t.Helper()
	model, first := familytest.New(t, family, nil), x[:alarmWarmUp]
	if m, ok := model.(expfam.Fitted); ok {
		var vectors [][]float64
		for i := range first {
			vectors = append(vectors, first[i:i+1])
		}
		model = m.Fit(m.LocationScale(vectors))
	}
	b := hafvf.NewBank(model, hafvf.DefaultBankOf(family), hafvf.DefaultForgetting, &hafvf.Detect{})
	location, scale := expfam.LocationScale(first)
	c := usual.DefaultProfile()
	if times == nil {
		c.Seasons, times = nil, make([]time.Time, len(x))
	}
	p := profileOf(c)
	out, s, u := alarmTrace{pace: pace}, b.NewState(), p.NewState()
	for i := range x {
		y := (x[i] - location) / scale
		step := p.Update(u, pace, times[i], []float64{y})
		out.changes = append(out.changes, b.Update(s, x[i:i+1]).Detection.Kind == hafvf.Change)
		out.sides = append(out.sides, sideOf(y, step))
		out.scores = append(out.scores, step.Score)
	}
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

// commits are where the bank commits to a change.
func (s alarmTrace) commits() (at []int) {
	for i, change := range s.changes {
		if change {
			at = append(at, i)
		}
	}
	return at
}

// alarms are those at the pace, which last or not.
func (s alarmTrace) alarms(lasting bool) (at []int) {
	a := usual.NewAlarm(s.pace)
	state := a.NewState()
	for i := alarmWarmUp; i < len(s.scores); i++ {
		var d usual.Decision
		if lasting {
			d = a.Follow(state, s.scores[i], usual.Of{Change: s.changes[i], Side: s.sides[i]}, nil)
		} else {
			d = a.Update(state, s.scores[i], s.changes[i], nil)
		}
		if d.Alarm != usual.NoAlarm {
			at = append(at, i)
		}
	}
	return at
}

// BenchmarkNAB scores alarms on the series of the Numenta Anomaly Benchmark, at a budget of
// a week:
//
//	go test ./hafvf -run - -bench NAB -benchtime 1x -nab DIR
//
// It reports the benchmark's score, the numbers of alarms and of windows hit, and false alarms
// per 10,000 observations outside windows.
func BenchmarkNAB(b *testing.B) {
	if *nabDir == "" {
		b.Skip("-nab DIR names no dataset")
	}
	series := nab(b)
	var traces []alarmTrace
	for _, s := range series {
		step := usual.MedianStep(s.times[:alarmWarmUp])
		pace := paceOf(usual.BudgetOver(usual.DefaultBudgetTime, step), step)
		traces = append(traces, traceOf(b, "normal", s.x, s.times, pace))
	}
	for _, r := range []struct {
		name   string
		alarms func(alarmTrace) []int
	}{
		{"kind change", alarmTrace.commits},
		{"default, every alarm", func(s alarmTrace) []int { return s.alarms(false) }},
		{"default", func(s alarmTrace) []int { return s.alarms(true) }},
	} {
		b.Run(r.name, func(b *testing.B) {
			var sum nabTally
			for b.Loop() {
				sum = nabTally{}
				for k, s := range series {
					sum.add(s.tally(r.alarms(traces[k])))
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(sum.score(), "score")
			b.ReportMetric(float64(sum.alarms), "alarms")
			b.ReportMetric(float64(sum.hit), "hit")
			b.ReportMetric(sum.falseAlarms(), "false/10k")
		})
	}
}

func profileOf(c usual.ProfileConfig) *usual.Profile {
	p := must(usual.NewProfile(c))
	return p
}

func paceOf(budget float64, step time.Duration) usual.Pace {
	p := must(usual.NewPace(budget, step, usual.AutoRest))
	return p
}
