package incidents

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hafvf/internal/compact"
)

const (
	week        = 7 * day
	singleWeeks = 4 // weeks of stored scores
	savedWeeks  = 2 // weeks of pages that can be saved
	maxSingle   = 100
	minSingle   = 3. // smallest score of a page, in thresholds
)

// singles selects the alarms outside incidents that are pages because nothing in the last weeks was clearer.
//
// An alarm, or a report that its episode is worse, waits for eight steps of its key. Such a report counts as its alarm.
// It is dropped if it is in an incident by then, or if its key was in an incident in the 32 steps before, or had a page
// in the day before. It is a page if its score is at least three times its threshold, and if fewer than n·w other keys
// had at least its score in the last w weeks. n is the number of pages per week, and w the number of weeks since the
// first alarm, from one to four. In the first week there is at most one page a day.
//
// Scores are in units of the threshold of their key. A key that alarms often has a high threshold, so its habitual
// alarms are not pages, and do not displace other pages. The score of a report that an episode is worse is at least that
// of its size under a Gaussian: usual values follow an episode, and its scores become smaller.
//
// There are at most n·T + 2·n pages in T weeks, for any alarms: a page takes 1 from a bucket, which starts full, gains
// n per week, and holds at most 2·n.
type singles struct {
	perWeek float64

	begun                       bool
	firstAt, filledAt, lastPage moment  // times of the first alarm, of the bucket, and of the last page
	bucket                      float64 // pages
	waits                       map[AlarmName]waitingSingle
	member                      map[string]moment // end of a key's time as a member of an incident, or as paged
	days                        []scoresOfDay     // in order of time
}

type waitingSingle struct {
	due   moment
	score float64
}

// scoresOfDay are the highest scores of a day, one per key.
type scoresOfDay struct {
	from   moment
	scores []scoreOfKey // highest first
}

type scoreOfKey struct {
	key   string
	score float64
}

func newSingles(perWeek int) singles {
	n := float64(perWeek)
	return singles{perWeek: n, bucket: savedWeeks * n, waits: map[AlarmName]waitingSingle{}, member: map[string]moment{}}
}

// used reports whether the state may differ from a new one.
func (s *singles) used() bool { return s.begun || len(s.waits) > 0 || len(s.member) > 0 }

// alone adds an alarm outside incidents to the waiting alarms.
func (s *singles) alone(a *alarm) {
	if s.perWeek == 0 || a.takenAt <= s.member[a.name] || a.kind != "novelty" && a.kind != "change" {
		return
	}
	name := AlarmName{a.name, a.id, a.kind}
	if a.worse() {
		name.ID = a.episode.ID
	}
	w, waits := s.waits[name]
	if !waits {
		w.due = a.takenAt + nearSteps*a.key.step
	}
	s.waits[name] = waitingSingle{w.due, max(w.score, a.relative)}
}

// joined drops the waiting alarms of a key that has joined an incident.
func (s *singles) joined(a *alarm) {
	if s.perWeek > 0 {
		maps.DeleteFunc(s.waits, func(n AlarmName, _ waitingSingle) bool { return n.Key == a.name })
		s.member[a.name] = max(s.member[a.name], a.takenAt+maxWindowSteps*a.key.step)
	}
}

