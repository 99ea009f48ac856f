package usual

import (
	"encoding/binary"
	"math"

	"hafvf/internal/compact"
)

// Fixed settings of weekRates.
const (
	exposureUnit  = 1. / 12   // hours
	knownHours    = .75       // hours after which a slot is known in a class of one day; 1½ in a larger class
	dayMemory     = 3.        // weeks of memory, in addition to
	classMemory   = 5.        // weeks over the number of days in the class
	groupingHours = 160.      // hours seen when the classes are found, nearly a week
	comparedHours = 12        // minimum hours of the day in which two days of a class were both seen
	sameRates     = 1.5       // ratio up to which two rates are alike
	differentNats = 3.        // evidence that two days differ
	restHours     = 4         // minimum hours of the day without an event, of a stream that rests
	minRate       = 1e-5      // per hour; a lower rate is stored as 0
	rateShift     = 15        // bits of a float32 that a slot does not store
	zeroRate      = 0x6e4e    // below the rate of a slot with minRate; a stored rate is the difference from it, or 0
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
	return events / max(hours, exposureUnit), hours, days
}

// isKnown reports whether a slot with X = hours is known, in a class with the given number of days.
func isKnown(hours float64, days int) bool { return hours >= knownHours*float64(min(days, 2)) }

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
	pooled, seen, days := w.pool(i)
	surprising := events > few(pooled)*hours
	if isKnown(seen, days) {
		events = min(events, 2*max(pooled, w.highest(i%daySlots))*hours+10)
	}
	if events > 0 {
		w.missed &^= 1 << (i / daySlots)
	}
	before := s.hours() * math.Exp(-hours/(dayMemory+classMemory/float64(days)))
	s.setRate((s.perHour()*before + events) / (before + hours))
	s.exposure = uint8(min(max(math.Round((before+hours)/exposureUnit), 1), math.MaxUint8))
	w.update(i, surprising)
}

// highest returns the highest rate in an hour of the day, over the days on which it was seen for 1½ hours.
func (w *weekRates) highest(hour int) (rate float64) {
	for i := hour; i < weekSlots; i += daySlots {
		if s := w.slots[i]; isKnown(s.hours(), 2) {
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
	if dayEnded := i%daySlots == daySlots-1; !dayEnded && !surprising {
		return
	}
	switch hours, weekEnded := w.sum(), i == weekSlots-1; {
	case w.grouped && !weekEnded && !surprising:
	case w.grouped || hours >= groupingHours:
		w.grouped, w.classes = true, groupDays(w.distance, len(w.classes))
	default:
		if w.classes = workWeek; w.missed > 0 || w.rests() {
			w.classes = ownDays
		}
	}
}

// rests reports whether an hour of the day was not seen yet in the class of Monday, or at least restHours of them had no
// event.
func (w *weekRates) rests() bool {
	quiet := 0
	for hour := range daySlots {
		rate, hours, _ := w.pool(hour)
		if hours < knownHours {
			return true
		}
		if rate == 0 {
			quiet++
		}
	}
	return quiet >= restHours
}

// distance returns the largest evidence that two days differ in an hour or in the whole day, over differentNats.
func (w *weekRates) distance(a, b int) float64 {
	var first, second daySum // of the compared hours
	evidence, compared := 0., 0
	for hour := range daySlots {
		s, t := &w.slots[a*daySlots+hour], &w.slots[b*daySlots+hour]
		if s.exposure > 0 && t.exposure > 0 {
			evidence = max(evidence, first.add(s).differs(second.add(t)))
			compared++
		}
	}
	if compared < comparedHours {
		return notCompared
	}
	return max(evidence, first.differs(second)) / differentNats
}

// A daySum holds the events of some hours of a day, and how long these were seen.
type daySum struct{ events, hours float64 }

// add adds a slot to s. It returns the sum of the slot alone.
func (s *daySum) add(slot *gapSlot) daySum {
	x := slot.hours()
	events := slot.perHour() * x
	s.events += events
	s.hours += x
	return daySum{events, x}
}

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

// form encodes or decodes the rates. An exposure is stored as its difference from the previous one.
func (w *weekRates) form(c *compact.Codec) {
	floats(c, &w.mean)
	for day := range w.classes {
		compact.Bytes(c, &w.classes[day])
		c.Check(int(w.classes[day]) < len(w.classes))
	}
	differences := make([]float64, weekSlots)
	exposure := uint8(0)
	for i, s := range w.slots {
		differences[i], exposure = float64(s.exposure-exposure), s.exposure
	}
	c.Pack(differences)
	exposure = 0
	for i := range w.slots {
		s := &w.slots[i]
		c.Check(differences[i] >= 0 && differences[i] <= math.MaxUint8)
		exposure += uint8(differences[i])
		if s.exposure = exposure; exposure > 0 {
			code := max(int(s.rate), zeroRate) - zeroRate
			compact.Unsigned(c, &code)
			c.Check(code >= 0 && code < infiniteRate-zeroRate)
			if s.rate = 0; code > 0 {
				s.rate = uint16(code + zeroRate)
			}
		}
	}
}

// formerForm decodes rates with one slot per hour of weekdays, of Saturdays and of Sundays. It divides the hours of a
// weekday slot among five days.
func (w *weekRates) formerForm(c *compact.Codec) {
	var former [3 * daySlots]gapSlot
	var mask [len(former) / 8]byte
	c.Raw(mask[:])
	for i := range former {
		if mask[i/8]&(1<<(i%8)) > 0 {
			var b [4]byte
			c.Raw(b[:])
			rate := math.Float32frombits(binary.BigEndian.Uint32(b[:]) &^ 0xff)
			c.Check(rate >= 0 && rate <= math.MaxFloat32/2 && b[3] > 0)
			former[i].setRate(float64(rate))
			former[i].exposure = b[3]
		}
	}
	w.classes = workWeek
	for i := range w.slots {
		day := i / daySlots
		s := former[int(w.classes[day])*daySlots+i%daySlots]
		if day < 5 {
			s.exposure = uint8((int(s.exposure) + day) / 5)
		}
		if s.exposure > 0 {
			w.slots[i] = s
		}
	}
	w.sum()
}
