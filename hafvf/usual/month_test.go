package usual

import (
	"testing"
	"time"
)

// A day of the month is found by its local date. Working days are from Monday to Friday, without holidays.
func TestMonthDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	holidays := Holidays{Dates: []string{"2026-12-31"}}
	all, err := NewCalendar(berlin, holidays, LastWorkingDay, LastOfMonth, FirstOfMonth)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCalendar(berlin, holidays)
	if err != nil {
		t.Fatal(err)
	}
	some, err := NewCalendar(berlin, holidays, FirstOfMonth, LastOfMonth)
	if err != nil {
		t.Fatal(err)
	}
	for date, want := range map[string]int{
		"2026-01-30T12:00:00Z": 1, "2026-01-31T12:00:00Z": 2, "2026-01-31T23:30:00Z": 3, "2026-02-01T12:00:00Z": 3, "2026-02-27T08:00:00Z": 1,
		"2026-02-28T12:00:00Z": 2, "2026-02-02T12:00:00Z": 0, "2026-04-30T12:00:00Z": 1, "2026-12-30T12:00:00Z": 1, "2026-12-31T12:00:00Z": 2,
	} {
		at, err := time.Parse(time.RFC3339, date)
		if err != nil {
			t.Fatal(err)
		}
		if got := all.monthDay(at); got != want {
			t.Errorf("%s: day %d, want %d", date, got, want)
		}
		if got := some.monthDay(at); got != want && (want != 1 || got != 0 && got != 2) {
			t.Errorf("%s: day %d of a calendar with the last and the first one, want %d", date, got, want)
		}
		if c.monthDay(at) != 0 {
			t.Errorf("%s is a day of the month of a calendar without them", date)
		}
	}
}
