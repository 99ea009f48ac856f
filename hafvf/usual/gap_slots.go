package usual

import (
	"encoding/binary"
	"math"
	"math/bits"

	"hafvf/internal/compact"
)

// Fixed settings of weekRates.
const (
	exposureUnit  = 1. / 12   // hours
	knownDay      = .75       // hours after which a slot is known, in a class of one day
	knownDays     = 1.5       // the same in a class of several days
	dayMemory     = 3.        // weeks of memory, in addition to
	classMemory   = 5.        // weeks over the number of days in the class
	groupingHours = 160.      // hours seen when the classes are found, nearly a week
	comparedHours = 12        // minimum hours of the day in which two days of a class were both seen
	sameRates     = 1.5       // ratio up to which two rates are alike
	differentNats = 3.        // evidence that two days differ
	restHours     = 4         // minimum hours of a rest
	restEvents    = 5.        // minimum events in the hours of a rest, if they occurred at the mean rate
	minRate       = 1e-5      // per hour; a lower rate is stored as 0
	rateShift     = 15        // bits of a float32 that a slot does not store
	infiniteRate  = 0xff << 8 // rate of a slot that is infinite
	notCompared   = 1e6       // distance of days that were not seen in the same hours
)

// A gapSlot holds the events of one hour of the week.
type gapSlot struct {
	rate     uint16 // per hour: a float32 without its sign and its last rateShift bits
	exposure uint8  // hours, in units of exposureUnit, with forgetting
}

func (s gapSlot) perHour() float64 { return float64(math.Float32frombits(uint32(s.rate) << rateShift)) }

func (s gapSlot) hours() float64 { return float64(s.exposure) * exposureUnit }

// setRate sets the rate, rounded to the nearest number that a slot can hold.
func (s *gapSlot) setRate(perHour float64) {
	if s.rate = 0; perHour >= minRate {
		s.rate = uint16((math.Float32bits(float32(perHour)) + 1<<(rateShift-1)) >> rateShift)
	}
}

// A weekRates holds the events of each hour of the week, counted from Monday 0:00, and the classes of the days.
type weekRates struct {
	slots   [weekSlots]gapSlot
	classes dayClasses
	grouped bool    // the classes are found; before, they are ownDays or workWeek
	missed  uint8   // bit set of days of the week from Monday, whose last occurrence was part of a silence
	mean    float32 // rate per hour over the seen slots, at the end of the last day
}

var (
	ownDays  = dayClasses{0, 1, 2, 3, 4, 5, 6}
	workWeek = dayClasses{0, 0, 0, 0, 0, 1, 2}
)

// pool returns the rate per hour in slot i, and the hours in which it was seen, over the days of its class. days is the
// number of these days.
func (w *weekRates) pool(i int) (rate, hours float64, days int) {
	class, hour := w.classes[i/daySlots], i%daySlots
	events := 0.
	for day, c := range w.classes {
		if c == class {
			s := &w.slots[day*daySlots+hour]
			x := s.hours()
			events += s.perHour() * x
			hours += x
			days++
		}
	}
	if hours == 0 {
		return 0, 0, days
	}
	return events / hours, hours, days
}

// isKnown reports whether a slot with X = hours is known, in a class with the given number of days.
func isKnown(hours float64, days int) bool {
	if days == 1 {
		return hours >= knownDay
	}
	return hours >= knownDays
}

// knowsWeek reports whether an hour of the day is known on each day of the week.
func (w *weekRates) knowsWeek(hour int) bool {
	for i := hour; i < weekSlots; i += daySlots {
		if _, hours, days := w.pool(i); !isKnown(hours, days) {
			return false
		}
	}
	return true
}

// knowsHour reports whether an hour of the day was seen for long enough over all days of the week.
func (w *weekRates) knowsHour(hour int) bool {
	sum := 0.
	for i := hour; i < weekSlots && sum < knownDays; i += daySlots {
		sum += w.slots[i].hours()
	}
	return sum >= knownDays
}

// knowsDay reports whether knowsHour is true for all hours of the day.
func (w *weekRates) knowsDay() bool {
	for hour := range daySlots {
		if !w.knowsHour(hour) {
			return false
		}
	}
	return true
}

// rate returns the rate of slot i per hour, the hours in which it was seen, and whether it is known. The rate is bounded
// by the rates of the previous and the next hour: a higher rate may come from a burst. If it does not, a silence is
// reported at most an hour later.
func (w *weekRates) rate(i int) (rate, hours float64, known bool) {
	rate, hours, days := w.pool(i)
	if rate > 3 { // a lower rate is within the bound
		day := i - i%daySlots
		prev, _, _ := w.pool(day + (i+daySlots-1)%daySlots)
		next, _, _ := w.pool(day + (i+1)%daySlots)
		rate = min(rate, 1.25*max(prev, next)+3)
	}
	return rate, hours, isKnown(hours, days)
}

