package usual

import (
	"math"

	"hafvf/internal/median"
)

// A planTable stores offsets and spreads by the hour.
type planTable struct {
	slot        int16   // phase of the current visit, counted from 1; 0 before the first visit
	n           int32   // values of the current visit
	sum, log    float32 // sums of y − m and of ln|d/σFr| over these values
	mean        float32 // of visits
	visits      uint8   // up to meanVisits
	day         likeness
	week        likeness
	fortnight   likeness         // c₁ of visits two weeks apart, cₓ of visits one week apart
	unit        int8             // offsets are multiples of 2^unit
	last        [tableSlots]int8 // last visits; unknown before the first visit of a slot
	offset      [tableSlots]int8 // unknown before the second visit
	twoWeeks    bool             // even and odd weeks have last visits of their own, and
	alternating bool             // offsets of their own
	holidays    bool             // the key has seen a holiday
	free        uint8            // a bit for each free day, the lowest for Monday
	hours       [dayHours]int16  // ln f
	hourN       [dayHours]uint8  // visits of the hour
	hourMean    float64          // mean of ln f, and
	hourShare   float64          // its share that is not due to chance; weigh computes both from hours
}

// likeness holds c₁, c₀ and cₓ of n pairs of visits.
type likeness struct {
	alike, same, other float32
	n                  uint16
}

// hourOf returns the hour of the day, plus 24 on a free day.
func (t *planTable) hourOf(slot int) int {
	if t.free>>(slot/daySlots)&1 == 1 {
		return slot%daySlots + daySlots
	}
	return slot % daySlots
}

// plan returns G.
func (l *likeness) plan() float64 {
	if l.same <= 0 {
		return 0
	}
	return unit(((float64(l.alike)-max(0, float64(l.other)))/float64(l.same) - minAlike) / (maxAlike - minAlike))
}

func unit(v float64) float64 { return max(0, min(v, 1)) }

// noise returns ν² for f = 1.
func (l *likeness) noise() float64 {
	return max(float64(l.same)-float64(l.alike), 1e-6*float64(l.same))
}

// known returns o for an offset a in an hour with factor f. repeats is G.
func (l *likeness) known(a, f, repeats float64) float64 {
	if l.n == 0 {
		return 0
	}
	noise := l.noise()*min(1, f*f) + 1e-12
	clear := unit(math.Abs(a)/math.Sqrt(noise) - clearly)
	return max(repeats, clear) * a * a * a / (a*a + shrinkage*noise)
}

// record learns the visit r. last is an earlier visit that a plan makes similar; other is one that need not be similar.
func (l *likeness) record(r, last, other float64) {
	if l.n < maxPairs {
		l.n++
	}
	learn := func(mean *float32, v float64) { *mean += float32((v - float64(*mean)) / float64(l.n)) }
	learn(&l.alike, r*last)
	learn(&l.same, (r*r+last*last)/2)
	learn(&l.other, r*other)
}

// value returns the value of a table entry, 0 if it is unknown.
func (t *planTable) value(v int8) float64 {
	if v == unknown {
		return 0
	}
	return math.Ldexp(float64(v), int(t.unit))
}

func (t *planTable) entry(v float64) int8 {
	return int8(max(-math.MaxInt8, min(math.Round(math.Ldexp(v, -int(t.unit))), math.MaxInt8)))
}

// coarse returns the entry of a last visit, a multiple of visitUnits.
func (t *planTable) coarse(v float64) int8 {
	return visitUnits * max(-maxVisitUnits, min(int8(math.Round(float64(t.entry(v))/visitUnits)), maxVisitUnits))
}

// offsetOf returns o of a phase.
func (t *planTable) offsetOf(p *Profile, ph phase) float64 {
	if t.day.n == 0 {
		return 0
	}
	f, own := t.factor(ph.slot()), t.known(p, ph)
	if a := *own.offset; a != unknown {
		if o := own.likeness.known(t.value(a), f, own.repeats); o != 0 || own.repeats > 0 {
			return o
		}
	}
	if p.slots == daySlots {
		return 0
	}
	common := median.Of([]float64{0, t.value(t.earlier(p, ph, daySlots)), t.value(t.earlier(p, ph, 2*daySlots))})
	return t.day.known(common, f, t.day.plan())
}

// factor returns f.
func (t *planTable) factor(slot int) float64 {
	hour := t.hourOf(slot)
	if t.hourShare == 0 || t.hourN[hour] == 0 {
		return 1
	}
	return math.Exp(t.hourShare * (float64(t.hours[hour])/hourUnit - t.hourMean))
}

