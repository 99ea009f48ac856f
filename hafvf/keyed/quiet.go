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

// A QuietTime is a time range in which matching keys neither learn nor raise alarms, for example during
// maintenance. An observation in it gets an estimate with Quiet, and changes only the number of observations in the
// state of its key. The time does not count towards a silence.
type QuietTime struct {
	Match    string    // a pattern, as in Rule
	From, To time.Time // the range includes From and excludes To; zero with Weekly
	Weekly   *Weekly   // if not nil, the range recurs every week
}

// A Weekly range starts at a local time of its zone. If that time occurs twice, the range starts at the first. If
// it is skipped, the offset before the clock change applies.
type Weekly struct {
	Day   time.Weekday
	Clock time.Duration // local time since midnight, at least 0 and below 24 h
	Lasts time.Duration // elapsed time, above 0 and at most a week
	Zone  string        // an IANA name; empty for UTC
}

const (
	aWeek    = 7 * 24 * time.Hour
	maxQuiet = 366 * 24 * time.Hour // the exact end of a longer quiet time does not matter

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
		return errors.New("a weekly quiet time must not have from or to")
	case w.Day < time.Sunday || w.Day > time.Saturday:
		return fmt.Errorf("day %d is not a weekday: use 0 (Sunday) to 6", w.Day)
	case w.Clock < 0 || w.Clock >= 24*time.Hour:
		return fmt.Errorf("clock %v must be at least 0 and below 24h", w.Clock)
	case w.Lasts <= 0 || w.Lasts > aWeek:
		return fmt.Errorf("lasts %v is not above 0 and at most a week", w.Lasts)
	}
	_, err := domain.Zone(w.Zone)
	return err
}

// SetQuiet replaces the configured quiet times. It affects keys that are opened later; open Tracks and KeyStates
// keep theirs.
func (est *Estimator) SetQuiet(times []QuietTime) { est.quiet = newQuietIndex(times) }

