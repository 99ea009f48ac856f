package usual

import (
	"math"
	"time"

	"hafvf/internal/median"
)

// A Plan is what a stream does by the clock that harmonics cannot draw, and how widely its values scatter:
// by the hour, by the number of events behind a value, and lately. It stands before the views of a Profile.
// With m and σ of the season view, a value y of n events in slot w, the hour of the week, at hour h of a
// working day or a weekend day is scored and learned as
//
//	y′ = m + d/F,  d = y − m − o(w),  F = f(h)·g(n)
//
// whose scatter is the same at all times. What is usual is shown as m + o ± σ·F·r, where r is the scatter
// lately over that of always. No score depends on r. It bounds what is learned as it comes.
//
// Offset o. A visit of a slot has the mean ρ of y − m, less that of the last 24 visits. A slot keeps its last
// visit l and its offset a, which goes to the median of a, l and ρ: what came once is not learned, what came
// twice is known at the third time. Where a slot has no two visits, it takes what the visits of the two days
// before have in common. With the mean products c₁ of two visits that a plan makes alike, c₀ of a visit with
// itself and cₓ of two visits that need not be alike, and ν² = (c₀ − c₁)·min(1, f)²,
//
//	o = a·max(G, K)·a²/(a² + 2ν²)
//	G = ((c₁ − max(0, cₓ))/c₀ − .2)/.3 within 0 … 1   the table repeats itself
//	K = |a|/ν − 3                      within 0 … 1   this slot alone is clear
//
// Hours f. ln f is the mean of ln|d/σgr| + .635 over the visits of an hour, with a prior of two of zero, less the
// mean of all hours, times the share of the differences between hours that is more than chance. A visit counts
// as at most e^1.6 times what its hour has.
//
// Events g = √((1/n + c)/(1/n₀ + c)), n₀ = Σn²/Σn, with that c of a grid that makes the d likeliest. Distances of
// a share are those of its arcsine, so that 1 of 1 is no surprise, and their scale is known.
//
// Lately r. ln r is the mean of ln|d/σF| over half a day, or 80 observations, less that of always, which waits while
// they differ. It rises only as far as the values lie on both sides: a level is no scatter.
//
// Offsets are for steps of a quarter of an hour to six hours, and hours for ten minutes to six hours: in finer
// steps an hour has too much in it. There the plan has spikes, which come at the same hour of the day. A Plan is learned in the precision in which it is encoded.
type Plan []coordinatePlan

// Settings that aren't the user's.
const (
	alikeLeast = .2 // of G
	alikeMost  = .5
	clearly    = 3.  // of K, standard deviations of a visit
	shrinkage  = 2.  // of offsets, in ν²
	leastMove  = .25 // of an offset to the median
	meanVisits = 24  // of the running mean of visits
	mostAlike  = 672 // products that are remembered
	visitBound = 6.  // of a visit, standard deviations
	tableBound = 8.  // of an entry of the table, standard deviations

	hourPrior = 2.    // visits
	hourMost  = 50    // visits that are remembered
	hourUnit  = 256.  // of ln f
	meanLog   = -.635 // of ln|z|, z normal
	spreadLog = 1.23  // its variance
	leastLog  = -3.
	mostLog   = 1. // of an hour
	mostLate  = 4. // of lately

	lateLeast  = 80.   // observations
	lateMost   = 1440. // observations
	lateChance = .15   // of ln r
	lateApart  = .3    // of ln r, for which always waits
	oneSided   = .4    // mean of d/σF at which values lie on one side
	scattering = .2    // ln r of values that scatter more than always

	// farthest bounds what is learned, so that a float32 has its square.
	farthest = 1e12

	fewTimes = 30. // observations before a plan is learned
)

const (
	daySlots     = 24
	weekSlots    = 168
	dayHours     = 48 // of a working day and a day of the weekend
	unknown      = math.MinInt8
	mostExponent = 120  // of the unit
	visitUnits   = 4    // of a last visit
	mostVisit    = 31   // of these: they are encoded in six bits
	mostHour     = 2047 // of hourUnit: in twelve
)

// A coordinatePlan is the plan of one coordinate.
type coordinatePlan struct {
	seen   float64 // the last y′
	lately lately
	events eventScatter
	table  planTable
	spikes spikes
}

