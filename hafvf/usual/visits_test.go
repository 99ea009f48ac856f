package usual

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A stream that reports for 20 minutes each day, or each weekday, and misses a day after three weeks is silent within
// an hour of its usual end on 9 of 10 such days. At most one of 20 streams is silent otherwise in eight weeks.
func TestVisits(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, 5 * time.Minute} {
		for name, c := range map[string]struct {
			length, jitter time.Duration
			weekend        bool
		}{"20 minutes a day": {20 * time.Minute, 10 * time.Minute, true}, "20 minutes a working day": {20 * time.Minute, 10 * time.Minute, false}, "working days": {24 * time.Hour, 1, false}} {
			m := NewGapModel(nil, 0, DefaultBudgetTime)
			missing, found, wrong := 0, 0, 0
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 1))
				var g Gaps
				var last, missed time.Time // missed is the usual end on the first missing day since last
				usual := time.Duration(rng.Int64N(int64(24*time.Hour - c.length + 1)))
				for day := range 8 * 7 {
					start := monday.AddDate(0, 0, day).Add(usual)
					switch {
					case !c.weekend && day%7 >= 5:
						continue
					case day >= 21 && missed.IsZero() && rng.IntN(10) == 0:
						missed = start.Add(c.length + c.jitter)
						missing++
						continue
					}
					start = start.Add(time.Duration(rng.Int64N(int64(c.jitter))))
					for now := start; now.Before(start.Add(c.length)); now = now.Add(step) {
						if silent := m.Observe(&g, last, now, time.Time{}); !last.IsZero() && !silent.IsZero() {
							switch {
							case missed.IsZero():
								wrong++
							case silent.Before(missed.Add(time.Hour)):
								found++
							}
						}
						last, missed = now, time.Time{}
					}
				}
			}
			t.Logf("%s, every %v: %d of %d missing days are found, %d silences are wrong", name, step, found, missing, wrong)
			if 10*found < 9*missing || missing < 30 || wrong > 1 {
				t.Errorf("%s, every %v: %d of %d missing days are found, and %d silences are wrong", name, step, found, missing, wrong)
			}
		}
	}
}

// A visit at another time of the day does not replace the visit that is due; three in a row are a new habit. A stream
// that reports twice a day has no visits.
func TestVisitsMove(t *testing.T) {
	m := NewGapModel(nil, 0, DefaultBudgetTime)
	for name, c := range map[string]struct {
		hours func(day int) []int
		due   int // hour on day 60, 0 for none
	}{
		"same":        {func(int) []int { return []int{5} }, 5},
		"one by hand": {func(day int) []int { return map[bool][]int{true: {5, 15}, false: {5}}[day == 55] }, 5},
		"moved":       {func(day int) []int { return map[bool][]int{true: {5}, false: {9}}[day < 20] }, 9},
		"twice":       {func(int) []int { return []int{5, 9} }, 5},
		"any time":    {func(day int) []int { return []int{day * 7 % 24} }, 0},
	} {
		var g Gaps
		last := monday
		for day := range 60 {
			for _, hour := range c.hours(day) {
				for minute := range 20 {
					now := monday.AddDate(0, 0, day).Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
					m.Observe(&g, last, now, time.Time{})
					last = now
				}
			}
		}
		due := m.Due(&g, last)
		if c.due == 0 && !due.IsZero() || c.due > 0 && (due.Before(monday.AddDate(0, 0, 60).Add(time.Duration(c.due)*time.Hour)) || due.Sub(monday.AddDate(0, 0, 60)) > time.Duration(c.due+1)*time.Hour) {
			t.Errorf("%s: due at %v", name, due)
		}
	}
}
