package usual

const (
	fortnight  = 2 * weekSlots        // hours of two weeks
	tableSlots = fortnight + daySlots // the hours of two weeks and of a holiday
)

// A phase is an hour of two weeks, plus 336 on a holiday, which has an hour of the weekday that replaces it.
type phase int

func (ph phase) slot() int     { return int(ph) % weekSlots }
func (ph phase) holiday() bool { return ph >= fortnight }

const (
	clearDays    = .5 // minimum G of days from which visits of two weeks are stored
	minFortnight = 84 // pairs of visits before the weeks of a key may alternate
	fortnights   = .6 // minimum of c₁/c₀ of two weeks, and
	alternate    = .5 // of its G, at which they alternate
)

// index returns the index of the slot at the given number of hours before a phase, at most two weeks. twoWeeks means
// that even and odd weeks have slots of their own.
func (ph phase) index(p *Profile, hours int, twoWeeks bool) int {
	i := (int(ph) + fortnight - hours) % fortnight
	if twoWeeks {
		return i
	}
	return i % p.slots
}

// earlier returns the last visit of the slot at the given number of hours before a phase, at most two weeks.
func (t *planTable) earlier(p *Profile, ph phase, hours int) int8 {
	return t.last[ph.index(p, hours, t.twoWeeks)]
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
	visit, offset := ph.index(p, 0, t.twoWeeks), ph.index(p, 0, t.alternating)
	l, prev := &t.week, t.earlier(p, ph, weekSlots)
	repeats := l.plan()
	switch {
	case p.slots == daySlots:
		l, repeats = &t.day, t.day.plan()
	case ph.holiday():
		visit = fortnight + ph.slot()%daySlots
		offset, prev = visit, t.last[visit]
	case t.alternating:
		l, prev, repeats = &t.fortnight, t.last[visit], 1
	}
	return planEntries{&t.last[visit], prev, &t.offset[offset], l, repeats}
}

// known returns the entries with the offset of a phase: on a holiday without an offset, the entries of the weekday that
// replaces it.
func (t *planTable) known(p *Profile, ph phase) planEntries {
	own := t.entries(p, ph)
	if ph.holiday() && *own.offset == unknown {
		return t.entries(p, ph%fortnight)
	}
	return own
}

// compareWeeks decides at the end of a week, whose last phase is ph, whether to store the visits and the offsets of two
// weeks. The first offsets of even and odd weeks are the last visits. The common offset replaces these visits, so that
// the median drops a deviation that occurred once.
func (t *planTable) compareWeeks(ph phase) {
	begin := int(ph) % fortnight / weekSlots * weekSlots
	candidate := t.day.plan() > clearDays && t.week.plan() < 1
	switch l := &t.fortnight; {
	case t.alternating:
		if l.plan() == 0 {
			copy(t.offset[:weekSlots], t.offset[begin:])
			forget(t.offset[weekSlots:fortnight])
			t.alternating = false
		}
	case !t.twoWeeks && candidate:
		week := t.last
		forget(t.last[:fortnight])
		copy(t.last[begin:], week[:weekSlots])
		t.twoWeeks = true
	case t.twoWeeks && !candidate:
		copy(t.last[:weekSlots], t.last[begin:])
		t.twoWeeks, *l = false, likeness{}
	case l.n >= minFortnight && float64(l.alike) > fortnights*float64(l.same) && l.plan() > alternate:
		t.alternating = true
		copy(t.offset[weekSlots:fortnight], t.offset[:weekSlots])
		for i, last := range t.last[:fortnight] {
			if a := t.offset[i]; last != unknown && a != unknown {
				t.last[i], t.offset[i] = t.coarse(t.value(a)), last
			}
		}
	}
}

// forget makes entries of a table unknown.
func forget(entries []int8) {
	for i := range entries {
		entries[i] = unknown
	}
}
