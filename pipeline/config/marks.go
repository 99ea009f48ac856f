package config

import (
	"errors"
	"slices"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/internal/message"
)

// marksKey declares where marks are.
func (c *Config) marksKey() key {
	f, k := &File{Format: connectors.JSONLines}, &kafkaio.Sink{}
	return key{name: "marks", doc: "Where what users say of alarms is, which hafvf mark writes: what is like an alarm that was false is not told again for four budgets. See GUIDE.", single: true, keys: []key{
		{name: f.Format, doc: "One JSON object per line.", seen: func() { c.Marks = &Sink{File: f} }, keys: []key{
			{name: "path", doc: "A file. What is appended to it takes hold while a run goes on.", required: true, read: checked(&f.Path, "file", func(s string) error {
				if s == stdio {
					return errors.New("is not the name of a file")
				}
				return nil
			})},
		}},
		{name: "kafka", doc: "A topic of Kafka, one JSON object per record. It is read from its beginning, and what was read before is passed over.", seen: func() { c.Marks = &Sink{Kafka: k} }, keys: slices.Concat(clusterKeys(&k.Cluster, "those of the source"), []key{
			{name: "topic", doc: "Topic to read.", required: true, read: text(&k.Topic, notEmpty)},
		})},
	}}
}

// checkMarks refuses marks where they have no use, and a file that is read as something else.
func (d *decoder) checkMarks(c *Config) {
	if c.Marks == nil || d.failed("marks") {
		return
	}
	switch {
	case c.Transform == Smooth:
		d.fail("marks", "belongs to transform: filter")
	case c.Detect == nil && c.Silence == nil && !d.failed("detect") && !d.failed("silence"):
		d.fail("marks", "there are no alarms without detect or silence")
	case c.Runner.Name == Flink:
		d.fail("marks", "is for the runner direct")
	}
	d.NeedTime("an empty name means that there is no time, which marks need")
	if f, s := c.Marks.File, c.Source.Files(); f != nil && s != nil {
		key := "source." + s.Format + ".path"
		if in := inputOf(key, s.Path); in.reads(placeOf("marks", f.Path)) {
			d.fail("marks.jsonl.path", "%s is also read, by %s", message.Quote(f.Path), key)
		}
	}
}
