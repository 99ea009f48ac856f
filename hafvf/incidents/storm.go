package incidents

import (
	"math"
	"slices"

	"hafvf/internal/median"
	"hafvf/internal/special"
)

const (
	standsOutBy   = 4. // how many times the median size of its background makes an alarm stand out
	worseBy       = 2. // how many times the size of a member makes a later alarm of its key stand out
	maxBackground = 64 // alarms of a background, the latest
)

// A background contains the alarms around a group in the 32 steps before the present one: those of the narrowest open
// incident around the group or, without one, those of the fleet. An alarm that is much larger than their median stands
// out: it has another cause than the background, even if both are in the same group.
type background struct {
	fleet   *Fleet
	inc     *incident // nil without an open incident around the group
	whole   *group    // the incident's group, or the fleet
	step    moment
	minSize float64 // of an alarm that stands out; NaN without a background
	from    moment  // alarms that stand out are later
	alarms  []*alarm
}

// background returns the background of a group at f.now. f.backgrounds caches those of the present moment.
func (f *Fleet) background(g *group, step moment) *background {
	inc := f.around(g)
	for _, b := range f.backgrounds {
		if b.inc == inc && b.step == step {
			return b
		}
	}
	b := &background{fleet: f, inc: inc, whole: f.groups[""], step: step, from: f.now - maxWindowSteps*step}
	if inc != nil {
		b.whole, b.from = f.groups[inc.group], inc.opened+step
	}
	f.backgrounds = append(f.backgrounds, b)
	var sizes []float64
	recent := &b.whole.recent
	end := recent.after(f.now - step)
	for _, a := range recent.alarms[max(recent.after(f.now-maxWindowSteps*step), end-maxBackground):end] {
		if size := math.Abs(a.size); a.key != nil && size > 0 && (inc == nil || a.explained() == inc) {
			b.alarms, sizes = append(b.alarms, a), append(sizes, size)
		}
	}
	b.minSize = standsOutBy * median.Of(sizes)
	return b
}

// standsOut reports whether an alarm is much larger than the background and new to it: its key is not a member of the
// incident, or its episode got worse, or a new episode is worse than the member.
func (b *background) standsOut(a *alarm) bool {
	size := math.Abs(a.size)
	if !(size >= b.minSize) || a.takenAt <= b.from {
		return false
	}
	if inc := b.fleet.incidentOf(a); inc != nil && inc != b.inc {
		return false
	}
	if b.inc == nil || a.worse() {
		return true
	}
	m, member := b.inc.members[a.name]
	return !member || m.moment == a.time || size >= worseBy*math.Abs(m.Size)
}

// askApart asks in a group at f.now how many keys alarm that stand out, among such alarms only. It returns no finding
// with a score below minScore.
func (f *Fleet) askApart(g *group, b *background, step moment, minScore float64) (best finding) {
	if slices.ContainsFunc(f.open, func(inc *incident) bool { return f.covers(g.name, inc.group) }) || b.whole.keys == g.keys {
		return best
	}
	inGroup, inWhole := f.countAlarming(g, f.now, step, b.standsOut), f.countAlarming(b.whole, f.now, step, b.standsOut)
	share := float64(g.keys) / float64(b.whole.keys-g.keys)
	for j, c := range inGroup[:len(inGroup)-1] {
		if c < 2 {
			continue
		}
		window, elsewhere := ladder[j]*step, float64(inWhole[j]-c)
		mean, asking := elsewhere, 0. // asking is log₁₀ of the share of alarms that ask
		if b.inc != nil {
			start := max(f.now-window, b.from)
			large, all := elsewhere, elsewhere+float64(len(b.alarms))
			for _, a := range b.alarms {
				if math.Abs(a.size) >= b.minSize && a.takenAt <= start {
					large++
				}
			}
			fraction := (1 + large) / (2 + all)
			mean += fraction * float64(1+b.whole.recent.distinct(start)-g.recent.distinct(start))
			asking = special.Log(fraction) / math.Ln10
		}
		r := rate{mean * share, min(1+elsewhere, maxShape)}
		if usual := g.rate.mean * window.seconds(0); usual > r.mean {
			r = rate{usual, g.rate.shape}
		}
		s := surprise(c-1, r.mean, r.shape, max(minScore, best.score)+asking) - asking
		if s >= minScore && s > best.score {
			best = finding{s, g, window, r.mean, c, b}
		}
	}
	return best
}

// sizeIn returns the median size of the selected alarms of a group later than t, or NaN without any.
func (f *Fleet) sizeIn(g *group, t moment, selected func(*alarm) bool) float64 {
	var sizes []float64
	for _, a := range g.recent.since(t, selected) {
		sizes = append(sizes, math.Abs(a.size))
	}
	return median.Of(sizes)
}

// incidentOf returns the open incident that an alarm belongs to, or, before a report of a worse episode is decided, that
// of its episode. It returns nil if there is none.
func (f *Fleet) incidentOf(a *alarm) *incident {
	if inc := a.explained(); inc != nil || !a.worse() {
		return inc
	}
	for _, inc := range f.open {
		if m, ok := inc.members[a.name]; ok && m.Episode != nil && m.Episode.ID == a.episode.ID {
			return inc
		}
	}
	return nil
}

// worsen updates the member with the episode of a report that the episode is worse.
func (f *Fleet) worsen(a *alarm) {
	inc := f.incidentOf(a)
	if inc == nil {
		f.assign(a, "")
		f.singles.alone(a)
		return
	}
	a.incident = inc
	f.assign(a, inc.id)
	m := inc.members[a.name]
	m.Score = max(m.Score, a.score)
	if math.Abs(a.size) > math.Abs(m.Size) {
		m.Size = a.size
	}
	if !(math.Abs(a.episode.Worst.Size) <= math.Abs(m.Episode.Worst.Size)) {
		worse := *m.Episode // events that were reported share it
		worse.Worst = a.episode.Worst
		m.Episode = &worse
	}
	inc.members[a.name] = m
}

// standsOutOf reports whether the members are so much larger than a median size that they have another cause.
func (inc *incident) standsOutOf(size float64) bool {
	var sizes []float64
	for _, m := range inc.members {
		sizes = append(sizes, math.Abs(m.Size))
	}
	return size > 0 && median.Of(sizes) >= standsOutBy*size
}
