package usual

import (
	"math"
	"time"

	"hafvf/internal/median"
)

// A planTable stores offsets and spreads by the hour.
type planTable struct {
	slot      int16   // of the current visit, counted from 1; 0 before the first visit
	n         int32   // values of the current visit
	sum, log  float32 // sums of y − m and of ln|d/σFr| over these values
	mean      float32 // of visits
	visits    uint8   // up to meanVisits
	day       likeness
	week      likeness
	unit      int8            // offsets are multiples of 2^unit
	last      [weekSlots]int8 // last visits; unknown before the first visit of a slot
	offset    [weekSlots]int8 // unknown before the second visit
	free      uint8           // a bit for each free day, the lowest for Monday
	hours     [dayHours]int16 // ln f
	hourN     [dayHours]uint8 // visits of the hour
	hourMean  float64         // mean of ln f, and
	hourShare float64         // its share that is not due to chance; weigh computes both from hours
}

// likeness holds c₁, c₀ and cₓ of n pairs of visits.
type likeness struct {
	alike, same, other float32
	n                  uint16
}

// slotOf returns the hour of the week of t, counted from Monday.
func slotOf(calendar *Calendar, t time.Time) int {
	const monday = 72 // hours before 1 January 1970
	h := (t.Unix()+calendar.offset(t))/3600 + monday
	return int((h%weekSlots + weekSlots) % weekSlots)
}

// hourOf returns the hour of the day, plus 24 on a free day.
func (t *planTable) hourOf(slot int) int {
	if t.free>>(slot/daySlots)&1 == 1 {
		return slot%daySlots + daySlots
	}
	return slot % daySlots
}

// slotIndex returns the index of a slot in the table, which covers a week or a day.
func (p *Profile) slotIndex(slot int) int { return slot % p.slots }

func (t *planTable) earlier(p *Profile, slot, hours int) int {
	return p.slotIndex(slot + weekSlots - hours)
}

// agreed returns the common part of two values: the smaller magnitude if they have the same sign, and else 0.
func agreed(a, b float64) float64 {
	if a*b <= 0 {
		return 0
	}
	return math.Copysign(min(math.Abs(a), math.Abs(b)), a)
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

// known returns o for an offset a in an hour with factor f.
func (l *likeness) known(a, f float64) float64 {
	if l.n == 0 {
		return 0
	}
	noise := l.noise()*min(1, f*f) + 1e-12
	clear := unit(math.Abs(a)/math.Sqrt(noise) - clearly)
	return max(l.plan(), clear) * a * a * a / (a*a + shrinkage*noise)
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

// offsetOf returns o of a slot.
func (t *planTable) offsetOf(p *Profile, slot int) float64 {
	if t.day.n == 0 {
		return 0
	}
	f, i := t.factor(slot), p.slotIndex(slot)
	if a := t.offset[i]; a != unknown {
		own := &t.week
		if p.slots == daySlots {
			own = &t.day
		}
		if o := own.known(t.value(a), f); o != 0 || own.plan() > 0 {
			return o
		}
	}
	if p.slots == daySlots {
		return 0
	}
	y, b := t.last[t.earlier(p, slot, daySlots)], t.last[t.earlier(p, slot, 2*daySlots)]
	if y == unknown || b == unknown {
		return 0
	}
	return t.day.known(agreed(t.value(y), t.value(b)), f)
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
func (t *planTable) begin(slot int) {
	t.slot, t.free = int16(slot)+1, weekend
	for i := range t.last {
		t.last[i], t.offset[i] = unknown, unknown
	}
}

// visit moves the current visit to the slot next. If that is another slot, it learns the previous visit. sd is σ.
func (t *planTable) visit(p *Profile, next int, sd float64, offsets bool) {
	slot := int(t.slot) - 1
	if slot == next {
		return
	}
	t.slot = int16(next) + 1
	if t.n == 0 {
		return
	}
	if offsets {
		t.learnOffset(p, slot, sd)
		if next < slot {
			t.findFreeDays(p)
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

// learnOffset learns the current visit, in slot.
func (t *planTable) learnOffset(p *Profile, slot int, sd float64) {
	f, i := t.factor(slot), p.slotIndex(slot)
	limit := min(visitBound*sd*f, farthest)
	r := float64(t.sum) / float64(t.n)
	t.visits = min(t.visits+1, meanVisits)
	prevMean := float64(t.mean)
	t.mean += float32(within(r-prevMean, limit) / float64(t.visits))
	r -= prevMean
	l := t.value(t.last[i])
	if abs := max(t.last[i], -t.last[i]); abs == visitUnits*maxVisitUnits && math.Abs(r) > math.Abs(l) && l*r > 0 {
		l = within(r, maxGrowth*math.Abs(l)) // the last visit was cut
	}
	t.scale(sd, l)
	clip := func(v int8) float64 { return within(t.value(v), limit) / f }
	now := within(r, limit) / f
	day := t.earlier(p, slot, daySlots)
	if other := t.earlier(p, slot, 7); t.last[day] != unknown {
		t.day.record(now, clip(t.last[day]), clip(t.last[other]))
	}
	own := &t.day
	if p.slots == weekSlots {
		own = &t.week
		if t.last[i] != unknown {
			other := t.earlier(p, slot, 79)
			if t.last[other] == unknown {
				other = t.earlier(p, slot, 72)
			}
			own.record(now, clip(t.last[i]), clip(t.last[other]))
		}
	}
	if t.last[i] != unknown {
		a, move := t.value(t.offset[i]), 1.
		m := median.Of([]float64{a, l, r})
		if t.offset[i] != unknown {
			u := (m - a) * (m - a) / (4*max(float64(own.same)-float64(own.alike), 0)*f*f + 1e-12)
			move = max(minMove, u/(1+u))
		}
		t.offset[i] = t.entry(a + move*(m-a))
	}
	t.last[i] = t.coarse(r)
}

// scale chooses the unit so that entries reach tableBound standard deviations, 1.5 times the largest offset, and the
// visit l.
func (t *planTable) scale(sd, l float64) {
	minOffset, maxOffset := int8(0), int8(0)
	for _, a := range t.offset {
		if a != unknown {
			minOffset, maxOffset = min(minOffset, a), max(maxOffset, a)
		}
	}
	_, e := math.Frexp(max(tableBound*sd, 1.5*t.value(maxOffset), -1.5*t.value(minOffset), math.Abs(l)))
	exponent := int8(max(-maxExponent, min(e-7, maxExponent)))
	if exponent == t.unit {
		return
	}
	prev := *t
	t.unit = exponent
	for i := range t.last {
		if prev.last[i] != unknown {
			t.last[i] = t.coarse(prev.value(prev.last[i]))
		}
		if prev.offset[i] != unknown {
			t.offset[i] = t.entry(prev.value(prev.offset[i]))
		}
	}
}
