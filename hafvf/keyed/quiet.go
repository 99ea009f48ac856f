package keyed

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/domain"
)

// A QuietTime is one of some keys in which nothing is learned or told: a maintenance, say. An observation of a quiet
// time has an estimate with Quiet, and leaves the state of its key as it is but for the number of observations. The
// clock of a silence stands still.
type QuietTime struct {
	Match    string    // as in Rule
	From, To time.Time // From belongs to it, To does not; zero with Weekly
	Weekly   *Weekly   // it comes every week
}

// A Weekly time begins at a time of its zone's clock. If the clock shows that twice, it begins at the first. If the clock
// leaves it out, the offset before the change counts.
type Weekly struct {
	Day   time.Weekday
	Clock time.Duration // since midnight, below 24 h
	Lasts time.Duration // that elapse, above 0 and at most a week
	Zone  string        // an IANA name; empty for UTC
}

const (
	aWeek   = 7 * 24 * time.Hour
	endless = 366 * 24 * time.Hour // a quiet time that is longer has no end that matters

	quietYear = 52 * aWeek
)

func (q *QuietTime) validate() error {
	if q.Weekly == nil {
		if !q.From.Before(q.To) {
			return fmt.Errorf("to %v is not after from %v", q.To, q.From)
		}
		return nil
	}
	w := q.Weekly
	switch {
	case !q.From.IsZero() || !q.To.IsZero():
		return errors.New("a weekly time has no from or to")
	case w.Day < time.Sunday || w.Day > time.Saturday:
		return fmt.Errorf("day %d is none of a week", w.Day)
	case w.Clock < 0 || w.Clock >= 24*time.Hour:
		return fmt.Errorf("clock %v is not from 0 to 24h", w.Clock)
	case w.Lasts <= 0 || w.Lasts > aWeek:
		return fmt.Errorf("lasts %v is not above 0 and at most a week", w.Lasts)
	}
	_, err := domain.Zone(w.Zone)
	return err
}

// SetQuiet replaces the configured quiet times. It affects keys that are opened later; open Tracks and KeyStates keep theirs.
func (est *Estimator) SetQuiet(times []QuietTime) { est.quiet = newQuietIndex(times) }

// Learned is about how many observations that the state of a key has learned are of quiet times that are added to those
// of the estimator. The state knows when the last one was, and how far they are apart, but nothing of gaps. The error is
// CheckState's.
func (est *Estimator) Learned(key string, state []byte, added []QuietTime) (n int64, err error) {
	e, err := est.decodeKeyState(key, state)
	if err != nil || e.n == 0 {
		return 0, err
	}
	last, step := clock.Later(e.released, e.intervals.next), e.decisions.step
	if step == 0 && e.decisions.warmUp != nil {
		step = medianStep(e.decisions.warmUp)
	}
	if last.IsZero() {
		last = e.last
	}
	if h := e.heartbeat; h != nil {
		if last.IsZero() {
			last = h.last
		}
		if step == 0 {
			step, _ = e.stages.silences.gaps.Usual(&h.gaps, last)
		}
	}
	first, end := last.Add(-time.Duration(min(float64(e.n-1)*float64(step), float64(endless)))), last.Add(1)
	were := e.rules.quiet.between(first, end)
	more := newQuietIndex(added).timesFor(key)
	together := quietTimes{slices.Concat(e.rules.quiet.spans, more.spans), slices.Concat(e.rules.quiet.weekly, more.weekly)}
	quiet := together.between(first, end) - were
	if quiet == 0 || step == 0 {
		return min(int64(quiet), 1), nil
	}
	return min(e.n, int64((quiet+step-1)/step)), nil
}

// A quietIndex finds the quiet times of a key.
type quietIndex struct {
	patterns *domain.Patterns
	times    []quietTimes // by pattern
}

func newQuietIndex(all []QuietTime) *quietIndex {
	var patterns []string
	positions := map[string]int{}
	x := &quietIndex{}
	for _, q := range all {
		i, known := positions[q.Match]
		if !known {
			i = len(patterns)
			positions[q.Match] = i
			patterns, x.times = append(patterns, q.Match), append(x.times, quietTimes{spans: make([][]quietSpan, 1)})
		}
		if t := &x.times[i]; q.Weekly != nil {
			t.weekly = append(t.weekly, quietWeek{Weekly: *q.Weekly, zone: checked(domain.Zone(q.Weekly.Zone))})
		} else {
			t.spans[0] = append(t.spans[0], quietSpan{q.From, q.To})
		}
	}
	for i := range x.times {
		x.times[i].spans[0] = merged(x.times[i].spans[0])
	}
	x.patterns = domain.NewPatterns(patterns)
	return x
}

// timesFor returns the quiet times of a key. They share their spans with the times of other keys.
func (x *quietIndex) timesFor(key string) (q quietTimes) {
	for _, i := range x.patterns.Matching(nil, key) {
		q.spans, q.weekly = append(q.spans, x.times[i].spans...), append(q.weekly, x.times[i].weekly...)
	}
	return q
}

// A quietSpan is the time from its start, which belongs to it, to its end, which does not.
type quietSpan struct{ from, to time.Time }

// merged sorts spans, and merges those that overlap or adjoin.
func merged(spans []quietSpan) []quietSpan {
	slices.SortFunc(spans, func(a, b quietSpan) int { return a.from.Compare(b.from) })
	n := 0
	for _, s := range spans {
		if n > 0 && !s.from.After(spans[n-1].to) {
			spans[n-1].to = clock.Later(spans[n-1].to, s.to)
			continue
		}
		spans[n] = s
		n++
	}
	return spans[:n]
}

