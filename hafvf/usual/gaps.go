package usual

import (
	"encoding/binary"
	"math"
	"time"

	"hafvf/internal/compact"
)

// A GapModel says how improbable it is that a stream of events is silent. Events come at a rate
// λ that is constant within a slot: an hour of the local day, of a weekday, of a Saturday or of
// a Sunday. A slot has seen rate·X events in X hours, both forgotten with about four weeks.
// That is the Gamma posterior of its λ, and no event comes in x hours of the slot with
// probability (X/(X+x))^(rate·X). A gap between two events so has the size
//
//	Λ = −log P(no event) = Σ rateᵢ·Xᵢ·log(1 + g·xᵢ/Xᵢ), over its slots i
//
// in nats: that of an exponential variable of mean 1, where the model holds. g ≤ 1 is the pace
// of late (below). Streams that burst have larger gaps. Therefore the tail of Λ above u = 3 is
// learned: the probability p of a gap there, at least e⁻³, and the sum S of the excesses over u
// of n of them, with a prior of ten of mean 1. Of an exponential excess with that posterior
//
//	P(Λ > u + y) = p·(S/(S+y))ⁿ
//
// One gap in N exceeds the bound of Λ at which that is 1/N.
//
// The slots of a stream are unknown at first: an hour that has not been seen twice on weekdays,
// or once on a Saturday or Sunday, counts as 1/96 of the bound. Therefore what ends in the first
// hours is silent after four days, and a first night or weekend is no silence. A gap that
// includes such hours does not teach the tail.
//
// The first days of a regular stream are another matter: where the mean distance of its gaps from
// their median is below a fifth of the median, over 100 gaps and an hour without a gap of ten medians,
// such an hour counts as the part of the bound that it is of ten medians, as long as that hour is
// known on no day of the week. That ends with the first silence of a stream, or when all hours of the
// day are known: a stream that stops every evening is silent once, and not each night.
//
// Silence is not learned as a part of the rhythm: the time of a gap beyond the bound does not
// count, so that one outage leaves the slots as they are. The events that follow it may be
// fewer: the pace g is that of the last hundred gaps where that is below ¾ of what the slots
// say, a gap beyond the bound among them, at its bound. A rate that falls for good makes one
// silence so. A pace above the slots' does not count: after a burst the calm is no silence. For
// the same reason one hour teaches its slot at most twice the events that the slot expects, and
// ten, once the slot is known. A silence of 1¼ to five bounds after which the stream goes on is
// taken for a pause of its own, and as long a one is no silence in the four weeks after it.
//
// A stream that comes once a day for some time, or on some days of the week, has visits. One that is due after two
// weeks and does not come is a silence within half an hour of its latest usual end.
//
// A GapModel holds settings only.
type GapModel struct {
	calendar *Calendar
	budget   float64       // events
	time     time.Duration // where budget is 0
}

// NewGapModel makes a model with slots of the zone, whose bound one gap in a budget exceeds:
// one of so many events, or, if that is 0, of the events in a time.
func NewGapModel(calendar *Calendar, budget float64, budgetTime time.Duration) *GapModel {
	return &GapModel{calendar, budget, budgetTime}
}

// Settings of a GapModel that aren't the user's.
const (
	leastGaps      = 10         // before which no bound is known
	leastPerBudget = 100.       // gaps in a budget, also of streams that are rare
	weekdayMemory  = 20.        // hours of a slot, after which one weighs 1/e
	weekendMemory  = 8.         // the same, of a Saturday or Sunday
	knownWeekday   = 1.5        // hours after which a slot is known
	knownWeekend   = .75        // the same, of a Saturday or Sunday
	firstHours     = 96.        // that are not known, and make a silence
	beatGaps       = 100        // of a regular stream, and of the memory of its beat
	beatHours      = 1.         // that they take at least, more than those of a burst
	beatSpread     = .2         // of the median, of a regular stream
	beatSilence    = 10.        // medians that are not known, and make a silence of a regular stream
	exposureUnit   = 1. / 12    // hours
	tailFrom       = 3.         // u, nats
	gapTailPrior   = 20.        // n at first
	tailForgetting = .99        // of n and S, per excess
	tailCertain    = 2.5        // standard deviations of S from n, below which the mean is 1
	shareMemory    = .998       // of p, per gap
	paceForgetting = .99        // per gap
	rateKept       = .3         // of the pace, over a gap beyond the bound
	slowPace       = .75        // of the slots' pace, below which g is not 1
	pauseFrom      = 1.25       // bounds, of a pause; a shorter silence is one by chance
	pauseBounds    = 5.         // of the longest pause
	pauseRoom      = 1.1        // of the bound over such a pause
	pauseSeconds   = 28 * 86400 // that it holds
	margin         = 4.6        // nats, beyond one gap per budget
	mostHours      = 8 * 7 * 24 // of a walk over slots
	weekdays       = 5.
)

