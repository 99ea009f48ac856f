package usual

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/compact"
)

// A MonthDay is a day that recurs each month.
type MonthDay string

// The days of a month.
const (
	FirstOfMonth   MonthDay = "first"
	LastOfMonth    MonthDay = "last"
	LastWorkingDay MonthDay = "last-working-day" // the last one from Monday to Friday that is no holiday
)

var monthDays = []MonthDay{LastWorkingDay, LastOfMonth, FirstOfMonth}

// MonthDays returns all days of a month, the narrowest first.
func MonthDays() []MonthDay { return slices.Clone(monthDays) }

// Includes reports whether the date of t is the day. holiday reports whether a date is a holiday; nil means none.
func (d MonthDay) Includes(t time.Time, holiday func(time.Time) bool) bool {
	works := func(t time.Time) bool {
		return t.Weekday() != time.Saturday && t.Weekday() != time.Sunday && (holiday == nil || !holiday(t))
	}
	if d == FirstOfMonth {
		return t.Day() == 1
	}
	last := t.AddDate(0, 1, -t.Day()) // of the month
	for d == LastWorkingDay && last.Day() > 1 && !works(last) {
		last = last.AddDate(0, 0, -1)
	}
	return t.Day() == last.Day()
}

// monthDay returns the number of the day of the month at t, from 1 in the order of MonthDays; 0 for other days. It does
// not depend on the other days of the calendar, which may change while a state lasts.
func (c *Calendar) monthDay(t time.Time) int {
	if c == nil || len(c.monthly) == 0 || t.IsZero() {
		return 0
	}
	local := t.In(c.Zone())
	for i, day := range monthDays {
		if slices.Contains(c.monthly, day) && day.Includes(local, func(t time.Time) bool { return c.shift(t) != 0 }) {
			return i + 1
		}
	}
	return 0
}

// monthly learns how far the values of a coordinate are from usual on days of the month: the mean of their distances
// over the last three days, and their variance about it over the last twelve. A deviation of the first such day is usual
// on the second. The index is the result of Calendar.monthDay, and the entry 0 remains zero.
type monthly [4]struct {
	mean     float32
	variance float32 // in units of the usual variance
	n        uint16  // values, up to the memory of variance
}

const (
	monthlyDays   = 3. // memory of the mean
	varianceDays  = 12.
	variancePrior = 3. // days with the usual variance
	maxMonthlyObs = 5000
	maxVariance   = 100.
)

// prepare returns the mean distance from usual on a day of the month and the factor of the standard deviation sd, and
// learns the distance d of a value, with perDay values a day.
func (m *monthly) prepare(day int, d, sd, perDay float64) (offset, scatter float64) {
	if day == 0 {
		return 0, 1
	}
	s := &m[day]
	perDay = max(1, perDay)
	mean, n := float64(s.mean), float64(s.n)
	prior := variancePrior * perDay
	scatter = math.Sqrt((prior + n*float64(s.variance)) / (prior + n))
	if s.n > 0 {
		z := min((d-mean)*(d-mean)/(sd*sd), maxVariance)
		scatter *= math.Sqrt(1 + 1/min(n, monthlyDays*perDay))
		s.variance += float32((z - float64(s.variance)) / (n + 1))
	}
	s.mean += float32((within(d, farthest) - mean) / min(n+1, monthlyDays*perDay))
	s.n = min(s.n+1, uint16(min(varianceDays*perDay, maxMonthlyObs)))
	return mean, scatter
}

func (m *monthly) form(c *compact.Codec) {
	for i := range m[1:] {
		s := &m[i+1]
		compact.Unsigned(c, &s.n)
		shorts(c, []*float32{&s.mean, &s.variance})
		c.Check(s.n <= maxMonthlyObs && math.Abs(float64(s.mean)) <= farthest && s.variance >= 0 && s.variance <= maxVariance)
	}
}
