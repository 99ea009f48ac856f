package usual

import (
	"math"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// A holiday has the hours of the nearest day with its weekday, also when the clock changes.
func TestCalendar(t *testing.T) {
	berlin := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	for _, like := range []time.Weekday{time.Sunday, time.Wednesday, time.Saturday} {
		for day := range 40 {
			date := time.Date(2026, 3, 10+day, 0, 0, 0, 0, berlin)
			c := expect.Get(NewCalendar(berlin, Holidays{Dates: []string{date.Format(time.DateOnly)}, Like: like}))(t)
			plain := &Calendar{zone: berlin}
			for now := date.Add(-24 * time.Hour); now.Before(date.Add(50 * time.Hour)); now = now.Add(30 * time.Minute) {
				local := now.In(berlin)
				ph, _ := plain.phase(now)
				want := ph.slot()
				if local.Format(time.DateOnly) == date.Format(time.DateOnly) {
					want = int(like+6)%7*24 + local.Hour()
				}
				if ph, _ := c.phase(now); ph.slot() != want {
					t.Fatalf("%v, like %v: hour %d of the week, want %d", local, like, ph.slot(), want)
				}
				if got := c.Weekday(now); int(got+6)%7 != want/24 {
					t.Fatalf("%v, like %v: %v", local, like, got)
				}
			}
			if away := c.like(date.Unix()/secondsOfDay+1) - date.Unix()/secondsOfDay - 1; math.Abs(float64(away)) > 3 {
				t.Errorf("%v is like the day %d days away", date, away)
			}
		}
	}
	for _, h := range []Holidays{{Dates: []string{"2026-02-30"}}, {Like: 7}, {Like: -1}} {
		if c, err := NewCalendar(berlin, h); err == nil {
			t.Errorf("%+v: %v", h, c)
		}
	}
}

// leaps reports last values from the other side of the beginning or end of a holiday.
func TestCalendarLeaps(t *testing.T) {
	holiday := time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC) // a Wednesday
	named := expect.Get(NewCalendar(nil, Holidays{Dates: []string{"2026-03-11"}}))(t)
	sunday := expect.Get(NewCalendar(nil, Holidays{Dates: []string{"2026-03-15"}}))(t)
	for _, perDay := range []float64{48, 3, 2, 1} {
		step := time.Duration(24 / perDay * float64(time.Hour))
		for now := holiday.AddDate(0, 0, -8); now.Before(holiday.AddDate(0, 0, 9)); now = now.Add(step) {
			onHoliday, offHoliday := 0, 0
			for i := range 4 {
				if now.Add(-time.Duration(i) * step).Truncate(24 * time.Hour).Equal(holiday) {
					onHoliday++
				} else {
					offHoliday++
				}
			}
			if got, want := named.leaps(now, 3, perDay), onHoliday > 0 && offHoliday > 0; got != want {
				t.Errorf("%v a day, %v: %v", perDay, now, got)
			}
			if sunday.leaps(now, 3, perDay) || (*Calendar)(nil).leaps(now, 3, perDay) {
				t.Errorf("%v a day, %v: leaps on no holiday, or on one that is as it is", perDay, now)
			}
		}
	}
}

// A stream that pauses on Sundays is not silent on a holiday. A stream that also reports on Sundays is silent if it
// stops.
func TestGapsHolidays(t *testing.T) {
	begin := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	holiday := begin.AddDate(0, 0, 7*6+2) // a Wednesday
	for _, test := range []struct {
		sundays, named, silent bool
	}{{false, false, true}, {false, true, false}, {true, true, true}} {
		c := &Calendar{}
		if test.named {
			c = expect.Get(NewCalendar(time.UTC, Holidays{Dates: []string{holiday.Format(time.DateOnly)}}))(t)
		}
		m, g := NewGapModel(c, 0, DefaultBudgetTime), Gaps{}
		var last time.Time
		for now := begin; now.Before(holiday); now = now.Add(5 * time.Minute) {
			if now.Weekday() == time.Sunday && !test.sundays {
				continue
			}
			if !last.IsZero() {
				m.Observe(&g, last, now, time.Time{})
			}
			last = now
		}
		deadline := m.Deadline(&g, last)
		if silent := deadline.Before(holiday.Add(20 * time.Hour)); silent != test.silent {
			t.Errorf("%+v: silent at %v, last at %v", test, deadline, last)
		}
	}
}
