package usual

import (
	"math"
	"math/bits"
	"time"

	"hafvf/internal/compact"
)

// visits are those of a stream that comes once a day, or on some days of the week. A visit ends where nothing comes
// for visitGap, and belongs to the day whose usual end is at most visitApart away. If a visit is due and nothing has
// come by visitSlack after the latest usual end, the stream is silent. The zero value is that of a stream without
// visits.
type visits struct {
	n      uint8   // ends that at and late are learned from, up to mostEnds; 0: no visit is known
	strays uint8   // visits in a row that ended at another time of the day
	at     float32 // mean of ends, in hours of the local day
	late   float32 // by how many hours the latest ends lately were later
	day    int64   // up to which the days are learned, since 1 January 1970
	came   dayRecord
}

const (
	visitGap   = 3 * time.Hour
	visitApart = 2.  // hours
	visitSlack = .4  // hours
	mostEnds   = 20  // of at
	lateKept   = .97 // of late, per end
	mostStrays = 3   // visits, after which they have another time
	visitWeeks = 8   // without a visit, after which all begins anew
)

// dayRecord has for each day of the week whether something came on it in each of the last seven weeks, the last one in
// the lowest bit, and above the first one a bit that is set.
type dayRecord [7]uint8

// note notes whether it came on a day since 1 January 1970.
func (w *dayRecord) note(day int64, came bool) {
	of := &w[weekdayOf(day)]
	if *of = max(*of, 1); *of >= 1<<7 {
		*of = *of&(1<<6-1) | 1<<6
	}
	if *of <<= 1; came {
		*of |= 1
	}
}

func weekdayOf(day int64) int { return int(((day+3)%7 + 7) % 7) } // 0 is Monday

// seen is how often the day of the week has been, and how often it came.
func (w *dayRecord) seen(weekday int) (n, came int) {
	return max(bits.Len8(w[weekday]), 1) - 1, max(bits.OnesCount8(w[weekday]), 1) - 1
}

// all is how many days have been seen, how many of these had it, and how many were not as most on their day of the week.
func (w *dayRecord) all() (days, had, other int) {
	for i := range w {
		n, came := w.seen(i)
		days, had, other = days+n, had+came, other+min(came, n-came)
	}
	return days, had, other
}

// expects reports whether it comes on a day: on most of such days and not missing twice in a row, if two weeks are
// known, five days had it, and few are not as most: one in eight, and spare.
func (w *dayRecord) expects(day int64, spare int) bool {
	days, had, other := w.all()
	i := weekdayOf(day)
	n, came := w.seen(i)
	return days >= 14 && had >= 5 && other <= spare+had/8 && n >= 2 && 2*came > n && w[i]&3 != 0
}

func (w *dayRecord) form(c *compact.Codec) {
	for i := range w {
		compact.Bytes(c, &w[i])
	}
}

// localHours are the hours of the local clock since 1 January 1970.
func localHours(zone *time.Location, t time.Time) float64 {
	_, offset := t.In(zone).Zone()
	return float64(t.Unix()+int64(offset)) / 3600
}

// localTime is the time that is so many hours of the local clock after 1 January 1970.
func localTime(zone *time.Location, hours float64) time.Time {
	days := math.Floor(hours / 24)
	return time.Date(1970, 1, 1+int(days), 0, 0, int(math.Round(3600*(hours-24*days))), 0, zone)
}

// nearest is the day whose usual end is nearest to a time, and how much later the time is, in hours.
func (v *visits) nearest(calendar *Calendar, t time.Time) (day int64, later float64) {
	hours := localHours(calendar.Zone(), t) - float64(v.at)
	d := math.Round(hours / 24)
	return int64(d), hours - 24*d
}

// due is the time that is so many hours after the usual end on a day.
func (v *visits) due(calendar *Calendar, day int64, hours float64) time.Time {
	return localTime(calendar.Zone(), 24*float64(day)+float64(v.at)+hours)
}

// deadline is when the stream becomes silent that has come last at a time, zero if no visit is due in a week.
func (v *visits) deadline(calendar *Calendar, last time.Time) (at time.Time) {
	if v.n == 0 {
		return at
	}
	day, later := v.nearest(calendar, last)
	if later > -visitApart {
		day++
	}
	for until := day + 7; day < until; day++ {
		if day > v.day && v.came.expects(calendar.like(day), 1) {
			return v.due(calendar, day, float64(v.late)+visitSlack)
		}
	}
	return at
}

// next learns that nothing came between two times, visitGap apart, and when the stream became silent, zero if it did
// not. Of a silence the first day is learned.
func (v *visits) next(calendar *Calendar, last, now, silent time.Time) {
	if v.n == 0 && !silent.IsZero() {
		return // one silence is no habit
	}
	day, later := v.nearest(calendar, last)
	switch away := math.Abs(later) > visitApart; {
	case v.n > 0 && away && v.strays+1 < mostStrays:
		v.strays++
	case v.n == 0 || away || day-v.day > visitWeeks*7:
		hours := localHours(calendar.Zone(), last)
		*v = visits{n: 1, at: float32(hours - 24*math.Floor(hours/24)), day: int64(math.Floor(hours / 24))}
		v.came.note(calendar.like(v.day), true)
	case day > v.day:
		for v.day++; v.day < day; v.day++ {
			v.came.note(calendar.like(v.day), false)
		}
		v.came.note(calendar.like(day), true)
		v.n, v.strays = min(v.n+1, mostEnds), 0
		move := float32(later) / float32(v.n)
		v.at += move
		v.late = max(lateKept*v.late, float32(later)) - move
	}
	if silent.IsZero() {
		return
	}
	if end, _ := v.nearest(calendar, silent); end-v.day > visitWeeks*7 { // earlier days have left the record by then
		v.day = end - visitWeeks*7
	}
	for v.day++; v.due(calendar, v.day, 0).Before(silent); v.day++ {
		v.came.note(calendar.like(v.day), false)
	}
	v.day--
	if day, _ := v.nearest(calendar, now); day-1 > v.day {
		v.day = day - 1
	}
}

func (v *visits) form(c *compact.Codec) {
	const farthest = 1 << 22 // days, beyond the year 9999
	compact.Bytes(c, &v.n, &v.strays)
	shorts(c, []*float32{&v.at, &v.late})
	compact.Signed(c, &v.day)
	v.came.form(c)
	c.Check(v.n > 0 && v.n <= mostEnds && v.strays < mostStrays && math.Abs(float64(v.at)) <= 48 && math.Abs(float64(v.late)) <= 24 &&
		max(v.day, -v.day) <= farthest)
}
