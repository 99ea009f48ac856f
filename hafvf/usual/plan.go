package usual

import (
	"math"
	"time"
)

// A Plan learns what harmonics cannot represent: offsets by the hour of the week, and the spread of the values by hour,
// by number of events, and recently. It transforms values before the views of a Profile. With m and σ of the season
// view, a value y of n events in slot w, the hour of the week, at hour h of a working day or a free day is scored
// and learned as
//
//	y′ = m + d/F,  d = y − m − o(w),  F = f(h)·g(n)
//
// which has the same spread at all times. The usual range is reported as m + o ± σ·F·r, where r is the recent spread
// over the long-term spread. No score depends on r; it only widens the bound for learning.
//
// Without a plan, F1 is .29 lower on plans_1h.
//
// Offset o (F1 .10 on plans_15min). A visit of a slot has the mean ρ of y − m, less the running mean of the last 24
// visits. A slot stores its last visit l and its offset a, which moves to the median of a, l and ρ: a deviation that
// occurred once is not learned, and one that occurred twice is known at the third time. A slot without two visits uses
// the common part of the visits of the two days before (F1 .03 on plans_15min). With the mean products c₁ of two visits
// that a plan makes similar, c₀ of a visit with itself and cₓ of two visits that need not be similar, and ν² = (c₀ −
// c₁)·min(1, f)²,
//
//	o = a·max(G, K)·a²/(a² + ν²/2)
//	G = ((c₁ − max(0, cₓ))/c₀ − .2)/.3 within 0 … 1   the table repeats itself    F1 .03 on plans_15min
//	K = |a|/ν − 3                      within 0 … 1   this slot alone is clear    F1 .07 on plans_1h
//
// The table stores l up to a limit of 8σ to 16σ, or of 1.5 to three times the largest offset. If l is at the limit and
// ρ is larger on the same side, l counts as ρ, but as at most eight times the limit, and the limit increases to it: two
// large visits are learned like two small ones, while a single outlier does not make the table coarser (F1 .02 on
// plans_15min).
//
// Alternating weeks, for shifts that change each week; no set has them. At the end of a week, a key with G > .5 for
// visits a day apart and G < 1 for visits a week apart begins to store the visits of two weeks. The similar visits of
// c₁ are then two weeks apart, and cₓ is the product of visits one week apart. With 84 pairs, c₁ > .6·c₀ and G > .5,
// each slot has an l and an a in even and in odd weeks, where a begins with the visit of that week and l with the
// previous a. The offsets then use 1 in place of G until G = 0, when even and odd weeks become one table again.
//
// Holidays. On a day that a Calendar replaces by another weekday, each hour of the day has an l and an a of its own.
// Until there are two visits, o is the offset of the weekday. c₀, c₁ and cₓ do not learn visits on holidays.
//
// Days of the month. On a day of a Calendar's MonthDays, o is larger by the mean of the d of such days, and F has the
// factor of their variance; see monthly.
//
// Hours f (F1 .07 on plans_15min). The mean of ln|d/σgr| + .635 over the visits of an hour, with a prior of two visits
// of zero, less the mean of all hours, is multiplied by the share of the differences between hours that is not due to
// chance. The result is ln f. A visit counts as at most e^1.6 times the f of its hour.
//
// Free days are Saturday and Sunday until the offsets of a week have other classes of days (F1 .02 on planted_1h). Two
// days differ by q, the mean over their hours of the squared difference of their a over 4ν²·f·f′, where ν² is (c₀ − c₁)
// of visits a week apart, and f and f′ belong to the two days. At the end of each week, groupDays groups the days by
// the distance q/(1 + q₁/10), where q₁ is the largest q. If it finds more than one class, all days outside the largest
// class are free. After a change, the visits of each hour count as at most four. Steps of more than three hours keep
// Saturday and Sunday: days are compared if any two have eight hours in common.
//
// Events g = √((1/n + c)/(1/n₀ + c)), n₀ = Σn²/Σn, with the c of a grid that maximizes the likelihood of the d. A share
// uses distances of the arcsine, so that 1 of 1 is not a surprise; their scale is known.
//
// Recent spread r. ln r is the mean of ln|d/σF| over half a day, at least 80 observations, less the long-term mean,
// whose learning slows down while they differ (F1 .01 on asd; the recent spread in alerts stays on). It rises only
// as far as the values lie on both sides: a level is no spread (F1 .02 on planted_5min).
//
// Offsets are for steps of a quarter of an hour to six hours, and hours for ten minutes to six hours: with finer steps,
// an hour has too many values. Finer steps use spikes instead, which recur at the same hour of the day. A Plan is
// learned in the precision of its encoding.
type Plan []coordinatePlan

