package hafvf_test

import (
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// alarmWarmUp is the number of values from which prior, location, scale and budget are fitted, and which raise
// no alarm.
const alarmWarmUp = 50

// An alarmTrace holds the results of bank and profile for a series, by observation.
type alarmTrace struct {
	pace    usual.Pace
	changes []bool // whether the bank reports a change
	scores  []float64
}

// traceOf runs the default bank with detection and the default profile over a series. If times is nil, the
// profile has no season.
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
	b := hafvf.NewBank(model, hafvf.DefaultBankFor(family), hafvf.DefaultForgetting, &hafvf.Detect{})
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
		out.scores = append(out.scores, step.Score)
	}
	return out
}

// commits returns the indices at which the bank reports a change.
func (s alarmTrace) commits() (indices []int) {
	for i, change := range s.changes {
		if change {
			indices = append(indices, i)
		}
	}
	return indices
}

// alarms returns the indices of the alarms at the pace of the trace, if no alarm lasts.
func (s alarmTrace) alarms() (indices []int) {
	a := usual.NewAlarm(s.pace)
	state := a.NewState()
	for i := alarmWarmUp; i < len(s.scores); i++ {
		if a.Update(state, s.scores[i], usual.Context{Change: s.changes[i]}, nil).Alarm != usual.NoAlarm {
			indices = append(indices, i)
		}
	}
	return indices
}

// alarmsOf returns the indices of the alarms that the recommended settings raise on a series. budget is in
// observations; 0 means a week.
func alarmsOf(t testing.TB, budget float64, x []float64, times []time.Time) (indices []int) {
	t.Helper()
	cfg := keyed.Recommended("normal")
	cfg.Alarms.Budget = budget
	if times == nil {
		cfg.Order = keyed.Arrival
		times = make([]time.Time, len(x))
	}
	est := expect.Get(keyed.NewEstimator(cfg))(t)
	track := est.NewTrack("k")
	for i, v := range x {
		if est.Estimate(track, keyed.Value(times[i], "", v)).Alarm != nil {
			indices = append(indices, i)
		}
	}
	return indices
}

// BenchmarkNAB scores alarms on the series of the Numenta Anomaly Benchmark, at a budget of a week:
//
//	go test ./hafvf -run - -bench NAB -benchtime 1x -nab DIR
//
// It reports the benchmark's score, the numbers of alarms and of windows hit, and false alarms per 10,000
// observations outside windows.
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
		alarms func(i int) []int
	}{
		{"kind change", func(i int) []int { return traces[i].commits() }},
		{"default, every alarm", func(i int) []int { return traces[i].alarms() }},
		{"default", func(i int) []int { return alarmsOf(b, 0, series[i].x, series[i].times) }},
	} {
		b.Run(r.name, func(b *testing.B) {
			var sum nabTally
			for b.Loop() {
				sum = nabTally{}
				for k, s := range series {
					sum.add(s.tally(r.alarms(k)))
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
	p := must(usual.NewPace(budget, step, usual.AutoRest, usual.DefaultSettling))
	return p
}
