package usual

import (
	"math"
	"math/bits"
	"time"

	"hafvf/internal/compact"
)

// visits learns when a stream reports, if it reports once a day or only on some days of the week. A visit ends if
// visitGap passes without an observation. It belongs to the day whose usual end is at most visitApart away. If a visit
// is due and nothing has arrived by visitSlack after the latest usual end, the stream is silent. The zero value is for
// a stream without visits.
type visits struct {
	n        uint8   // ends that meanEnd and lateness are learned from, up to maxEnds; 0: no visit is known
	strays   uint8   // consecutive visits that ended at another time of the day
	meanEnd  float32 // hours of the local day
	lateness float32 // hours by which the latest recent ends were after meanEnd
	day      int64   // last learned day, since 1 January 1970
	came     dayRecord
}

const (
	visitGap   = 3 * time.Hour
	visitApart = 2.  // hours
	visitSlack = .4  // hours
	maxEnds    = 20  // memory of meanEnd
	lateDecay  = .97 // of lateness, per end
	maxStrays  = 3   // consecutive strays after which the visits are learned at the new time
	visitWeeks = 8   // weeks without a visit after which visits are reset
)

// A dayRecord stores, for each day of the week, whether a visit or spike occurred in each of the last seven weeks. The
// last week is the lowest bit; a set bit marks the end above the first week.
type dayRecord [7]uint8

// record stores whether a visit or spike occurred on a day, counted from 1 January 1970.
func (w *dayRecord) record(day int64, came bool) {
	weeks := &w[weekdayOf(day)]
	if *weeks = max(*weeks, 1); *weeks >= 1<<7 {
		*weeks = *weeks&(1<<6-1) | 1<<6
	}
	if *weeks <<= 1; came {
		*weeks |= 1
	}
}

func weekdayOf(day int64) int { return int(((day+3)%7 + 7) % 7) } // 0 is Monday

// seen returns how many days of a weekday were recorded, and how many of them had an occurrence.
func (w *dayRecord) seen(weekday int) (n, came int) {
	return max(bits.Len8(w[weekday]), 1) - 1, max(bits.OnesCount8(w[weekday]), 1) - 1
}

// totals returns the recorded days, the days with an occurrence, and the days that differ from the majority of their
// weekday.
func (w *dayRecord) totals() (days, present, other int) {
	for i := range w {
		n, came := w.seen(i)
		days, present, other = days+n, present+came, other+min(came, n-came)
	}
	return days, present, other
}

// expects reports whether an occurrence is expected on a day: on most of its weekdays and at least one of the last two,
// if two weeks are recorded, five days had one, and few days differ from the majority of their weekday: at most an
// eighth of the days with one, plus spare.
func (w *dayRecord) expects(day int64, spare int) bool {
	days, present, other := w.totals()
	i := weekdayOf(day)
	n, came := w.seen(i)
	return days >= 14 && present >= 5 && other <= spare+present/8 && n >= 2 && 2*came > n && w[i]&3 != 0
}

func (w *dayRecord) form(c *compact.Codec) {
	for i := range w {
		compact.Bytes(c, &w[i])
	}
}

// localHours returns the hours of local time since 1 January 1970.
func localHours(zone *time.Location, t time.Time) float64 {
	_, offset := t.In(zone).Zone()
	return float64(t.Unix()+int64(offset)) / 3600
}

// localTime returns the time that is the given hours of local time after 1 January 1970.
func localTime(zone *time.Location, hours float64) time.Time {
	days := math.Floor(hours / 24)
	return time.Date(1970, 1, 1+int(days), 0, 0, int(math.Round(3600*(hours-24*days))), 0, zone)
}

// nearest returns the day whose usual end is nearest to t, and by how many hours t is later.
func (v *visits) nearest(calendar *Calendar, t time.Time) (day int64, later float64) {
	hours := localHours(calendar.Zone(), t) - float64(v.meanEnd)
	d := math.Round(hours / 24)
	return int64(d), hours - 24*d
}

// due returns the time that is the given hours after the usual end on a day.
func (v *visits) due(calendar *Calendar, day int64, hours float64) time.Time {
	return localTime(calendar.Zone(), 24*float64(day)+float64(v.meanEnd)+hours)
}

// deadline returns when a stream with the last event at last becomes silent, or zero if no visit is due within a week.
func (v *visits) deadline(calendar *Calendar, last time.Time) (t time.Time) {
	if v.n == 0 {
		return t
	}
	day, later := v.nearest(calendar, last)
	if later > -visitApart {
		day++
	}
	for until := day + 7; day < until; day++ {
		if day > v.day && v.came.expects(calendar.like(day), 1) {
			return v.due(calendar, day, float64(v.lateness)+visitSlack)
		}
	}
	return t
}

// next learns a gap of at least visitGap from last to now, and when the stream became silent in it, zero if it did not.
// The days from the first missing one up to silent are learned as days without a visit.
func (v *visits) next(calendar *Calendar, last, now, silent time.Time) {
	if v.n == 0 && !silent.IsZero() {
		return // one silence is not a habit
	}
	day, later := v.nearest(calendar, last)
	switch stray := math.Abs(later) > visitApart; {
	case v.n > 0 && stray && v.strays+1 < maxStrays:
		v.strays++
	case v.n == 0 || stray || day-v.day > visitWeeks*7:
		hours := localHours(calendar.Zone(), last)
		*v = visits{n: 1, meanEnd: float32(hours - 24*math.Floor(hours/24)), day: int64(math.Floor(hours / 24))}
		v.came.record(calendar.like(v.day), true)
	case day > v.day:
		for v.day++; v.day < day; v.day++ {
			v.came.record(calendar.like(v.day), false)
		}
		v.came.record(calendar.like(day), true)
		v.n, v.strays = min(v.n+1, maxEnds), 0
		move := float32(later) / float32(v.n)
		v.meanEnd += move
		v.lateness = max(lateDecay*v.lateness, float32(later)) - move
	}
	if silent.IsZero() {
		return
	}
	if end, _ := v.nearest(calendar, silent); end-v.day > visitWeeks*7 { // the record no longer has earlier days then
		v.day = end - visitWeeks*7
	}
	for v.day++; v.due(calendar, v.day, 0).Before(silent); v.day++ {
		v.came.record(calendar.like(v.day), false)
	}
	v.day--
	if day, _ := v.nearest(calendar, now); day-1 > v.day {
		v.day = day - 1
	}
}

func (v *visits) form(c *compact.Codec) {
	const maxDay = 1 << 22 // days, beyond the year 9999
	compact.Bytes(c, &v.n, &v.strays)
	shorts(c, []*float32{&v.meanEnd, &v.lateness})
	compact.Signed(c, &v.day)
	v.came.form(c)
	c.Check(v.n > 0 && v.n <= maxEnds && v.strays < maxStrays && math.Abs(float64(v.meanEnd)) <= 48 && math.Abs(float64(v.lateness)) <= 24 &&
		max(v.day, -v.day) <= maxDay)
}
