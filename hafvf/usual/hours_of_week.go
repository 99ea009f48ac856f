package usual

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// HoursOfWeek is what was usual last in each hour of the week. From it follows the plan that a stream shows.
type HoursOfWeek struct {
	first, last time.Time
	mean, sd    [weekSlots]float32
	known       [weekSlots]bool
}

// Add notes what was usual at a time, by the clock of the zone. Times ascend.
func (w *HoursOfWeek) Add(zone *time.Location, at time.Time, mean, sd float64) {
	if at.IsZero() || math.IsNaN(mean) || math.IsInf(sd, 0) || math.IsNaN(sd) {
		return
	}
	if w.last = at; w.first.IsZero() {
		w.first = at
	}
	slot := slotOf(&Calendar{zone: zone}, at)
	w.mean[slot], w.sd[slot], w.known[slot] = float32(mean), float32(sd), true
}

const (
	planTime  = 14 * 24 * time.Hour // before a plan is shown
	planLevel = 3.                  // standard deviations between two levels
	planGap   = .5                  // of the distance of the levels, between the nearest hours of them
)

// Plan are the hours of the higher one of two levels, as Mon–Fri 06–22, Sat 06–14. It is empty if there are not
// two levels that are more than three standard deviations apart, or two weeks have not passed.
func (w *HoursOfWeek) Plan() string {
	if slices.Contains(w.known[:], false) || w.last.Sub(w.first) < planTime {
		return ""
	}
	mean, sd := slices.Clone(w.mean[:]), slices.Clone(w.sd[:])
	slices.Sort(mean)
	slices.Sort(sd)
	at := 0 // of the largest gap
	for i := 1; i < weekSlots; i++ {
		if at == 0 || mean[i]-mean[i-1] > mean[at]-mean[at-1] {
			at = i
		}
	}
	level := func(of []float32) (sum float64) {
		for _, v := range of {
			sum += float64(v) / float64(len(of))
		}
		return sum
	}
	apart := level(mean[at:]) - level(mean[:at])
	if gap := float64(mean[at] - mean[at-1]); apart <= planLevel*float64(sd[weekSlots/2]) || gap < planGap*apart {
		return ""
	}
	var days [7]string
	for day := range days {
		var hours []string
		for h := 0; h < daySlots; h++ {
			from := h
			for h < daySlots && w.mean[day*daySlots+h] >= mean[at] {
				h++
			}
			switch h - from {
			case 0:
			case 1:
				hours = append(hours, fmt.Sprintf("%02d:00", from))
			default:
				hours = append(hours, fmt.Sprintf("%02d–%02d", from, h))
			}
		}
		days[day] = strings.Join(hours, " ")
	}
	names := [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	var parts []string
	for day := 0; day < len(days); day++ {
		from := day
		for day+1 < len(days) && days[day+1] == days[from] {
			day++
		}
		if days[from] == "" {
			continue
		}
		name := names[from]
		if day > from {
			name += "–" + names[day]
		}
		parts = append(parts, name+" "+days[from])
	}
	return strings.Join(parts, ", ")
}
