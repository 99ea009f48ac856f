package config

import (
	"time"

	"hafvf/hafvf/incidents"
)

func incidentsKey(dst **Incidents) valueParser {
	fresh := func() *Incidents {
		return &Incidents{Budget: incidents.DefaultBudget, Separators: incidents.DefaultSeparators, Single: incidents.DefaultSingle}
	}
	return orSwitch(dst, "{budget: 168h}", fresh, func(v *Incidents) []key {
		return []key{
			{name: "budget", doc: "Time in which one false incident is allowed on average, and at most seven pages for long.", read: milliseconds(&v.Budget)},
			{name: "separators", doc: "Characters that end a prefix of a key: a/b:c has the groups a, a/b and all keys.", read: text(&v.Separators, notEmpty)},
			{name: "by", doc: "At most five labels of keys that are series, in place of prefixes. Groups are their values and the pairs of two, of three keys and more; their order has no effect.", read: texts("labels", &v.By)},
			{name: "single", doc: "Pages in a week of alarms in no incident, at most 100: those that are clearest by score over threshold in the last weeks, eight steps later. They are alerts with page: true to receivers by HTTP, whatever kinds says. 0: none.", read: whole(&v.Single, 0)},
			{name: "zone", doc: "Time zone of the hours of the day.", initial: "that of detect", read: zone(&v.Zone)},
		}
	})
}

// checkAlarms settles the zone of incidents, and refuses them without alarms or times, and receivers without
// alarms.
func (d *decoder) checkAlarms(c *Config) {
	if c.Transform != Filter || d.failed("transform") {
		return
	}
	none := c.Detect == nil && c.Silence == nil && !d.failed("detect") && !d.failed("silence")
	if none && d.has("alerts") {
		d.fail("alerts", "there are none without detect or silence")
	}
	i := c.Incidents
	if i == nil {
		return
	}
	if none {
		d.fail("incidents", "there are none without detect or silence")
	}
	if c.Order == Arrival {
		d.fail("incidents", "alarms come together in time: order: event_time")
	}
	if err := (incidents.Config{By: i.By}).Validate(); err != nil {
		d.fail("incidents.by", "%v", err)
	}
	if err := (incidents.Config{Single: i.Single}).Validate(); err != nil {
		d.fail("incidents.single", "%v", err)
	}
	if i.By != nil && d.has("incidents.separators") {
		d.fail("incidents.separators", "groups are those of by, or prefixes: leave out one of the two")
	}
	if i.Zone == "" {
		if i.Zone = c.Zone; c.Detect != nil {
			i.Zone = c.Detect.Zone
		}
	}
}

// Incidents says how alarms of many keys become incidents, as package incidents does.
type Incidents struct {
	Budget     time.Duration // in which one false incident is allowed on average
	Separators string        // of the prefixes of keys
	By         []string      // labels of keys that are series, in place of separators
	Single     int           // pages a week of alarms in no incident
	Zone       string        // of the hours of the day; empty for UTC
}
