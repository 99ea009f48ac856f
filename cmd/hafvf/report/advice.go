package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/internal/message"
	"hafvf/pipeline"
)

// habits are how the alarms of a key come.
type habits struct {
	hours      [24]uint16 // by hour of the day
	changes    int
	up, down   int
	sized      int // with a usual value to compare with
	small      int // less than a tenth away from it
	noveltyish int // novelties and outliers
}

// poorFitAdvice says whether the family does not fit, and what may fit better.
func poorFitAdvice(f *pipeline.Values) string {
	share := f.PoorFit()
	if share == 0 {
		return ""
	}
	try := "model.season"
	switch {
	case f.Negative:
	case !f.Fractions:
		try = "model.family: poisson, model.scale: log1p or " + try
	case f.Zero:
		try = "model.scale: log1p or " + try
	default:
		try = "model.scale: log or " + try
	}
	return fmt.Sprintf("%.0f %% of its records are outliers, so the family does not fit: look whether %s does.", 100*share, try)
}

func (h *habits) note(a *output.Alert, kind int, zone *time.Location) {
	if hour := a.Time.In(zone).Hour(); !a.Time.IsZero() && h.hours[hour] < math.MaxUint16 {
		h.hours[hour]++
	}
	from, to := output.First(a.Usual.Mean), output.First(slices.Concat(a.X...))
	switch kind {
	case change:
		h.changes++
		from, to = output.First(a.Before.Mean), output.First(a.After.Mean)
	case silent:
		return
	default:
		h.noveltyish++
	}
	switch {
	case a.Size > 0:
		h.up++
	case a.Size < 0:
		h.down++
	}
	if share := math.Abs(to-from) / math.Abs(from); !math.IsNaN(share) {
		h.sized++
		if share < 0.1 {
			h.small++
		}
	}
}

// advice says what a key's alarms have in common, and which setting leaves such alarms out.
func (k *key) advice(zone *time.Location) string {
	var all []string
	if poorFit := poorFitAdvice(&k.values); poorFit != "" {
		all = append(all, poorFit)
	}
	valued := k.changes + k.noveltyish
	if k.sized >= 3 && 2*k.small >= k.sized {
		all = append(all, fmt.Sprintf("%d of %s moved by less than a tenth: detect.min_rel: 0.1 leaves such out.", k.small, message.Count(valued, "alarm", "alarms")))
	}
	if k.silences >= 3 && 2*k.silences >= k.alarms {
		all = append(all, fmt.Sprintf("It fell silent %d times: give silence.after a time that is longer than its pauses.", k.silences))
	}
	if hour, n := k.busiest(); n >= 4 && 2*n >= k.alarms {
		all = append(all, fmt.Sprintf("%d of %d came between %02d:00 and %02d:00 %v: if a job runs then, look whether detect.zone is its clock.", n, k.alarms, hour, (hour+2)%24, zone))
	}
	if n := max(k.up, k.down); n >= 4 && 5*n >= 4*valued {
		way, other := "up", "down"
		if k.down > k.up {
			way, other = other, way
		}
		all = append(all, fmt.Sprintf("%d of %d went %s: if that is harmless, detect.direction: %s leaves them out.", n, valued, way, other))
	}
	if k.changes >= 4 && 2*k.changes >= valued {
		all = append(all, fmt.Sprintf("%d of %d are changes of level: detect.min_change asks for larger ones.", k.changes, valued))
	}
	if len(all) == 0 && k.alarms >= 4 {
		all = append(all, "No habit stands out: detect.budget: 336h halves what keys may raise.")
	}
	return strings.Join(all[:min(len(all), 2)], " ")
}

// busiest is where the two hours of the day begin in which most alarms came.
func (k *key) busiest() (hour, n int) {
	for h := range 24 {
		if both := int(k.hours[h]) + int(k.hours[(h+1)%24]); both > n {
			hour, n = h, both
		}
	}
	return hour, n
}