// quietTimes are the quiet times of one key.
type quietTimes struct {
	spans  [][]quietSpan // each list is ascending, and its spans do not meet
	weekly []quietWeek
}

// A quietWeek is a quiet time of every week. It remembers its last occurrence.
type quietWeek struct {
	Weekly
	zone  *time.Location
	since time.Time // the occurrence is the current or the next one from this time on
	quietSpan
}

// around returns the occurrence that contains t, or else the next one.
func (q *quietWeek) around(t time.Time) quietSpan {
	if !q.since.IsZero() && !t.Before(q.since) && t.Before(q.to) {
		return q.quietSpan
	}
	q.since = t
	local := t.In(q.zone)
	for days := -7; ; days++ {
		day := time.Date(local.Year(), local.Month(), local.Day()+days, 0, 0, 0, 0, time.UTC)
		if day.Weekday() != q.Day {
			continue
		}
		q.from = clock.At(day.Add(q.Clock), q.zone)
		if q.to = q.from.Add(q.Lasts); q.to.After(t) {
			return q.quietSpan
		}
	}
}

// around calls f with the span of each list, and with the occurrence of each week, that contains t or is the next one
// after t, until f returns false.
func (q *quietTimes) around(t time.Time, f func(quietSpan) bool) {
	for _, spans := range q.spans {
		i := sort.Search(len(spans), func(i int) bool { return spans[i].to.After(t) })
		if i < len(spans) && !f(spans[i]) {
			return
		}
	}
	for i := range q.weekly {
		if !f(q.weekly[i].around(t)) {
			return
		}
	}
}

// until returns the end of the quiet time that contains t, and zero if t is in none. If quiet times follow each other for
// longer than a year, until returns a time beyond that year.
func (q *quietTimes) until(t time.Time) (end time.Time) {
	begin := t
	for again := true; again && t.Sub(begin) < endless; {
		again = false
		q.around(t, func(s quietSpan) bool {
			if !s.from.After(t) {
				t, end, again = s.to, s.to, true
			}
			return !again
		})
	}
	return end
}

// next returns when the next quiet time begins after t, which is in none; zero if none does.
func (q *quietTimes) next(t time.Time) (next time.Time) {
	q.around(t, func(s quietSpan) bool {
		next = clock.Earlier(next, s.from)
		return true
	})
	return next
}

// between returns how much of the time from one time to another is quiet, at most the maximum of a Duration. Over years
// with weekly times alone it counts the first 52 weeks, and as much for each other 52 weeks.
func (q *quietTimes) between(from, to time.Time) (quiet time.Duration) {
	for len(q.spans)+len(q.weekly) > 0 && from.Before(to) {
		if years := (q.spanAfter(from, to).Unix() - from.Unix()) / int64(quietYear/time.Second); years > 1 {
			week := quietTimes{weekly: q.weekly}
			inYear := week.between(from, from.Add(quietYear))
			if int64(inYear) > (math.MaxInt64-int64(quiet))/years {
				return math.MaxInt64
			}
			quiet += time.Duration(years) * inYear
			from = time.Unix(from.Unix()+years*int64(quietYear/time.Second), int64(from.Nanosecond()))
			continue
		}
		if end := q.until(from); !end.IsZero() {
			end = clock.Earlier(end, to)
			quiet += min(end.Sub(from), math.MaxInt64-quiet)
			from = end
		} else if from = q.next(from); from.IsZero() {
			break
		}
	}
	return quiet
}

// spanAfter returns the start of the first span that ends after t, at least t and at most to.
func (q *quietTimes) spanAfter(t, to time.Time) time.Time {
	spans := quietTimes{spans: q.spans}
	spans.around(t, func(s quietSpan) bool {
		to = clock.Earlier(to, clock.Later(s.from, t))
		return true
	})
	return to
}

// deadline is when a clock that began at a time is at its deadline, if it stands still in quiet times. by is the deadline
// of one that began at any time; zero for none.
func (q *quietTimes) deadline(since time.Time, by func(since time.Time) time.Time) time.Time {
	if len(q.spans)+len(q.weekly) == 0 {
		return by(since)
	}
	for at, first := since, since; at.Sub(first) < endless; {
		deadline, begin := by(since), at
		if q.until(at).IsZero() {
			begin = q.next(at)
		}
		if deadline.IsZero() || begin.IsZero() || !begin.Before(deadline) {
			return deadline
		}
		at = q.until(begin)
		since = since.Add(at.Sub(begin))
	}
	return time.Time{}
}

// quietAt reports whether an observation is of a quiet time. That of an interval is if any of the interval is.
func (est *Estimator) quietAt(quiet *quietTimes, o *Observation) bool {
	if o.Aggregated {
		return quiet.between(o.Time, est.IntervalEnd(o.Time)) > 0
	}
	return !o.Time.IsZero() && !quiet.until(o.Time).IsZero()
}

// estimateQuietly is the estimate of an observation of a quiet time: that of a missing value, of which the state keeps
// nothing.
func (est *Estimator) estimateQuietly(m *Memory, out *Estimate, t *Track, given *Observation) {
	c := t.stages
	o := *given
	o.X = make([][]float64, len(given.X))
	for i := range o.X {
		o.X[i] = []float64{math.NaN()}
	}
	c.guard.save(t)
	why, failed := est.update(m, out, t, &o)
	c.guard.restore(t)
	if failed != nil {
		est.rebuild(c)
	}
	t.n++
	if why != "" {
		c.blank(m, out, t.n, given, est.cfg.Interval != 0)
	}
	out.X, out.Quiet, out.Missing = given.X, true, true
	out.Silence, out.Alarm, out.Belief, out.Recovered, out.Pace = nil, nil, nil, nil, Pace{}
}
