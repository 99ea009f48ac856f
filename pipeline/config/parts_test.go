package config

import (
	"fmt"
	"testing"

	"hafvf/internal/testing/expect"
)

// TestParts checks keys that are parts of the path, and times of Kafka records.
func TestParts(t *testing.T) {
	const files, topic = "path: a/*.csv, ", "brokers: [a], topics: [in], "
	for _, c := range []struct{ source, want string }{
		{"csv: {" + files + `key: {path: "site=*"}}`, `key: {path: "site=*"} time: time`},
		{"csv: {" + files + `key: [{path: "*.csv"}, {path: 2}, pump]}`, `key: [{path: "*.csv"}, {path: 2}, pump] time: time`},
		{"csv: {" + files + `key: [path]}`, `key: path time: time`},
		{"kafka: {" + topic + `time: {record: true}}`, "key: key time: record"},
		{"csv: {" + files + `key: {path: site}}`, `source.csv.key: {path: part} takes the name of a folder or file with one * and without /, such as "site=*", or the number of a part, from 1`},
		{"csv: {" + files + `key: [{path: "a/*"}]}`, `source.csv.key.0: {path: part} takes the name of a folder or file with one * and without /, such as "site=*", or the number of a part, from 1`},
		{"csv: {" + files + `key: {path: 0}}`, `source.csv.key: {path: part} takes the name of a folder or file with one * and without /, such as "site=*", or the number of a part, from 1`},
		{"csv: {" + files + `key: {paths: 1}}`, "source.csv.key: must be a name, a list of names, or none, not a mapping"},
		{"csv: {" + files + `key: []}`, "source.csv.key: must name at least one of the names"},
		{`jsonl: {path: "-", key: [{path: 1}]}`, "source.jsonl.key: {path: …} is a part of a file's path, and standard input has none: name a column or field"},
		{"csv: {" + files + "time: {record: true}}", "source.csv.time: {record: true} is the timestamp of a Kafka record, and records of a file have none: name a column or field"},
		{"kafka: {" + topic + "time: {record: false}}", "source.kafka.time: must be a list of names, not a mapping"},
		{"kafka: {" + topic + "time: {record: true}, time_format: unix}", "source.kafka.time_format: is for times in the records' values: with time: {record: true} leave it out"},
		{"kafka: {" + topic + "key: {path: 1}}", "source.kafka.key: {path: …} is a part of a file's path, and a topic has none: name a field"},
		{`prometheus: {url: "http://a", query: up, key: [{path: 1}]}`, "source.prometheus.key.0: must be text, not a mapping"},
	} {
		config, err := Parse("c.yaml", []byte("model: {family: normal}\nsource: {"+c.source+"}\n"), nil)
		if err != nil {
			expect.Same(t, "c.yaml:2: "+c.want, err.Error(), c.source)
			continue
		}
		f, _ := config.Source.fields()
		times := fmt.Sprint(f.Time[0])
		if f.UsesRecordTime() {
			times = "record"
		}
		expect.Same(t, c.want, "key: "+YAMLNames(f.Key)+" time: "+times, c.source)
	}
}
