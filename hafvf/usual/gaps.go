package usual

import (
	"encoding/binary"
	"math"
	"time"

	"hafvf/internal/compact"
)

// A GapModel computes how improbable a silence of a stream of events is. Events occur at a rate λ that is constant
// within a slot: an hour of the local day on weekdays, on Saturdays or on Sundays. A slot has seen rate·X events in X
// hours, with a memory of about four weeks. This gives a Gamma posterior of λ, and the probability of no event in x
// hours of the slot is (X/(X+x))^(rate·X). Hence a gap between two events has the size
//
//	Λ = −log P(no event) = Σ rateᵢ·Xᵢ·log(1 + g·xᵢ/Xᵢ), over its slots i
//
// in nats, which is exponential with mean 1 if the model is right. g ≤ 1 is the recent pace (below). Bursty streams
// have larger gaps. Therefore the tail of Λ above u = 3 is learned: the probability p of a gap there, at least e⁻³, and
// the sum S of the excesses over u of n gaps, with a prior of twenty gaps of mean 1. For an exponential excess with
// this posterior,
//
//	P(Λ > u + y) = p·(S/(S+y))ⁿ
//
// The bound is the Λ at which this is 1/N: one gap in N exceeds it.
//
// Slots are unknown at first: an hour counts as 1/96 of the bound until it has been seen twice on weekdays, or once on
// a Saturday or Sunday. Therefore a stream that ends in its first hours is silent after four days, and a first night or
// weekend is not a silence. A gap with unknown hours does not teach the tail.
//
// A regular stream is handled differently in its first days. A stream is regular if the mean distance of its gaps from
// their median is below a fifth of the median, over 100 gaps that take at least an hour, without a gap of ten medians.
// Its silence then takes ten medians in hours of the day that are known on no day of the week. This ends with the first
// silence of the stream, or when all hours of the day are known: a stream that stops every evening is reported as
// silent once, and not each night.
//
// Silences are not learned: the part of a gap beyond the bound does not count, so that an outage leaves the slots
// unchanged. After an outage events may be fewer. The pace g is the pace of the last hundred gaps if that is below ¾ of
// the slots' pace; a gap beyond the bound counts as the bound. Thus a rate that falls for good causes one silence. A
// pace above the slots' is not used: the calm after a burst is not a silence. For the same reason one hour teaches its
// slot at most twice the expected events plus ten, once the slot is known. A silence of 1¼ to five bounds after which
// the stream continues is taken for a regular pause: in the following four weeks, a gap of that length is not a
// silence.
//
// A stream that reports once a day for some time, or only on some days of the week, has visits. If a visit is missing
// after two weeks of visits, the stream is silent within half an hour of the latest usual end of the visit.
//
// A GapModel holds settings only.
type GapModel struct {
	calendar *Calendar
	budget   float64       // events
	time     time.Duration // used if budget is 0
}

// NewGapModel returns a model with slots in the calendar's local time. One gap in a budget exceeds its bound. The
// budget is a number of events or, if that is 0, the number of events in budgetTime.
func NewGapModel(calendar *Calendar, budget float64, budgetTime time.Duration) *GapModel {
	return &GapModel{calendar, budget, budgetTime}
}

// Fixed settings of a GapModel.
const (
	minGaps        = 10         // gaps before a bound is known
	minPerBudget   = 100.       // gaps in a budget, also for rare events
	weekdayMemory  = 20.        // hours of a slot, after which one weighs 1/e
	weekendMemory  = 8.         // the same on a Saturday or Sunday
	knownWeekday   = 1.5        // hours after which a slot is known
	knownWeekend   = .75        // the same on a Saturday or Sunday
	firstHours     = 96.        // unknown hours that make a silence
	beatGaps       = 100        // gaps of a regular stream, and the memory of its median
	beatHours      = 1.         // minimum hours of these gaps, longer than a burst
	beatSpread     = .2         // maximum spread of a regular stream, in medians
	beatSilence    = 10.        // medians in unknown hours that make a silence of a regular stream
	exposureUnit   = 1. / 12    // hours
	tailFrom       = 3.         // u, nats
	gapTailPrior   = 20.        // initial n
	tailForgetting = .99        // of n and S, per excess
	tailCertain    = 2.5        // standard deviations of S from n, below which the mean is taken as 1
	shareMemory    = .998       // forgetting of p, per gap
	paceForgetting = .99        // per gap
	paceDecay      = .3         // weight of the previous pace after a gap beyond the bound
	slowPace       = .75        // part of the slots' pace below which g is not 1
	pauseFrom      = 1.25       // shortest pause, in bounds; a shorter silence is due to chance
	pauseBounds    = 5.         // longest pause, in bounds
	pauseRoom      = 1.1        // bound after a pause, in lengths of the pause
	pauseSeconds   = 28 * 86400 // validity of that bound
	margin         = 4.6        // nats, added to the log odds of one gap per budget
	maxHours       = 8 * 7 * 24 // longest walk over slots
	weekdays       = 5.
)