const (
	slotsPerDay = 24
	slotDays    = 3 // weekday, Saturday, Sunday
	gapSlots    = slotDays * slotsPerDay
)

// A gapSlot is what is known of λ in an hour of the week.
type gapSlot struct {
	rate     float32 // per hour, of 24 bits
	exposure uint8   // X in units of exposureUnit
}

func (s gapSlot) hours() float64 { return float64(s.exposure) * exposureUnit }

// Gaps is what is kept of the gaps of one stream. Its zero value is that before the first
// event.
type Gaps struct {
	slots [gapSlots]gapSlot

	// Of the hour that the last event lies in: events, and hours that the stream was seen.
	events, seen float32

	n                  uint8 // gaps, up to leastGaps
	tailN, tailS       float32
	share              float32 // of the gaps above u
	paceGaps, expected float32 // of late: gaps, and events that the slots expect in them
	pause              float32 // nats
	pauseUntil         int64   // Unix seconds
	beat               regularRhythm
	visits             visits
}

// A regularRhythm is that of a stream in its first days; its zero value is that of any other. The estimates
// are running ones: the k-th gap has the weight 1/k, and at least 1/beatGaps.
type regularRhythm struct {
	gaps                  uint8   // k, up to beatGaps, since one that was as long as a silence
	hours, median, spread float32 // hours that all gaps took since then, and of one gap
}

// learn learns a gap. In place of the median it is a mean in which a gap that is far away counts as one
// at the distance of beatSpread, and of the whole median at first.
func (b *regularRhythm) learn(hours float64) {
	median, spread := float64(b.median), float64(b.spread)
	if b.gaps == 0 || hours >= beatSilence*median || b.gaps < leastGaps && hours <= median/beatSilence {
		*b = regularRhythm{gaps: 1, median: float32(hours)}
		return
	}
	b.gaps, b.hours = min(b.gaps+1, beatGaps), b.hours+float32(hours)
	k, far := float64(b.gaps), median
	if b.gaps > leastGaps {
		far *= beatSpread
	}
	b.spread += float32((math.Abs(hours-median) - spread) / k)
	b.median += float32(max(-far, min(hours-median, far)) / k)
}

// regular reports whether the stream is.
func (b *regularRhythm) regular() bool {
	return b.gaps == beatGaps && b.hours >= beatHours && b.spread < beatSpread*b.median
}

// Next learns that an event at now follows one at last. It returns when the stream became
// silent between them, zero if it did not. If told is not zero, that was known by then, and
// Next returns told.
func (m *GapModel) Next(g *Gaps, last, now, told time.Time) (silent time.Time) {
	if g.n == 0 {
		g.tailN, g.tailS, g.share = gapTailPrior, gapTailPrior, float32(math.Exp(-tailFrom))
		g.paceGaps, g.expected = gapTailPrior, gapTailPrior
	}
	if now.Sub(last) > mostHours*time.Hour && told.IsZero() {
		if told = m.Deadline(g, last); told.IsZero() { // a stream that has shown nothing yet
			*g = Gaps{}
			return time.Time{}
		}
	}
	tail := m.tailBound(g)
	bound := g.bound(last, tail)
	gap := m.size(g, last, now)
	if silent = told; silent.IsZero() && bound > 0 && gap.reaches(bound) {
		silent = m.deadline(g, last, bound)
	}
	if now.Sub(last) >= visitGap {
		if told.IsZero() {
			if silent = m.silentBy(g, last, silent); silent.After(now) {
				silent = time.Time{}
			}
		}
		g.visits.next(m.calendar, last, now, silent)
	}
	g.paceGaps *= paceForgetting
	g.expected *= paceForgetting
	learned := gap
	if !silent.IsZero() {
		if gap.known >= pauseFrom*tail && gap.known <= pauseBounds*tail && gap.unknown == 0 {
			g.pause, g.pauseUntil = float32(pauseRoom*gap.known), now.Unix()+pauseSeconds
		}
		learned = m.size(g, last, silent)
		g.paceGaps *= rateKept
		g.expected *= rateKept
	}
	if !gap.unseen {
		g.paceGaps++
		g.expected += float32(learned.expected)
		g.learnTail(min(learned.nats, tail))
	}
	if g.n == 0 || g.beat.gaps > 0 {
		g.beat.learn(now.Sub(last).Hours())
	}
	g.n = min(g.n+1, leastGaps)
	m.expose(g, last, now, silent)
	if g.beat.gaps > 0 && (!silent.IsZero() || g.knowsDay()) {
		g.beat = regularRhythm{}
	}
	return silent
}

