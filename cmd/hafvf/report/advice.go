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

// habits counts the properties of a key's alarms, for advice.
type habits struct {
	hours      [24]uint16 // alarms by hour of the day
	changes    int
	up, down   int
	sized      int // alarms with a value to compare with
	small      int // alarms with a relative change below 0.1
	deviations int // novelties and outliers
}

// poorFitAdvice suggests settings that may fit the values better. It returns "" if the family fits.
func poorFitAdvice(f *pipeline.Values) string {
	share := f.PoorFit()
	if share == 0 {
		return ""
	}
	suggestion := "model.season"
	switch {
	case f.Negative:
	case !f.Fractions:
		suggestion = "model.family: poisson, model.scale: log1p or " + suggestion
	case f.Zero:
		suggestion = "model.scale: log1p or " + suggestion
	default:
		suggestion = "model.scale: log or " + suggestion
	}
	return fmt.Sprintf("%.0f %% of its records are outliers, so the family does not fit: try %s.", 100*share, suggestion)
}

func (h *habits) count(a *output.Alert, kind int, zone *time.Location) {
	if hour := a.Time.In(zone).Hour(); !a.Time.IsZero() && h.hours[hour] < math.MaxUint16 {
		h.hours[hour]++
	}
	before, after := output.First(a.Usual.Mean), output.First(slices.Concat(a.X...))
	switch kind {
	case change:
		h.changes++
		before, after = output.First(a.Before.Mean), output.First(a.After.Mean)
	case silent:
		return
	default:
		h.deviations++
	}
	switch {
	case a.Size > 0:
		h.up++
	case a.Size < 0:
		h.down++
	}
	if share := math.Abs(after-before) / math.Abs(before); !math.IsNaN(share) {
		h.sized++
		if share < 0.1 {
			h.small++
		}
	}
}

// advice describes what a key's alarms have in common, and the settings that avoid such alarms. It returns at most
// two sentences, or "".
func (k *key) advice(zone *time.Location) string {
	var sentences []string
	if poorFit := poorFitAdvice(&k.values); poorFit != "" {
		sentences = append(sentences, poorFit)
	}
	valued := k.changes + k.deviations
	if k.sized >= 3 && 2*k.small >= k.sized {
		sentences = append(sentences, fmt.Sprintf("%d of %s moved by less than a tenth: detect.min_rel: 0.1 prevents such alarms.", k.small, message.Count(valued, "alarm", "alarms")))
	}
	if k.silences >= 3 && 2*k.silences >= k.alarms {
		sentences = append(sentences, fmt.Sprintf("It fell silent %d times: set silence.after to more than its longest pause.", k.silences))
	}
	if hour, n := k.busiest(); n >= 4 && 2*n >= k.alarms {
		sentences = append(sentences, fmt.Sprintf("%d of %d occurred between %02d:00 and %02d:00 %v: if a job runs then, check that detect.zone is its time zone.", n, k.alarms, hour, (hour+2)%24, zone))
	}
	if n := max(k.up, k.down); n >= 4 && 5*n >= 4*valued {
		direction, other := "up", "down"
		if k.down > k.up {
			direction, other = other, direction
		}
		sentences = append(sentences, fmt.Sprintf("%d of %d went %s: if that is harmless, detect.direction: %s prevents them.", n, valued, direction, other))
	}
	if k.changes >= 4 && 2*k.changes >= valued {
		sentences = append(sentences, fmt.Sprintf("%d of %d are changes of level: detect.min_change sets a minimum size.", k.changes, valued))
	}
	if len(sentences) == 0 && k.alarms >= 4 {
		sentences = append(sentences, "No pattern found: detect.budget: 336h halves the alarms that a key may raise.")
	}
	return strings.Join(sentences[:min(len(sentences), 2)], " ")
}

// busiest returns the start of the two consecutive hours of the day with most alarms, and their number.
func (k *key) busiest() (hour, n int) {
	for h := range 24 {
		if both := int(k.hours[h]) + int(k.hours[(h+1)%24]); both > n {
			hour, n = h, both
		}
	}
	return hour, n
}