const (
	slotsPerDay = 24
	slotDays    = 3 // weekday, Saturday, Sunday
	gapSlots    = slotDays * slotsPerDay
)

// A gapSlot holds the estimate of λ in an hour of the week.
type gapSlot struct {
	rate     float32 // per hour, of 24 bits
	exposure uint8   // X in units of exposureUnit
}

func (s gapSlot) hours() float64 { return float64(s.exposure) * exposureUnit }

// Gaps is the state of the gaps of one stream. Its zero value is the state before the first event.
type Gaps struct {
	slots [gapSlots]gapSlot

	// The hour of the last event: its events, and the hours for which the stream was observed in it.
	events, seen float32

	n                  uint8 // gaps, up to minGaps
	tailN, tailS       float32
	share              float32 // of the gaps above u
	paceGaps, expected float32 // recent gaps, and the events that the slots expect in them
	pause              float32 // nats
	pauseUntil         int64   // Unix seconds
	beat               regularRhythm
	visits             visits
}

// A regularRhythm describes the gaps of a stream in its first days. Its zero value means that the stream is no longer
// checked. The k-th gap has the weight 1/k, and at least 1/beatGaps.
type regularRhythm struct {
	gaps                  uint8   // k, up to beatGaps, since the last gap that was as long as a silence
	hours, median, spread float32 // hours of all gaps since then, and of one gap
}

// learn learns a gap. median is a running mean in which a distant gap counts as one at the distance of beatSpread
// medians, or of a whole median during the first minGaps gaps.
func (b *regularRhythm) learn(hours float64) {
	median, spread := float64(b.median), float64(b.spread)
	if b.gaps == 0 || hours >= beatSilence*median || b.gaps < minGaps && hours <= median/beatSilence {
		*b = regularRhythm{gaps: 1, median: float32(hours)}
		return
	}
	b.gaps, b.hours = min(b.gaps+1, beatGaps), b.hours+float32(hours)
	k, far := float64(b.gaps), median
	if b.gaps > minGaps {
		far *= beatSpread
	}
	b.spread += float32((math.Abs(hours-median) - spread) / k)
	b.median += float32(max(-far, min(hours-median, far)) / k)
}

// regular reports whether the stream is regular.
func (b *regularRhythm) regular() bool {
	return b.gaps == beatGaps && b.hours >= beatHours && b.spread < beatSpread*b.median
}

