package incidents

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/internal/special"
)

// ladder has the windows, in steps of the key that alarms.
var ladder = [...]moment{1, 2, 4, 8, 16, maxWindowSteps}

// questions are those of an alarm in a group: its windows and one more, as of the alarms of a moment
// the clearest counts all others.
const questions = len(ladder) + 1

const (
	episodeMemory  = memory + day // of earlier incidents
	tolerance      = hour / 2     // of the time at which the like came
	minRecurrences = 2            // days that make a rhythm
	maxReported    = 20           // members
	noisyAlarms    = 3            // alarms in no incident in a week of a key that is noisy
)

// An alarm is one that waits, or is recent in its groups.
type alarm struct {
	time           moment
	id, name, kind string // name is the key's
	score, size    float64
	relative       float64 // the score in thresholds, until it is taken
	key            *key    // from here on once it is taken
	takenAt        moment
	order          uint64
	decided        bool // it counts as what it was found to be
	incident       *incident
	p              float64
}

func (a *alarm) compare(b *alarm) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
}

// explained is the incident that an alarm belongs to.
func (a *alarm) explained() *incident {
	for a.incident != nil && a.incident.into != nil {
		a.incident = a.incident.into
	}
	return a.incident
}

type incident struct {
	id, group     string
	opened, last  moment // of the alarm that opened it, of the latest member
	window        moment // in which it was found
	score         float64
	threshold     float64
	expected      float64           // alarms of the group by chance in the window
	page          bool              // it is one, or was
	paged         int               // members when it was last a page, and those that came soon after
	pagedAt       moment            // when
	wider         bool              // it was a page for a wider group since they were half as many
	recurs, usual int               // days on which the like came at this time, most members then
	weekly        bool              // these days are weeks apart
	reported      int               // members when it was last told
	step          moment            // the longest of a member
	members       map[string]Member // by key, with the key's first alarm
	reportedPage  bool              // it was told as a page, the last time with these labels
	labels        map[string]string
	into          *incident // it was merged
}

// end is when the incident closes without another member.
func (inc *incident) end() moment { return inc.last + maxWindowSteps*inc.step }

// An episode is an incident that is over.
type episode struct {
	group  string
	opened moment
	size   int
}

// take decides on the alarms of a moment.
func (f *Fleet) take(t moment, all []*alarm) {
	if len(all) == 0 {
		return
	}
	if f.started {
		f.debt = max(0, f.debt-t.seconds(f.now)/f.cfg.Budget.Seconds()*pagesPerBudget)
	}
	f.started, f.now = true, t
	for _, a := range all {
		f.order++
		a.order = f.order
		f.addRecent(a)
	}
	// Those that join an incident do so first, so that others do not take them for unexplained.
	if len(f.open) > 0 {
		f.decide(all, true)
	}
	f.decide(all, false)
}

// decide decides on the alarms of a moment that may join an incident, or on all. The one with the clearest
// answer opens an incident first.
func (f *Fleet) decide(all []*alarm, joining bool) {
	answers := make([]answer, len(all))
	for {
		clearest := -1
		var asked map[inGroup]finding
		if len(all) > 1 {
			asked = map[inGroup]finding{}
		}
		for i, a := range all {
			if a.incident != nil {
				continue
			}
			f.learn(a.key, a.takenAt)
			x := &answers[i]
			*x = answer{}
			if x.joins, x.p = f.joinable(a); x.joins != nil || !joining {
				f.ask(a, x, asked)
			}
			if x.excess() >= 0 && (clearest < 0 || x.excess() > answers[clearest].excess()) {
				clearest = i
			}
		}
		if clearest < 0 {
			break
		}
		f.openOrWiden(all[clearest], answers[clearest])
	}
	for i, a := range all {
		if a.incident == nil && (answers[i].joins != nil || !joining) {
			f.belong(a, answers[i])
		}
		a.decided = a.decided || !joining
	}
}

// recall makes an alarm recent in its groups.
func (f *Fleet) addRecent(a *alarm) {
	for i, g := range a.key.groups {
		if keep := maxWindowSteps * g.step; g.begun && a.takenAt > f.now-keep {
			g.recent.add(a, i, keep)
		}
	}
}

// belong lets an alarm that opens no incident join one, or be alone.
func (f *Fleet) belong(a *alarm, of answer) {
	inc := of.joins
	if inc == nil {
		f.alone(a, a.takenAt)
		return
	}
	page := f.join(inc, a, of.p)
	due, again := f.pageAgain(inc, false)
	if page || due || float64(len(inc.members)) >= 1.5*float64(inc.reported) {
		f.report(Update, inc, a.takenAt, page || again)
	}
}

// An answer is what an alarm finds in its groups.
type answer struct {
	joins *incident // an open one that it may join, with the probability p
	p     float64
	finding
	threshold float64 // the score that an incident needs
}

