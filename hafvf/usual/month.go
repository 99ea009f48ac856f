package usual

import "time"

// A MonthDay is a day that recurs each month.
type MonthDay string

// The days of a month.
const (
	FirstOfMonth   MonthDay = "first"
	LastOfMonth    MonthDay = "last"
	LastWorkingDay MonthDay = "last-working-day" // the last one from Monday to Friday that is no holiday
)

// MonthDays returns all days of a month, the narrowest first.
func MonthDays() []MonthDay { return []MonthDay{LastWorkingDay, LastOfMonth, FirstOfMonth} }

// Includes reports whether the date of t is the day. holiday reports whether a date is a holiday; nil means none.
func (d MonthDay) Includes(t time.Time, holiday func(time.Time) bool) bool {
	works := func(t time.Time) bool {
		return t.Weekday() != time.Saturday && t.Weekday() != time.Sunday && (holiday == nil || !holiday(t))
	}
	switch d {
	case FirstOfMonth:
		return t.Day() == 1
	case LastOfMonth:
		return t.AddDate(0, 0, 1).Day() == 1
	}
	if !works(t) {
		return false
	}
	for later := t.AddDate(0, 0, 1); later.Month() == t.Month(); later = later.AddDate(0, 0, 1) {
		if works(later) {
			return false
		}
	}
	return true
}

// WithMonthly returns the calendar with days of the month on which streams have usual values of their own.
func (c *Calendar) WithMonthly(days []MonthDay) *Calendar {
	copied := *c
	copied.monthly = days
	return &copied
}

// monthDay returns the number of the day of the month at t, from 1 in the order of WithMonthly; 0 for other days.
func (c *Calendar) monthDay(t time.Time) int {
	if c == nil || len(c.monthly) == 0 || t.IsZero() {
		return 0
	}
	local := t.In(c.Zone())
	for i, day := range c.monthly {
		if day.Includes(local, func(t time.Time) bool { return c.shift(t) != 0 }) {
			return i + 1
		}
	}
	return 0
}

// maxMonthly is the number of days of a month.
const maxMonthly = 3

// monthly learns how far the values of a coordinate are from usual on days of the month: the mean of their distances,
// over the last three days at most. A deviation of the first such day is usual on the second.
type monthly [maxMonthly]struct {
	mean float32
	n    uint16 // values, up to maxMonthlyObs
}

const (
	monthlyDays   = 3. // memory
	maxMonthlyObs = 5000
)

// offset returns the distance from usual that is usual on a day of the month, and whether it is known.
func (m *monthly) offset(day int) (offset float64, known bool) {
	if day == 0 || m[day-1].n == 0 {
		return 0, false
	}
	return float64(m[day-1].mean), true
}

// learn learns the distance d of a value from usual on a day of the month, with perDay values a day.
func (m *monthly) learn(day int, d, perDay float64) {
	if day == 0 {
		return
	}
	s := &m[day-1]
	s.n = min(s.n+1, uint16(min(monthlyDays*max(1, perDay), maxMonthlyObs)))
	s.mean += float32((within(d, farthest) - float64(s.mean)) / float64(s.n))
}
