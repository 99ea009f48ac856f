package config

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors"
	"hafvf/connectors/webhook"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// labels reads a mapping of label names to texts.
func labels(dst *map[string]string) keytable.ValueParser {
	const takes = "mapping of names to texts"
	return keytable.ValueParser{Takes: takes, Initial: "{}", Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		result := map[string]string{}
		d.Entries(path, n, func(p string, k, v *yaml.Node) {
			var s string
			switch {
			case !labelName.MatchString(k.Value):
				d.Fail(p, "is not a label name: use letters, digits and _, without a digit first")
			case slices.Contains(ownLabels, k.Value):
				d.Fail(p, "every alert has this label: use another name")
			case d.Text(p, v, &s):
				result[k.Value] = s
			}
		})
		*dst = result
	}}
}

// labelName matches names of labels in Prometheus.
var labelName = regexp.MustCompile("^[a-zA-Z_][a-zA-Z0-9_]*$")

// ownLabels are the labels that every alert has.
var ownLabels = []string{"alertname", "key", "kind"}

// receivers reads one receiver of alerts or a list of them.
func receivers(dst *[]Receiver) keytable.ValueParser {
	fresh := func(path string) Receiver { return Receiver{Path: path, Choice: Choice{Kinds: AlarmKinds()}} }
	example := fresh("")
	readOne := func(d *keytable.Decoder, path string, n *yaml.Node) {
		r := fresh(path)
		keys := r.keys()
		d.Mapping(path, n, keys)
		if n.Kind == yaml.MappingNode {
			d.Single(path, n, keys)
		}
		r.SendResolved = d.Has(keytable.Join(path, "kinds")) && slices.Contains(r.Kinds, keyed.RecoveredAlarm)
		if r.Webhook != nil {
			r.Webhook.SendResolved = r.SendResolved
		}
		*dst = append(*dst, r)
	}
	return keytable.ValueParser{
		Takes: "one of " + strings.Join(keytable.Alternatives(example.keys()), ", ") + ", or a list of such",
		Keys:  example.keys(),
		Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				readOne(d, path, n)
				return
			}
			for i, e := range n.Content {
				readOne(d, d.Entry(path, i, e), e)
			}
		},
	}
}

func (r *Receiver) keys() []keytable.Key {
	keys := r.Sink.keys()
	for _, form := range webhook.Forms {
		keys = append(keys, r.hookKey(form))
	}
	return append(keys,
		keytable.Key{Name: "kinds", Doc: "Kinds of alarms. recovered ends a silence; if kinds names it, also an episode, which a novelty or change begins. With incidents, an HTTP receiver gets the pages and ends of incidents; with 20 keys or more, its default is [incident, silent, recovered].", Setting: true, Read: keytable.Choices(&r.Kinds, AlarmKinds()...)},
		keytable.Key{Name: "beliefs", Doc: "Kinds of beliefs to send as well, independent of the budget.", Setting: true, Initial: "[]",
			Read: keytable.Choices(&r.Beliefs, string(hafvf.Outlier), string(hafvf.Change), string(hafvf.Revision))},
		keytable.Key{Name: "keys", Doc: "Pattern of the receiver's keys, by default all.", Setting: true, Read: settings.Pattern(&r.Keys)},
		keytable.Key{Name: "except", Doc: "Pattern of keys that the receiver does not get. It gets an incident if a member is in keys and not in except.", Setting: true, Initial: "none", Read: settings.Pattern(&r.Except)},
		keytable.Key{Name: "labels", Doc: "Labels of every alert, such as {severity: page}. Tables and Slack have none.", Setting: true, Read: labels(&r.Labels)},
		keytable.Key{Name: "digest", Doc: "Period of a message that lists the alarms outside incidents, in the local time of incidents.zone. With incidents, an HTTP receiver without kinds has 24h.", Setting: true, Read: keytable.Milliseconds(&r.Digest)},
		keytable.Key{Name: "max_age", Doc: "Older alerts are counted and not sent. By default 24h for an endless topic or query, else none.", Setting: true, Read: keytable.DurationOr("none", &r.MaxAge)},
	)
}

// hookKey declares a receiver by HTTP.
func (s *Sink) hookKey(form webhook.Form) keytable.Key {
	hook := &webhook.Sink{Form: form.Name, Batch: 100, Timeout: 10 * time.Second}
	keys := []keytable.Key{
		{Name: "url", Doc: "A URL with http:// or https://.", Required: true, Read: hookURL(&hook.URL)},
		{Name: "headers", Doc: "Headers, such as {Authorization: {file: token}}.", Read: headers(&hook.Headers)},
		{Name: "batch", Doc: "Maximum number of alerts in one request.", Read: keytable.Whole(&hook.Batch, 1)},
		{Name: "timeout", Doc: "Maximum duration of one request.", Read: keytable.Milliseconds(&hook.Timeout)},
	}
	if hook.Stateful() {
		hook.Repeat = time.Minute
		keys = append(keys, keytable.Key{Name: "repeat", Doc: "How often an open alert is sent again in a run without an end, or from a pipe, because an Alertmanager that restarts has forgotten it. Without a repeat for four times as long, the alert ends. none turns it off.", Setting: true, Read: keytable.DurationOr("none", &hook.Repeat)})
	}
	if form.Single {
		keys = slices.DeleteFunc(keys, func(k keytable.Key) bool { return k.Name == "batch" })
	}
	return keytable.Key{Name: form.Name, Doc: form.Doc, Seen: func() { s.Webhook = hook }, Keys: keys}
}

