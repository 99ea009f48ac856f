package config

import (
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

func incidentsKey(dst **Incidents) keytable.ValueParser {
	fresh := func() *Incidents {
		return &Incidents{Budget: incidents.DefaultBudget, Separators: incidents.DefaultSeparators, Single: incidents.DefaultSingle}
	}
	return keytable.OrSwitch(dst, "{budget: 168h}", fresh, func(v *Incidents) []keytable.Key {
		return []keytable.Key{
			{Name: "budget", Doc: "Time in which one false incident is allowed on average, and at most seven pages for long.", Read: keytable.Milliseconds(&v.Budget)},
			{Name: "separators", Doc: "Characters that end a prefix of a key: a/b:c has the groups a, a/b and all keys.", Read: keytable.Text(&v.Separators, keytable.NotEmpty)},
			{Name: "by", Doc: "At most five labels of keys that are series, in place of prefixes. Groups are their values and the pairs of two, of three keys and more; their order has no effect.", Read: keytable.Texts("labels", &v.By)},
			{Name: "single", Doc: "Pages in a week of alarms in no incident, at most 100: those that are clearest by score over threshold in the last weeks, eight steps later. They are alerts with page: true to receivers by HTTP, whatever kinds says. 0: none.", Read: keytable.Whole(&v.Single, 0)},
			{Name: "zone", Doc: "Time zone of the hours of the day.", Initial: "that of detect", Read: keytable.Zone(&v.Zone)},
		}
	})
}

// checkAlarms settles the zone of incidents, and refuses them without alarms or times, and receivers without
// alarms.
func (d *decoder) checkAlarms(c *Config) {
	if c.Transform != settings.Filter || d.Failed("transform") {
		return
	}
	none := c.Detect == nil && c.Silence == nil && !d.Failed("detect") && !d.Failed("silence")
	if none && d.Has("alerts") {
		d.Fail("alerts", "there are none without detect or silence")
	}
	i := c.Incidents
	if i == nil {
		return
	}
	if none {
		d.Fail("incidents", "there are none without detect or silence")
	}
	if c.Order == settings.Arrival {
		d.Fail("incidents", "alarms come together in time: order: event_time")
	}
	if err := (incidents.Config{By: i.By}).Validate(); err != nil {
		d.Fail("incidents.by", "%v", err)
	}
	if err := (incidents.Config{Single: i.Single}).Validate(); err != nil {
		d.Fail("incidents.single", "%v", err)
	}
	if i.By != nil && d.Has("incidents.separators") {
		d.Fail("incidents.separators", "groups are those of by, or prefixes: leave out one of the two")
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
