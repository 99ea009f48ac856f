package backtest

import (
	"fmt"
	"strings"

	"hafvf/hafvf/usual"
)

// A MonthDay is a day of the month on which most novelty alarms of some keys fall.
type MonthDay struct {
	Day    usual.MonthDay `json:"day"`
	Keys   int            `json:"keys"`   // keys with most of their alarms on the day
	Alarms int            `json:"alarms"` // alarms of these keys on the day
	Of     int            `json:"of"`     // all alarms of these keys
}

const (
	minMonths    = 3  // months with an alarm on the day
	monthDayPart = .5 // of the alarms of a key
)

// monthDayOf returns the day of the month with the most alarms of keys that have most of their alarms on it, in at least
// minMonths months; nil if there is none. Days are local to the zone of the report.
func (r *Report) monthDayOf() (best *MonthDay) {
	for _, day := range usual.MonthDays() {
		m := &MonthDay{Day: day}
		for _, k := range r.ByKey {
			months, on, all := map[string]bool{}, 0, 0
			for _, e := range k.events {
				if e.Kind != kinds[0] || e.Time.IsZero() {
					continue
				}
				all++
				if t := e.Time.In(r.zone); day.Includes(t, nil) {
					on++
					months[t.Format("2006-01")] = true
				}
			}
			if len(months) >= minMonths && float64(on) >= monthDayPart*float64(all) {
				m.Keys, m.Alarms, m.Of = m.Keys+1, m.Alarms+on, m.Of+all
			}
		}
		if m.Keys > 0 && (best == nil || m.Alarms > best.Alarms) {
			best = m
		}
	}
	return best
}

// writeMonthDay writes the day, and the setting that makes it usual.
func (r *Report) writeMonthDay(b *strings.Builder) {
	if m := r.MonthDay; m != nil {
		fmt.Fprintf(b, "\n%d of %s of %s are on the %s of a month; if that is usual, set detect: {monthly: [%s]}\n",
			m.Alarms, count(m.Of, "alarm"), count(m.Keys, "key"), strings.ReplaceAll(string(m.Day), "-", " "), m.Day)
	}
}
