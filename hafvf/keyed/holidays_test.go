package keyed

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

// Of 20 keys of office hours, holidays are as Sundays. If they are named, they raise at most a tenth of the alarms that they
// raise else, and an outage on one is told.
func TestHolidays(t *testing.T) {
	berlin := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	begin := time.Date(2026, 1, 5, 0, 0, 0, 0, berlin) // a Monday
	holidays := []string{"2026-03-11", "2026-03-20", "2026-04-03", "2026-04-06", "2026-04-23", "2026-05-01"}
	outage := time.Date(2026, 5, 1, 14, 0, 0, 0, berlin)
	alarms := map[bool]int{}
	told := map[bool]int{}
	for _, named := range []bool{false, true} {
		cfg := Recommended("normal")
		cfg.Alarms.Zone = "Europe/Berlin"
		if named {
			cfg.Alarms.Holidays = usual.Holidays{Dates: holidays}
		}
		est := expect.Get(NewEstimator(cfg))(t)
		for key := range 20 {
			rng := rand.New(rand.NewPCG(uint64(key), 3))
			k := expect.Get(est.Open(fmt.Sprint(key), nil))(t)
			for at := begin; at.Before(begin.AddDate(0, 0, 7*17)); at = at.Add(30 * time.Minute) {
				local := at.In(berlin)
				free := local.Weekday() == time.Saturday || local.Weekday() == time.Sunday
				for _, day := range holidays {
					free = free || local.Format(time.DateOnly) == day
				}
				x := 10 + rng.NormFloat64()
				if hour := local.Hour(); !free && hour >= 8 && hour < 18 {
					x += 40 + 3*rng.NormFloat64()
				}
				if !at.Before(outage) && at.Before(outage.Add(2*time.Hour)) {
					x -= 60
				}
				for e, err := range k.Estimates(Value(at.UTC(), "", x)) {
					if expect.OK(t, err); e.Alarm == nil {
						continue
					}
					if !at.Before(outage) && at.Before(outage.Add(2*time.Hour)) {
						told[named]++
						continue
					}
					for _, day := range holidays {
						if local.Format(time.DateOnly) == day {
							alarms[named]++
						}
					}
				}
			}
		}
	}
	t.Log("alarms on holidays, named or not:", alarms, "of the outage:", told)
	if 10*alarms[true] > alarms[false] || alarms[false] < 60 || told[true] < 20 {
		t.Errorf("alarms on holidays %v, of the outage %v", alarms, told)
	}
}
