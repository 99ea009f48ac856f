package incidents

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/internal/special"
)

// ladder contains the windows, in steps of the key that alarms.
var ladder = [...]moment{1, 2, 4, 8, 16, maxWindowSteps}

// questions is the number of questions of an alarm in a group: one per window, and one more because the most surprising
// of the alarms of a moment counts all others.
const questions = len(ladder) + 1

const (
	pastMemory     = memory + day // of closed incidents
	tolerance      = hour / 2     // largest difference in the time of the day of a recurring incident
	minRecurrences = 2            // days or weeks of a rhythm
	maxReported    = 20           // members
	noisyAlarms    = 3            // alarms outside incidents in a week that make a key noisy
)

// An alarm waits, or is recent in its groups.
type alarm struct {
	time           moment
	id, name, kind string // name is the name of its key
	score, size    float64
	relative       float64 // the score in thresholds, until the alarm is processed
	episode        *Episode
	key            *key   // the next fields are set when the alarm is processed
	takenAt        moment // time, or a later time at which it is processed if it is late
	order          uint64
	decided        bool // the alarm has been counted as it was decided
	incident       *incident
	p              float64
}

func (a *alarm) compare(b *alarm) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
}

// worse reports whether the alarm is a report that the episode of an earlier alarm is worse.
func (a *alarm) worse() bool { return a.episode != nil && a.episode.ID != a.id }

// explained returns the incident that an alarm belongs to, or nil.
func (a *alarm) explained() *incident {
	for a.incident != nil && a.incident.into != nil {
		a.incident = a.incident.into
	}
	return a.incident
}

type incident struct {
	id, group     string
	opened, last  moment // times of the alarm that opened it, and of the latest member
	window        moment // window of the finding
	score         float64
	threshold     float64
	expected      float64             // alarms of the group in the window that are expected by chance
	page          bool                // the incident is or was a page
	paged         int                 // members at its last page, and those that came soon after
	pagedAt       moment              // time of its last page
	wider         bool                // since the members last doubled, there was a page for a wider group
	recurs, usual int                 // days with a similar incident at this time, and the most members on them
	weekly        bool                // these days are weeks apart
	reported      int                 // members at the last report
	step          moment              // the longest step of a member
	members       map[string]Member   // by key, with the key's first alarm
	labels        []map[string]string // Event.AlertLabels
	into          *incident           // set if it was merged
}

// end returns the time after which the incident closes without another member.
func (inc *incident) end() moment { return inc.last + maxWindowSteps*inc.step }

// A pastIncident is a closed incident.
type pastIncident struct {
	group  string
	opened moment
	size   int
}

// take decides on the alarms of a moment.
func (f *Fleet) take(t moment, batch []*alarm) {
	if len(batch) == 0 {
		return
	}
	if f.started {
		f.debt = max(0, f.debt-t.seconds(f.now)/f.cfg.Budget.Seconds()*pagesPerBudget)
	}
	f.started, f.now, f.backgrounds = true, t, nil
	for _, a := range batch {
		f.order++
		a.order = f.order
		f.addRecent(a)
	}
	// Alarms that may join an incident do so first, so that others do not treat them as unexplained.
	if len(f.open) > 0 {
		f.decide(batch, true)
	}
	f.decide(batch, false)
}

// decide decides on the alarms of a moment: on those that may join an incident, or on all. The alarm with the clearest
// answer opens an incident first.
func (f *Fleet) decide(batch []*alarm, joining bool) {
	answers := make([]answer, len(batch))
	for {
		clearest := -1
		var asked map[inGroup]finding
		if len(batch) > 1 {
			asked = map[inGroup]finding{}
		}
		for i, a := range batch {
			if a.incident != nil {
				continue
			}
			f.learn(a.key, a.takenAt)
			x := &answers[i]
			*x = answer{}
			if x.joins, x.p = f.joinable(a); x.joins != nil || !joining {
				f.ask(a, x, asked)
			}
			if x.excess() >= 0 && (clearest < 0 || x.precedes(answers[clearest])) {
				clearest = i
			}
		}
		if clearest < 0 {
			break
		}
		f.openOrWiden(batch[clearest], answers[clearest])
		f.backgrounds = nil
	}
	for i, a := range batch {
		if a.incident == nil && (answers[i].joins != nil || !joining) {
			f.belong(a, answers[i])
		}
		a.decided = a.decided || !joining
	}
}

// addRecent makes an alarm recent in its groups.
func (f *Fleet) addRecent(a *alarm) {
	for i, g := range a.key.groups {
		if keep := maxWindowSteps * g.step; g.begun && a.takenAt > f.now-keep {
			g.recent.add(a, i, keep)
		}
	}
}

