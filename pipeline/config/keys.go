package config

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors"
	"hafvf/internal/inputfile"
	"hafvf/pipeline/settings/keytable"
)

// keys declares the config: the settings and the other keys, each with its documentation and the parser that sets its
// value in c. The values in c before are the defaults.
func (c *Config) keys(model []keytable.Key) []keytable.Key {
	keys := append(model, []keytable.Key{
		{Name: "state", Doc: "filter: file of the states. A run resumes from it, skips input that was already read, and replaces it at the end, an endless query each minute. A second run is refused. A topic starts from it if the changelog has never had states.", Read: keytable.File(&c.State, inputfile.AnySize)},
		{Name: "source", Doc: "Source of the records.", Required: true, Single: true, Keys: c.Source.keys()},
		{Name: "sink", Doc: "Sink of the estimates. none writes no estimates, so that the run has only alarms.", Initial: `{jsonl: {path: "-"}}`, Single: true,
			Seen: func() { c.Sink = Sink{} }, None: func() { c.Sink.Discard = true }, Keys: append(c.Sink.keys(), c.Sink.prometheusKey())},
		{Name: "dead_letter", Doc: "Sink of rejected records. By default standard error, as JSON Lines.", Single: true, Keys: c.deadLetterKeys()},
		c.marksKey(),
		{Name: "alerts", Doc: "Receivers of alarms, with detect or silence. By default none.", Read: receivers(&c.Alerts)},
		{Name: "runner", Doc: "Runner that executes the pipeline.", Keys: c.Runner.keys()},
	}...)
	index := slices.IndexFunc(keys, func(k keytable.Key) bool { return k.Name == "keys" })
	return slices.Insert(keys, index, keytable.Key{Name: "incidents", Doc: "true groups alarms of many keys with one cause: alarms close in time and under one prefix, more than expected by chance. An incident is an alert; its alarms have its id. See GUIDE.", Initial: "false", Read: incidentsKey(&c.Incidents)})
}

func (s *Sink) keys() []keytable.Key {
	var keys []keytable.Key
	for _, format := range connectors.Formats {
		f := &File{Format: format.Name, Path: "-"}
		keys = append(keys, keytable.Key{Name: format.Name, Doc: format.Written, Seen: func() { s.File = f }, Keys: []keytable.Key{
			{Name: "path", Doc: `A file, or "-" for standard output; .gz and .zst compress.`, Read: keytable.Text(&f.Path, keytable.NotEmpty)},
		}})
	}
	return append(keys, s.kafkaKey())
}

func (c *Config) deadLetterKeys() []keytable.Key {
	f := &File{Format: connectors.JSONLines}
	topic := &Sink{}
	kafka := topic.kafkaKey()
	seen := kafka.Seen
	kafka.Seen = func() {
		seen()
		c.DeadLetter = topic
	}
	return []keytable.Key{
		{Name: f.Format, Doc: "One JSON object per line.", Seen: func() { c.DeadLetter = &Sink{File: f} }, Keys: []keytable.Key{
			{Name: "path", Doc: `A file, or "-" for standard output.`, Required: true, Read: keytable.Text(&f.Path, keytable.NotEmpty)},
		}},
		kafka,
	}
}

// A Key describes one key of the config.
type Key = keytable.Description

// Keys returns the keys that a config may have, in the order of their declaration.
func Keys() []Key {
	_, _, keys := begin(&keytable.Decoder{})
	return keytable.Describe(keys)
}

// Reference lists the keys for a terminal.
func Reference() string {
	var b strings.Builder
	for _, k := range Keys() {
		fmt.Fprintf(&b, "%s\n    %s", k.Path, k.Takes)
		if k.Unit != "" {
			b.WriteString("; in " + k.Unit)
		}
		switch {
		case k.Required:
			b.WriteString("; required")
		case k.Default != "":
			b.WriteString("; default " + k.Default)
		}
		fmt.Fprintf(&b, "\n    %s\n", k.Doc)
	}
	return b.String()
}

// YAMLText returns a text as a YAML scalar that is valid in every position, or a PathPart as a config has it.
func YAMLText(s string) string {
	if part, ok := PathPartOf(s); ok {
		if strings.Contains(part, "*") {
			part = strconv.Quote(part)
		}
		return "{path: " + part + "}"
	}
	b, err := yaml.Marshal(&yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}}})
	if err != nil {
		panic("config: " + err.Error())
	}
	b = bytes.TrimSpace(b)
	return string(b[1 : len(b)-1])
}

// YAMLNames returns names in YAML: one as a scalar, several as a list, none as "".
func YAMLNames(names []string) string {
	if len(names) < 2 {
		return cmp.Or(YAMLText(strings.Join(names, "")), `""`)
	}
	return YAMLList(names)
}

// YAMLList returns texts as a YAML list in one line.
func YAMLList(texts []string) string {
	var scalars []string
	for _, s := range texts {
		scalars = append(scalars, YAMLText(s))
	}
	return "[" + strings.Join(scalars, ", ") + "]"
}
