package usual

import (
	"encoding/binary"
	"math"
	"time"

	"hafvf/internal/compact"
)

// A GapModel computes how improbable a silence of a stream of events is. Events occur at a rate λ that is constant
// within a slot: an hour of the local week, in a class of days. A slot has seen rate·X events in X hours, summed over
// the days of its class, with the memory below. This gives a Gamma posterior of λ, and the probability of no event in x
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
// A class has the days of the week that are alike. The model finds the classes at the end of a day when the X of all
// hours of the week sum up to 160 hours, so in about a week. It finds them again at the end of each week (Sunday), and
// after an hour with more than 1½·rate + 3 events per hour. For two days with a and b events in X and Y hours and
// a/X ≥ b/Y, the evidence that they differ is, with c = a/1.5 and the common rate r = (c + b)/(X + Y),
//
//	c·log(c/(X·r)) + b·log(b/(Y·r)) nats, or 0 if c/X ≤ b/Y
//
// Thus rates whose ratio is below 1.5 are alike. The distance of two days is the largest evidence of an hour and of
// the day, over 3 nats. Only hours in which both days were seen count; days with less than twelve such hours differ.
// Average linkage joins classes while their mean distance is below 1. In a class of n days, an hour weighs 1/e after
// 3 + 5/n weeks: after four weeks in a class of five days, after eight on a single day.
//
// Before, each day is a class of its own. At the end of a day, Monday to Friday form a class if each hour of the day was
// seen in them for 45 minutes, at most three of these hours had no event, and no silence included a whole day.
//
// Slots are unknown at first: an hour counts as 1/96 of the bound until its X is 45 minutes, or 1½ hours in a class of
// several days. Therefore a stream that ends in its first hours is silent after four days, and a first night or free
// day is not a silence if the stream rests. A gap with hours that were never seen does not teach the tail, with one
// exception: while each day is a class of its own, such a gap teaches it as if all days formed one class.
//
// A regular stream is handled differently in its first days. A stream is regular if the mean distance of its gaps from
// their median is below a fifth of the median, over 100 gaps that take at least an hour, without a gap of ten medians.
// Its silence then takes ten medians in unknown hours. This ends with the first silence, two days after the last such
// gap, or when the classes are found: a stream that stops every evening is reported as silent once, and not each night.
//
// Silences are not learned: the part of a gap beyond the bound does not count, so that an outage leaves the slots
// unchanged. After an outage events may be fewer. The pace g is the pace of the last hundred gaps if that is below ¾ of
// the slots' pace; a gap beyond the bound counts as the bound. Thus a rate that falls for good causes one silence. A
// pace above the slots' is not used: the calm after a burst is not a silence. For the same reason one hour teaches its
// slot at most ten events more than twice the events at the highest rate, once the slot is known. The highest rate is
// the maximum of the slot's rate and the rates of this hour of the day on the days that were seen in it for 1½ hours.
//
// A silence of 1¼ to five bounds after which the stream continues is taken for a regular pause: in the following four
// weeks, a gap of that length is not a silence. If silences include a day of the week from 0 to 24 h twice, without an
// event on this day in between, its slots become unknown: a new free day is a silence twice.
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
	firstHours     = 96.        // unknown hours that make a silence
	beatGaps       = 100        // gaps of a regular stream, and the memory of its median
	beatHours      = 1.         // minimum hours of these gaps, longer than a burst
	beatSpread     = .2         // maximum spread of a regular stream, in medians
	beatEnds       = 48.        // hours of these gaps after which the stream is no longer checked
	beatSilence    = 10.        // medians in unknown hours that make a silence of a regular stream
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
)

