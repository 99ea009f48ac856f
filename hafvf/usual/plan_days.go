package usual

import (
	"math/bits"
	"slices"
)

const (
	minDayHours   = 8  // minimum of hours that two days have in common
	dayNoise      = 4  // unit of q, in ν²
	maxDayShare   = .1 // part of the largest q at which two days do not differ
	newDayVisits  = 4  // largest number of an hour's visits after a change of the free days
	maxDayClasses = 3  // classes of days
)

// findFreeDays groups the days of the week by their offsets. If there are at least two classes, the days outside the
// largest one become the free days.
func (t *planTable) findFreeDays() {
	var q [7][7]float64
	largest, noise := 0., dayNoise*t.week.noise()+1e-12
	for a := range q {
		for b := range a {
			n := 0.
			for i := a * daySlots; i < (a+1)*daySlots; i++ {
				j := i + (b-a)*daySlots
				if t.offset[i] != unknown && t.offset[j] != unknown {
					d := t.value(t.offset[i]) - t.value(t.offset[j])
					q[a][b] += d * d / (t.factor(i) * t.factor(j) * noise)
					n++
				}
			}
			if n < minDayHours {
				return
			}
			q[a][b] /= n
			q[b][a] = q[a][b]
			largest = max(largest, q[a][b])
		}
	}
	var days [maxDayClasses]uint8
	for day, class := range groupDays(func(a, b int) float64 { return q[a][b] / (1 + maxDayShare*largest) }, maxDayClasses) {
		days[class] |= 1 << day
	}
	free := 1<<7 - 1 - slices.MaxFunc(days[:], func(a, b uint8) int { return bits.OnesCount8(a) - bits.OnesCount8(b) })
	if free == 0 || free == t.free {
		return
	}
	t.free = free
	for i, n := range t.hourN {
		t.hourN[i] = min(n, newDayVisits)
	}
	t.weigh()
}
