package keyed

import (
	"errors"
	"fmt"
	"math"
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

// SetQuiet replaces the quiet times of the configuration for keys that are opened from now on. A Track or a KeyState that
// there is goes on with those that it has.
func (est *Estimator) SetQuiet(all []QuietTime) { est.cfg.Quiet = all }

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
	quiet := append(e.rules.quiet, quietOf(added, key)...).between(first, end) - were
	if quiet == 0 || step == 0 {
		return min(int64(quiet), 1), nil
	}
	return min(e.n, int64((quiet+step-1)/step)), nil
}

// quietTimes are those of a key.
type quietTimes []quietTime

type quietTime struct {
	from, to time.Time
	weekly   *Weekly
	zone     *time.Location
	since    time.Time // from which on from and to are those of weekly that are next
}

// quietOf returns the quiet times of a key.
func quietOf(all []QuietTime, key string) (of quietTimes) {
	for _, q := range all {
		if !domain.Matches(q.Match, key) {
			continue
		}
		t := quietTime{from: q.From, to: q.To, weekly: q.Weekly}
		if q.Weekly != nil {
			t.zone = checked(domain.Zone(q.Weekly.Zone))
		}
		of = append(of, t)
	}
	return of
}

// around is the occurrence that a time is in, or else the next one.
func (q *quietTime) around(t time.Time) (from, to time.Time) {
	if q.weekly == nil || !q.since.IsZero() && !t.Before(q.since) && t.Before(q.to) {
		return q.from, q.to
	}
	q.since = t
	local := t.In(q.zone)
	for days := -7; ; days++ {
		day := time.Date(local.Year(), local.Month(), local.Day()+days, 0, 0, 0, 0, time.UTC)
		if day.Weekday() != q.weekly.Day {
			continue
		}
		q.from = clock.At(day.Add(q.weekly.Clock), q.zone)
		if q.to = q.from.Add(q.weekly.Lasts); q.to.After(t) {
			return q.from, q.to
		}
	}
}

// until is the end of the quiet time that a time is in, and zero if it is in none.
func (all quietTimes) until(t time.Time) (end time.Time) {
	begin := t
	for again := true; again && t.Sub(begin) < endless; {
		again = false
		for i := range all {
			if from, to := all[i].around(t); !from.After(t) && t.Before(to) {
				t, end, again = to, to, true
			}
		}
	}
	return end
}

// next is when the next quiet time begins, after one that is in none; zero if none does.
func (all quietTimes) next(t time.Time) (next time.Time) {
	for i := range all {
		if from, _ := all[i].around(t); from.After(t) {
			next = clock.Earlier(next, from)
		}
	}
	return next
}

// between are the quiet times that begin or go on between two times.
func (all quietTimes) between(from, to time.Time) (quiet time.Duration) {
	for at := from; len(all) > 0 && at.Before(to); {
		if end := all.until(at); !end.IsZero() {
			end = clock.Earlier(end, to)
			quiet += end.Sub(at)
			at = end
		} else if at = all.next(at); at.IsZero() {
			break
		}
	}
	return quiet
}

// deadline is when a clock that began at a time is at its deadline, if it stands still in quiet times. by is the deadline
// of one that began at any time; zero for none.
func (all quietTimes) deadline(since time.Time, by func(since time.Time) time.Time) time.Time {
	if len(all) == 0 {
		return by(since)
	}
	for at, first := since, since; at.Sub(first) < endless; {
		deadline, begin := by(since), at
		if all.until(at).IsZero() {
			begin = all.next(at)
		}
		if deadline.IsZero() || begin.IsZero() || !begin.Before(deadline) {
			return deadline
		}
		at = all.until(begin)
		since = since.Add(at.Sub(begin))
	}
	return time.Time{}
}

// quietAt reports whether an observation is of a quiet time. That of an interval is if any of the interval is.
func (est *Estimator) quietAt(quiet quietTimes, o *Observation) bool {
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
	why, failed := est.try(m, out, t, &o)
	c.guard.takeBack(t)
	if failed != nil {
		est.renew(c)
	}
	t.n++
	if why != "" {
		c.blank(m, out, t.n, given, est.cfg.Interval != 0)
	}
	out.X, out.Quiet, out.Missing = given.X, true, true
	out.Silence, out.Alarm, out.Belief, out.Recovered, out.Pace = nil, nil, nil, nil, Pace{}
}
