package config

import (
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

func TestMarks(t *testing.T) {
	const files, topics = "model: {family: normal}\nsource: {csv: {path: a.csv}}\n", "model: {family: normal}\nsource: {kafka: {brokers: ['c:1'], topics: [in]}}\nsink: {kafka: {topic: out}}\n"
	c := expect.Get(Parse("pump.yaml", []byte(files+"detect: true\nmarks: {jsonl: {path: marks.jsonl}}"), nil))(t)
	if c.Marks.File.Path != "marks.jsonl" {
		t.Errorf("%+v", c.Marks)
	}
	c = expect.Get(Parse("pump.yaml", []byte(topics+"silence: true\nmarks: {kafka: {topic: marks}}"), nil))(t)
	if k := c.Marks.Kafka; k.Topic != "marks" || k.Cluster.Brokers[0] != "c:1" {
		t.Errorf("%+v", k)
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "*.jsonl")
	for text, want := range map[string]string{
		files + "marks: {jsonl: {path: m}}":                                                                                                               "marks: there are no alarms without detect or silence",
		"transform: smooth\n" + files + "marks: {jsonl: {path: m}}":                                                                                       "marks: belongs to transform: filter",
		topics + "detect: true\nrunner: {name: flink, endpoint: 'a:1'}\nmarks: {kafka: {topic: m}}":                                                       "marks: is for the runner direct",
		"model: {family: normal}\ndetect: true\norder: arrival\nsource: {csv: {path: a, time: ''}}\nmarks: {jsonl: {path: m}}":                            "source.csv.time: an empty name means that there is no time, which marks need",
		files + "detect: true\nmarks: {}":                                                                                                                 "marks: names no connector; one of jsonl, kafka is required",
		files + "detect: true\nmarks: {jsonl: {path: '-'}}":                                                                                               "marks.jsonl.path: is not the name of a file",
		files + "detect: true\nmarks: {kafka: {topic: m}}":                                                                                                "marks.kafka.brokers: missing",
		files + "detect: true\nsink: {jsonl: {path: ./m}}\nmarks: {jsonl: {path: m}}":                                                                     `sink.jsonl.path: "m" is also read, by marks.jsonl.path`,
		files + "detect: true\nstate: m\nmarks: {jsonl: {path: m}}":                                                                                       `state: "m" is also read, by marks.jsonl.path`,
		"model: {family: normal}\ndetect: true\nsource: {jsonl: {path: '" + data + "'}}\nmarks: {jsonl: {path: '" + filepath.Join(dir, "m.jsonl") + "'}}": "marks.jsonl.path: ",
		topics + "detect: true\nmarks: {kafka: {topic: in}}":                                                                                              `marks.kafka.topic: "in" is also read, by source.kafka.topics`,
		topics + "detect: true\nmarks: {kafka: {topic: out}}":                                                                                             `marks.kafka.topic: "out" is also written, by sink.kafka.topic`,
	} {
		if _, err := Parse("pump.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\ninstead of %s", text, err, want)
		}
	}
}