// lately is how values scatter.
type lately struct {
	late, always float32 // means of ln|d/σF|
	side         float32 // mean of d/σF
	age          uint16  // observations, at most those after which rates no longer fall
}

// A planTable is what comes by the hour.
type planTable struct {
	slot     int16   // of the running visit, from 1; 0 before the first one
	n        int32   // its values
	sum, log float32 // of y − m, and of ln|d/σFr|
	mean     float32 // of visits
	visits   uint8   // at most meanVisits
	day      likeness
	week     likeness
	unit     int8            // offsets are multiples of 2^unit
	last     [weekSlots]int8 // unknown where no visit was
	offset   [weekSlots]int8 // unknown where no two were
	hours    [dayHours]int16 // ln f
	hourN    [dayHours]uint8 // visits of the hour
	hourMean float64         // of ln f, and
	hourKeep float64         // how much of it is more than chance: both follow from hours
}

// likeness holds c₁, c₀ and cₓ of n pairs of visits.
type likeness struct {
	alike, same, other float32
	n                  uint16
}

// eventScatter is how values scatter by the events behind them.
type eventScatter struct {
	cases, events, squares float32                       // Σk of a share, Σn and Σn²
	weight                 float32                       // of what follows
	sums                   [len(overdispersions)]float32 // Σd²/(1/n + c), by c
	logs                   [len(overdispersions)]float32 // Σln(1/n + c)
}

// overdispersions are the c of g.
var overdispersions = [8]float64{1e-7, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, .1, 1e9}

// MostEvents bounds Evidence.Events, so that a float32 has the sum of the squares.
const MostEvents = 1e15

// Evidence is what is known of an observation besides its values.
type Evidence struct {
	// Uncounted are so many of the equal values up to this one, or up to the one before it if it is another
	// one, that do not count as equal values in a row: the source gives a value again while it has no newer one.
	Uncounted int
	Events    float64 // behind each value, at most MostEvents; 0: not known
	// Share says that the value is a share of Events trials: Location + Scale·y of them are successes.
	Share           bool
	Location, Scale float64
}

// NewPlan returns the plan of a stream of that state, of which no plan is known.
func (p *Profile) NewPlan(s State) Plan {
	plan := make(Plan, p.dim)
	for i := range plan {
		plan[i].seen = p.coordinate(s, i).streak[streakSeen]
	}
	return plan
}

// Prime notes of how many trials or events the values of the warm-up are, as their sum and the sum of their
// squares, and how many of them were successes.
func (s Plan) Prime(cases, events, squares float64) {
	for i := range s {
		s[i].events = eventScatter{cases: float32(cases), events: float32(events), squares: float32(squares)}
	}
}

// ForgetScatter has the values scatter as always.
func (s Plan) ForgetScatter() {
	for i := range s {
		s[i].lately.late, s[i].lately.side = s[i].lately.always, 0
	}
}

// slotOf is the hour of the week from Monday on.
func slotOf(calendar *Calendar, t time.Time) int {
	const monday = 72 // hours before 1 January 1970
	h := (t.Unix()+calendar.offset(t))/3600 + monday
	return int((h%weekSlots + weekSlots) % weekSlots)
}

// hourOf is the hour of a working day, or 24 more in a weekend.
func hourOf(slot int) int {
	if slot >= 5*daySlots {
		return slot%daySlots + daySlots
	}
	return slot % daySlots
}

// place is where the table has a slot, if it goes by the week or by the day.
func (p *Profile) place(slot int) int { return slot % p.slots }

func (t *planTable) earlier(p *Profile, slot, by int) int { return p.place(slot + weekSlots - by) }

// agreed is what two values have in common.
func agreed(a, b float64) float64 {
	if a*b <= 0 {
		return 0
	}
	return math.Copysign(min(math.Abs(a), math.Abs(b)), a)
}

// plan is G.
func (l *likeness) plan() float64 {
	if l.same <= 0 {
		return 0
	}
	return unit(((float64(l.alike)-max(0, float64(l.other)))/float64(l.same) - alikeLeast) / (alikeMost - alikeLeast))
}

