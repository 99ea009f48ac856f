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
var ladder = [...]moment{1, 2, 4, 8, 16, longest}

const (
	kept      = memory + day // of earlier incidents
	tolerance = hour / 2     // of the time at which the like came
	recurring = 2            // days that make a rhythm
	ranked    = 20           // members that are told
)

// An alarm is one that waits, or is recent in its groups.
type alarm struct {
	time           moment
	id, name, kind string // name is the key's
	score, size    float64
	key            *key // from here on once it is taken
	at             moment
	order          uint64
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
	expected      float64 // alarms of the group by chance in the window
	page, paged   bool    // now, and when it was last told
	recurs, usual int     // days on which the like came at this time, most members then
	weekly        bool    // these days are weeks apart
	told          int     // members when it was last told
	step          moment
	members       map[string]Member // by key, with the key's first alarm
	steps         map[moment]int    // of the members, with their number
	into          *incident         // it was merged
}

// end is when the incident closes without another member.
func (inc *incident) end() moment { return inc.last + longest*inc.step }

// An episode is an incident that is over.
type episode struct {
	group  string
	opened moment
	size   int
}

// take decides on an alarm.
func (f *Fleet) take(a *alarm) {
	t, step := a.at, a.key.step
	if f.started {
		f.debt = max(0, f.debt-t.seconds(f.at)/f.cfg.Budget.Seconds()*repaid)
	}
	f.started, f.at = true, t
	f.order++
	a.order = f.order
	for i, g := range a.key.groups {
		g.recent.add(a, i, longest*g.step)
	}
	rates := f.learned(a.key, t)

	if inc, p := f.joinable(a, rates); inc != nil {
		was := inc.page
		f.join(inc, a, p)
		if inc.page != was || float64(len(inc.members)) >= 1.5*float64(inc.told) {
			f.tell(Update, inc, t)
		}
		return
	}

	least := special.Log(max(1, f.fleetRate()*f.cfg.Budget.Seconds())*float64(len(rates)*len(ladder)))/math.Ln10 + f.debt
	var best finding
	if f.debt <= headroom {
		for i, g := range a.key.groups {
			for j, c := range f.gathered(g, t, step) {
				if c < 2 {
					continue
				}
				window := ladder[j] * step
				mean := rates[i].mean * window.seconds(0)
				if s := surprise(c-1, mean, rates[i].shape, max(least, best.score)); s > best.score {
					best = finding{s, g, window, mean, c}
				}
			}
		}
	}
	if best.group == nil || best.score < least {
		f.count(a, t, 1)
		f.assign(a, "")
		return
	}
	f.found(a, least, best)
}

// joinable returns the open incident that an alarm belongs to and with which probability, nil
// where it belongs to none.
func (f *Fleet) joinable(a *alarm, rates []rate) (*incident, float64) {
	for i := len(rates) - 1; i >= 0; i-- {
		g := a.key.groups[i]
		for _, inc := range f.open {
			if inc.group != g.name {
				continue
			}
			w := max(inc.window, nearby*a.key.step)
			chance := rates[i].mean * w.seconds(0)
			if others := float64(g.recent.distinct(a.at-w) - 1); others > 0 && others >= 2*chance {
				return inc, 1 - chance/others
			}
		}
	}
	return nil, 0
}

// gathered counts the keys of a group with an alarm that no incident explains, in every window
// before a moment.
func (f *Fleet) gathered(g *group, t, step moment) (c [len(ladder)]int) {
	f.question++
	j := 0
	for i := len(g.recent.alarms) - 1; i >= g.recent.first; i-- {
		b := g.recent.alarms[i]
		age := t - b.at
		if age >= longest*step {
			break
		}
		if b.key == nil || b.key.asked == f.question || !unexplained(b, g.name, t) {
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

// unexplained reports whether an alarm of a group is in no incident, or in an old and wider one.
func unexplained(b *alarm, group string, t moment) bool {
	inc := b.explained()
	return inc == nil || len(inc.group) < len(group) && t > inc.opened+longest*b.key.step
}

// A finding is the most surprising answer.
type finding struct {
	score  float64
	group  *group
	window moment
	mean   float64
	c      int
}

// found opens an incident, or widens those that are of the same cause.
func (f *Fleet) found(a *alarm, threshold float64, found finding) {
	t, name := a.at, found.group.name
	var near []*incident
	for _, inc := range f.open {
		if f.common(name, inc.group) == name || t <= inc.opened+longest*a.key.step {
			near = append(near, inc)
		}
	}
	state := Opened
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
		inc = &incident{id: f.name(name, t), opened: t, threshold: threshold, members: map[string]Member{}, steps: map[moment]int{}}
		inc.recurs, inc.usual, inc.weekly = f.recurrence(name, t)
		inc.page = inc.recurs < recurring
		if inc.page {
			f.debt++
		}
		f.open = append(f.open, inc)
	}
	inc.group, inc.window, inc.score, inc.expected = name, found.window, found.score, found.mean
	p := max(0, 1-found.mean/float64(found.c-1))
	all := &f.groups[name].recent
	for _, b := range all.alarms[all.after(t-found.window):] {
		if b.key == nil || !unexplained(b, name, t) {
			continue
		}
		if b != a {
			weight := -1.
			if old := b.explained(); old != nil {
				weight = b.p - 1
				old.leave(b.name)
			}
			f.count(b, b.at, weight)
		}
		f.join(inc, b, p)
	}
	inc.last = t
	f.tell(state, inc, t)
}

// join makes an alarm one of an incident.
func (f *Fleet) join(inc *incident, a *alarm, p float64) {
	a.incident, a.p = inc, p
	weight := 1. // what lasts becomes usual
	if a.at <= inc.opened+longest*a.key.step {
		weight = 1 - p
	}
	f.count(a, a.at, weight)
	inc.enter(Member{Key: a.name, Time: a.time.time(), Score: a.score, Size: a.size, P: p, at: a.time, step: a.key.step})
	inc.last = max(inc.last, a.at)
	if !inc.page && len(inc.members) > 2*inc.usual && f.debt <= headroom {
		inc.page = true
		f.debt++
	}
	f.assign(a, inc.id)
}

func (inc *incident) enter(m Member) {
	if _, there := inc.members[m.Key]; !there {
		inc.members[m.Key] = m
		inc.steps[m.step]++
		inc.step = max(inc.step, m.step)
	}
}

// leave takes a key out. The last one leaves its step behind, after which the incident closes.
func (inc *incident) leave(key string) {
	m, there := inc.members[key]
	if !there {
		return
	}
	delete(inc.members, key)
	if inc.steps[m.step]--; inc.steps[m.step] > 0 {
		return
	}
	delete(inc.steps, m.step)
	if m.step == inc.step && len(inc.steps) > 0 {
		inc.step = 0
		for step := range inc.steps {
			inc.step = max(inc.step, step)
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
	f.tell(Merged, other, t)
	other.members, other.steps = nil, nil
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
		f.tell(Closed, inc, inc.end())
		inc.members, inc.steps = nil, nil
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
			if c := f.common(e.group, group); c != e.group && c != group {
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
