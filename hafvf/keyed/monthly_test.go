package keyed

import (
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf/usual"
)

// A key with other values on the last working day of each month raises alarms on most of these days, and on at most one
// if the configuration names the day. A deviation on an ordinary day is then found.
func TestMonthlyDays(t *testing.T) {
	for _, c := range []struct {
		step   time.Duration
		budget time.Duration
	}{{24 * time.Hour, 2400 * time.Hour}, {time.Hour, 0}} {
		if c.step == time.Hour && testing.Short() {
			break
		}
		for _, named := range []bool{false, true} {
			cfg := Recommended("normal")
			if c.budget != 0 {
				cfg.Alarms.BudgetTime = c.budget
			}
			if named {
				cfg.Alarms.Monthly = []usual.MonthDay{usual.LastWorkingDay}
			}
			est := newEstimator(t, cfg)
			const keys, days = 2, 700
			onMonth, hits := 0, 0
			for key := range uint64(keys) {
				rng, track := rand.New(rand.NewPCG(key, 8)), est.NewTrack("bank")
				start := time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC)
				for i := range int(days * 24 * time.Hour / c.step) {
					now := start.Add(time.Duration(i) * c.step)
					x := 100 + 5*rng.NormFloat64()
					monthEnd := usual.LastWorkingDay.Includes(now, nil)
					event := now.Sub(start) >= 600*24*time.Hour && now.Sub(start) < 601*24*time.Hour
					if monthEnd {
						x += 80
					}
					if event {
						x += 40
					}
					switch e := est.Estimate(track, Value(now, "", x)); {
					case e.Alarm == nil:
					case monthEnd:
						onMonth++
					case event:
						hits++
					}
					if i%200 == 0 {
						track = must(est.RestoreTrack("bank", must(track.AppendBinary(nil))))
					}
				}
			}
			if few := onMonth <= keys; few != named || named && hits < keys {
				t.Errorf("every %v, named is %v: %d alarms on month ends, %d on the event, of %d keys", c.step, named, onMonth, hits, keys)
			}
		}
	}
}