func unit(v float64) float64 { return max(0, min(v, 1)) }

// noise is ν², where f is 1.
func (l *likeness) noise() float64 {
	return max(float64(l.same)-float64(l.alike), 1e-6*float64(l.same))
}

// known is what is kept of an offset a in an hour of factor f.
func (l *likeness) known(a, f float64) float64 {
	if l.n == 0 {
		return 0
	}
	noise := l.noise()*min(1, f*f) + 1e-12
	clear := unit(math.Abs(a)/math.Sqrt(noise) - clearly)
	return max(l.plan(), clear) * a * a * a / (a*a + shrinkage*noise)
}

// note learns that a visit r follows one that was last, and one that need not be alike.
func (l *likeness) note(r, last, other float64) {
	if l.n < mostAlike {
		l.n++
	}
	learn := func(mean *float32, v float64) { *mean += float32((v - float64(*mean)) / float64(l.n)) }
	learn(&l.alike, r*last)
	learn(&l.same, (r*r+last*last)/2)
	learn(&l.other, r*other)
}

// value is what a table has of a slot.
func (t *planTable) value(v int8) float64 {
	if v == unknown {
		return 0
	}
	return math.Ldexp(float64(v), int(t.unit))
}

func (t *planTable) entry(v float64) int8 {
	return int8(max(-math.MaxInt8, min(math.Round(math.Ldexp(v, -int(t.unit))), math.MaxInt8)))
}

// coarse is the entry of a last visit, which is a multiple of visitUnits.
func (t *planTable) coarse(v float64) int8 {
	return visitUnits * max(-mostVisit, min(int8(math.Round(float64(t.entry(v))/visitUnits)), mostVisit))
}