// receivers sets the default kinds, digest and maximum age of the receivers, and checks them. It adds their beliefs to
// the detection.
func (d *decoder) receivers(c *Config) {
	for i := range c.Alerts {
		r := &c.Alerts[i]
		if slices.Contains(r.Beliefs, string(hafvf.Revision)) && !slices.Contains(r.Beliefs, string(hafvf.Change)) {
			d.Fail(keytable.Join(r.Path, "beliefs"), "a revision corrects a change: add change")
		}
		if len(r.Labels) > 0 && r.File != nil && connectors.FormatOf(r.File.Format).Columns {
			d.Fail(keytable.Join(r.Path, "labels"), "a table has no columns for labels")
		}
		if len(r.Labels) > 0 && r.Webhook != nil && r.Webhook.Form == "slack" {
			d.Fail(keytable.Join(r.Path, "labels"), "Slack messages do not show labels")
		}
		if r.Webhook != nil && c.Incidents != nil && !d.Has(keytable.Join(r.Path, "kinds")) {
			r.Kinds, r.SmallFleetKinds, r.Webhook.Batches = pagerKinds(), r.Kinds, true
			if !d.Has(keytable.Join(r.Path, "digest")) {
				r.Digest, r.NoSmallFleetDigest = pagerDigest, true
			}
		}
		switch {
		case r.Digest > 0 && c.Incidents == nil:
			d.Fail(keytable.Join(r.Path, "digest"), "lists alarms outside incidents: add incidents: true")
		case r.Digest > 0 && (r.Digest < minDigest || r.Digest > maxDigest):
			d.Fail(keytable.Join(r.Path, "digest"), "must be %s to %s, not %s", message.Duration(minDigest), message.Duration(maxDigest), message.Duration(r.Digest))
		}
		if r.Webhook != nil && !c.Source.Unbounded() && !c.Source.StandardInput() {
			r.Webhook.Repeat = 0
		}
		if !d.Has(keytable.Join(r.Path, "max_age")) && c.Source.Unbounded() {
			r.MaxAge = defaultMaxAge
		}
		if c.Detect == nil {
			continue
		}
		for _, kind := range r.Beliefs {
			if k := hafvf.Kind(kind); !slices.Contains(c.Detect.Beliefs, k) {
				c.Detect.Beliefs = append(c.Detect.Beliefs, k)
			}
		}
	}
}

// defaultMaxAge is the default MaxAge of receivers if the source is unending.
const defaultMaxAge = 24 * time.Hour

// Limits of the period of a digest.
const (
	minDigest = time.Hour
	maxDigest = 31 * 24 * time.Hour
)

func incidentsKey(dst **Incidents) keytable.ValueParser {
	fresh := func() *Incidents {
		return &Incidents{Budget: incidents.DefaultBudget, Separators: incidents.DefaultSeparators, MaxSinglePages: incidents.DefaultSingle}
	}
	return keytable.OrSwitch(dst, "{budget: 168h}", fresh, func(v *Incidents) []keytable.Key {
		return []keytable.Key{
			{Name: "budget", Doc: "Time in which one false incident is allowed on average. In the long run, at most seven pages occur in this time.", Read: keytable.Milliseconds(&v.Budget)},
			{Name: "separators", Doc: "Characters that end a prefix of a key: a/b:c has the groups a, a/b and all keys.", Read: keytable.Text(&v.Separators, keytable.NotEmpty)},
			{Name: "by", Doc: "At most five labels of keys that are series, instead of prefixes. Groups are the values of each label, and the pairs of two values with three keys or more. The order of the labels has no effect.", Read: keytable.Texts("labels", &v.By)},
			{Name: "single", Doc: "Pages per week for alarms outside incidents, at most 100: the alarms with the highest score over threshold in the last weeks, eight steps later. HTTP receivers get them as alerts with page: true, whatever kinds says. 0 turns them off.", Read: keytable.Whole(&v.MaxSinglePages, 0)},
			{Name: "zone", Doc: "Time zone of the hours of the day.", Initial: "that of detect", Read: keytable.Zone(&v.Zone)},
		}
	})
}

// checkAlarms sets the zone of incidents. It refuses incidents without alarms or times, and receivers without alarms.
func (d *decoder) checkAlarms(c *Config) {
	if c.Transform != settings.Filter || d.Failed("transform") {
		return
	}
	noAlarms := c.Detect == nil && c.Silence == nil && !d.Failed("detect") && !d.Failed("silence")
	if noAlarms && d.Has("alerts") {
		d.Fail("alerts", "there are none without detect or silence")
	}
	i := c.Incidents
	if i == nil {
		return
	}
	if noAlarms {
		d.Fail("incidents", "there are none without detect or silence")
	}
	if c.Order == settings.Arrival {
		d.Fail("incidents", "incidents need times: use order: event_time")
	}
	if err := (incidents.Config{By: i.By}).Validate(); err != nil {
		d.Fail("incidents.by", "%v", err)
	}
	if err := (incidents.Config{MaxSinglePages: i.MaxSinglePages}).Validate(); err != nil {
		d.Fail("incidents.single", "%v", err)
	}
	if i.By != nil && d.Has("incidents.separators") {
		d.Fail("incidents.separators", "groups come either from by or from prefixes: leave out one of the two")
	}
	if i.Zone == "" {
		if i.Zone = c.Zone; c.Detect != nil {
			i.Zone = c.Detect.Zone
		}
	}
}

// Incidents has the settings for grouping alarms into incidents, see package incidents.
type Incidents struct {
	Budget         time.Duration // time with one false incident on average
	Separators     string        // characters that end a prefix of a key
	By             []string      // labels that replace prefixes, for keys that are series
	MaxSinglePages int           // pages a week of alarms outside incidents
	Zone           string        // of the hours of the day; empty for UTC
}