// belong decides on an alarm that opens no incident: it joins one, or is in none.
func (f *Fleet) belong(a *alarm, result answer) {
	inc := result.joins
	switch {
	case inc == nil && a.worse():
		f.worsen(a)
		return
	case inc == nil:
		f.alone(a, a.takenAt)
		return
	case a.worse():
		f.separate(a)
	}
	page := f.join(inc, a, result.p)
	due, paged := f.pageAgain(inc, false)
	if page || due || float64(len(inc.members)) >= 1.5*float64(inc.reported) {
		f.report(Update, inc, a.takenAt, page || paged)
	}
}

// An answer is the result of an alarm's questions in its groups.
type answer struct {
	joins *incident // an open incident that the alarm may join, with probability p
	p     float64
	finding
	threshold float64 // score that an incident needs
}

// precedes reports whether an answer is decided before another one: alarms that stand out first, then by their excess.
func (x answer) precedes(y answer) bool {
	if apart := x.apart != nil; apart != (y.apart != nil) {
		return apart
	}
	return x.excess() > y.excess()
}

// excess returns by how much the answer exceeds its threshold, or −1 if there is no finding.
func (x answer) excess() float64 {
	if x.group == nil {
		return -1
	}
	return x.score - x.threshold
}

// ask asks in the groups of an alarm and sets the finding and the threshold of x. An alarm that may join an incident
// asks within the incident's group, and only if it is later than the incident's own alarms. An alarm that stands out
// asks in all groups, and a finding with such alarms replaces others. asked caches the answers by group for the other
// alarms of the moment; it may be nil.
func (f *Fleet) ask(a *alarm, x *answer, asked map[inGroup]finding) {
	if f.debt > headroom {
		return
	}
	early := x.joins != nil && a.takenAt <= x.joins.opened+ownSteps*a.key.step
	var apart finding
	alarms := max(1, f.fleetRate()*f.cfg.Budget.Seconds())
	if x.joins != nil {
		alarms += float64(f.groups[x.joins.group].recent.distinct(x.joins.opened - a.key.step)) // they ask as well
	}
	groups, minScore := 0, special.Log(alarms)/math.Ln10+f.debt
	for i, g := range a.key.groups {
		if !f.asks(a.key, i) {
			continue
		}
		groups++
		if b := f.background(g, a.key.step); b.standsOut(a) {
			found := cached(asked, inGroup{g, a.key.step, true}, func() finding { return f.askApart(g, b, a.key.step, minScore) })
			if found.score > apart.score {
				apart = found
			}
		}
		if early || a.worse() || x.joins != nil && !f.within(g.name, x.joins.group) {
			continue
		}
		found := cached(asked, inGroup{g, a.key.step, false}, func() finding { return f.askIn(g, a.takenAt, a.key.step, minScore) })
		if found.score > x.score {
			x.finding = found
		}
	}
	x.threshold = special.Log(alarms*float64(groups*questions))/math.Ln10 + f.debt
	if apart.apart != nil && apart.score >= x.threshold {
		x.finding = apart
	}
}

// cached returns the finding of ask, which it calls only once for each key of found. found may be nil.
func cached(found map[inGroup]finding, in inGroup, ask func() finding) finding {
	x, known := found[in]
	if !known {
		if x = ask(); found != nil {
			found[in] = x
		}
	}
	return x
}

// askIn asks in a group at t. It returns no finding with a score below minScore.
func (f *Fleet) askIn(g *group, t, step moment, minScore float64) (best finding) {
	around := f.around(g)
	var rates [len(ladder)]rate
	windows, enough := len(ladder), false
	if around != nil {
		windows-- // alarms from before the longest window are no longer stored
	}
	for j, steps := range ladder[:windows] {
		window := steps * step
		rates[j] = rate{g.rate.mean * window.seconds(0), g.rate.shape}
		if around != nil {
			if r := f.expected(g, around, t, step, window); r.mean > rates[j].mean {
				rates[j] = r
			}
		}
		if c := g.recent.distinct(t - window); c > 1 { // an upper bound of the count
			enough = enough || surprise(c-1, rates[j].mean, rates[j].shape, minScore) >= minScore
		}
	}
	if !enough {
		return best
	}
	for j, c := range f.countAlarming(g, t, step, f.unexplained(g.name)) {
		if c < 2 || j >= windows {
			continue
		}
		r := rates[j]
		if s := surprise(c-1, r.mean, r.shape, max(minScore, best.score)); s > best.score {
			best = finding{s, g, ladder[j] * step, r.mean, c, nil}
		}
	}
	return best
}

// around returns the open incident around g whose group has the fewest keys, or nil.
func (f *Fleet) around(g *group) (around *incident) {
	for _, inc := range f.open {
		if f.within(g.name, inc.group) && (around == nil || f.groups[inc.group].keys < f.groups[around.group].keys) {
			around = inc
		}
	}
	return around
}

