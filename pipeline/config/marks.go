package config

import (
	"errors"
	"slices"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/internal/inputfile"
	"hafvf/internal/message"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// marksKey declares where marks are read.
func (c *Config) marksKey() keytable.Key {
	f, k := &File{Format: connectors.JSONLines}, &kafkaio.Sink{}
	return keytable.Key{Name: "marks", Doc: "Users' feedback on alarms, which hafvf mark writes. Alarms similar to an alarm marked false are suppressed for four budgets. See GUIDE.", Single: true, Keys: []keytable.Key{
		{Name: f.Format, Doc: "One JSON object per line.", Seen: func() { c.Marks = &Sink{File: f} }, Keys: []keytable.Key{
			{Name: "path", Doc: "A file. A run also applies lines that are appended while it runs.", Required: true, Read: keytable.Checked(&f.Path, "file", func(s string) error {
				if s == stdio {
					return errors.New("is not the name of a file")
				}
				return inputfile.Check(s, inputfile.AnySize)
			})},
		}},
		{Name: "kafka", Doc: "A Kafka topic, one JSON object per record. It is read from the beginning; records that were read before are skipped.", Seen: func() { c.Marks = &Sink{Kafka: k} }, Keys: slices.Concat(clusterKeys(&k.Cluster, "those of the source"), []keytable.Key{
			{Name: "topic", Doc: "Topic to read.", Required: true, Read: keytable.Text(&k.Topic, keytable.NotEmpty)},
		})},
	}}
}

// checkMarks refuses marks if they would have no effect, and a file of marks that the source also reads.
func (d *decoder) checkMarks(c *Config) {
	if c.Marks == nil || d.Failed("marks") {
		return
	}
	switch {
	case c.Transform == settings.Smooth:
		d.Fail("marks", "belongs to transform: filter")
	case c.Detect == nil && c.Silence == nil && !d.Failed("detect") && !d.Failed("silence"):
		d.Fail("marks", "there are no alarms without detect or silence")
	case c.Runner.Name == Flink:
		d.Fail("marks", "is for the runner direct")
	}
	d.NeedTime("an empty name means that there is no time, which marks need")
	if f, s := c.Marks.File, c.Source.Files(); f != nil && s != nil {
		key := "source." + s.Format + ".path"
		if in := inputOf(key, s.Path); in.reads(placeOf("marks", f.Path)) {
			d.Fail("marks.jsonl.path", "%s is also read, by %s", message.Quote(f.Path), key)
		}
	}
}