// Deadline is when a stream becomes silent that has spoken last at that time, zero where that
// is not known, or later than in eight weeks.
func (m *GapModel) Deadline(g *Gaps, last time.Time) time.Time {
	if g.n < leastGaps {
		return time.Time{}
	}
	return m.silentBy(g, last, m.deadline(g, last, g.bound(last, m.tailBound(g))))
}

// silentBy is when a stream becomes silent that has come last at a time, where that is at by its hours alone. A visit
// that is due may make it earlier. Between the visits of the first week nothing is silent for four days.
func (m *GapModel) silentBy(g *Gaps, last, at time.Time) time.Time {
	if g.visits.n == 0 {
		return at
	}
	if i, _ := m.slot(last); g.visits.n > 1 && !g.known(2*slotsPerDay+i%slotsPerDay) && at.After(last.Add(visitGap)) {
		if first := last.Add(firstHours * time.Hour); at.Before(first) {
			at = first
		}
	}
	if due := g.visits.deadline(m.calendar, last); at.IsZero() || !due.IsZero() && due.Before(at) {
		return due
	}
	return at
}

// deadline is when the size of a gap from last on reaches the bound.
func (m *GapModel) deadline(g *Gaps, last time.Time, bound float64) (at time.Time) {
	var sum gapSize
	pace := g.pace()
	m.walk(last, last.Add(mostHours*time.Hour), func(from time.Time, i int, hours float64, _ bool) bool {
		next := sum
		next.add(g, i, hours, pace)
		if !next.reaches(bound) {
			sum = next
			return true
		}
		rest := bound*(1-sum.unknown) - sum.known
		if x := g.slots[i].hours(); g.known(i) {
			hours = x * math.Expm1(rest/(g.rate(i)*x)) / pace
		} else {
			hours = rest / bound * g.silentHours(i)
		}
		at = from.Add(time.Duration(hours * float64(time.Hour)))
		return false
	})
	return at
}

// Due is when a stream becomes silent that comes once a day, or on some days of the week, and has come last at that
// time. It is zero of any other stream.
func (m *GapModel) Due(g *Gaps, last time.Time) time.Time { return g.visits.deadline(m.calendar, last) }

// Usual is the mean gap in the hour of a time. Where that is not known it is the median gap of a
// stream that is regular in its first days, which beat reports, and 0 of any other.
func (m *GapModel) Usual(g *Gaps, at time.Time) (gap time.Duration, beat bool) {
	i, _ := m.slot(at)
	rate := float64(g.slots[i].rate)
	switch {
	case !g.known(i) && g.beat.regular():
		return time.Duration(float64(time.Hour) * float64(g.beat.median)), true
	case !g.known(i) || rate < 1./mostHours:
		return 0, false
	}
	return time.Duration(float64(time.Hour) / rate), false
}

// Restart forgets the hour at hand and the visits, after a last event whose time was wrong. It reports whether
// the stream has a bound: without one it begins anew, as nothing has bounded the gap before
// that time.
func (g *Gaps) Restart() {
	if g.events, g.seen, g.visits = 0, 0, (visits{}); g.n < leastGaps {
		*g = Gaps{}
	}
}

// A gapSize is what a gap amounts to.
type gapSize struct {
	nats     float64 // Λ of the hours that have been seen
	known    float64 // Λ of those that are known
	expected float64 // events in the hours that have been seen, by their slots
	unseen   bool    // there are others
	unknown  float64 // of the bound, for the hours that are not known
}

// add adds hours of slot i.
func (s *gapSize) add(g *Gaps, i int, hours, pace float64) {
	x := g.slots[i].hours()
	s.unseen = s.unseen || x == 0
	if x > 0 {
		rate := g.rate(i)
		nats := rate * x * math.Log1p(pace*hours/x)
		s.nats += nats
		s.expected += rate * hours
		if g.known(i) {
			s.known += nats
			return
		}
	}
	s.unknown += hours / g.silentHours(i)
}

// times returns the size of n such gaps.
func (s gapSize) times(n float64) gapSize {
	return gapSize{nats: n * s.nats, known: n * s.known, expected: n * s.expected, unseen: s.unseen, unknown: n * s.unknown}
}

func (s *gapSize) reaches(bound float64) bool { return s.known+bound*s.unknown >= bound }