// Gaps is the state of the gaps of one stream. Its zero value is the state before the first event.
type Gaps struct {
	weekRates

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
		g.paceGaps, g.expected, g.classes = gapTailPrior, gapTailPrior, ownDays
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
	} else if silent.IsZero() && g.classes == ownDays {
		g.classes = dayClasses{} // else the tail would have learned no night when the classes are found
		if learned = m.size(g, last, now); !learned.unseen {
			g.learnTail(min(learned.nats, tail))
		}
		g.classes = ownDays
	}
	if g.n == 0 || g.beat.gaps > 0 {
		g.beat.learn(now.Sub(last).Hours())
	}
	g.n = min(g.n+1, minGaps)
	m.expose(g, last, now, silent)
	if !silent.IsZero() {
		m.miss(g, last, now)
	}
	if g.beat.gaps > 0 && (!silent.IsZero() || g.grouped || g.beat.hours >= beatEnds) {
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
	if g.visits.n > 1 && !g.grouped && t.After(last.Add(visitGap)) {
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
		if rate, x, known := g.rate(i); known {
			hours = x * math.Expm1(rest/(rate*x)) / pace
		} else {
			hours = rest / bound * g.silentHours()
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
	ph, _ := m.calendar.phase(t)
	rate, hours, days := g.pool(ph.slot())
	switch known := isKnown(hours, days); {
	case !known && g.beat.regular():
		return time.Duration(float64(time.Hour) * float64(g.beat.median)), true
	case !known || rate < 1./maxHours:
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
	rate, x, known := g.rate(i)
	s.unseen = s.unseen || x == 0
	if x > 0 {
		nats := rate * x * math.Log1p(pace*hours/x)
		s.nats += nats
		s.expected += rate * hours
		if known {
			s.known += nats
			return
		}
	}
	s.unknown += hours / g.silentHours()
}

// times returns the size of n such gaps.
func (s gapSize) times(n float64) gapSize {
	return gapSize{nats: n * s.nats, known: n * s.known, expected: n * s.expected, unseen: s.unseen, unknown: n * s.unknown}
}

func (s *gapSize) reaches(bound float64) bool { return s.known+bound*s.unknown >= bound }

// silentHours returns the hours of a silence in unknown slots.
func (g *Gaps) silentHours() float64 {
	if g.beat.regular() {
		return beatSilence * float64(g.beat.median)
	}
	return firstHours
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
		perBudget = m.time.Hours() * float64(g.mean)
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

// miss records the local days that are entirely in the first week of a silence. If a day is missing for the second time
// in a row, its slots become unknown: the day may be free now.
func (m *GapModel) miss(g *Gaps, last, now time.Time) {
	m.walk(last, now, func(from time.Time, i int, _ float64, ends bool) bool {
		day, hours := i/daySlots, from.Sub(last).Hours()
		if ends && i%daySlots == daySlots-1 && hours >= daySlots-1 {
			if g.missed ^= 1 << day; g.missed&(1<<day) == 0 {
				clear(g.slots[day*daySlots:][:daySlots])
			}
		}
		return hours < weekSlots
	})
	if g.grouped {
		g.classes = groupDays(g.distance, len(g.classes))
	}
}

// learnHour teaches slot i the current hour, which has ended.
func (g *Gaps) learnHour(i int) {
	events, seen := float64(g.events), min(float64(g.seen), 1)
	g.events, g.seen = 0, 0
	if seen < exposureUnit/2 {
		return
	}
	g.learn(i, events, seen)
}

// walk calls f for each slot between two times, with the start, the slot, the hours in it, and whether the slot ends
// with them. It stops if f returns false.
func (m *GapModel) walk(from, end time.Time, f func(from time.Time, i int, hours float64, ends bool) bool) {
	for from.Before(end) {
		ph, rest := m.calendar.phase(from)
		step := min(rest, end.Sub(from))
		if !f(from, ph.slot(), step.Hours(), step == rest) {
			return
		}
		from = from.Add(step)
	}
}

// Append appends the encoded gaps to b.
func (g *Gaps) Append(b []byte) []byte { return compact.Append(b, g.form) }

// Decode decodes gaps from the front of b. It returns the rest of b.
func (g *Gaps) Decode(b []byte) (rest []byte, err error) { return compact.Front(b, g.form) }

// DecodeFormer is Decode for gaps with slots of weekdays, Saturdays and Sundays.
func (g *Gaps) DecodeFormer(b []byte) (rest []byte, err error) { return compact.Front(b, g.formerForm) }

// form encodes or decodes gaps.
func (g *Gaps) form(c *compact.Codec) {
	hasBeat, hasVisits := g.beat.gaps > 0, g.visits.n > 0
	compact.Bytes(c, &g.n)
	c.Bits(&hasBeat, &hasVisits, &g.grouped)
	compact.Bytes(c, &g.missed)
	g.weekRates.form(c)
	g.restForm(c, hasBeat, hasVisits)
}

// formerForm decodes gaps with slots of weekdays, Saturdays and Sundays.
func (g *Gaps) formerForm(c *compact.Codec) {
	const hasBeat, hasVisits = 0x80, 0x40 // bits of the encoded n
	*g = Gaps{}
	g.weekRates.formerForm(c)
	compact.Bytes(c, &g.n)
	n := g.n
	g.n &^= hasBeat | hasVisits
	g.restForm(c, n&hasBeat != 0, n&hasVisits != 0)
}

// restForm encodes or decodes the gaps except for the slots.
func (g *Gaps) restForm(c *compact.Codec, hasBeat, hasVisits bool) {
	floats(c, &g.events, &g.seen, &g.tailN, &g.tailS, &g.share, &g.paceGaps, &g.expected, &g.pause)
	compact.Signed(c, &g.pauseUntil)
	c.Check(g.n <= minGaps && (g.n == 0 || g.tailN >= 1 && g.expected > 0))
	if b := &g.beat; hasBeat {
		compact.Bytes(c, &b.gaps)
		floats(c, &b.hours, &b.median, &b.spread)
		c.Check(b.gaps > 0 && b.gaps <= beatGaps && b.median > 0)
	}
	if hasVisits {
		g.visits.form(c)
	}
}

// floats encodes or decodes numbers that are finite and not negative.
func floats(c *compact.Codec, values ...*float32) {
	for _, v := range values {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], math.Float32bits(*v))
		c.Raw(b[:])
		*v = math.Float32frombits(binary.BigEndian.Uint32(b[:]))
		c.Check(*v >= 0 && *v <= math.MaxFloat32)
	}
}