// excess is how far the answer is above what an incident needs, below 0 if it is not.
func (x answer) excess() float64 {
	if x.group == nil {
		return -1
	}
	return x.score - x.threshold
}

// ask asks in the groups of an alarm. One that may join an incident asks within that's group, and once the
// incident's own alarms have come. What was asked in a group is kept for the other alarms of the moment.
func (f *Fleet) ask(a *alarm, x *answer, asked map[inGroup]finding) {
	if f.debt > headroom || x.joins != nil && a.takenAt <= x.joins.opened+ownSteps*a.key.step {
		return
	}
	groups := 0
	alarms := max(1, f.fleetRate()*f.cfg.Budget.Seconds())
	if x.joins != nil {
		alarms += float64(f.groups[x.joins.group].recent.distinct(x.joins.opened - a.key.step)) // they ask as well
	}
	for i, g := range a.key.groups {
		if !f.asks(a.key, i) {
			continue
		}
		groups++
		if x.joins != nil && !f.within(g.name, x.joins.group) {
			continue
		}
		in := inGroup{g, a.key.step}
		found, known := asked[in]
		if !known {
			found = f.askIn(g, a.takenAt, a.key.step, special.Log(alarms)/math.Ln10+f.debt)
			if asked != nil {
				asked[in] = found
			}
		}
		if found.score > x.score {
			x.finding = found
		}
	}
	x.threshold = special.Log(alarms*float64(groups*questions))/math.Ln10 + f.debt
}

// askIn asks in a group at a moment. Below a score there is no answer.
func (f *Fleet) askIn(g *group, t, step moment, least float64) (best finding) {
	// The incident that is open in the narrowest group around this one.
	var around *incident
	for _, inc := range f.open {
		if f.within(g.name, inc.group) && (around == nil || f.within(inc.group, around.group)) {
			around = inc
		}
	}
	var rates [len(ladder)]rate
	windows, some := len(ladder), false
	if around != nil {
		windows-- // what was before the longest is known no more
	}
	for j, steps := range ladder[:windows] {
		window := steps * step
		rates[j] = rate{g.rate.mean * window.seconds(0), g.rate.shape}
		if around != nil {
			if r := f.expected(g, around, t, step, window); r.mean > rates[j].mean {
				rates[j] = r
			}
		}
		if c := g.recent.distinct(t - window); c > 1 { // as many as there may be
			some = some || surprise(c-1, rates[j].mean, rates[j].shape, least) >= least
		}
	}
	if !some {
		return best
	}
	for j, c := range f.countAlarming(g, t, step) {
		if c < 2 || j >= windows {
			continue
		}
		r := rates[j]
		if s := surprise(c-1, r.mean, r.shape, max(least, best.score)); s > best.score {
			best = finding{s, g, ladder[j] * step, r.mean, c}
		}
	}
	return best
}

// inGroup is what the answer in a group depends on, at a moment.
type inGroup struct {
	*group
	step moment
}

// expected is what an incident around a group leads one to expect of it in a window, and no rate: the group's
// share, by its keys, of what alarms elsewhere in the incident, or what itself has alarmed in the window before.
func (f *Fleet) expected(g *group, around *incident, t, step, window moment) rate {
	whole := f.groups[around.group]
	if whole.keys == g.keys {
		return rate{}
	}
	own := around.opened + ownSteps*step // alarms up to then are the incident's
	elsewhere := 0.
	for _, longer := range []moment{window, 2 * window, 4 * window} {
		since := max(t-longer, own)
		n := float64(whole.recent.distinct(since) - g.recent.distinct(since))
		elsewhere = max(elsewhere, n*float64(window)/float64(max(t-since, window)))
	}
	one := float64(window) / float64(max(t-own, window)) // in all the time since, as none says little of a short one
	share := (one + elsewhere) * float64(g.keys) / float64(whole.keys-g.keys)
	since := max(t-window, own)
	from := max(since-window, around.opened-step)
	before := float64(g.recent.distinct(from)-g.recent.distinct(since)) * float64(t-since) / float64(since-from)
	if before > share {
		return rate{before, min(1+before, maxShape)}
	}
	return rate{share, min(1+elsewhere, maxShape)}
}

// alone counts an alarm that is in no incident.
func (f *Fleet) alone(a *alarm, t moment) {
	f.count(a, t, 1)
	f.assign(a, "")
	f.singles.alone(a)
	k := a.key
	k.alone = append(slices.DeleteFunc(k.alone, func(m moment) bool { return m <= t-7*day }), t)
	k.alone = k.alone[max(0, len(k.alone)-noisyAlarms-5):]
}