// weigh computes hourMean and hourShare.
func (t *planTable) weigh() {
	var n, sum, squares, noise float64
	for i, c := range t.hourN {
		if c > 0 {
			v := float64(t.hours[i]) / hourUnit
			n, sum, squares = n+1, sum+v, squares+v*v
			noise += spreadLog / (float64(c) + hourPrior)
		}
	}
	t.hourMean, t.hourShare = 0, 0
	if n == 0 {
		return
	}
	t.hourMean = sum / n
	spread := max(squares/n-t.hourMean*t.hourMean, 1e-9)
	t.hourShare = max(0, 1-noise/n/spread)
}

// begin starts the first visit.
func (t *planTable) begin(ph phase) {
	t.slot, t.free = int16(ph)+1, weekend
	forget(t.last[:])
	forget(t.offset[:])
}

// visit moves the current visit to the phase next. If that is another phase, it learns the previous visit. sd is σ.
func (t *planTable) visit(p *Profile, next phase, sd float64, offsets bool) {
	ph := phase(t.slot) - 1
	if ph == next {
		return
	}
	slot := ph.slot()
	t.slot = int16(next) + 1
	if t.n == 0 {
		return
	}
	if offsets {
		t.learnOffset(p, ph, sd)
		if next.slot() < slot && p.slots == weekSlots {
			t.findFreeDays()
			t.compareWeeks(ph)
		}
	}
	hour := t.hourOf(slot)
	c := t.hourN[hour]
	v := float64(t.hours[hour])
	v += (hourUnit*(math.Log(t.factor(slot))+float64(t.log)/float64(t.n)-meanLog) - v) / (float64(c) + hourPrior + 1)
	t.hours[hour] = int16(max(-maxHourUnits, min(math.Round(v), maxHourUnits)))
	t.hourN[hour] = min(c+1, maxHourVisits)
	t.n, t.sum, t.log = 0, 0, 0
	t.weigh()
}

// learnOffset learns the current visit, in a phase.
func (t *planTable) learnOffset(p *Profile, ph phase, sd float64) {
	f := t.factor(ph.slot())
	limit := min(visitBound*sd*f, farthest)
	r := float64(t.sum) / float64(t.n)
	t.visits = min(t.visits+1, meanVisits)
	prevMean := float64(t.mean)
	t.mean += float32(within(r-prevMean, limit) / float64(t.visits))
	r -= prevMean
	own := t.entries(p, ph)
	l := t.value(own.prev)
	if abs := max(own.prev, -own.prev); abs == visitUnits*maxVisitUnits && math.Abs(r) > math.Abs(l) && l*r > 0 {
		l = within(r, maxGrowth*math.Abs(l)) // the last visit was cut
	}
	t.scale(sd, l)
	if ph.holiday() && p.slots == weekSlots {
		t.holidays = true
	} else {
		t.recordLikeness(p, ph, within(r, limit)/f, func(v int8) float64 { return within(t.value(v), limit) / f })
	}
	if own.prev != unknown {
		a, move := t.value(*own.offset), 1.
		m := median.Of([]float64{a, l, r})
		if *own.offset != unknown {
			u := (m - a) * (m - a) / (4*own.likeness.noise()*f*f + 1e-12)
			// A single visit hardly moves the usual values that messages name. F1 .004 on plans_15min.
			move = max(minMove, u/(1+u))
		}
		*own.offset = t.entry(a + move*(m-a))
	}
	*own.last = t.coarse(r)
}

// recordLikeness learns the visit now. clip returns the value of a previous visit in the same measure.
func (t *planTable) recordLikeness(p *Profile, ph phase, now float64, clip func(v int8) float64) {
	if day := t.earlier(p, ph, daySlots); day != unknown {
		t.day.record(now, clip(day), clip(t.earlier(p, ph, 7)))
	}
	week := t.earlier(p, ph, weekSlots)
	if p.slots == daySlots || week == unknown {
		return
	}
	other := t.earlier(p, ph, 79)
	if other == unknown {
		other = t.earlier(p, ph, 72)
	}
	t.week.record(now, clip(week), clip(other))
	if before := t.earlier(p, ph, 2*weekSlots); t.twoWeeks && before != unknown {
		t.fortnight.record(now, clip(before), clip(week))
	}
}

// scale chooses the unit so that entries reach tableBound standard deviations, 1.5 times the largest offset, and the
// visit l.
func (t *planTable) scale(sd, l float64) {
	largest := int8(0)
	for _, a := range t.offset {
		if a != unknown {
			largest = max(largest, a, -a)
		}
	}
	_, e := math.Frexp(max(tableBound*sd, 1.5*t.value(largest), math.Abs(l)))
	exponent := int8(max(-maxExponent, min(e-7, maxExponent)))
	if exponent == t.unit {
		return
	}
	prev := planTable{unit: t.unit}
	t.unit = exponent
	for i := range tableSlots {
		if l := &t.last[i]; *l != unknown {
			*l = t.coarse(prev.value(*l))
		}
		if a := &t.offset[i]; *a != unknown {
			*a = t.entry(prev.value(*a))
		}
	}
}