// QuietOverlap estimates how many observations in the state of a key fall into the added quiet times, but not into the
// quiet times of the estimator. The state stores the time of the last observation and the usual step, but no gaps, so
// n is approximate. QuietOverlap returns the errors of CheckState.
func (est *Estimator) QuietOverlap(key string, state []byte, added []QuietTime) (n int64, err error) {
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
	first, end := last.Add(-time.Duration(min(float64(e.n-1)*float64(step), float64(maxQuiet)))), last.Add(1)
	quietBefore := e.rules.quiet.overlap(first, end)
	addedTimes := newQuietIndex(added).timesFor(key)
	combined := quietTimes{slices.Concat(e.rules.quiet.spans, addedTimes.spans), slices.Concat(e.rules.quiet.weekly, addedTimes.weekly)}
	quiet := combined.overlap(first, end) - quietBefore
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

func newQuietIndex(times []QuietTime) *quietIndex {
	var patterns []string
	positions := map[string]int{}
	x := &quietIndex{}
	for _, q := range times {
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

// A quietSpan is a time range that includes start and excludes end.
type quietSpan struct{ start, end time.Time }

// merged sorts spans, and merges spans that overlap or adjoin.
func merged(spans []quietSpan) []quietSpan {
	slices.SortFunc(spans, func(a, b quietSpan) int { return a.start.Compare(b.start) })
	n := 0
	for _, s := range spans {
		if n > 0 && !s.start.After(spans[n-1].end) {
			spans[n-1].end = clock.Later(spans[n-1].end, s.end)
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

// A quietWeek is a weekly quiet time. Its quietSpan is the occurrence that was found last.
type quietWeek struct {
	Weekly
	zone         *time.Location
	searchedFrom time.Time // time of the last search: the occurrence is also the result from then until its end
	quietSpan
}

// occurrence returns the occurrence that contains t, or else the next one.
func (q *quietWeek) occurrence(t time.Time) quietSpan {
	if !q.searchedFrom.IsZero() && !t.Before(q.searchedFrom) && t.Before(q.end) {
		return q.quietSpan
	}
	q.searchedFrom = t
	local := t.In(q.zone)
	for days := -7; ; days++ {
		day := time.Date(local.Year(), local.Month(), local.Day()+days, 0, 0, 0, 0, time.UTC)
		if day.Weekday() != q.Day {
			continue
		}
		q.start = clock.At(day.Add(q.Clock), q.zone)
		if q.end = q.start.Add(q.Lasts); q.end.After(t) {
			return q.quietSpan
		}
	}
}

// visit calls f with the span of each list, and with the weekly occurrence of each quietWeek, that contains t or
// else is the next one after t. It stops if f returns false.
func (q *quietTimes) visit(t time.Time, f func(quietSpan) bool) {
	for _, spans := range q.spans {
		i := sort.Search(len(spans), func(i int) bool { return spans[i].end.After(t) })
		if i < len(spans) && !f(spans[i]) {
			return
		}
	}
	for i := range q.weekly {
		if !f(q.weekly[i].occurrence(t)) {
			return
		}
	}
}

// endAt returns the end of the quiet time that contains t, or the zero Time if there is none. Quiet times that
// overlap or adjoin count as one; if together they last longer than a year, endAt returns a time beyond that year.
func (q *quietTimes) endAt(t time.Time) (end time.Time) {
	first := t
	for extended := true; extended && t.Sub(first) < maxQuiet; {
		extended = false
		q.visit(t, func(s quietSpan) bool {
			if !s.start.After(t) {
				t, end, extended = s.end, s.end, true
			}
			return !extended
		})
	}
	return end
}

// nextStart returns the start of the next quiet time after t, or the zero Time if there is none. t must not be
// quiet.
func (q *quietTimes) nextStart(t time.Time) (start time.Time) {
	q.visit(t, func(s quietSpan) bool {
		start = clock.Earlier(start, s.start)
		return true
	})
	return start
}

// overlap returns the quiet time from start to end, at most the maximum of a Duration. For years in which only
// weekly times apply, it counts the first 52 weeks and multiplies.
func (q *quietTimes) overlap(start, end time.Time) (quiet time.Duration) {
	for len(q.spans)+len(q.weekly) > 0 && start.Before(end) {
		if years := (q.spanAfter(start, end).Unix() - start.Unix()) / int64(quietYear/time.Second); years > 1 {
			weeklyOnly := quietTimes{weekly: q.weekly}
			inYear := weeklyOnly.overlap(start, start.Add(quietYear))
			if int64(inYear) > (math.MaxInt64-int64(quiet))/years {
				return math.MaxInt64
			}
			quiet += time.Duration(years) * inYear
			start = time.Unix(start.Unix()+years*int64(quietYear/time.Second), int64(start.Nanosecond()))
			continue
		}
		if quietEnd := q.endAt(start); !quietEnd.IsZero() {
			quietEnd = clock.Earlier(quietEnd, end)
			quiet += min(quietEnd.Sub(start), math.MaxInt64-quiet)
			start = quietEnd
		} else if start = q.nextStart(start); start.IsZero() {
			break
		}
	}
	return quiet
}

// spanAfter returns the start of the first span that ends after t, but at least t and at most limit.
func (q *quietTimes) spanAfter(t, limit time.Time) time.Time {
	spans := quietTimes{spans: q.spans}
	spans.visit(t, func(s quietSpan) bool {
		limit = clock.Earlier(limit, clock.Later(s.start, t))
		return true
	})
	return limit
}

// deadline returns the deadline of a clock that starts at start and stops during quiet times. deadlineOf returns
// the deadline of a clock that never stops, or the zero Time for none.
func (q *quietTimes) deadline(start time.Time, deadlineOf func(start time.Time) time.Time) time.Time {
	if len(q.spans)+len(q.weekly) == 0 {
		return deadlineOf(start)
	}
	for t, first := start, start; t.Sub(first) < maxQuiet; {
		deadline, quietStart := deadlineOf(start), t
		if q.endAt(t).IsZero() {
			quietStart = q.nextStart(t)
		}
		if deadline.IsZero() || quietStart.IsZero() || !quietStart.Before(deadline) {
			return deadline
		}
		t = q.endAt(quietStart)
		start = start.Add(t.Sub(quietStart))
	}
	return time.Time{}
}

// quietAt reports whether an observation is quiet. An interval is quiet if any part of it is.
func (est *Estimator) quietAt(quiet *quietTimes, o *Observation) bool {
	if o.Aggregated {
		return quiet.overlap(o.Time, est.IntervalEnd(o.Time)) > 0
	}
	return !o.Time.IsZero() && !quiet.endAt(o.Time).IsZero()
}

// estimateQuietly fills in the estimate of an observation in a quiet time. It treats the observation as a missing
// value, and restores the state afterwards.
func (est *Estimator) estimateQuietly(m *Memory, out *Estimate, t *Track, original *Observation) {
	c := t.stages
	o := *original
	o.X = make([][]float64, len(original.X))
	for i := range o.X {
		o.X[i] = []float64{math.NaN()}
	}
	c.guard.save(t)
	skipReason, panicked := est.update(m, out, t, &o)
	c.guard.restore(t)
	if panicked != nil {
		est.rebuild(c)
	}
	t.n++
	if skipReason != "" {
		c.blank(m, out, t.n, original, est.cfg.Interval != 0)
	}
	out.X, out.Quiet, out.Missing = original.X, true, true
	out.Silence, out.Alarm, out.Belief, out.Recovered, out.Pace = nil, nil, nil, nil, Pace{}
}