// offset is o of a slot.
func (t *planTable) offsetOf(p *Profile, slot int) float64 {
	if t.day.n == 0 {
		return 0
	}
	f, at := t.factor(slot), p.place(slot)
	if a := t.offset[at]; a != unknown {
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

// factor is f.
func (t *planTable) factor(slot int) float64 {
	hour := hourOf(slot)
	if t.hourKeep == 0 || t.hourN[hour] == 0 {
		return 1
	}
	return math.Exp(t.hourKeep * (float64(t.hours[hour])/hourUnit - t.hourMean))
}

// weigh sets how much of the hours is more than chance.
func (t *planTable) weigh() {
	var n, sum, squares, noise float64
	for i, c := range t.hourN {
		if c > 0 {
			v := float64(t.hours[i]) / hourUnit
			n, sum, squares = n+1, sum+v, squares+v*v
			noise += spreadLog / (float64(c) + hourPrior)
		}
	}
	t.hourMean, t.hourKeep = 0, 0
	if n == 0 {
		return
	}
	t.hourMean = sum / n
	spread := max(squares/n-t.hourMean*t.hourMean, 1e-9)
	t.hourKeep = max(0, 1-noise/n/spread)
}

// begin begins the first visit.
func (t *planTable) begin(slot int) {
	t.slot = int16(slot) + 1
	for i := range t.last {
		t.last[i], t.offset[i] = unknown, unknown
	}
}

// visit goes on to a slot. If the visit of another one is over, it is learned. sd is that of the season view.
func (t *planTable) visit(p *Profile, to int, sd float64, offsets bool) {
	slot := int(t.slot) - 1
	if slot == to {
		return
	}
	t.slot = int16(to) + 1
	if t.n == 0 {
		return
	}
	if offsets {
		t.learnOffset(p, slot, sd)
	}
	hour := hourOf(slot)
	c := t.hourN[hour]
	v := float64(t.hours[hour])
	v += (hourUnit*(math.Log(t.factor(slot))+float64(t.log)/float64(t.n)-meanLog) - v) / (float64(c) + hourPrior + 1)
	t.hours[hour] = int16(max(-mostHour, min(math.Round(v), mostHour)))
	t.hourN[hour] = min(c+1, hourMost)
	t.n, t.sum, t.log = 0, 0, 0
	t.weigh()
}

// learnOffset learns the visit of a slot.
func (t *planTable) learnOffset(p *Profile, slot int, sd float64) {
	f, at := t.factor(slot), p.place(slot)
	most := min(visitBound*sd*f, farthest)
	r := float64(t.sum) / float64(t.n)
	t.visits = min(t.visits+1, meanVisits)
	was := float64(t.mean)
	t.mean += float32(within(r-was, most) / float64(t.visits))
	r -= was
	t.scale(sd)
	clip := func(v int8) float64 { return within(t.value(v), most) / f }
	now := within(r, most) / f
	day := t.earlier(p, slot, daySlots)
	if other := t.earlier(p, slot, 7); t.last[day] != unknown {
		t.day.note(now, clip(t.last[day]), clip(t.last[other]))
	}
	own := &t.day
	if p.slots == weekSlots {
		own = &t.week
		if t.last[at] != unknown {
			other := t.earlier(p, slot, 79)
			if t.last[other] == unknown {
				other = t.earlier(p, slot, 72)
			}
			own.note(now, clip(t.last[at]), clip(t.last[other]))
		}
	}
	if l := t.last[at]; l != unknown {
		a, move := t.value(t.offset[at]), 1.
		m := median.Of([]float64{a, t.value(l), r})
		if t.offset[at] != unknown {
			u := (m - a) * (m - a) / (4*max(float64(own.same)-float64(own.alike), 0)*f*f + 1e-12)
			move = max(leastMove, u/(1+u))
		}
		t.offset[at] = t.entry(a + move*(m-a))
	}
	t.last[at] = t.coarse(r)
}

// scale has the table reach as far as tableBound standard deviations, and half as far again as its offsets.
func (t *planTable) scale(sd float64) {
	least, most := int8(0), int8(0)
	for _, a := range t.offset {
		if a != unknown {
			least, most = min(least, a), max(most, a)
		}
	}
	_, e := math.Frexp(max(tableBound*sd, 1.5*t.value(most), -1.5*t.value(least)))
	to := int8(max(-mostExponent, min(e-7, mostExponent)))
	if to == t.unit {
		return
	}
	was := *t
	t.unit = to
	for i := range t.last {
		if was.last[i] != unknown {
			t.last[i] = t.coarse(was.value(was.last[i]))
		}
		if was.offset[i] != unknown {
			t.offset[i] = t.entry(was.value(was.offset[i]))
		}
	}
}

// note learns a value that is d from what is usual, where values scatter by sd.
func (s *lately) note(d, sd, z float64, p *Pace) {
	if s.age < tailPrecise {
		s.age++
	}
	age := 1 / float64(s.age)
	z = max(leastLog, min(z, mostLate))
	rate := max(1/max(lateLeast, min(p.day/2, lateMost)), age)
	late, always := float64(s.late), float64(s.always)
	s.late += float32(rate * (z - late))
	s.side += float32(rate * (within(d/sd, 2) - float64(s.side)))
	apart := (float64(s.late) - always) / lateApart
	s.always += float32(max(spreadRate, age) / (1 + apart*apart) * (z - always))
}

// ratio is r, as far as it is more than so much chance.
func (s *lately) ratio(chance float64) float64 {
	d := float64(s.late) - float64(s.always)
	if side := float64(s.side) / oneSided; d > 0 {
		d *= max(0, 1-side*side)
	}
	if math.Abs(d) <= chance {
		return 1
	}
	return math.Exp(d * (1 - chance*chance/(d*d)))
}

// factor is g of a value of n events. A share has a known scale.
func (s *eventScatter) factor(e *Evidence) float64 {
	known := s.weight >= fewTimes
	if s.squares == 0 || !e.Share && !known {
		return 1
	}
	c, most := overdispersions[0], math.Inf(-1)
	for j, over := range overdispersions {
		if !known || e.Share && j == len(overdispersions)-1 {
			break
		}
		sum, logs := float64(s.sums[j]), float64(s.logs[j])
		l := -sum - logs
		if !e.Share {
			weight := float64(s.weight)
			l = -weight*math.Log(sum/weight+1e-300) - logs
		}
		if l > most {
			c, most = over, l
		}
	}
	return math.Sqrt((1/e.Events + c) / (float64(s.events)/float64(s.squares) + c))
}

// note learns the distance d of the value y, unless there are too few events to tell.
func (s *eventScatter) note(e *Evidence, y, d float64, tells bool) {
	for _, v := range [...]*float32{&s.cases, &s.events, &s.squares, &s.weight} {
		*v *= profileForgetting
	}
	n := e.Events
	if e.Share {
		s.cases += float32(max(0, min((e.Location+e.Scale*y)*n, n)))
	}
	s.events += float32(n)
	s.squares += float32(n * n)
	learns := 0.
	if tells {
		learns = 1
	}
	s.weight += float32(learns)
	for j, c := range overdispersions {
		s.sums[j] = float32(profileForgetting*float64(s.sums[j]) + learns*d*d/(1/n+c))
		s.logs[j] = float32(profileForgetting*float64(s.logs[j]) + learns*math.Log(1/n+c))
	}
}

// stabilised is y of a share, with its distance from m that of the arcsines; the unit of that, and whether
// there are enough trials to tell how it scatters.
func (s *eventScatter) stabilised(e *Evidence, y, m float64) (to, unit float64, tells bool) {
	n := e.Events
	least := .1 / (n + 10)
	q := max(least, min(e.Location+e.Scale*m, 1-least))
	k := (e.Location + e.Scale*y) * n
	arcsine := func(k float64) float64 { return math.Asin(math.Sqrt((max(0, min(k, n)) + .375) / (n + .75))) }
	always := (k + .5) / (n + 1)
	if s.events > 0 {
		always = (float64(s.cases) + .5) / (float64(s.events) + 1)
	}
	always = max(least, min(always, 1-least))
	sd := math.Sqrt(always * (1 - always)) // of one trial
	r := 2 * (arcsine(k) - arcsine(q*n)) * sd
	return m + r/e.Scale, e.Scale / sd, n*always*(1-always) >= 1
}

// A planned value is what the views score and learn of one.
type planned struct {
	y       float64 // y′
	raw     float64 // the value less its offset
	offset  float64
	weekly  bool    // which is that of the hour of the week
	scatter float64 // F
	lately  float64 // r
}

// prepare is what of the value y of a coordinate the views score, where mean and sd are those of the season view
// and n is the weight of the observations before. The plan learns it.
func (s *coordinatePlan) prepare(p *Profile, pace *Pace, n, y, mean, sd float64) planned {
	e, came := &p.evidence, y
	v := planned{scatter: 1, lately: s.lately.ratio(lateChance)}
	hour := 1.
	if p.slots > 0 && pace.hours {
		switch {
		case s.table.slot == 0:
			s.table.begin(p.slot)
		case n > 1:
			s.table.visit(p, p.slot, sd, pace.offsets)
		}
		if pace.offsets {
			v.offset = s.table.offsetOf(p, p.slot)
			v.weekly = p.slots == weekSlots && s.table.offset[p.slot] != unknown
		}
		hour = s.table.factor(p.slot)
	}
	many, unit, tells := 1., 1., true
	if e.Events > 0 {
		if e.Share {
			y, unit, tells = s.events.stabilised(e, y, mean+v.offset)
		}
		many = s.events.factor(e)
	}
	v.scatter = hour * many
	d := y - mean - v.offset
	if n >= fewTimes || e.Share {
		if e.Events > 0 {
			far := min(tableBound*sd*v.scatter*max(1, v.lately)*unit, farthest)
			s.events.note(e, came, within(d/hour*unit, far), tells)
		}
		if tells {
			scatter := sd * v.scatter
			z := math.Log(max(math.Abs(d)/scatter, 1e-9))
			if t := &s.table; t.slot > 0 {
				t.n++
				t.sum += float32(within((y-mean)/many, 1e3*sd))
				t.log += float32(max(leastLog, min(z-math.Log(v.lately), mostLog)))
			}
			s.lately.note(d, scatter, z, pace)
		}
	}
	v.raw, v.y = y, y
	if v.offset != 0 || v.scatter != 1 {
		v.raw, v.y = y-v.offset, within(mean+d/v.scatter, maxStandardized)
	}
	return v
}

// learned is what the views learn in place of a value, if they learn raw in place of the raw one.
func (v *planned) learned(raw, mean float64) float64 {
	if raw == v.raw {
		return v.y
	}
	return within(mean+(raw-mean)/v.scatter, maxStandardized)
}