// silentHours is how many hours as slot i, which is not known, make a silence.
func (g *Gaps) silentHours(i int) float64 {
	if g.beat.regular() && !g.knowsHour(i%slotsPerDay) {
		return beatSilence * float64(g.beat.median)
	}
	return firstHours
}

// knowsHour reports whether an hour of the day is known on any day of the week.
func (g *Gaps) knowsHour(hour int) bool {
	return g.known(hour) || g.known(hour+slotsPerDay) || g.known(hour+2*slotsPerDay)
}

// knowsDay reports whether all hours of the day are known.
func (g *Gaps) knowsDay() bool {
	for hour := range slotsPerDay {
		if !g.knowsHour(hour) {
			return false
		}
	}
	return true
}

// rate is that of slot i, per hour. It is bounded by those before and behind it: a higher one
// may be that of a burst, and if it is not, what ends is told an hour later at most.
func (g *Gaps) rate(i int) float64 {
	day := i - i%slotsPerDay
	before, behind := g.slots[day+(i+slotsPerDay-1)%slotsPerDay], g.slots[day+(i+1)%slotsPerDay]
	return float64(min(g.slots[i].rate, 1.25*max(before.rate, behind.rate)+3))
}

// size returns the size of the gap from one time to another. If the gap is longer than mostHours, size walks over its first
// week, and counts each other whole week as large.
func (m *GapModel) size(g *Gaps, from, to time.Time) (sum gapSize) {
	const week = 7 * secondsOfDay
	pace := g.pace()
	if weeks := (to.Unix() - from.Unix()) / week; weeks > mostHours*3600/week {
		sum = m.size(g, from, from.Add(week*time.Second)).times(float64(weeks))
		from = time.Unix(from.Unix()+weeks*week, int64(from.Nanosecond()))
	}
	m.walk(from, to, func(_ time.Time, i int, hours float64, _ bool) bool {
		sum.add(g, i, hours, pace)
		return true
	})
	return sum
}

// known reports whether slot i has been seen for long enough.
func (g *Gaps) known(i int) bool {
	if i < slotsPerDay {
		return g.slots[i].hours() >= knownWeekday
	}
	return g.slots[i].hours() >= knownWeekend
}

// pace is g.
func (g *Gaps) pace() float64 {
	if pace := float64(g.paceGaps / g.expected); pace < slowPace {
		return pace
	}
	return 1
}

func (g *Gaps) learnTail(nats float64) {
	g.share *= shareMemory
	if nats > tailFrom {
		g.share += 1 - shareMemory
		g.tailN = tailForgetting*g.tailN + 1
		g.tailS = tailForgetting*g.tailS + float32(nats-tailFrom)
	} else if expected := float32(math.Exp(-tailFrom)); g.share < expected/2 {
		// Hardly one is as large: the tail is no longer than that of an exponential.
		g.tailN += expected * (1 - (1-tailForgetting)*g.tailN)
		g.tailS += expected * (1 - (1-tailForgetting)*g.tailS)
	}
}

// bound is the bound of a gap that begins at a time, by that of the tail; 0 where none is known.
func (g *Gaps) bound(last time.Time, tail float64) float64 {
	if g.n < leastGaps {
		return 0
	}
	if last.Unix() < g.pauseUntil {
		return max(tail, float64(g.pause))
	}
	return tail
}

// tailBound is the bound by the tail.
func (m *GapModel) tailBound(g *Gaps) float64 {
	perBudget := m.budget
	if perBudget == 0 {
		perBudget = m.time.Hours() * g.meanRate()
	}
	n := float64(g.tailN)
	share := max(float64(g.share), math.Exp(-tailFrom))
	odds := math.Log(max(perBudget, leastPerBudget)*share) + margin
	sum := float64(g.tailS)
	if sum < n+tailCertain*math.Sqrt(n) {
		sum = n
	}
	return tailFrom + sum*math.Expm1(odds/n)
}

// meanRate is that of the week, per hour, of the slots that have been seen.
func (g *Gaps) meanRate() float64 {
	sum, hours := 0., 0.
	for i, s := range g.slots {
		if s.exposure == 0 {
			continue
		}
		days := 1.
		if i < slotsPerDay {
			days = weekdays
		}
		sum += days * float64(s.rate)
		hours += days
	}
	if hours == 0 {
		return 0
	}
	return sum / hours
}

// expose has the slots learn the gap before an event, up to when it became a silence.
func (m *GapModel) expose(g *Gaps, last, now, silent time.Time) {
	to := now
	if !silent.IsZero() {
		to = silent
	}
	at := -1
	m.walk(last, to, func(_ time.Time, i int, hours float64, ends bool) bool {
		at = i
		if g.seen += float32(hours); ends {
			g.learnHour(i)
		}
		return true
	})
	if silent.IsZero() {
		g.events++
	} else if at >= 0 {
		g.learnHour(at)
	}
}