// Fixed settings.
const (
	minAlike   = .2 // limits of G
	maxAlike   = .5
	clearly    = 3.  // start of K, standard deviations of a visit
	shrinkage  = .5  // of offsets, in ν²: the variance of a median of visits
	minMove    = .25 // smallest part of the way of an offset to the median
	meanVisits = 24  // memory of the running mean, visits
	maxPairs   = 672 // memory of the products, pairs of visits
	visitBound = 6.  // largest visit, standard deviations
	tableBound = 8.  // largest entry of the table, standard deviations
	maxGrowth  = 8.  // largest factor of a last visit that was cut

	hourPrior     = 2.    // visits
	maxHourVisits = 50    // memory of an hour, visits
	hourUnit      = 256.  // units of ln f per 1
	meanLog       = -.635 // of ln|z|, for a normal z
	spreadLog     = 1.23  // its variance
	minLog        = -3.
	maxHourLog    = 1. // of an hour
	maxLateLog    = 4. // of the recent spread

	minLateObs = 80.   // observations
	maxLateObs = 1440. // observations
	lateChance = .15   // smaller values of ln r are due to chance
	lateApart  = .3    // ln r at which the long-term spread is learned at half the rate
	oneSided   = .4    // mean of d/σF at which values count as on one side

	// farthest bounds learned values, so that their squares fit into a float32.
	farthest = 1e12

	fewTimes = 30. // observations before a plan is learned
)

const (
	daySlots      = 24
	weekSlots     = 168
	dayHours      = 48          // hours of a working day and of a free day
	weekend       = 1<<5 | 1<<6 // free days until others are found
	unknown       = math.MinInt8
	maxExponent   = 120  // of the unit, in magnitude
	visitUnits    = 4    // units of an encoded last visit
	maxVisitUnits = 31   // largest last visit in these: it is encoded in six bits
	maxHourUnits  = 2047 // largest |ln f| in 1/hourUnit: it is encoded in twelve bits
)

// A coordinatePlan is the plan of one coordinate.
type coordinatePlan struct {
	seen   float64 // the last y′
	lately lately
	events eventScatter
	table  planTable
	spikes spikes
	months monthly
}

// lately tracks the recent and the long-term spread.
type lately struct {
	late, always float32 // recent and long-term mean of ln|d/σF|
	side         float32 // recent mean of d/σF
	age          uint16  // observations, up to tailPrecise
}

// eventScatter learns the spread of values by their numbers of events.
type eventScatter struct {
	cases, events, squares float32                       // Σk of a share, Σn and Σn²
	weight                 float32                       // of the next sums
	sums                   [len(overdispersions)]float32 // Σd²/(1/n + c), by c
	logs                   [len(overdispersions)]float32 // Σln(1/n + c)
}

// overdispersions are the values of c.
var overdispersions = [8]float64{1e-7, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, .1, 1e9}

// MaxEvents bounds Evidence.Events, so that the sum of their squares fits into a float32.
const MaxEvents = 1e15

// Evidence describes an observation in addition to its values.
type Evidence struct {
	// Uncounted is the number of equal values in a row, up to this observation or, if its value differs, up to the
	// previous one, that do not count as repeats: the source gives a value again while it has no newer one.
	Uncounted int
	Events    float64 // events behind each value, at most MaxEvents; 0 means unknown
	// Share means that the value is a share of trials: of Events trials, the part Location + Scale·y are successes.
	Share           bool
	Location, Scale float64
}

// NewPlan returns an empty plan for a stream with the profile state s.
func (p *Profile) NewPlan(s State) Plan {
	plan := make(Plan, p.dim)
	for i := range plan {
		plan[i].seen = p.coordinate(s, i).streak[streakSeen]
	}
	return plan
}

// Prime sets the sums over the values of the warm-up: cases is the number of successes, events the number of trials or
// events, and squares the sum of their squares.
func (s Plan) Prime(cases, events, squares float64) {
	for i := range s {
		s[i].events = eventScatter{cases: float32(cases), events: float32(events), squares: float32(squares)}
	}
}

// ResetRecentSpread sets the recent spread to the long-term spread.
func (s Plan) ResetRecentSpread() {
	for i := range s {
		s[i].lately.late, s[i].lately.side = s[i].lately.always, 0
	}
}

// record learns a value at the distance d from usual, with standard deviation sd and z = ln|d/sd|.
func (s *lately) record(d, sd, z float64, p *Pace) {
	if s.age < tailPrecise {
		s.age++
	}
	age := 1 / float64(s.age)
	z = max(minLog, min(z, maxLateLog))
	rate := max(1/max(minLateObs, min(p.day/2, maxLateObs)), age)
	late, always := float64(s.late), float64(s.always)
	s.late += float32(rate * (z - late))
	s.side += float32(rate * (within(d/sd, 2) - float64(s.side)))
	apart := (float64(s.late) - always) / lateApart
	s.always += float32(max(spreadRate, age) / (1 + apart*apart) * (z - always))
}

// ratio returns r. Values of ln r up to chance give 1, and larger ones are shrunk.
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

// factor returns g for a value of e.Events events. The scale of a share is known.
func (s *eventScatter) factor(e *Evidence) float64 {
	known := s.weight >= fewTimes
	if s.squares == 0 || !e.Share && !known {
		return 1
	}
	c, maxLikelihood := overdispersions[0], math.Inf(-1)
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
		if l > maxLikelihood {
			c, maxLikelihood = over, l
		}
	}
	return math.Sqrt((1/e.Events + c) / (float64(s.events)/float64(s.squares) + c))
}