// learn teaches slot i that events occurred in a part of an hour. A burst counts only up to a limit, which depends on the
// highest rate in this hour of the day: a working day that replaces a free one is not a burst.
func (w *weekRates) learn(i int, events, hours float64) {
	s := &w.slots[i]
	rate := s.perHour()
	pooled, seen, days := w.pool(i)
	surprising := events > few(pooled)*hours
	switch highest := max(pooled, w.highest(i%daySlots)); {
	case s.exposure > 0 && seen < knownDays && hours > .5: // one hour of two may have a burst
		rate, events = min(rate, few(max(events/hours, highest))), min(events, few(max(rate, highest))*hours)
	case isKnown(seen, days):
		events = min(events, 2*highest*hours+10)
	}
	if events > 0 {
		w.missed &^= 1 << (i / daySlots)
	}
	before := s.hours() * math.Exp(-hours/(dayMemory+classMemory/float64(days)))
	s.setRate((rate*before + events) / (before + hours))
	s.exposure = uint8(min(max(math.Round((before+hours)/exposureUnit), 1), math.MaxUint8))
	w.update(i, surprising)
}

// highest returns the highest rate in an hour of the day on a known day.
func (w *weekRates) highest(hour int) (rate float64) {
	for i := hour; i < weekSlots; i += daySlots {
		if s := w.slots[i]; s.hours() >= knownDays {
			rate = max(rate, s.perHour())
		}
	}
	return rate
}

// few returns the rate up to which an hour agrees with a rate.
func few(rate float64) float64 { return 1.5*rate + 3 }

// sum sets the mean rate. It returns the hours in which all slots were seen.
func (w *weekRates) sum() (hours float64) {
	sum, units, seen := 0., 0, 0
	for _, s := range w.slots {
		sum += s.perHour() // 0 if the slot was never seen
		units += int(s.exposure)
		seen += min(int(s.exposure), 1)
	}
	w.mean = float32(sum / float64(max(seen, 1)))
	return float64(units) * exposureUnit
}

// update updates the classes and the mean rate after slot i has ended.
func (w *weekRates) update(i int, surprising bool) {
	dayEnded, weekEnded := i%daySlots == daySlots-1, i == weekSlots-1
	if w.grouped && !dayEnded && !surprising {
		return
	}
	switch hours := w.sum(); {
	case w.grouped && !weekEnded && !surprising:
	case w.grouped, dayEnded && hours >= groupingHours:
		w.grouped, w.classes = true, w.group()
	case w.missed == 0 && w.neverRests():
		w.classes = workWeek
	default:
		w.classes = ownDays
	}
}

// miss records that a silence includes a day of the week. If it is the second time in a row, the slots of the day become
// unknown: the day may be free now.
func (w *weekRates) miss(day int) {
	slots := w.slots[day*daySlots:][:daySlots]
	usual := 0.
	for hour := range slots {
		rate, _, _ := w.pool(day*daySlots + hour)
		usual += rate
	}
	bit := uint8(1) << day
	switch {
	case usual == 0:
	case w.missed&bit == 0:
		w.missed |= bit
	default:
		w.missed &^= bit
		clear(slots)
		if w.grouped {
			w.classes = w.group()
		}
	}
}

// group returns the classes of the days. There may be seven.
func (w *weekRates) group() dayClasses {
	var distances [len(dayClasses{})][len(dayClasses{})]float64
	for a := range distances {
		for b := range a {
			distances[a][b] = w.distance(a, b)
			distances[b][a] = distances[a][b]
		}
	}
	return joinDays(func(a, b int) float64 { return distances[a][b] }, len(distances))
}

// neverRests reports whether each hour of the day was seen from Monday to Friday, and the stream has no rest at any hour
// of the day.
func (w *weekRates) neverRests() bool {
	var quiet [daySlots]float64 // hours in which an hour of the day was seen without an event
	events, seen := 0., 0.
	for hour := range daySlots {
		n, x := 0., 0.
		for i := hour; i < 5*daySlots; i += daySlots {
			n += w.slots[i].perHour() * w.slots[i].hours()
			x += w.slots[i].hours()
		}
		if x < knownDay {
			return false
		}
		if events, seen = events+n, seen+x; n == 0 {
			quiet[hour] = x
		}
	}
	length, hours := 0, 0.
	for i := range 2 * daySlots { // a rest may include midnight
		if x := quiet[i%daySlots]; x == 0 {
			length, hours = 0, 0
		} else if length, hours = length+1, hours+x; length >= restHours && hours*events/seen >= restEvents {
			return false
		}
	}
	return true
}