// learnHour has slot i learn the hour at hand, which is over.
func (g *Gaps) learnHour(i int) {
	events, seen := float64(g.events), min(float64(g.seen), 1)
	g.events, g.seen = 0, 0
	if seen < exposureUnit/2 {
		return
	}
	s := &g.slots[i]
	rate := float64(s.rate)
	switch few := func(rate float64) float64 { return 1.5*rate + 3 }; {
	case s.exposure > 0 && s.hours() < knownWeekday && seen > .5: // one of two hours may be of a burst
		rate, events = min(rate, few(events/seen)), min(events, few(rate)*seen)
	case g.known(i):
		events = min(events, 2*rate*seen+10)
	}
	memory := weekdayMemory
	if i >= slotsPerDay {
		memory = weekendMemory
	}
	before := s.hours() * math.Exp(-seen/memory)
	rate = (rate*before + events) / (before + seen)
	s.rate = math.Float32frombits(math.Float32bits(float32(rate)) &^ 0xff)
	s.exposure = uint8(min(max(math.Round((before+seen)/exposureUnit), 1), math.MaxUint8))
}

// slot is that of a time, and how long it goes on.
func (m *GapModel) slot(t time.Time) (i int, rest time.Duration) {
	hour, minute, second := t.In(m.calendar.Zone()).Clock()
	switch m.calendar.Weekday(t) {
	case time.Saturday:
		i = slotsPerDay
	case time.Sunday:
		i = 2 * slotsPerDay
	}
	into := time.Duration(minute)*time.Minute + time.Duration(second)*time.Second + time.Duration(t.Nanosecond())
	return i + hour, time.Hour - into
}

// walk calls f with the slots from one time to another: where each begins, the hours of it, and
// whether it ends with them. It stops where f returns false.
func (m *GapModel) walk(from, to time.Time, f func(from time.Time, i int, hours float64, ends bool) bool) {
	for from.Before(to) {
		i, rest := m.slot(from)
		step := min(rest, to.Sub(from))
		if !f(from, i, step.Hours(), step == rest) {
			return
		}
		from = from.Add(step)
	}
}

// Bits of the encoded number of gaps say that a beat and visits stand behind the rest.
const (
	hasBeat   = 0x80
	hasVisits = 0x40
)

// Form is how gaps are encoded: a mask of the slots that have been seen, these, and the rest.
func (g *Gaps) Form(c *compact.Codec) {
	word := func(v *uint32) {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], *v)
		c.Raw(b[:])
		*v = binary.BigEndian.Uint32(b[:])
	}
	floats := func(all ...*float32) {
		for _, v := range all {
			bits := math.Float32bits(*v)
			word(&bits)
			*v = math.Float32frombits(bits)
			c.Check(*v >= 0 && *v <= math.MaxFloat32)
		}
	}
	var mask [gapSlots / 8]byte
	for i, s := range g.slots {
		if s.exposure > 0 {
			mask[i/8] |= 1 << (i % 8)
		}
	}
	c.Raw(mask[:])
	for i := range g.slots {
		if s := &g.slots[i]; mask[i/8]&(1<<(i%8)) != 0 {
			bits := math.Float32bits(s.rate) | uint32(s.exposure)
			word(&bits)
			*s = gapSlot{math.Float32frombits(bits &^ 0xff), uint8(bits)}
			c.Check(s.rate >= 0 && s.rate <= math.MaxFloat32 && s.exposure > 0)
		}
	}
	n := g.n
	if g.beat.gaps > 0 {
		n |= hasBeat
	}
	if g.visits.n > 0 {
		n |= hasVisits
	}
	compact.Bytes(c, &n)
	g.n = n &^ (hasBeat | hasVisits)
	floats(&g.events, &g.seen, &g.tailN, &g.tailS, &g.share, &g.paceGaps, &g.expected, &g.pause)
	compact.Signed(c, &g.pauseUntil)
	c.Check(g.n <= leastGaps && (g.n == 0 || g.tailN >= 1 && g.expected > 0))
	if b := &g.beat; n&hasBeat != 0 {
		compact.Bytes(c, &b.gaps)
		floats(&b.hours, &b.median, &b.spread)
		c.Check(b.gaps > 0 && b.gaps <= beatGaps && b.median > 0)
	}
	if n&hasVisits != 0 {
		g.visits.form(c)
	}
}