// record learns the distance d of the value y. If the value is not informative, it updates only the counts of events.
func (s *eventScatter) record(e *Evidence, y, d float64, informative bool) {
	for _, v := range [...]*float32{&s.cases, &s.events, &s.squares, &s.weight} {
		*v *= profileForgetting
	}
	n := e.Events
	if e.Share {
		s.cases += float32(max(0, min((e.Location+e.Scale*y)*n, n)))
	}
	s.events += float32(n)
	s.squares += float32(n * n)
	weight := 0.
	if informative {
		weight = 1
	}
	s.weight += float32(weight)
	for j, c := range overdispersions {
		s.sums[j] = float32(profileForgetting*float64(s.sums[j]) + weight*d*d/(1/n+c))
		s.logs[j] = float32(profileForgetting*float64(s.logs[j]) + weight*math.Log(1/n+c))
	}
}

// stabilize returns the share y with the distance from m replaced by the distance of the arcsines, the unit of this
// distance, and whether there are enough trials to learn the spread.
func (s *eventScatter) stabilize(e *Evidence, y, m float64) (value, unit float64, informative bool) {
	n := e.Events
	minShare := .1 / (n + 10)
	q := max(minShare, min(e.Location+e.Scale*m, 1-minShare))
	k := (e.Location + e.Scale*y) * n
	arcsine := func(k float64) float64 { return math.Asin(math.Sqrt((max(0, min(k, n)) + .375) / (n + .75))) }
	always := (k + .5) / (n + 1)
	if s.events > 0 {
		always = (float64(s.cases) + .5) / (float64(s.events) + 1)
	}
	always = max(minShare, min(always, 1-minShare))
	sd := math.Sqrt(always * (1 - always)) // of a single trial
	r := 2 * (arcsine(k) - arcsine(q*n)) * sd
	return m + r/e.Scale, e.Scale / sd, n*always*(1-always) >= 1
}

// A planned value is the form of a value that the views score and learn.
type planned struct {
	y       float64 // y′
	raw     float64 // value less its offset
	offset  float64
	weekly  bool    // the offset belongs to the hour of the week
	scatter float64 // F
	lately  float64 // r
}

// offset returns the offset that the plan knows for a time.
func (s *coordinatePlan) offset(p *Profile, t time.Time) float64 {
	ph, _ := p.calendar.phase(t)
	return float64(s.months[p.calendar.monthDay(t)].mean) + s.table.offsetOf(p, ph)
}

// prepare transforms the value y of a coordinate for the views, and learns it. mean and sd come from the season view;
// n is the weight of the previous observations.
func (s *coordinatePlan) prepare(p *Profile, pace *Pace, n, y, mean, sd float64) planned {
	e, original := &p.evidence, y
	v := planned{scatter: 1, lately: s.lately.ratio(lateChance)}
	hour := 1.
	if p.slots > 0 && pace.hours {
		switch {
		case s.table.slot == 0:
			s.table.begin(p.phase)
		case n > 1:
			s.table.visit(p, p.phase, sd, pace.offsets)
		}
		if pace.offsets {
			v.offset = s.table.offsetOf(p, p.phase)
			v.weekly = p.slots == weekSlots && *s.table.known(p, p.phase).offset != unknown
		}
		hour = s.table.factor(p.phase.slot())
	}
	ofMonth, monthFactor := s.months.prepare(p.monthDay, y-mean-v.offset, sd, pace.day)
	v.offset += ofMonth
	eventFactor, unit, informative := 1., 1., true
	if e.Events > 0 {
		if e.Share {
			y, unit, informative = s.events.stabilize(e, y, mean+v.offset)
		}
		eventFactor = s.events.factor(e)
	}
	v.scatter = hour * eventFactor * monthFactor
	d := y - mean - v.offset
	if n >= fewTimes || e.Share {
		if e.Events > 0 {
			far := min(tableBound*sd*v.scatter*max(1, v.lately)*unit, farthest)
			s.events.record(e, original, within(d/hour*unit, far), informative)
		}
		if informative {
			scatter := sd * v.scatter
			z := math.Log(max(math.Abs(d)/scatter, 1e-9))
			if t := &s.table; t.slot > 0 {
				t.n++
				t.sum += float32(within((y-mean-ofMonth)/eventFactor, 1e3*sd))
				t.log += float32(max(minLog, min(z-math.Log(v.lately), maxHourLog)))
			}
			s.lately.record(d, scatter, z, pace)
		}
	}
	v.raw, v.y = y, y
	if v.offset != 0 || v.scatter != 1 {
		v.raw, v.y = y-v.offset, within(mean+d/v.scatter, maxStandardized)
	}
	return v
}

// learned returns the y′ to learn if raw is learned in place of v.raw.
func (v *planned) learned(raw, mean float64) float64 {
	if raw == v.raw {
		return v.y
	}
	return within(mean+(raw-mean)/v.scatter, maxStandardized)
}
