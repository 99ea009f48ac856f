package usual

import (
	"math"
	"math/bits"
)

const (
	minDayHours   = 8  // minimum of hours that two days have in common
	differing     = 1. // q of two days that differ, in addition to
	maxDayShare   = .1 // this part of the largest q
	maxDayClasses = 3  // classes of days
	newDayVisits  = 4  // largest number of an hour's visits after a change of the free days
)

// findFreeDays groups the days of the week by the shapes of their offsets. If there are at least two classes, the days
// outside the largest one become the free days.
func (t *planTable) findFreeDays() {
	if t.week.n == 0 {
		return
	}
	var shapes [7][daySlots]float64
	for day := range shapes {
		t.shape(day, &shapes[day])
	}
	var squares [7][7]float64
	largest, noise := 0., 2*t.week.noise()+1e-12
	for a := range shapes {
		for b := range a {
			n := 0.
			for h := range daySlots {
				if d := shapes[a][h] - shapes[b][h]; !math.IsNaN(d) {
					f, g := t.factor(a*daySlots+h), t.factor(b*daySlots+h)
					squares[a][b] += d * d / (f * g * noise)
					n++
				}
			}
			if n < minDayHours {
				return
			}
			squares[a][b] /= n
			largest = max(largest, squares[a][b])
		}
	}
	classes := groupDays(func(a, b int) float64 {
		return squares[a][b] / (differing + maxDayShare*largest)
	}, maxDayClasses)
	var days [maxDayClasses]uint8
	for day, class := range classes {
		days[class] |= 1 << day
	}
	work := days[0]
	for _, d := range days {
		if bits.OnesCount8(d) > bits.OnesCount8(work) {
			work = d
		}
	}
	const week = 1<<7 - 1
	if work == week || work^week == t.free {
		return
	}
	t.free = work ^ week
	for i, n := range t.hourN {
		t.hourN[i] = min(n, newDayVisits)
	}
	t.weigh()
}

// shape computes the offsets of a day less their line of regression by hour. A NaN means an unknown offset.
func (t *planTable) shape(day int, shape *[daySlots]float64) {
	var n, sum, hours, squares, product float64
	for h := range shape {
		a, b := t.offset[0][day*daySlots+h], t.offset[1][day*daySlots+h]
		if t.weeks != alternating {
			b = a
		}
		if shape[h] = (t.value(a) + t.value(b)) / 2; a == unknown || b == unknown {
			shape[h] = math.NaN()
			continue
		}
		n, sum, hours = n+1, sum+shape[h], hours+float64(h)
		squares, product = squares+float64(h*h), product+float64(h)*shape[h]
	}
	slope := (product - hours*sum/n) / (squares - hours*hours/n + 1e-9)
	for h := range shape {
		shape[h] -= sum/n + slope*(float64(h)-hours/n)
	}
}
