package usual

import (
	"fmt"
	"time"

	"hafvf/internal/domain"
)

// Holidays are dates that are as another day of the week.
type Holidays struct {
	Dates []string     `json:"dates"` // local, such as 2026-12-25
	Like  time.Weekday `json:"like"`
}

// A Calendar is the clock of a zone, on which a holiday is the nearest day of the week that it is like. The nil Calendar
// is that of UTC.
type Calendar struct {
	zone *time.Location
	away map[int64]int64 // days from a holiday to the day it is like, by days since 1 January 1970
}

// NewCalendar makes a calendar. An error names the date.
func NewCalendar(zone *time.Location, h Holidays) (*Calendar, error) {
	c := &Calendar{zone: zone}
	if h.Like < time.Sunday || h.Like > time.Saturday {
		return nil, fmt.Errorf("like: day %d is none of a week", h.Like)
	}
	for i, date := range h.Dates {
		t, err := domain.Date(date)
		if err != nil {
			return nil, fmt.Errorf("dates.%d: %w", i, err)
		}
		if c.away == nil {
			c.away = map[int64]int64{}
		}
		c.away[t.Unix()/secondsOfDay] = int64(h.Like-t.Weekday()+10)%7 - 3
	}
	return c, nil
}

// Zone is that of the clock.
func (c *Calendar) Zone() *time.Location {
	if c == nil || c.zone == nil {
		return time.UTC
	}
	return c.zone
}

// moved is how many days the day of a time is away from the one that it is like.
func (c *Calendar) moved(t time.Time) int64 {
	if c == nil || c.away == nil {
		return 0
	}
	_, offset := t.In(c.Zone()).Zone()
	return c.away[floorDiv(t.Unix()+int64(offset), secondsOfDay)]
}

// offset is what the clock adds to the seconds since 1 January 1970.
func (c *Calendar) offset(t time.Time) int64 {
	_, offset := t.In(c.Zone()).Zone()
	return int64(offset) + c.moved(t)*secondsOfDay
}

// Weekday is that of the day that the day of a time is like.
func (c *Calendar) Weekday(t time.Time) time.Weekday {
	return (t.In(c.Zone()).Weekday() + time.Weekday(c.moved(t)) + 7) % 7
}

// like is the day that a day of the zone is as, both since 1 January 1970.
func (c *Calendar) like(day int64) int64 {
	if c == nil {
		return day
	}
	return day + c.away[day]
}

// leaps reports whether one of the last values, so many a day, was on a day that is no neighbour of the one that this is like.
func (c *Calendar) leaps(t time.Time, values int, perDay float64) bool {
	if c == nil || c.away == nil || t.IsZero() || perDay == 0 {
		return false
	}
	step, moved := float64(24*time.Hour)/perDay, c.moved(t)
	for i := range values {
		if c.moved(t.Add(-time.Duration(float64(i+1)*step))) != moved {
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
