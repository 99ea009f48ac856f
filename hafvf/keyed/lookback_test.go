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

// sampled are what range queries give of n samples, but for those that are away from one position to another:
// the last one again for as long as the lookback. From position frozen on all samples are equal.
func sampled(step time.Duration, n, frozen int, away ...[2]int) (all []Observation) {
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
			all = append(all, Value(begin.Add(time.Duration(i)*step), fmt.Sprint(i), value))
		}
	}
	return all
}

// ofLookback are the estimates of a key of a source of that lookback.
func ofLookback(t *testing.T, lookback time.Duration, in []Observation) (all []Estimate) {
	t.Helper()
	cfg := lookingBack(lookback)
	if in[0].Time.IsZero() {
		cfg.Order = Arrival
	}
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	for _, o := range in {
		all = append(all, est.Estimate(track, o))
	}
	return all
}

func lookingBack(lookback time.Duration) Config {
	cfg := Recommended("normal")
	cfg.Lookback = lookback
	return cfg
}

// equalAlarms are the alarms about equal values in a row.
func equalAlarms(all []Estimate) (alerted []string) {
	for _, e := range all {
		if e.Alarm != nil && strings.Contains(e.Alarm.Message, "which is rare here") {
			alerted = append(alerted, e.Time.String()+" "+e.Alarm.Message)
		}
	}
	return alerted
}

// decided are the scores and alarms of estimates.
func decided(all []Estimate) (lines []string) {
	for _, e := range all {
		line := fmt.Sprint(e.Time, e.Detection.Score, e.Detection.Threshold)
		if e.Alarm != nil {
			line += e.Alarm.Message
		}
		lines = append(lines, line)
	}
	return lines
}

// firstAlarm is the time of the first alarm from a time on, the zero time if there is none.
func firstAlarm(all []Estimate, from time.Time) time.Time {
	for _, e := range all {
		if e.Alarm != nil && !e.Time.Before(from) {
			return e.Time
		}
	}
	return time.Time{}
}

// A series whose server was away, or which has ended, raises no alarm about values that its source repeats. One that
// freezes raises it at most a lookback later than without a lookback, and a step more after such gaps, which are past
// episodes. At steps above the
// lookback nothing changes.
func TestLookback(t *testing.T) {
	for _, step := range []time.Duration{20 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 7 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			const n, frozen = 3500, 3000
			gap := func(at int, lasts time.Duration) [2]int { return [2]int{at, at + int(lasts/step)} }
			gaps := [][2]int{gap(2000, 4*time.Minute), gap(2500, 20*time.Minute)}
			away := sampled(step, n, n, append(gaps, [2]int{n - 200, n})...)
			alerted := equalAlarms(ofLookback(t, 0, away))
			if repeats := step < lookback/2; repeats != (len(alerted) > 0) {
				t.Errorf("without a lookback there are alarms %q", alerted)
			}
			if alerted := equalAlarms(ofLookback(t, lookback, away)); len(alerted) > 0 {
				t.Errorf("there are alarms %q", alerted)
			}

			freezes := sampled(step, n, frozen)
			plain := ofLookback(t, 0, freezes)
			from := freezes[frozen].Time
			was := firstAlarm(plain, from)
			if len(equalAlarms(plain)) != 1 {
				t.Fatal("a series that freezes is not told once")
			}
			for name, in := range map[string][]Observation{"": freezes, " after gaps": sampled(step, n, frozen, gaps...)} {
				all := ofLookback(t, lookback, in)
				if is := firstAlarm(all, from); is.IsZero() || is.Sub(was) > lookback+step {
					t.Errorf("the series freezes%s: an alarm at %v, without a lookback at %v", name, is, was)
				}
				if step > lookback && name == "" {
					expect.Same(t, decided(plain), decided(all), "with a lookback")
				}
			}
		})
	}
}

// Without times there is no lookback.
func TestLookbackWithoutTimes(t *testing.T) {
	in := sampled(time.Minute, 1100, 1000)
	for i := range in {
		in[i].Time = time.Time{}
	}
	plain := ofLookback(t, 0, in)
	if len(equalAlarms(plain)) == 0 {
		t.Error("nothing is told of a series that freezes")
	}
	expect.Same(t, decided(plain), decided(ofLookback(t, lookback, in)), "with a lookback")
}

// A run that resumes anywhere within equal values goes on as one that was not interrupted. A state from before there
// was a lookback goes on, and does not count what it has seen within the lookback.
func TestLookbackResumes(t *testing.T) {
	const at, n, step = 1000, 1040, time.Minute
	in := sampled(step, n, at)
	est := newEstimator(t, lookingBack(lookback))
	whole := ofLookback(t, lookback, in)
	if len(equalAlarms(whole)) == 0 {
		t.Fatal("nothing is told of a series that freezes")
	}
	saved := func(lookback time.Duration, until int) []byte {
		est := newEstimator(t, lookingBack(lookback))
		track := est.NewTrack("k")
		for _, o := range in[:until] {
			est.Estimate(track, o)
		}
		return expect.Get(track.AppendBinary(nil))(t)
	}
	for until := at - 1; until < n; until++ {
		for _, before := range []time.Duration{lookback, 0} {
			if before == 0 && until >= at+3 { // an alarm was told
				break
			}
			track := expect.Get(est.RestoreTrack("k", saved(before, until)))(t)
			var rest []Estimate
			for _, o := range in[until:] {
				rest = append(rest, est.Estimate(track, o))
			}
			expect.Same(t, decided(whole[until:]), decided(rest), "resumed at ", until, " with a state of lookback ", before)
		}
	}
}