// due removes and returns the alarms that have waited long enough at t.
func (s *singles) due(t moment) (decided []Single) {
	var due []AlarmName
	for name, w := range s.waits {
		if w.due <= t {
			due = append(due, name)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.SortFunc(due, func(a, b AlarmName) int { return cmp.Or(cmp.Compare(s.waits[a].due, s.waits[b].due), a.Compare(b)) })
	for _, name := range due {
		w := s.waits[name]
		if delete(s.waits, name); w.due <= s.member[name.Key] {
			decided = append(decided, Single{name, false, w.due.time()}) // its key has had a page since
			continue
		}
		page := s.page(w.due, scoreOfKey{name.Key, w.score})
		if decided = append(decided, Single{name, page, w.due.time()}); page {
			s.member[name.Key] = w.due + day
		}
	}
	maps.DeleteFunc(s.member, func(_ string, until moment) bool { return until < t })
	return decided
}

// page records the score of a candidate at t, and reports whether it is a page.
func (s *singles) page(t moment, candidate scoreOfKey) bool {
	if !s.begun {
		s.begun, s.firstAt, s.filledAt, s.lastPage = true, t, t, t-day
	}
	if t > s.filledAt {
		s.bucket = min(savedWeeks*s.perWeek, s.bucket+s.perWeek*t.seconds(s.filledAt)/week.seconds(0))
		s.filledAt = t
	}
	weeks := min(max((t-s.firstAt)/week, 1), singleWeeks)
	higher := map[string]bool{}
	for _, d := range s.days {
		for _, o := range d.scores {
			if d.from > t-weeks*week && o.score >= candidate.score && o.key != candidate.key {
				higher[o.key] = true
			}
		}
	}
	s.record(t, candidate)
	early := t < s.firstAt+week && t < s.lastPage+day
	if candidate.score < minSingle || early || float64(len(higher)) >= s.perWeek*float64(weeks) || s.bucket < 1 {
		return false
	}
	s.bucket--
	s.lastPage = t
	return true
}

// record stores a score, if it is one of the highest of its day.
func (s *singles) record(t moment, candidate scoreOfKey) {
	from := t - t.within(day)
	if n := len(s.days); n == 0 || s.days[n-1].from < from {
		s.days = append(s.days, scoresOfDay{from: from})
	}
	d := &s.days[len(s.days)-1]
	if i := slices.IndexFunc(d.scores, func(o scoreOfKey) bool { return o.key == candidate.key }); i >= 0 {
		candidate.score = max(candidate.score, d.scores[i].score)
		d.scores = slices.Delete(d.scores, i, i+1)
	}
	d.scores = append(d.scores, candidate)
	slices.SortFunc(d.scores, func(a, b scoreOfKey) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.key, b.key)) })
	d.scores = d.scores[:min(len(d.scores), singleWeeks*int(s.perWeek))]
	for s.days[0].from < t-singleWeeks*week-day {
		s.days = s.days[1:]
	}
}

// MayBecomePage reports whether an alarm outside incidents may still become a page.
func (f *Fleet) MayBecomePage(name AlarmName) bool {
	_, waits := f.singles.waits[name]
	return waits
}

// forget removes a key.
func (s *singles) forget(key string) {
	maps.DeleteFunc(s.waits, func(name AlarmName, _ waitingSingle) bool { return name.Key == key })
	delete(s.member, key)
	for i := range s.days {
		d := &s.days[i]
		d.scores = slices.DeleteFunc(d.scores, func(o scoreOfKey) bool { return o.key == key })
	}
}

// form encodes or decodes s. The encoded state may have another number of pages per week.
func (s *singles) form(c *stateCodec) {
	c.bool(&s.begun)
	c.moments(&s.firstAt, &s.filledAt, &s.lastPage)
	c.amount(&s.bucket)
	compact.Entries(&c.Codec, s.waits, 5, AlarmName.Compare, func(n *AlarmName, w *waitingSingle) {
		n.form(&c.Codec)
		c.span(&w.due)
		c.score(&w.score)
	})
	compact.Entries(&c.Codec, s.member, 2, cmp.Compare[string], func(key *string, until *moment) {
		c.texts(key)
		c.span(until)
	})
	compact.List(&c.Codec, &s.days, 2, func(d *scoresOfDay) {
		c.moments(&d.from)
		compact.List(&c.Codec, &d.scores, 2, func(o *scoreOfKey) {
			c.texts(&o.key)
			c.score(&o.score)
		})
	})
	s.bucket = min(s.bucket, savedWeeks*s.perWeek)
}

// A Single is the decision on an alarm outside incidents that has waited.
type Single struct {
	AlarmName
	Page bool      // nothing in the last weeks was clearer
	Time time.Time // of the decision
}
