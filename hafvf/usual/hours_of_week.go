package usual

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// HoursOfWeek stores the last usual value of each hour of the week. Plan derives a plan from it. Its zero value is
// empty.
type HoursOfWeek struct {
	first, last time.Time
	mean, sd    [weekSlots]float32
	known       [weekSlots]bool
}

// Add records the usual mean and standard deviation at t, in the hour of the week of zone. Calls must be in order of
// time. A zero t, a NaN, and an infinite sd are ignored.
func (w *HoursOfWeek) Add(zone *time.Location, t time.Time, mean, sd float64) {
	if t.IsZero() || math.IsNaN(mean) || math.IsInf(sd, 0) || math.IsNaN(sd) {
		return
	}
	if w.last = t; w.first.IsZero() {
		w.first = t
	}
	ph, _ := (&Calendar{zone: zone}).phase(t)
	slot := ph.slot()
	w.mean[slot], w.sd[slot], w.known[slot] = float32(mean), float32(sd), true
}

const (
	planTime  = 14 * 24 * time.Hour // minimum time before Plan returns a plan
	planLevel = 3.                  // minimum distance of two levels, in standard deviations
	planGap   = .5                  // minimum gap between the nearest hours of two levels, as a part of their distance
)

// Plan returns the hours of the higher of two levels, such as "Mon–Fri 06–22, Sat 06–14". It is empty if some hour of
// the week is unknown, less than two weeks have passed, or there are no two levels more than three standard
// deviations apart.
func (w *HoursOfWeek) Plan() string {
	if slices.Contains(w.known[:], false) || w.last.Sub(w.first) < planTime {
		return ""
	}
	mean, sd := slices.Sorted(slices.Values(w.mean[:])), slices.Sorted(slices.Values(w.sd[:]))
	split := 0 // index in mean above the largest gap
	for i := 1; i < weekSlots; i++ {
		if split == 0 || mean[i]-mean[i-1] > mean[split]-mean[split-1] {
			split = i
		}
	}
	apart := float64(mean[(split+weekSlots)/2] - mean[split/2]) // of the medians of the two levels
	if gap := float64(mean[split] - mean[split-1]); apart <= planLevel*float64(sd[weekSlots/2]) || gap < planGap*apart {
		return ""
	}
	var days [7]string
	for day := range days {
		var hours []string
		for h := 0; h < daySlots; h++ {
			from := h
			for h < daySlots && w.mean[day*daySlots+h] >= mean[split] {
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