// noisy reports whether a key has alarmed in no incident so often in the week before a moment, its last
// hour left out, that it says little about one.
func (f *Fleet) noisy(name string, t moment) bool {
	k, n := f.keys[name], 0
	if k == nil {
		return false
	}
	for _, m := range k.alone {
		if m > t-7*day && m <= t-hour {
			n++
		}
	}
	return n >= noisyAlarms
}

// joinable returns the open incident that an alarm belongs to and with which probability, nil
// where it belongs to none.
func (f *Fleet) joinable(a *alarm) (*incident, float64) {
	for _, g := range slices.Backward(a.key.groups) {
		for _, inc := range f.open {
			if inc.group != g.name {
				continue
			}
			w := max(inc.window, nearSteps*a.key.step)
			chance := g.rate.mean * w.seconds(0)
			if others := float64(g.recent.distinct(a.takenAt-w) - 1); others > 0 && others >= 2*chance {
				return inc, 1 - chance/others
			}
		}
	}
	return nil, 0
}

// countAlarming counts the keys of a group with an alarm that no incident explains, in every window
// before a moment.
func (f *Fleet) countAlarming(g *group, t, step moment) (c [len(ladder)]int) {
	f.question++
	unexplained := f.unexplained(g.name)
	j := 0
	for i := len(g.recent.alarms) - 1; i >= g.recent.first; i-- {
		b := g.recent.alarms[i]
		age := t - b.takenAt
		if age >= maxWindowSteps*step {
			break
		}
		if b.key == nil || b.key.asked == f.question || !unexplained(b) {
			continue
		}
		b.key.asked = f.question
		for age >= ladder[j]*step {
			j++
		}
		c[j]++
	}
	for j := 1; j < len(c); j++ {
		c[j] += c[j-1]
	}
	return c
}

// unexplained returns what reports whether an alarm of a group is in no incident, or in a wider one that it came
// later than.
func (f *Fleet) unexplained(group string) func(b *alarm) bool {
	var last *incident // alarms that follow each other mostly are of one
	within := false
	return func(b *alarm) bool {
		inc := b.explained()
		if inc == nil || b.takenAt <= inc.opened+ownSteps*b.key.step {
			return inc == nil
		}
		if inc != last {
			last, within = inc, f.within(group, inc.group)
		}
		return within
	}
}

// A mostSurprising is the most surprising answer.
type finding struct {
	score  float64
	group  *group
	window moment
	mean   float64
	c      int
}

// found opens an incident, or widens those that began with it: in the window in which it was found.
func (f *Fleet) openOrWiden(a *alarm, found answer) {
	t, name := a.takenAt, found.group.name
	var near []*incident
	for _, inc := range f.open {
		if found.joins != nil && !f.within(f.common(name, inc.group), found.joins.group) {
			continue
		}
		// An alarm is at most about eight steps late: so long the window may begin while members come.
		young := t <= inc.opened+nearSteps*a.key.step
		if begun := t - found.window; begun <= inc.opened || young && (begun <= inc.last || f.common(name, inc.group) == name) {
			near = append(near, inc)
		}
	}
	state, page := Opened, false
	var inc *incident
	if len(near) > 0 {
		state = Update
		inc = slices.MinFunc(near, func(a, b *incident) int { return cmp.Compare(a.opened, b.opened) })
		for _, other := range near {
			name = f.common(name, other.group)
			if other != inc {
				f.merge(other, inc, t)
			}
		}
	} else {
		inc = &incident{id: f.name(name, t), opened: t, threshold: found.threshold, members: map[string]Member{}}
		inc.recurs, inc.usual, inc.weekly = f.recurrence(name, t)
		inc.page = inc.recurs < minRecurrences
		f.open = append(f.open, inc)
	}
	wider := state == Update && name != inc.group
	inc.group, inc.window, inc.score, inc.expected = name, found.window, found.score, found.mean
	p := max(0, 1-found.mean/float64(found.c-1))
	unexplained := f.unexplained(name)
	all := &f.groups[name].recent
	for _, b := range all.alarms[all.after(t-found.window):] {
		if b.key == nil || !unexplained(b) {
			continue
		}
		if b.decided {
			weight := -1.
			if old := b.explained(); old != nil {
				weight = b.p - 1
				if m, there := old.members[b.name]; there && m.moment == b.time {
					old.leave(b.name)
				}
			} else {
				b.key.alone = slices.DeleteFunc(b.key.alone, func(m moment) bool { return m == b.takenAt })
			}
			f.count(b, b.takenAt, weight)
		}
		page = f.join(inc, b, p) || page
	}
	inc.last = t
	switch {
	case state == Update:
		_, again := f.pageAgain(inc, wider)
		page = page || again
	case inc.page && !page:
		f.debt++
		inc.paged, inc.pagedAt, page = len(inc.members), t, true
	}
	f.report(state, inc, t, page)
}

