package incidents

import (
	"cmp"
	"maps"
	"slices"

	"hafvf/internal/compact"
)

const (
	week        = 7 * day
	singleWeeks = 4 // of which scores are known
	savedWeeks  = 2 // of pages that can be saved
	maxSingle   = 100
)

// singles are the alarms in no incident that are pages all the same, as nothing of the last weeks was clearer.
//
// An alarm waits for eight steps of its key. It is none if it is in an incident by then, or if its key was in one in the
// 32 steps before or had a page in the day before. It is a page if its score is at least its threshold, and if fewer
// than n·w other keys have had its score or a higher one in the last w weeks. n is the number of pages a week, and w
// that of weeks since the first alarm, from one to four. In the first week there is at most one page a day.
//
// Scores are in thresholds of their keys. A key that alarms often has a high threshold, so what it does by habit is
// neither a page nor takes the place of one.
//
// Whatever the alarms are, there are at most n·T + 2·n pages in T weeks. A bucket has a page less with each. It begins
// full, gets n a week, and has at most 2·n.
type singles struct {
	perWeek float64

	begun                       bool
	firstAt, filledAt, lastPage moment  // of the first alarm, of the bucket, of the last page
	bucket                      float64 // pages
	waits                       map[AlarmName]waitingSingle
	member                      map[string]moment // until when a key counts as one of an incident, or has had a page
	days                        []scoresOfDay     // in their order
}

type waitingSingle struct {
	due   moment
	score float64
}

// scoresOfDay are the highest scores of a day from a moment on, of as many keys.
type scoresOfDay struct {
	from   moment
	scores []scoreOfKey // the highest first
}

type scoreOfKey struct {
	key   string
	score float64
}

func newSingles(perWeek int) singles {
	n := float64(perWeek)
	return singles{perWeek: n, bucket: savedWeeks * n, waits: map[AlarmName]waitingSingle{}, member: map[string]moment{}}
}

// used reports whether anything is known.
func (s *singles) used() bool { return s.begun || len(s.waits) > 0 || len(s.member) > 0 }

// alone has an alarm in no incident wait.
func (s *singles) alone(a *alarm) {
	if s.perWeek > 0 && a.takenAt > s.member[a.name] && (a.kind == "novelty" || a.kind == "change") {
		s.waits[AlarmName{a.name, a.id, a.kind}] = waitingSingle{a.takenAt + nearSteps*a.key.step, a.relative}
	}
}

// joined drops what waits of a key that is in an incident.
func (s *singles) joined(a *alarm) {
	if s.perWeek > 0 {
		maps.DeleteFunc(s.waits, func(n AlarmName, _ waitingSingle) bool { return n.Key == a.name })
		s.member[a.name] = max(s.member[a.name], a.takenAt+maxWindowSteps*a.key.step)
	}
}

// due returns the alarms that have waited long enough by a moment.
func (s *singles) due(by moment) (all []Single) {
	var due []AlarmName
	for name, w := range s.waits {
		if w.due <= by {
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
			all = append(all, Single{name, false}) // its key has had a page since
			continue
		}
		page := s.page(w.due, scoreOfKey{name.Key, w.score})
		if all = append(all, Single{name, page}); page {
			s.member[name.Key] = w.due + day
		}
	}
	maps.DeleteFunc(s.member, func(_ string, until moment) bool { return until < by })
	return all
}

// page notes a score at a moment, and reports whether that is a page.
func (s *singles) page(at moment, of scoreOfKey) bool {
	if !s.begun {
		s.begun, s.firstAt, s.filledAt, s.lastPage = true, at, at, at-day
	}
	if at > s.filledAt {
		s.bucket = min(savedWeeks*s.perWeek, s.bucket+s.perWeek*at.seconds(s.filledAt)/week.seconds(0))
		s.filledAt = at
	}
	weeks := min(max((at-s.firstAt)/week, 1), singleWeeks)
	higher := map[string]bool{}
	for _, d := range s.days {
		for _, o := range d.scores {
			if d.from > at-weeks*week && o.score >= of.score && o.key != of.key {
				higher[o.key] = true
			}
		}
	}
	s.note(at, of)
	early := at < s.firstAt+week && at < s.lastPage+day
	if of.score < 1 || early || float64(len(higher)) >= s.perWeek*float64(weeks) || s.bucket < 1 {
		return false
	}
	s.bucket--
	s.lastPage = at
	return true
}

// note keeps a score, if it is one of the highest of its day.
func (s *singles) note(at moment, of scoreOfKey) {
	from := at - at.within(day)
	if n := len(s.days); n == 0 || s.days[n-1].from < from {
		s.days = append(s.days, scoresOfDay{from: from})
	}
	d := &s.days[len(s.days)-1]
	if i := slices.IndexFunc(d.scores, func(o scoreOfKey) bool { return o.key == of.key }); i >= 0 {
		of.score = max(of.score, d.scores[i].score)
		d.scores = slices.Delete(d.scores, i, i+1)
	}
	d.scores = append(d.scores, of)
	slices.SortFunc(d.scores, func(a, b scoreOfKey) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.key, b.key)) })
	d.scores = d.scores[:min(len(d.scores), singleWeeks*int(s.perWeek))]
	for s.days[0].from < at-singleWeeks*week-day {
		s.days = s.days[1:]
	}
}

// Waits reports whether an alarm in no incident may still become a page.
func (f *Fleet) Waits(name AlarmName) bool {
	_, waits := f.singles.waits[name]
	return waits
}

// forget drops what waits of a key.
func (s *singles) forget(key string) {
	maps.DeleteFunc(s.waits, func(name AlarmName, _ waitingSingle) bool { return name.Key == key })
	delete(s.member, key)
	for i := range s.days {
		d := &s.days[i]
		d.scores = slices.DeleteFunc(d.scores, func(o scoreOfKey) bool { return o.key == key })
	}
}

// form is how what is known is encoded. What is read may be of another number of pages a week.
func (s *singles) form(c *stateCodec) {
	c.bool(&s.begun)
	c.moments(&s.firstAt, &s.filledAt, &s.lastPage)
	c.amount(&s.bucket)
	compact.Entries(&c.Codec, s.waits, 5, AlarmName.Compare, func(n *AlarmName, w *waitingSingle) {
		n.Form(&c.Codec)
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

// A Single is an alarm in no incident that has waited.
type Single struct {
	AlarmName
	Page bool // nothing of the last weeks was clearer
}