// Observe learns that an event at now follows one at last. It returns the time at which the stream became silent
// between them, or zero if it did not. A reported time that is not zero is the silence that a caller has already
// reported; Observe returns it unchanged.
func (m *GapModel) Observe(g *Gaps, last, now, reported time.Time) (silent time.Time) {
	if g.n == 0 {
		g.tailN, g.tailS, g.share = gapTailPrior, gapTailPrior, float32(math.Exp(-tailFrom))
		g.paceGaps, g.expected = gapTailPrior, gapTailPrior
	}
	if now.Sub(last) > maxHours*time.Hour && reported.IsZero() {
		if reported = m.Deadline(g, last); reported.IsZero() { // the stream has no bound yet
			*g = Gaps{}
			return time.Time{}
		}
	}
	tail := m.tailBound(g)
	bound := g.bound(last, tail)
	gap := m.size(g, last, now)
	if silent = reported; silent.IsZero() && bound > 0 && gap.reaches(bound) {
		silent = m.deadline(g, last, bound)
	}
	if now.Sub(last) >= visitGap {
		if reported.IsZero() {
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
		g.paceGaps *= paceDecay
		g.expected *= paceDecay
	}
	if !gap.unseen {
		g.paceGaps++
		g.expected += float32(learned.expected)
		g.learnTail(min(learned.nats, tail))
	}
	if g.n == 0 || g.beat.gaps > 0 {
		g.beat.learn(now.Sub(last).Hours())
	}
	g.n = min(g.n+1, minGaps)
	m.expose(g, last, now, silent)
	if g.beat.gaps > 0 && (!silent.IsZero() || g.knowsDay()) {
		g.beat = regularRhythm{}
	}
	return silent
}

// Deadline returns the time at which a stream with the last event at last becomes silent. It is zero if that is
// unknown, or later than eight weeks after last.
func (m *GapModel) Deadline(g *Gaps, last time.Time) time.Time {
	if g.n < minGaps {
		return time.Time{}
	}
	return m.silentBy(g, last, m.deadline(g, last, g.bound(last, m.tailBound(g))))
}

// silentBy returns the time at which a stream with the last event at last becomes silent. t is that time by the slots
// alone; a visit that is due may make it earlier. Between the visits of the first week, no gap is silent for four days.
func (m *GapModel) silentBy(g *Gaps, last, t time.Time) time.Time {
	if g.visits.n == 0 {
		return t
	}
	if i, _ := m.slot(last); g.visits.n > 1 && !g.known(2*slotsPerDay+i%slotsPerDay) && t.After(last.Add(visitGap)) {
		if first := last.Add(firstHours * time.Hour); t.Before(first) {
			t = first
		}
	}
	if due := g.visits.deadline(m.calendar, last); t.IsZero() || !due.IsZero() && due.Before(t) {
		return due
	}
	return t
}

// deadline returns the time at which the size of a gap from last on reaches bound.
func (m *GapModel) deadline(g *Gaps, last time.Time, bound float64) (t time.Time) {
	var sum gapSize
	pace := g.pace()
	m.walk(last, last.Add(maxHours*time.Hour), func(from time.Time, i int, hours float64, _ bool) bool {
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
		t = from.Add(time.Duration(hours * float64(time.Hour)))
		return false
	})
	return t
}

// Due returns the time at which a missing visit makes a stream with the last event at last silent. It is zero if no
// visit is expected within a week, as for a stream that does not report once a day or on some days of the week.
func (m *GapModel) Due(g *Gaps, last time.Time) time.Time { return g.visits.deadline(m.calendar, last) }

// Usual returns the mean gap in the hour of t. If the hour is unknown, it returns the median gap if the stream is
// regular in its first days, and beat is true. It returns 0 if neither is known, or the mean gap is over eight weeks.
func (m *GapModel) Usual(g *Gaps, t time.Time) (gap time.Duration, beat bool) {
	i, _ := m.slot(t)
	rate := float64(g.slots[i].rate)
	switch {
	case !g.known(i) && g.beat.regular():
		return time.Duration(float64(time.Hour) * float64(g.beat.median)), true
	case !g.known(i) || rate < 1./maxHours:
		return 0, false
	}
	return time.Duration(float64(time.Hour) / rate), false
}

// Restart forgets the current hour and the visits, for a caller whose last event had a wrong time. If the stream has no
// bound yet, Restart resets all of g, because nothing has bounded the gap before that time.
func (g *Gaps) Restart() {
	if g.events, g.seen, g.visits = 0, 0, (visits{}); g.n < minGaps {
		*g = Gaps{}
	}
}

// A gapSize is the size of a gap.
type gapSize struct {
	nats     float64 // Λ of the hours that have been seen
	known    float64 // Λ of the known hours
	expected float64 // events that the slots expect in the seen hours
	unseen   bool    // the gap has hours that were never seen
	unknown  float64 // part of the bound for the hours that are not known
}

// add adds hours of slot i to s.
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

// silentHours returns the hours of a silence in the unknown slot i.
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

// rate returns the rate of slot i per hour. It is bounded by the rates of the previous and the next hour: a higher rate
// may come from a burst. If it is not, a silence is reported at most an hour later.
func (g *Gaps) rate(i int) float64 {
	day := i - i%slotsPerDay
	prev, next := g.slots[day+(i+slotsPerDay-1)%slotsPerDay], g.slots[day+(i+1)%slotsPerDay]
	return float64(min(g.slots[i].rate, 1.25*max(prev.rate, next.rate)+3))
}

// size returns the size of the gap between two times. If the gap is longer than maxHours, size walks over its first
// week and multiplies that size by the number of whole weeks.
func (m *GapModel) size(g *Gaps, from, end time.Time) (sum gapSize) {
	const week = 7 * secondsOfDay
	pace := g.pace()
	if weeks := (end.Unix() - from.Unix()) / week; weeks > maxHours*3600/week {
		sum = m.size(g, from, from.Add(week*time.Second)).times(float64(weeks))
		from = time.Unix(from.Unix()+weeks*week, int64(from.Nanosecond()))
	}
	m.walk(from, end, func(_ time.Time, i int, hours float64, _ bool) bool {
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

// pace returns g.
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
		// Hardly any gap is as large: the tail is no longer than an exponential one.
		g.tailN += expected * (1 - (1-tailForgetting)*g.tailN)
		g.tailS += expected * (1 - (1-tailForgetting)*g.tailS)
	}
}

// bound returns the bound of a gap that begins at last, or 0 if it is unknown. tail is the bound of the tail.
func (g *Gaps) bound(last time.Time, tail float64) float64 {
	if g.n < minGaps {
		return 0
	}
	if last.Unix() < g.pauseUntil {
		return max(tail, float64(g.pause))
	}
	return tail
}

// tailBound returns the bound of the tail, the u + y at which one gap in a budget exceeds it.
func (m *GapModel) tailBound(g *Gaps) float64 {
	perBudget := m.budget
	if perBudget == 0 {
		perBudget = m.time.Hours() * g.meanRate()
	}
	n := float64(g.tailN)
	share := max(float64(g.share), math.Exp(-tailFrom))
	odds := math.Log(max(perBudget, minPerBudget)*share) + margin
	sum := float64(g.tailS)
	if sum < n+tailCertain*math.Sqrt(n) {
		sum = n
	}
	return tailFrom + sum*math.Expm1(odds/n)
}

// meanRate returns the mean rate per hour over the hours of the week that have been seen.
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

// expose teaches the slots the gap before an event or, if it became a silence, its part before silent.
func (m *GapModel) expose(g *Gaps, last, now, silent time.Time) {
	end := now
	if !silent.IsZero() {
		end = silent
	}
	slot := -1
	m.walk(last, end, func(_ time.Time, i int, hours float64, ends bool) bool {
		slot = i
		if g.seen += float32(hours); ends {
			g.learnHour(i)
		}
		return true
	})
	if silent.IsZero() {
		g.events++
	} else if slot >= 0 {
		g.learnHour(slot)
	}
}

// learnHour teaches slot i the current hour, which has ended.
func (g *Gaps) learnHour(i int) {
	events, seen := float64(g.events), min(float64(g.seen), 1)
	g.events, g.seen = 0, 0
	if seen < exposureUnit/2 {
		return
	}
	s := &g.slots[i]
	rate := float64(s.rate)
	switch few := func(rate float64) float64 { return 1.5*rate + 3 }; {
	case s.exposure > 0 && s.hours() < knownWeekday && seen > .5: // one hour of two may have a burst
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

// slot returns the slot of t, and how long it lasts from t on.
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

// walk calls f for each slot between two times, with the start, the slot, the hours in it, and whether the slot ends
// with them. It stops if f returns false.
func (m *GapModel) walk(from, end time.Time, f func(from time.Time, i int, hours float64, ends bool) bool) {
	for from.Before(end) {
		i, rest := m.slot(from)
		step := min(rest, end.Sub(from))
		if !f(from, i, step.Hours(), step == rest) {
			return
		}
		from = from.Add(step)
	}
}

// Bits of the encoded n: a beat, or visits, follow after the rest.
const (
	hasBeat   = 0x80
	hasVisits = 0x40
)

// Append appends the encoded gaps to b.
func (g *Gaps) Append(b []byte) []byte { return compact.Append(b, g.form) }

// Decode decodes gaps from the front of b. It returns the rest of b.
func (g *Gaps) Decode(b []byte) (rest []byte, err error) { return compact.Front(b, g.form) }

// form encodes or decodes gaps: a bit mask of the slots that have been seen, these slots, and the rest.
func (g *Gaps) form(c *compact.Codec) {
	word := func(v *uint32) {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], *v)
		c.Raw(b[:])
		*v = binary.BigEndian.Uint32(b[:])
	}
	floats := func(values ...*float32) {
		for _, v := range values {
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
	c.Check(g.n <= minGaps && (g.n == 0 || g.tailN >= 1 && g.expected > 0))
	if b := &g.beat; n&hasBeat != 0 {
		compact.Bytes(c, &b.gaps)
		floats(&b.hours, &b.median, &b.spread)
		c.Check(b.gaps > 0 && b.gaps <= beatGaps && b.median > 0)
	}
	if n&hasVisits != 0 {
		g.visits.form(c)
	}
}
