package usual

import "time"

// A phase is an hour of the week, plus 168 in every other week, plus 336 on a holiday.
type phase int

// phases is the number of phases.
const phases = 4 * weekSlots

// phaseOf returns the phase of t. The hour of a holiday is an hour of the weekday that replaces it.
func phaseOf(calendar *Calendar, t time.Time) phase {
	const monday = 3 // days before 1 January 1970
	shift := calendar.shift(t)
	hour, _ := calendar.hourOfWeek(t)
	ph := phase(hour)
	local := t.Unix() + calendar.offset(t) - shift*secondsOfDay
	if floorDiv(floorDiv(local, secondsOfDay)+monday, 7)&1 != 0 {
		ph += weekSlots
	}
	if shift != 0 {
		ph += 2 * weekSlots
	}
	return ph
}

func (ph phase) slot() int     { return int(ph) % weekSlots }
func (ph phase) parity() int   { return int(ph) / weekSlots & 1 }
func (ph phase) holiday() bool { return ph >= 2*weekSlots }

// A weekTable has an entry for each hour of the week.
type weekTable [weekSlots]int8

// A dayTable has an entry for each hour of a day.
type dayTable [daySlots]int8

func (w *weekTable) clear() {
	for i := range w {
		w[i] = unknown
	}
}

// Values of planTable.weeks.
const (
	oneWeek     = iota // last visits and offsets are in the first tables
	twoWeeks           // last visits of odd weeks are in the second table
	alternating        // offsets of odd weeks as well
)

const (
	clearDays    = .5 // minimum G of days from which visits of two weeks are stored
	minFortnight = 84 // pairs of visits before the weeks of a key may alternate
	fortnights   = .6 // minimum of c₁/c₀ of two weeks, and
	alternate    = .5 // of its G, at which they alternate
)

// earlier returns the last visit of the slot at the given number of hours before a phase, at most two weeks.
func (t *planTable) earlier(p *Profile, ph phase, hours int) *int8 {
	h := int(ph)%(2*weekSlots) + 2*weekSlots - hours
	table := &t.last[0]
	if t.weeks != oneWeek {
		table = &t.last[h/weekSlots&1]
	}
	return &table[h%p.slots]
}

// planEntries are the entries of a phase.
type planEntries struct {
	last     *int8 // to replace by the current visit
	prev     int8  // the last visit that the plan makes similar
	offset   *int8
	likeness *likeness // of these visits
	repeats  float64   // G
}

// entries returns the entries of a phase.
func (t *planTable) entries(p *Profile, ph phase) planEntries {
	own := planEntries{last: t.earlier(p, ph, 0), prev: *t.earlier(p, ph, weekSlots), offset: &t.offset[0][ph.slot()%p.slots], likeness: &t.week}
	if p.slots == daySlots {
		own.likeness = &t.day
	}
	own.repeats = own.likeness.plan()
	if ph.holiday() && p.slots == weekSlots {
		h := ph.slot() % daySlots
		own.last, own.offset = &t.dayOff[0][h], &t.dayOff[1][h]
		own.prev = *own.last
	} else if t.weeks == alternating {
		own.prev, own.offset, own.likeness = *own.last, &t.offset[ph.parity()][ph.slot()], &t.fortnight
		own.repeats = max(unit(2*t.fortnight.plan()), t.week.plan())
	}
	return own
}

// known returns the entries with the offset of a phase: on a holiday without an offset, the entries of the weekday that
// replaces it.
func (t *planTable) known(p *Profile, ph phase) planEntries {
	own := t.entries(p, ph)
	if ph.holiday() && *own.offset == unknown {
		return t.entries(p, ph%(2*weekSlots))
	}
	return own
}

// compareWeeks chooses the tables at the end of a week, whose last phase is ph.
func (t *planTable) compareWeeks(ph phase) {
	parity := ph.parity()
	if t.weeks == alternating {
		if t.fortnight.plan() == 0 {
			t.offset[0] = t.offset[parity]
			t.offset[1].clear()
			t.weeks = twoWeeks
		}
		return
	}
	candidate := t.day.plan() > clearDays && t.week.plan() < 1
	switch l := &t.fortnight; {
	case t.weeks == oneWeek && candidate:
		t.weeks = twoWeeks
		t.last[parity], t.last[1-parity] = t.last[0], weekTable{}
		t.last[1-parity].clear()
	case t.weeks == twoWeeks && l.n >= minFortnight && float64(l.alike) > fortnights*float64(l.same) && l.plan() > alternate:
		t.weeks = alternating
		t.alternate()
	case t.weeks == twoWeeks && !candidate:
		t.weeks = oneWeek
		t.last[0] = t.last[parity]
		t.last[1].clear()
		t.fortnight = likeness{}
	}
}

// alternate begins offsets of even and odd weeks with the last visits. The common offset replaces the visits, so that
// the median drops a deviation that occurred once.
func (t *planTable) alternate() {
	common := t.offset[0]
	for parity := range t.offset {
		for i, a := range common {
			if l := t.last[parity][i]; l != unknown && a != unknown {
				t.offset[parity][i], t.last[parity][i] = l, t.coarse(t.value(a))
			} else {
				t.offset[parity][i] = a
			}
		}
	}
}

// all returns all last visits and all offsets.
func (t *planTable) all() (lasts, offsets [3][]int8) {
	return [3][]int8{t.last[0][:], t.last[1][:], t.dayOff[0][:]}, [3][]int8{t.offset[0][:], t.offset[1][:], t.dayOff[1][:]}
}