// distance returns the largest evidence that two days differ in an hour, in six hours or in the whole day, over
// differentNats.
func (w *weekRates) distance(a, b int) float64 {
	var sums [2][daySlots + 1]daySum // of the hours before an hour
	compared := 0
	for hour := range daySlots {
		s, t := w.slots[a*daySlots+hour], w.slots[b*daySlots+hour]
		sums[0][hour+1], sums[1][hour+1] = sums[0][hour], sums[1][hour]
		if s.exposure > 0 && t.exposure > 0 {
			sums[0][hour+1].add(s)
			sums[1][hour+1].add(t)
			compared++
		}
	}
	if compared < comparedHours {
		return notCompared
	}
	evidence := 0.
	for _, window := range [...]struct{ hours, step int }{{1, 1}, {6, 3}, {daySlots, daySlots}} {
		for first := 0; first+window.hours <= daySlots; first += window.step {
			end := first + window.hours
			evidence = max(evidence, sums[0][end].sub(sums[0][first]).differs(sums[1][end].sub(sums[1][first])))
		}
	}
	return evidence / differentNats
}

// A daySum holds the events of some hours of a day, and how long these were seen.
type daySum struct{ events, hours float64 }

func (s *daySum) add(slot gapSlot) {
	s.events += slot.perHour() * slot.hours()
	s.hours += slot.hours()
}

func (s daySum) sub(t daySum) daySum { return daySum{s.events - t.events, s.hours - t.hours} }

// differs returns the log likelihood ratio of different against equal rates, in nats. The higher rate counts as lower by
// the factor sameRates.
func (s daySum) differs(t daySum) (nats float64) {
	if s.events*t.hours < t.events*s.hours {
		s, t = t, s
	}
	if s.events /= sameRates; s.events*t.hours <= t.events*s.hours {
		return 0
	}
	mean := (s.events + t.events) / (s.hours + t.hours)
	if nats = s.events * math.Log(s.events/(s.hours*mean)); t.events > 0 {
		nats += t.events * math.Log(t.events/(t.hours*mean))
	}
	return nats
}

// form encodes or decodes the rates: the classes, runs of equal exposures, and the rates that are not 0.
func (w *weekRates) form(c *compact.Codec) {
	const perDay = len(dayClasses{})
	classes := 0
	for _, class := range w.classes {
		classes = classes*perDay + int(class)
	}
	compact.Unsigned(c, &classes)
	for day := range w.classes {
		w.classes[perDay-1-day] = uint8(classes % perDay)
		classes /= perDay
	}
	c.Check(classes == 0)
	floats(c, &w.mean)
	for i := 0; i < weekSlots; {
		run, exposure := 1, w.slots[i].exposure
		for c.Writes && i+run < weekSlots && w.slots[i+run].exposure == exposure {
			run++
		}
		pair := [2]byte{byte(run), exposure}
		c.Raw(pair[:])
		if run = int(pair[0]); run == 0 || i+run > weekSlots {
			c.Fail()
			return
		}
		for range run {
			w.slots[i].exposure = pair[1]
			i++
		}
	}
	w.ratesForm(c)
}

// ratesForm encodes or decodes the rates of the seen slots: a bit for each slot whose rate is not 0, and these rates.
func (w *weekRates) ratesForm(c *compact.Codec) {
	var mask [weekSlots / 8]byte
	var rates [2 * weekSlots]byte
	seen, n := 0, 0
	for i := range w.slots {
		s := &w.slots[i]
		if s.rate > 0 {
			mask[seen/8] |= 1 << (seen % 8)
			binary.BigEndian.PutUint16(rates[n:], s.rate)
			n += 2
		}
		if s.exposure > 0 {
			seen++
		}
	}
	if c.Raw(mask[:(seen+7)/8]); c.Writes {
		c.Raw(rates[:n])
		return
	}
	stored := 0 // bytes
	for _, b := range mask {
		stored += 2 * bits.OnesCount8(b)
	}
	c.Raw(rates[:stored])
	seen = 0
	for i := range w.slots {
		s := &w.slots[i]
		if s.exposure == 0 {
			continue
		}
		if mask[seen/8]&(1<<(seen%8)) != 0 {
			s.rate = binary.BigEndian.Uint16(rates[n:])
			n += 2
			c.Check(s.rate > 0 && s.rate < infiniteRate)
		}
		seen++
	}
	c.Check(n == stored)
}

// formerForm decodes rates with one slot per hour of weekdays, of Saturdays and of Sundays. It divides the hours of a
// weekday slot among five days.
func (w *weekRates) formerForm(c *compact.Codec) {
	const slots = 3 * daySlots
	var mask [slots / 8]byte
	c.Raw(mask[:])
	w.classes = workWeek
	for i := range slots {
		if mask[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		var b [4]byte
		c.Raw(b[:])
		rate, exposure := math.Float32frombits(binary.BigEndian.Uint32(b[:])&^0xff), int(b[3])
		c.Check(rate >= 0 && rate <= math.MaxFloat32/2 && exposure > 0)
		first, days := 4+i/daySlots, 1
		if i < daySlots {
			first, days = 0, 5
		}
		for day := range days {
			if part := (exposure + day) / days; part > 0 {
				s := &w.slots[(first+day)*daySlots+i%daySlots]
				s.exposure = uint8(part)
				s.setRate(float64(rate))
			}
		}
	}
	w.sum()
}
