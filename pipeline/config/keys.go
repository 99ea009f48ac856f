package config

import (
	"slices"

	"hafvf/connectors"
)

// keys declares the config: the settings and the other keys, each with what it means, and how its value is
// read into c. Defaults are what c holds before.
func (c *Config) keys(model []key) []key {
	all := append(model, []key{
		{name: "state", doc: "filter: file of the states. A run begins with it, passes over what it says was read, and replaces it at its end, an endless query each minute. A second run is refused. A topic begins with it if its changelog has had no states.", read: text(&c.State, notEmpty)},
		{name: "source", doc: "Where records come from.", required: true, single: true, keys: c.Source.keys()},
		{name: "sink", doc: "Where estimates go. none writes no estimates: the run has alarms only.", initial: `{jsonl: {path: "-"}}`, single: true,
			seen: func() { c.Sink = Sink{} }, none: func() { c.Sink.None = true }, keys: append(c.Sink.keys(), c.Sink.prometheusKey())},
		{name: "dead_letter", doc: "Where rejected records go. By default to standard error as JSON Lines.", single: true, keys: c.deadLetterKeys()},
		c.marksKey(),
		{name: "alerts", doc: "Where alarms go, with detect or silence. By default nowhere.", read: receivers(&c.Alerts)},
		{name: "runner", doc: "What executes the pipeline.", keys: c.Runner.keys()},
	}...)
	at := slices.IndexFunc(all, func(k key) bool { return k.name == "keys" })
	return slices.Insert(all, at, key{name: "incidents", doc: "true groups alarms of many keys with one cause: together in time and under one prefix, more often than by chance. An incident is an alert; its alarms have its id. See GUIDE.", initial: "false", read: incidentsKey(&c.Incidents)})
}

func (s *Sink) keys() []key {
	var keys []key
	for _, format := range connectors.Formats {
		f := &File{Format: format.Name, Path: "-"}
		keys = append(keys, key{name: format.Name, doc: format.Written, seen: func() { s.File = f }, keys: []key{
			{name: "path", doc: `A file, or "-" for standard output; .gz and .zst compress.`, read: text(&f.Path, notEmpty)},
		}})
	}
	return append(keys, s.kafkaKey())
}

func (c *Config) deadLetterKeys() []key {
	f := &File{Format: connectors.JSONLines}
	topic := &Sink{}
	kafka := topic.kafkaKey()
	seen := kafka.seen
	kafka.seen = func() {
		seen()
		c.DeadLetter = topic
	}
	return []key{
		{name: f.Format, doc: "One JSON object per line.", seen: func() { c.DeadLetter = &Sink{File: f} }, keys: []key{
			{name: "path", doc: `A file, or "-" for standard output.`, required: true, read: text(&f.Path, notEmpty)},
		}},
		kafka,
	}
}