// again reports whether an incident that was a page is due to be one again, and whether the budget has
// one: it has a wider group, which counts once before the members double, or twice as many members as
// eight steps after that page. Those that come before are what it told of.
func (f *Fleet) pageAgain(inc *incident, wider bool) (due, page bool) {
	doubled := false
	if f.now > inc.pagedAt+nearSteps*inc.step {
		doubled = len(inc.members) >= 2*inc.paged
	} else {
		inc.paged = max(inc.paged, len(inc.members))
	}
	if !inc.page || !doubled && (!wider || inc.wider) {
		return false, false
	}
	inc.wider = !doubled
	inc.paged, inc.pagedAt = len(inc.members), f.now
	if f.debt > headroom {
		return true, false
	}
	f.debt++
	return true, true
}

// join makes an alarm one of an incident. It reports whether that is a page from now on.
func (f *Fleet) join(inc *incident, a *alarm, p float64) (page bool) {
	a.incident, a.p = inc, p
	weight := 1. // what lasts becomes usual
	if a.takenAt <= inc.opened+maxWindowSteps*a.key.step {
		weight = 1 - p
	}
	f.count(a, a.takenAt, weight)
	inc.enter(Member{Key: a.name, Time: a.time.time(), Score: a.score, Size: a.size, P: p, moment: a.time, step: a.key.step})
	inc.last = max(inc.last, a.takenAt)
	f.assign(a, inc.id)
	f.singles.joined(a)
	if inc.page || len(inc.members) <= 2*inc.usual || f.debt > headroom {
		return false
	}
	f.debt++
	inc.page, inc.paged, inc.pagedAt = true, len(inc.members), f.now
	return true
}

func (inc *incident) enter(m Member) {
	if _, there := inc.members[m.Key]; !there {
		inc.members[m.Key] = m
		inc.step = max(inc.step, m.step)
	}
}

// leave takes a key out. The last one leaves its step behind, after which the incident closes.
func (inc *incident) leave(key string) {
	m, there := inc.members[key]
	if delete(inc.members, key); !there || m.step < inc.step || len(inc.members) == 0 {
		return
	}
	inc.step = 0
	for _, other := range inc.members {
		if inc.step = max(inc.step, other.step); inc.step == m.step {
			return
		}
	}
}

// merge makes an open incident part of another one.
func (f *Fleet) merge(other, inc *incident, t moment) {
	f.open = slices.DeleteFunc(f.open, func(o *incident) bool { return o == other })
	for _, m := range other.members {
		inc.enter(m)
	}
	other.into = inc
	f.report(Merged, other, t, other.page)
	other.members = nil
}

// close closes the incidents whose time has come before t, in the order of these times.
func (f *Fleet) close(t moment) {
	var over []*incident
	f.open = slices.DeleteFunc(f.open, func(inc *incident) bool {
		if t <= inc.end() {
			return false
		}
		over = append(over, inc)
		return true
	})
	slices.SortStableFunc(over, func(a, b *incident) int { return cmp.Compare(a.end(), b.end()) })
	for _, inc := range over {
		f.register(inc.end())
		f.past = append(f.past, episode{inc.group, inc.opened, len(inc.members)})
		f.report(Closed, inc, inc.end(), inc.page)
		inc.members = nil
	}
}

// recurrence says on how many of the last seven days, or of the same days of the last four weeks,
// the like of an incident came at this time of the day, and with how many members at most.
func (f *Fleet) recurrence(group string, t moment) (times, most int, weekly bool) {
	now := f.wall(t)
	for _, rhythm := range []struct {
		period moment
		n      int
	}{{day, 7}, {7 * day, 4}} {
		var on [8]int
		n, size := 0, 0
		for _, e := range f.past {
			if !f.covers(e.group, group) && !f.covers(group, e.group) {
				continue
			}
			ago := now - f.wall(e.opened)
			d := (ago + rhythm.period/2) / rhythm.period
			if d < 1 || d > moment(rhythm.n) || ago-d*rhythm.period > tolerance || d*rhythm.period-ago > tolerance {
				continue
			}
			if on[d]++; on[d] == 1 {
				n++
			}
			size = max(size, e.size)
		}
		if n > times {
			times, most, weekly = n, size, rhythm.period > day
		}
	}
	return times, most, weekly
}

// name makes the id of an incident that opens: its group and time, and where both are those of
// another one, a number.
func (f *Fleet) name(group string, t moment) string {
	if f.namedAt != t {
		f.namedAt, f.named = t, nil
	}
	id := group + "@" + t.time().Format(time.RFC3339Nano)
	name := id
	for n := 2; slices.Contains(f.named, name); n++ {
		name = fmt.Sprintf("%s#%d", id, n)
	}
	f.named = append(f.named, name)
	return name
}
