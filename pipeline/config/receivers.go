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
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
)

// labels reads names with texts.
func labels(dst *map[string]string) valueParser {
	const takes = "mapping of names to texts"
	return valueParser{takes: takes, initial: "{}", read: func(d *Decoder, path string, n *yaml.Node) {
		all := map[string]string{}
		d.entries(path, n, func(p string, k, v *yaml.Node) {
			var s string
			switch {
			case !labelName.MatchString(k.Value):
				d.fail(p, "is no name of a label: letters, digits and _, and no digit first")
			case slices.Contains(ownLabels, k.Value):
				d.fail(p, "is a label that every alert has; name another")
			case d.text(p, v, &s):
				all[k.Value] = s
			}
		})
		*dst = all
	}}
}

// labelName is what Prometheus takes for the name of a label.
var labelName = regexp.MustCompile("^[a-zA-Z_][a-zA-Z0-9_]*$")

// ownLabels are those of every alert.
var ownLabels = []string{"alertname", "key", "kind"}

// receivers reads a receiver of alerts, or a list of them.
func receivers(dst *[]Receiver) valueParser {
	fresh := func(path string) Receiver { return Receiver{At: path, Kinds: AlarmKinds()} }
	example := fresh("")
	one := func(d *Decoder, path string, n *yaml.Node) {
		r := fresh(path)
		keys := r.keys()
		d.mapping(path, n, keys)
		if n.Kind == yaml.MappingNode {
			d.single(path, n, keys)
		}
		r.Ends = d.has(join(path, "kinds")) && slices.Contains(r.Kinds, keyed.RecoveredAlarm)
		if r.Webhook != nil {
			r.Webhook.Ends = r.Ends
		}
		*dst = append(*dst, r)
	}
	return valueParser{
		takes: "one of " + strings.Join(alternatives(example.keys()), ", ") + ", or a list of such",
		keys:  example.keys(),
		read: func(d *Decoder, path string, n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				one(d, path, n)
				return
			}
			for i, e := range n.Content {
				one(d, d.entry(path, i, e), e)
			}
		},
	}
}

func (r *Receiver) keys() []key {
	keys := r.Sink.keys()
	for _, form := range webhook.Forms {
		keys = append(keys, r.hookKey(form))
	}
	return append(keys,
		key{name: "kinds", doc: "Its kinds of alarms. recovered ends a silence; if kinds names it, also a novelty or change. A receiver by HTTP gets pages of incidents and their ends, and of 20 keys and more by default [incident, silent, recovered].", setting: true, read: choices(&r.Kinds, AlarmKinds()...)},
		key{name: "beliefs", doc: "Kinds of beliefs too, whatever the budget.", setting: true, initial: "[]",
			read: choices(&r.Beliefs, string(hafvf.Outlier), string(hafvf.Change), string(hafvf.Revision))},
		key{name: "keys", doc: "Pattern of its keys, by default all.", setting: true, read: pattern(&r.Keys)},
		key{name: "except", doc: "Pattern of keys that are not its. An incident goes to it if a member is in keys and not in except.", setting: true, initial: "none", read: pattern(&r.Except)},
		key{name: "labels", doc: "Labels of every alert, such as {severity: page}. Tables and Slack have none.", setting: true, read: labels(&r.Labels)},
		key{name: "digest", doc: "A message in this time lists the alarms in no incident, by the clock of incidents.zone. With incidents a receiver by HTTP without kinds has 24h.", setting: true, read: milliseconds(&r.Digest)},
		key{name: "max_age", doc: "Older alerts are not sent, and counted. By default 24h for an endless topic or query, else none.", setting: true, read: durationOr("none", &r.MaxAge)},
	)
}

// hookKey declares a sink of alerts by HTTP.
func (s *Sink) hookKey(form webhook.Form) key {
	hook := &webhook.Sink{Form: form.Name, Batch: 100, Timeout: 10 * time.Second}
	keys := []key{
		{name: "url", doc: "A URL with http:// or https://.", required: true, read: hookURL(&hook.URL)},
		{name: "headers", doc: "Headers, such as {Authorization: {file: token}}.", read: headers(&hook.Headers)},
		{name: "batch", doc: "Most alerts in one request.", read: whole(&hook.Batch, 1)},
		{name: "timeout", doc: "How long one request may take.", read: milliseconds(&hook.Timeout)},
	}
	if form.Single {
		keys = slices.DeleteFunc(keys, func(k key) bool { return k.name == "batch" })
	}
	return key{name: form.Name, doc: form.Doc, seen: func() { s.Webhook = hook }, keys: keys}
}

// receivers settles what the receivers of alerts get. The detection is told which beliefs they
// ask for.
func (d *decoder) receivers(c *Config) {
	for i := range c.Alerts {
		r := &c.Alerts[i]
		if slices.Contains(r.Beliefs, string(hafvf.Revision)) && !slices.Contains(r.Beliefs, string(hafvf.Change)) {
			d.fail(join(r.At, "beliefs"), "a revision corrects a change; name change too")
		}
		if len(r.Labels) > 0 && r.File != nil && connectors.FormatOf(r.File.Format).Columns {
			d.fail(join(r.At, "labels"), "a table has no column for them")
		}
		if len(r.Labels) > 0 && r.Webhook != nil && r.Webhook.Form == "slack" {
			d.fail(join(r.At, "labels"), "a message of Slack does not show them")
		}
		if r.Webhook != nil && c.Incidents != nil && !d.has(join(r.At, "kinds")) {
			r.Kinds, r.Few, r.Webhook.Batches = pagerKinds(), r.Kinds, true
			if !d.has(join(r.At, "digest")) {
				r.Digest, r.NoFew = pagerDigest, true
			}
		}
		switch {
		case r.Digest > 0 && c.Incidents == nil:
			d.fail(join(r.At, "digest"), "lists the alarms in no incident: add incidents: true")
		case r.Digest > 0 && (r.Digest < leastDigest || r.Digest > mostDigest):
			d.fail(join(r.At, "digest"), "must be %s to %s, not %s", message.Duration(leastDigest), message.Duration(mostDigest), message.Duration(r.Digest))
		}
		if !d.has(join(r.At, "max_age")) && c.Source.Unending() {
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

// defaultMaxAge is the age above which alerts of a topic are not sent.
const defaultMaxAge = 24 * time.Hour

// Digests are from an hour to a month.
const (
	leastDigest = time.Hour
	mostDigest  = 31 * 24 * time.Hour
)