// inGroup contains all that the answer in a group depends on, at a moment.
type inGroup struct {
	*group
	step  moment
	apart bool // the question is about alarms that stand out
}

// expected returns the rate that an incident around a group predicts for it in a window, or a zero rate if both groups
// have the same number of keys: the group's share, by its keys, of the alarms elsewhere in the incident, or if larger,
// the group's own alarms in the previous window.
func (f *Fleet) expected(g *group, around *incident, t, step, window moment) rate {
	whole := f.groups[around.group]
	if whole.keys == g.keys {
		return rate{}
	}
	own := around.opened + ownSteps*step // alarms up to then belong to the incident
	elsewhere := 0.
	for _, longer := range []moment{window, 2 * window, 4 * window} {
		start := max(t-longer, own)
		n := float64(whole.recent.distinct(start) - g.recent.distinct(start))
		elsewhere = max(elsewhere, n*float64(window)/float64(max(t-start, window)))
	}
	// A single alarm in the time since own, as a short window without alarms says little.
	opening := float64(window) / float64(max(t-own, window))
	share := (opening + elsewhere) * float64(g.keys) / float64(whole.keys-g.keys)
	start := max(t-window, own)
	prevStart := max(start-window, around.opened-step)
	previous := float64(g.recent.distinct(prevStart)-g.recent.distinct(start)) * float64(t-start) / float64(start-prevStart)
	if previous > share {
		return rate{previous, min(1+previous, maxShape)}
	}
	return rate{share, min(1+elsewhere, maxShape)}
}

// alone counts an alarm outside incidents.
func (f *Fleet) alone(a *alarm, t moment) {
	f.count(a, t, 1)
	f.assign(a, "")
	f.singles.alone(a)
	k := a.key
	k.alone = append(slices.DeleteFunc(k.alone, func(m moment) bool { return m <= t-7*day }), t)
	k.alone = k.alone[max(0, len(k.alone)-noisyAlarms-5):]
}

// noisy reports whether a key had at least noisyAlarms alarms outside incidents in the week before t, without the last
// hour: it then says little about an incident.
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

// joinable returns the open incident that an alarm may join, with its probability, or nil. A report of a worse episode
// may join an incident that it stands out of the background of, as the members of this incident did.
func (f *Fleet) joinable(a *alarm) (best *incident, p float64) {
	minKeys := math.MaxInt
	for _, g := range slices.Backward(a.key.groups) {
		for _, inc := range f.open {
			if inc.group != g.name || g.keys >= minKeys {
				continue
			}
			w := max(inc.window, nearSteps*a.key.step)
			if a.worse() {
				if a.takenAt-inc.last < w && inc != f.incidentOf(a) && f.background(g, a.key.step).standsOut(a) {
					best, p, minKeys = inc, 1, g.keys
				}
				continue
			}
			chance := g.rate.mean * w.seconds(0)
			if others := float64(g.recent.distinct(a.takenAt-w) - 1); others > 0 && others >= 2*chance {
				best, p, minKeys = inc, 1-chance/others, g.keys
			}
		}
	}
	return best, p
}

