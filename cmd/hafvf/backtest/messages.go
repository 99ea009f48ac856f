package backtest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/pipeline/config"
)

// Messages are those that a webhook or an Alertmanager without kinds would have got.
type Messages struct {
	PerWeek Number `json:"per_week"` // null where the records have no times
	Pages   int    `json:"pages"`    // of incidents, when one becomes a page and when it is over
	Singles int    `json:"singles"`  // pages of alarms in no incident
	Silent  int    `json:"silent"`   // minutes in which keys fell silent or recovered
	Digests int    `json:"digests"`  // days with alarms in no incident
	Alarms  int    `json:"alarms"`   // of few keys, or without incidents
}

// A single is an alarm that may be in no incident.
type single struct {
	name [3]string // key, id and kind
	at   time.Time
}

// add notes what a receiver might be told of an alert.
func (c *Collector) add(key string, t keyed.AlertEvent) {
	switch {
	case t.Basis != keyed.AlarmBasis || t.BackToUsual():
		return
	case t.Kind == keyed.SilentAlarm || t.Kind == keyed.RecoveredAlarm:
		c.silent[t.Time.Unix()/60] = true
	default:
		c.singles = append(c.singles, single{[3]string{key, t.ID, t.Kind}, t.Time})
	}
	c.alarms++
}

// messagesOver counts the messages of a run over a span of time.
func (c *Collector) messagesOver(span time.Duration) Messages {
	m := Messages{PerWeek: Number(math.NaN()), Pages: c.pages}
	if c.graph.Groups() && len(c.keys) >= config.FewKeys {
		days := map[int64]bool{}
		for _, s := range c.singles {
			if c.assigned[s.name] == "" {
				days[s.at.Unix()/(24*60*60)] = true
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

// weekly is how many a week there are of n in a span.
func weekly(n int, span time.Duration) Number {
	return Number(float64(n) / (span.Hours() / week.Hours()))
}

// write writes how many messages a week there are, and of what.
func (m Messages) write(b *strings.Builder, span time.Duration) {
	if math.IsNaN(float64(m.PerWeek)) {
		return
	}
	var parts []string
	for _, p := range []struct {
		n  int
		of string
	}{{m.Pages, "of incidents"}, {m.Singles, "of single keys"}, {m.Silent, "of silent and recovered keys"}, {m.Digests, "digests"}, {m.Alarms, "alarms"}} {
		if p.n > 0 {
			parts = append(parts, decimal(float64(weekly(p.n, span)))+" "+p.of)
		}
	}
	all := strings.Join(parts, ", ")
	if len(parts) != 1 {
		all = strings.TrimSuffix(decimal(float64(m.PerWeek))+" ("+all+")", " ()")
	}
	fmt.Fprintf(b, "messages a week to a webhook or an Alertmanager without kinds: %s\n", all)
}
