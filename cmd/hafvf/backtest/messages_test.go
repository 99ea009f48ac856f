package backtest

import (
	"math"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

// A receiver gets pages, one message per minute in which keys fell silent or recovered, and a digest for each day
// with other alarms. With few keys it gets each alarm.
func TestMessagesPerWeek(t *testing.T) {
	for n, want := range map[int]string{19: "9.0 (2.0 of incidents, 7.0 alarms)", 20: "6.0 (2.0 of incidents, 2.0 of silent and recovered keys, 2.0 digests)"} {
		c := NewCollector(Run{Groups: true, Fleet: 20})
		t0 := time.Date(2026, 1, 5, 23, 0, 0, 0, time.UTC)
		addAlert := func(id, kind string, alertTime time.Time, source keyed.AlertSource) {
			c.count("k", keyed.AlertEvent{ID: id, Time: alertTime, Alert: &keyed.Alert{Kind: kind, Threshold: math.NaN()}, Source: source})
		}
		for id, kind := range map[string]string{"1": "silent", "2": "silent"} {
			addAlert(id, kind, t0, keyed.SourceAlarm)
		}
		addAlert("3", "recovered", t0.Add(time.Minute), keyed.SourceAlarm)
		for id, offset := range map[string]time.Duration{"4": 0, "5": time.Minute, "6": time.Hour, "7": 48 * time.Hour} {
			addAlert(id, "novelty", t0.Add(offset), keyed.SourceAlarm)
		}
		addAlert("8", "outlier", t0, keyed.SourceDuplicate)
		c.Assign(incidents.Assignment{ID: "7", Key: "k", Kind: "novelty", Incident: "a"})
		for _, page := range []bool{true, true, false} {
			c.AddIncident(&incidents.Event{Page: page})
		}
		for i := range n {
			c.keys[string(rune('a'+i))] = &Key{}
		}
		var b strings.Builder
		c.messagesOver(week).write(&b, week)
		expect.Same(t, "messages a week to a webhook or an Alertmanager without kinds: "+want+"\n", b.String())
	}
}