// countAlarming counts the keys of a group with an alarm that is selected, for every window before t.
func (f *Fleet) countAlarming(g *group, t, step moment, selected func(*alarm) bool) (c [len(ladder)]int) {
	f.question++
	j := 0
	for i := len(g.recent.alarms) - 1; i >= g.recent.first; i-- {
		b := g.recent.alarms[i]
		age := t - b.takenAt
		if age >= maxWindowSteps*step {
			break
		}
		if b.key == nil || b.key.asked == f.question || !selected(b) {
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

// unexplained returns a function that reports whether an alarm of the group is in no incident, or in a wider incident
// but later than the incident's own alarms.
func (f *Fleet) unexplained(group string) func(b *alarm) bool {
	var prev *incident // consecutive alarms mostly belong to the same incident
	within := false
	return func(b *alarm) bool {
		if b.worse() {
			return false
		}
		inc := b.explained()
		if inc == nil || b.takenAt <= inc.opened+ownSteps*b.key.step {
			return inc == nil
		}
		if inc != prev {
			prev, within = inc, f.within(group, inc.group)
		}
		return within
	}
}

// A finding is the most surprising answer.
type finding struct {
	score  float64
	group  *group
	window moment
	mean   float64
	c      int
	apart  *background // the alarms stand out of it; nil for a finding with all alarms
}

// openOrWiden opens an incident with a finding, or widens the open incidents that began in its window.
func (f *Fleet) openOrWiden(a *alarm, best answer) {
	t, name := a.takenAt, best.group.name
	selected := f.unexplained(name)
	if best.apart != nil {
		selected = best.apart.standsOut
	}
	size := f.sizeIn(best.group, t-best.window, selected)
	var near []*incident
	for _, inc := range f.open {
		if best.apart != nil || inc.standsOutOf(size) {
			continue
		}
		if best.joins != nil && !f.within(f.common(name, inc.group), best.joins.group) {
			continue
		}
		// Alarms are at most about eight steps late: during this time the window may reach back to the last member
		// only.
		young := t <= inc.opened+nearSteps*a.key.step
		if begun := t - best.window; begun <= inc.opened || young && (begun <= inc.last || f.common(name, inc.group) == name) {
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
		inc = &incident{id: f.name(name, t), opened: t, threshold: best.threshold, members: map[string]Member{}}
		inc.recurs, inc.usual, inc.weekly = f.recurrence(name, t)
		inc.page = inc.recurs < minRecurrences
		f.open = append(f.open, inc)
	}
	wider := state == Update && name != inc.group
	inc.group, inc.window, inc.score, inc.expected = name, best.window, best.score, best.mean
	p := max(0, 1-best.mean/float64(best.c-1))
	if best.apart == nil {
		selected = f.unexplained(name)
	}
	for _, b := range f.groups[name].recent.since(t-best.window, selected) {
		if b.decided || b.worse() {
			f.separate(b)
		}
		page = f.join(inc, b, p) || page
	}
	inc.last = t
	switch {
	case state == Update:
		_, paged := f.pageAgain(inc, wider)
		page = page || paged
	case inc.page && !page:
		f.debt++
		inc.paged, inc.pagedAt, page = len(inc.members), t, true
	}
	f.report(state, inc, t, page)
}

// separate removes an alarm from its incident, or from the alarms outside incidents.
func (f *Fleet) separate(a *alarm) {
	weight := -1.
	if prev := f.incidentOf(a); prev != nil {
		weight = a.p - 1
		if m, ok := prev.members[a.name]; ok && (m.moment == a.time || a.worse()) {
			prev.leave(a.name)
		}
	} else {
		a.key.alone = slices.DeleteFunc(a.key.alone, func(m moment) bool { return m == a.takenAt })
	}
	if !a.worse() {
		f.count(a, a.takenAt, weight)
	}
}

// pageAgain reports whether an incident that was a page is due to be one again, and whether the budget allows it. It is
// due if its group is wider, once before the members double, or if it has twice as many members as eight steps after
// the last page. Members that arrive before belong to that page.
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

// join adds an alarm to an incident. It reports whether this makes the incident a page.
func (f *Fleet) join(inc *incident, a *alarm, p float64) (page bool) {
	a.incident, a.p = inc, p
	weight := 1. // a lasting state becomes usual
	if a.takenAt <= inc.opened+maxWindowSteps*a.key.step {
		weight = 1 - p
	}
	if !a.worse() {
		f.count(a, a.takenAt, weight)
	}
	inc.enter(Member{Key: a.name, Time: a.time.time(), Score: a.score, Size: a.size, P: p, Episode: a.episode, moment: a.time, step: a.key.step})
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
	if _, ok := inc.members[m.Key]; !ok {
		inc.members[m.Key] = m
		inc.step = max(inc.step, m.step)
	}
}

// leave removes a key. The step of the last member remains, and the incident closes by it.
func (inc *incident) leave(key string) {
	m, ok := inc.members[key]
	if delete(inc.members, key); !ok || m.step < inc.step || len(inc.members) == 0 {
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

// close closes the incidents that are due before t, in the order of their ends.
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
		f.past = append(f.past, pastIncident{inc.group, inc.opened, len(inc.members)})
		f.report(Closed, inc, inc.end(), inc.page)
		inc.members = nil
	}
}

// recurrence returns on how many of the last seven days, or of the same days of the last four weeks, a similar incident
// began at this time of the day, and the most members of these incidents.
func (f *Fleet) recurrence(group string, t moment) (occurrences, members int, weekly bool) {
	now := f.wall(t)
	for _, rhythm := range []struct {
		period  moment
		periods int
	}{{day, 7}, {7 * day, 4}} {
		var counts [8]int
		days, size := 0, 0
		for _, e := range f.past {
			if !f.covers(e.group, group) && !f.covers(group, e.group) {
				continue
			}
			ago := now - f.wall(e.opened)
			d := (ago + rhythm.period/2) / rhythm.period
			if d < 1 || d > moment(rhythm.periods) || ago-d*rhythm.period > tolerance || d*rhythm.period-ago > tolerance {
				continue
			}
			if counts[d]++; counts[d] == 1 {
				days++
			}
			size = max(size, e.size)
		}
		if days > occurrences {
			occurrences, members, weekly = days, size, rhythm.period > day
		}
	}
	return occurrences, members, weekly
}

// name returns the ID of an incident that opens: its group and time, and a number if another incident has the same.
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
