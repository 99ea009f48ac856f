package keyed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

const lookback = 5 * time.Minute

// sampled returns the results of range queries for n samples. Samples in the ranges away are missing; the queries
// repeat the previous sample for the lookback. From position frozen on, all samples are equal.
func sampled(step time.Duration, n, frozen int, away ...[2]int) (observations []Observation) {
	rng := rand.New(rand.NewPCG(5, 6))
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	value, last := 0., 0
	for i := range n {
		x := 20 + rng.NormFloat64()
		if !slices.ContainsFunc(away, func(a [2]int) bool { return i >= a[0] && i < a[1] }) {
			if last = i; i <= frozen {
				value = x
			}
		}
		if time.Duration(i-last)*step <= lookback {
			observations = append(observations, Value(begin.Add(time.Duration(i)*step), fmt.Sprint(i), value))
		}
	}
	return observations
}

// estimatesWithLookback returns the estimates of a key under the given lookback.
func estimatesWithLookback(t *testing.T, lookback time.Duration, in []Observation) (estimates []Estimate) {
	t.Helper()
	cfg := configWithLookback(lookback)
	if in[0].Time.IsZero() {
		cfg.Order = Arrival
	}
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	for _, o := range in {
		estimates = append(estimates, est.Estimate(track, o))
	}
	return estimates
}

// configWithLookback returns the recommended configuration with the given lookback.
func configWithLookback(lookback time.Duration) Config {
	cfg := Recommended("normal")
	cfg.Lookback = lookback
	return cfg
}

// equalAlarms returns the times and messages of the alarms for equal values in a row.
func equalAlarms(estimates []Estimate) (alerted []string) {
	for _, e := range estimates {
		if e.Alarm != nil && strings.Contains(e.Alarm.Message, "which is rare for this key") {
			alerted = append(alerted, e.Time.String()+" "+e.Alarm.Message)
		}
	}
	return alerted
}

// decisionLines returns the times, scores, thresholds and alarm messages of estimates.
func decisionLines(estimates []Estimate) (lines []string) {
	for _, e := range estimates {
		line := fmt.Sprint(e.Time, e.Detection.Score, e.Detection.Threshold)
		if e.Alarm != nil {
			line += e.Alarm.Message
		}
		lines = append(lines, line)
	}
	return lines
}

// firstAlarm returns the time of the first alarm at or after from, or the zero time.
func firstAlarm(estimates []Estimate, start time.Time) time.Time {
	for _, e := range estimates {
		if e.Alarm != nil && !e.Time.Before(start) {
			return e.Time
		}
	}
	return time.Time{}
}

// If the server of a series was away, or the series has ended, the values that the source repeats raise no alarm. A
// series that freezes raises an alarm at most a lookback and a step later than without a lookback, also after gaps. At
// steps above the lookback the results do not change.
func TestLookback(t *testing.T) {
	for _, step := range []time.Duration{20 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 7 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			if step != time.Minute {
				expect.Long(t, "other steps")
			}
			const n, frozen = 3500, 3000
			gap := func(pos int, lasts time.Duration) [2]int { return [2]int{pos, pos + int(lasts/step)} }
			gaps := [][2]int{gap(2000, 4*time.Minute), gap(2500, 20*time.Minute)}
			away := sampled(step, n, n, append(gaps, [2]int{n - 200, n})...)
			alerted := equalAlarms(estimatesWithLookback(t, 0, away))
			if repeats := step < lookback/2; repeats != (len(alerted) > 0) {
				t.Errorf("without a lookback: alarms %q", alerted)
			}
			if alerted := equalAlarms(estimatesWithLookback(t, lookback, away)); len(alerted) > 0 {
				t.Errorf("alarms %q", alerted)
			}

			freezes := sampled(step, n, frozen)
			plain := estimatesWithLookback(t, 0, freezes)
			freezeTime := freezes[frozen].Time
			plainAlarm := firstAlarm(plain, freezeTime)
			if len(equalAlarms(plain)) != 1 {
				t.Fatal("a series that freezes does not raise exactly one alarm")
			}
			for name, in := range map[string][]Observation{"": freezes, " after gaps": sampled(step, n, frozen, gaps...)} {
				estimates := estimatesWithLookback(t, lookback, in)
				if alarm := firstAlarm(estimates, freezeTime); alarm.IsZero() || alarm.Sub(plainAlarm) > lookback+step {
					t.Errorf("the series freezes%s: an alarm at %v, without a lookback at %v", name, alarm, plainAlarm)
				}
				if step > lookback && name == "" {
					expect.Same(t, decisionLines(plain), decisionLines(estimates), "with a lookback")
				}
			}
		})
	}
}

// Without times the lookback has no effect.
func TestLookbackWithoutTimes(t *testing.T) {
	in := sampled(time.Minute, 1100, 1000)
	for i := range in {
		in[i].Time = time.Time{}
	}
	plain := estimatesWithLookback(t, 0, in)
	if len(equalAlarms(plain)) == 0 {
		t.Error("a series that freezes raises no alarm")
	}
	expect.Same(t, decisionLines(plain), decisionLines(estimatesWithLookback(t, lookback, in)), "with a lookback")
}

// A run that resumes anywhere in a stretch of equal values gives the same results as one that was not interrupted. So
// does a run with a state from before a lookback was set: it does not count values within the lookback.
func TestLookbackResumes(t *testing.T) {
	expect.Long(t, "many resumed keys")
	const frozen, n, step = 1000, 1040, time.Minute
	in := sampled(step, n, frozen)
	est := newEstimator(t, configWithLookback(lookback))
	whole := estimatesWithLookback(t, lookback, in)
	if len(equalAlarms(whole)) == 0 {
		t.Fatal("a series that freezes raises no alarm")
	}
	saved := func(lookback time.Duration, until int) []byte {
		est := newEstimator(t, configWithLookback(lookback))
		track := est.NewTrack("k")
		for _, o := range in[:until] {
			est.Estimate(track, o)
		}
		return expect.Get(track.AppendBinary(nil))(t)
	}
	for until := frozen - 1; until < n; until++ {
		for _, before := range []time.Duration{lookback, 0} {
			if before == 0 && until >= frozen+3 { // an alarm was raised
				break
			}
			track := expect.Get(est.RestoreTrack("k", saved(before, until)))(t)
			var resumed []Estimate
			for _, o := range in[until:] {
				resumed = append(resumed, est.Estimate(track, o))
			}
			expect.Same(t, decisionLines(whole[until:]), decisionLines(resumed), "resumed at ", until, " with a state of lookback ", before)
		}
	}
}
