package backtest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"hafvf/hafvf/keyed"
)

// Messages counts the messages that a webhook or an Alertmanager without kinds would have received.
type Messages struct {
	PerWeek Number `json:"per_week"` // null if the records have no times
	Pages   int    `json:"pages"`    // events of incidents that are pages
	Singles int    `json:"singles"`  // pages of alarms outside incidents
	Silent  int    `json:"silent"`   // minutes in which keys fell silent or recovered
	Digests int    `json:"digests"`  // UTC days with alarms outside incidents
	Alarms  int    `json:"alarms"`   // alarms of a run with few keys or without incidents, one message each
}

// A single is an alarm; it is outside incidents unless it is assigned to one.
type single struct {
	name [3]string // key, id and kind
	when time.Time
}

// count counts an alert for Messages. Only alerts of SourceAlarm count, without the ends of episodes. A report that an
// episode is worse is a message of its own only if each alarm is: an incident or a digest has its first alarm.
func (c *Collector) count(key string, alert keyed.AlertEvent) {
	switch {
	case alert.Source != keyed.SourceAlarm || alert.BackToUsual():
		return
	case alert.Kind == keyed.SilentAlarm || alert.Kind == keyed.RecoveredAlarm:
		c.silent[alert.Time.Unix()/60] = true
	case !alert.IsWorse():
		c.singles = append(c.singles, single{[3]string{key, alert.ID, alert.Kind}, alert.Time})
	}
	c.alarms++
}

// messagesOver returns the Messages of a run over span. With fewer than Run.Fleet keys, or without incidents,
// each alarm is a message.
func (c *Collector) messagesOver(span time.Duration) Messages {
	m := Messages{PerWeek: Number(math.NaN()), Pages: c.pages}
	if c.run.Groups && len(c.keys) >= c.run.Fleet {
		days := map[int64]bool{}
		for _, s := range c.singles {
			if c.assigned[s.name] == "" {
				days[s.when.Unix()/(24*60*60)] = true
			}
		}
		m.Singles, m.Silent, m.Digests = c.singlePages, len(c.silent), len(days)
	} else {
		m.Alarms = c.alarms
	}
	if span > 0 {
		m.PerWeek = weekly(m.Pages+m.Singles+m.Silent+m.Digests+m.Alarms, span)
	}
	return m
}

// weekly returns the rate per week of n events in span.
func weekly(n int, span time.Duration) Number {
	return Number(float64(n) / (span.Hours() / week.Hours()))
}

// write writes the messages per week, in total and by kind. It writes nothing if the rate is unknown.
func (m Messages) write(b *strings.Builder, span time.Duration) {
	if math.IsNaN(float64(m.PerWeek)) {
		return
	}
	var parts []string
	for _, p := range []struct {
		n    int
		name string
	}{{m.Pages, "of incidents"}, {m.Singles, "of single keys"}, {m.Silent, "of silent and recovered keys"}, {m.Digests, "digests"}, {m.Alarms, "alarms"}} {
		if p.n > 0 {
			parts = append(parts, decimal(float64(weekly(p.n, span)))+" "+p.name)
		}
	}
	text := strings.Join(parts, ", ")
	if len(parts) != 1 {
		text = strings.TrimSuffix(decimal(float64(m.PerWeek))+" ("+text+")", " ()")
	}
	fmt.Fprintf(b, "messages a week to a webhook or an Alertmanager without kinds: %s\n", text)
}
