package usual

import (
	"fmt"
	"time"

	"hafvf/internal/domain"
)

// Holidays are dates that count as another day of the week.
type Holidays struct {
	Dates []string     `json:"dates"` // local, such as 2026-12-25
	Like  time.Weekday `json:"like"`
}

// A Calendar converts times to the local time of a zone. It replaces a holiday by the nearest day with the weekday of
// Holidays.Like. A nil Calendar is UTC without holidays.
type Calendar struct {
	zone    *time.Location
	monthly []MonthDay
	shifts  map[int64]int64 // days from a holiday to the day that replaces it, by days since 1 January 1970
}

// NewCalendar returns a calendar. A nil zone means UTC. On the given days of the month, streams have usual values of
// their own. An error names the invalid date or weekday.
func NewCalendar(zone *time.Location, h Holidays, monthly ...MonthDay) (*Calendar, error) {
	c := &Calendar{zone: zone, monthly: monthly}
	if h.Like < time.Sunday || h.Like > time.Saturday {
		return nil, fmt.Errorf("like: day %d is not a weekday: use 0 (Sunday) to 6 (Saturday)", h.Like)
	}
	for i, date := range h.Dates {
		t, err := domain.Date(date)
		if err != nil {
			return nil, fmt.Errorf("dates.%d: %w", i, err)
		}
		if c.shifts == nil {
			c.shifts = map[int64]int64{}
		}
		c.shifts[t.Unix()/secondsOfDay] = int64(h.Like-t.Weekday()+10)%7 - 3
	}
	return c, nil
}

// Zone returns the zone of the local times.
func (c *Calendar) Zone() *time.Location {
	if c == nil || c.zone == nil {
		return time.UTC
	}
	return c.zone
}

// shift returns the days from the local day of t to the day that replaces it, 0 if t is not on a holiday.
func (c *Calendar) shift(t time.Time) int64 {
	if c == nil || c.shifts == nil {
		return 0
	}
	_, offset := t.In(c.Zone()).Zone()
	return c.shifts[floorDiv(t.Unix()+int64(offset), secondsOfDay)]
}

// offset returns the seconds to add to the Unix time of t for its local time, including the shift of a holiday.
func (c *Calendar) offset(t time.Time) int64 {
	_, offset := t.In(c.Zone()).Zone()
	return int64(offset) + c.shift(t)*secondsOfDay
}

// Weekday returns the local day of the week of t or, on a holiday, the one that replaces it.
func (c *Calendar) Weekday(t time.Time) time.Weekday {
	ph, _ := c.phase(t)
	return time.Weekday((ph.slot()/daySlots + 1) % 7)
}

// phase returns the local phase of t, from 0 for Monday 0:00, and the time from t to the end of its hour.
func (c *Calendar) phase(t time.Time) (ph phase, rest time.Duration) {
	const thursday = 72 * 3600 // 1 January 1970, in seconds from Monday
	seconds := t.Unix() + c.offset(t) + thursday
	seconds -= floorDiv(seconds, fortnight*3600) * fortnight * 3600
	if ph = phase(seconds / 3600); c.shift(t) != 0 {
		ph += fortnight
	}
	return ph, time.Hour - time.Duration(seconds%3600)*time.Second - time.Duration(t.Nanosecond())
}

// like returns the day that replaces the given local day, both as days since 1 January 1970.
func (c *Calendar) like(day int64) int64 {
	if c == nil {
		return day
	}
	return day + c.shifts[day]
}

// leaps reports whether one of the given number of previous values, with perDay values a day, lies on a day with
// another shift than t. perDay = 0 and a zero t return false.
func (c *Calendar) leaps(t time.Time, values int, perDay float64) bool {
	if c == nil || c.shifts == nil || t.IsZero() || perDay == 0 {
		return false
	}
	step, shift := float64(24*time.Hour)/perDay, c.shift(t)
	for i := range values {
		if c.shift(t.Add(-time.Duration(float64(i+1)*step))) != shift {
			return true
		}
	}
	return false
}

func floorDiv(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}
