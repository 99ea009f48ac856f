package keyed

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

// Keys follow office hours, and behave on holidays as on Sundays. With configured holidays, holidays and the days
// after them raise at most a tenth of the alarms. An outage on a holiday is reported, and its message compares it to
// Sundays.
func TestHolidays(t *testing.T) {
	expect.Long(t, "17 weeks of keys")
	berlin := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, berlin) // a Monday
	holidays := []string{"2026-03-11", "2026-03-20", "2026-04-03", "2026-04-06", "2026-04-23", "2026-05-01"}
	holiday := func(local time.Time) bool { return slices.Contains(holidays, local.Format(time.DateOnly)) }
	outage := time.Date(2026, 5, 1, 10, 0, 0, 0, berlin)
	const keys = 5
	run := func(t *testing.T, step time.Duration, named bool) (alarms, reported int) {
		cfg := Recommended("normal")
		cfg.Alarms.Zone = "Europe/Berlin"
		if named {
			cfg.Alarms.Holidays = usual.Holidays{Dates: holidays}
		}
		est := expect.Get(NewEstimator(cfg))(t)
		for key := range keys {
			rng := rand.New(rand.NewPCG(uint64(key), 3))
			k := expect.Get(est.Open(fmt.Sprint(key), nil))(t)
			seen := false
			for now := start; now.Before(start.AddDate(0, 0, 7*17)); now = now.Add(step) {
				local := now.In(berlin)
				day, hour := local.Weekday(), local.Hour()
				if holiday(local) {
					day = time.Sunday
				}
				x := 10 + rng.NormFloat64()
				switch {
				case day == time.Sunday && hour >= 10 && hour < 16:
					x += 20
				case day != time.Sunday && day != time.Saturday && hour >= 8 && hour < 18:
					x += 40 + 3*rng.NormFloat64()
				}
				out := step < time.Hour && !now.Before(outage) && now.Before(outage.Add(3*time.Hour))
				if out {
					x = 0
				}
				for e, err := range k.Estimates(Value(now.UTC(), "", x)) {
					switch expect.OK(t, err); {
					case e.Alarm == nil:
					case out && !seen:
						seen, reported = true, reported+1
						for _, a := range e.Alerts(fmt.Sprint(key)) {
							if named && !strings.Contains(a.Alert.Message, "usual on Sundays at 1") {
								t.Errorf("%q", a.Alert.Message)
							}
						}
					case holiday(local) || holiday(local.AddDate(0, 0, -1)):
						alarms++
					}
				}
			}
		}
		return alarms, reported
	}
	for _, step := range []time.Duration{30 * time.Minute, 12 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			unnamed, _ := run(t, step, false)
			named, reported := run(t, step, true)
			t.Log("alarms", unnamed, "with holidays", named, "outages reported", reported)
			if unnamed < 3*keys || 10*named > unnamed || step < time.Hour && reported < keys {
				t.Errorf("alarms %d, with holidays %d, outages reported %d", unnamed, named, reported)
			}
		})
	}
}

// Holidays without observations, and holidays on the day that they are like, change no estimate and no state, bit for
// bit.
func TestHolidaysWithoutEffect(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, time.Hour, 12 * time.Hour} {
		cfg := Recommended("normal")
		cfg.Filter.Season = &usual.RhythmConfig{Seasons: usual.DefaultSeasons()}
		cfg.Silence = &SilenceConfig{}
		named, season := cfg, *cfg.Filter.Season
		// 2026-03-08 is a Sunday.
		season.Like = usual.Holidays{Dates: []string{"2025-12-25", "2026-03-08", "2036-01-01"}}
		alarms := *cfg.Alarms
		named.Alarms, alarms.Holidays, named.Filter.Season = &alarms, season.Like, &season
		estPlain, estNamed := expect.Get(NewEstimator(cfg))(t), expect.Get(NewEstimator(named))(t)
		a, b := estPlain.NewTrack("k"), estNamed.NewTrack("k")
		rng := rand.New(rand.NewPCG(1, uint64(step)))
		for i := range 2000 {
			x := rng.NormFloat64()
			if i%700 == 699 {
				x += 12
			}
			o := Value(time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC).Add(time.Duration(i)*step), "", x)
			want, got := estPlain.Estimate(a, o.Clone()), estNamed.Estimate(b, o)
			if !bytes.Equal(expect.Get(want.AppendBinary(nil))(t), expect.Get(got.AppendBinary(nil))(t)) {
				t.Fatalf("%v, observation %d: %+v, want %+v", step, i, got, want)
			}
		}
		if !bytes.Equal(expect.Get(a.AppendBinary(nil))(t), expect.Get(b.AppendBinary(nil))(t)) {
			t.Errorf("%v: the states differ", step)
		}
	}
}
