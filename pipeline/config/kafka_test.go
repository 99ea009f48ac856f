package config

import (
	"strings"
	"testing"
	"time"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/registry"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/flink"
)

// topics returns a config whose source of topics has the given keys in line 2. The further lines begin at line 3.
func topics(keys string, lines ...string) string {
	return "model: {family: normal}\nsource: {kafka: {" + keys + "}}\n" + strings.Join(lines, "\n")
}

const someTopics = "brokers: ['b:9092'], topics: [in]"

func TestParseKafka(t *testing.T) {
	cluster := kafkaio.Cluster{Brokers: []string{"b:9092"}}
	source := func(set func(*Kafka)) *Kafka {
		k := &Kafka{Fields: defaultFields(), Format: registry.Auto, Source: kafkaio.Source{Cluster: cluster, Topics: []string{"in"}, Start: kafkaio.Start{At: kafkaio.Earliest}}}
		k.MaxAhead = time.Hour
		set(k)
		return k
	}
	for _, test := range []struct {
		keys string
		want *Kafka
	}{
		{someTopics, source(func(*Kafka) {})},
		{someTopics + ", group: g", source(func(k *Kafka) { k.Group, k.Start.At = "g", kafkaio.Committed })},
		{someTopics + ", group: g, start: latest", source(func(k *Kafka) { k.Group, k.Start.At = "g", kafkaio.Latest })},
		{someTopics + ", start: {offset: 7}", source(func(k *Kafka) { k.Start = kafkaio.Start{At: kafkaio.AtOffset, Offset: 7} })},
		{someTopics + ", start: {time: 2026-01-02T03:04:05Z}", source(func(k *Kafka) {
			k.Start = kafkaio.Start{At: kafkaio.AtTime, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		})},
		{someTopics + ", changelog: c, disorder: 5s, bounded: true", source(func(k *Kafka) { k.Changelog, k.Disorder, k.Bounded = "c", 5*time.Second, true })},
		{"embedded: true, topics: [in]", source(func(k *Kafka) { k.Embedded, k.Cluster = true, kafkaio.Cluster{} })},
		{someTopics + ", tls: {}", source(func(k *Kafka) { k.Cluster.TLS = &kafkaio.TLS{} })},
		{someTopics + ", tls: {ca: ca.pem, cert: c.pem, key: k.pem}, sasl: {mechanism: Scram-SHA-512, username: u, password: {file: p}}", source(func(k *Kafka) {
			k.Cluster.TLS = &kafkaio.TLS{CA: "ca.pem", Cert: "c.pem", Key: "k.pem"}
			k.Cluster.SASL = &kafkaio.SASL{Mechanism: "SCRAM-SHA-512", Username: "u", Password: kafkaio.Secret{File: "p"}}
		})},
		{someTopics + ", max_ahead: 5m", source(func(k *Kafka) { k.MaxAhead = 5 * time.Minute })},
		{someTopics + ", max_ahead: none", source(func(k *Kafka) { k.MaxAhead = 0 })},
		{someTopics + ", format: json", source(func(k *Kafka) { k.Format = registry.JSON })},
		{someTopics + ", format: avro, registry: {url: 'https://r/a', username: u, password: {env: P}, tls: {ca: ca.pem}}", source(func(k *Kafka) {
			k.Format = registry.Avro
			k.Registry = &registry.Config{URL: "https://r/a", Username: "u", Password: kafkaio.Secret{Env: "P"}, TLS: &kafkaio.TLS{CA: "ca.pem"}}
		})},
	} {
		got := parse(t, topics(test.keys)).Source
		expect.Same(t, Source{[]SourceKind{test.want}}, got, test.keys)
	}
}

// A sink without brokers uses the source's cluster, with its security.
func TestSinksInheritTheCluster(t *testing.T) {
	const secure = someTopics + ", tls: {ca: ca.pem}, sasl: {mechanism: plain, username: u, password: {env: P}}"
	c := parse(t, topics(secure, "detect: true",
		"sink: {kafka: {topic: out}}",
		"alerts: {kafka: {topic: alerts}}",
		"dead_letter: {kafka: {topic: rejected, brokers: ['c:1', 'd:2'], tls: {}, compression: lz4}}"))
	for name, s := range map[string]*Sink{"out": &c.Sink, "alerts": &c.Alerts[0].Sink} {
		expect.Same(t, &kafkaio.Sink{Cluster: c.Source.Kafka().Cluster, Topic: name, Compression: "zstd"}, s.Kafka, name)
	}
	ownCluster := kafkaio.Cluster{Brokers: []string{"c:1", "d:2"}, TLS: &kafkaio.TLS{}}
	expect.Same(t, &kafkaio.Sink{Cluster: ownCluster, Topic: "rejected", Compression: "lz4"}, c.DeadLetter.Kafka)
	// The same name on two clusters means two topics.
	parse(t, topics(someTopics, "sink: {kafka: {topic: in, brokers: ['c:1']}}", "dead_letter: {kafka: {topic: in, brokers: ['d:1']}}"))
	// With a source of files, a sink has its own cluster.
	c = parse(t, withLines("sink: {kafka: {topic: out, brokers: ['c:1']}}"))
	expect.Same(t, []string{"c:1"}, c.Sink.Kafka.Cluster.Brokers)
}

// An Avro sink has the source's registry or its own.
func TestSinksInheritTheRegistry(t *testing.T) {
	c := parse(t, topics(someTopics+", registry: {url: 'http://r'}", "detect: true",
		"sink: {kafka: {topic: out, format: avro}}",
		"alerts: {kafka: {topic: alerts, format: json}}",
		"dead_letter: {kafka: {topic: rejected, format: avro, registry: {url: 'http://s'}}}"))
	for want, s := range map[string]*Sink{"http://r": &c.Sink, "http://s": c.DeadLetter} {
		if s.Format != registry.Avro || s.Registry == nil || s.Registry.URL != want {
			t.Errorf("%+v, want %s", s, want)
		}
	}
	if s := c.Alerts[0]; s.Format != registry.JSON || s.Registry != nil {
		t.Errorf("%+v", s)
	}
}

func TestParseKafkaErrors(t *testing.T) {
	const noEnd = "is complete only at its end, and the source has none: use bounded: true, a topic, or a plain csv or jsonl file"
	const noSecret = "secrets are not allowed in a config: use {env: VARIABLE} or {file: path}"
	login := func(rest string) string { return topics(someTopics + ", sasl: {" + rest + "}") }
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", topics(""), []string{
			`pump.yaml:2: source.kafka.topics: missing; it is required`,
			`pump.yaml:2: source.kafka.brokers: missing; it is required, unless embedded is true`,
		}},
		{"a format without a registry", topics(someTopics + ", format: protobuf"), []string{`pump.yaml:2: source.kafka.format: protobuf needs registry, which has the schemas`}},
		{"an unknown format", topics(someTopics + ", format: arvo"), []string{`pump.yaml:2: source.kafka.format: unknown value "arvo"; did you mean "avro"?`}},
		{"registries", topics(someTopics+", registry: {username: u}", "sink: {kafka: {topic: out, registry: {url: 'r:8081', password: secret}}}", "dead_letter: {kafka: {topic: dead, format: avro, registry: {url: 'http://r', tls: {cert: c}}}}"), []string{
			`pump.yaml:2: source.kafka.registry.url: missing; it is required`,
			`pump.yaml:2: source.kafka.registry.username: needs password`,
			`pump.yaml:3: sink.kafka.registry.url: must be http://… or https://… with a host`,
			`pump.yaml:3: sink.kafka.registry.password: ` + noSecret,
			`pump.yaml:3: sink.kafka.registry.password: needs username`,
			`pump.yaml:3: sink.kafka.registry: is for format: avro`,
			`pump.yaml:4: dead_letter.kafka.registry.tls.cert: needs tls.key, its private key`,
			`pump.yaml:4: dead_letter.kafka.registry.tls: is for https://…, but url has no encryption`,
		}},
		{"Avro without a registry", topics(someTopics, "sink: {kafka: {topic: out, format: avro}}"), []string{`pump.yaml:3: sink.kafka.format: avro needs registry, which has the schemas; the source has none`}},
		{"no topics", topics("brokers: ['b:1'], topics: []"), []string{`pump.yaml:2: source.kafka.topics: must name at least one of the topics`}},
		{"no brokers", topics("brokers: [], topics: [a]"), []string{`pump.yaml:2: source.kafka.brokers: missing; it is required, unless embedded is true`}},
		{"empty names", topics("brokers: [''], topics: [''], group: '', changelog: ''"), []string{
			`pump.yaml:2: source.kafka.brokers.0: must not be empty`,
			`pump.yaml:2: source.kafka.topics.0: must not be empty`,
			`pump.yaml:2: source.kafka.group: must not be empty`,
			`pump.yaml:2: source.kafka.changelog: must not be empty`,
		}},
		{"max_ahead", topics(someTopics + ", max_ahead: 0s"), []string{`pump.yaml:2: source.kafka.max_ahead: must be a number of milliseconds above zero, not 0s`}},
		{"disorder", topics(someTopics + ", disorder: 5"), []string{`pump.yaml:2: source.kafka.disorder: must be a duration such as 30m or 0s, not the number 5`}},

		{"start", topics(someTopics + ", start: earlist"), []string{`pump.yaml:2: source.kafka.start: unknown value "earlist"; did you mean "earliest"?`}},
		{"start at a list", topics(someTopics + ", start: [1]"), []string{`pump.yaml:2: source.kafka.start: must be earliest, latest, committed, {offset: n} or {time: t}, not a list`}},
		{"start at nothing", topics(someTopics + ", start: {}"), []string{`pump.yaml:2: source.kafka.start: give one of offset and time`}},
		{"start at two", topics(someTopics + ", start: {offset: 1, time: 2026-01-02T03:04:05Z}"), []string{`pump.yaml:2: source.kafka.start: give one of offset and time`}},
		{"start before the first", topics(someTopics + ", start: {offset: -1}"), []string{`pump.yaml:2: source.kafka.start.offset: must be at least 0, not -1`}},
		{"start soon", topics(someTopics + ", start: {time: soon}"), []string{`pump.yaml:2: source.kafka.start.time: must be a time such as 2026-01-02T03:04:05Z, not the text "soon"`}},
		{"start committed without a group", topics(someTopics + ", start: committed"), []string{`pump.yaml:2: source.kafka.start: committed needs a group`}},

		{"changelog is read", topics(someTopics + ", changelog: in"), []string{`pump.yaml:2: source.kafka.changelog: "in" is also read, by topics`}},
		{"changelog is written", topics(someTopics+", changelog: c", "sink: {kafka: {topic: c}}"), []string{`pump.yaml:3: sink.kafka.topic: "c" is the changelog`}},
		{"sink is read", topics(someTopics, "sink: {kafka: {topic: in}}"), []string{`pump.yaml:3: sink.kafka.topic: "in" is also read, by source.kafka.topics`}},
		{"sink is written", topics(someTopics, "sink: {kafka: {topic: out}}", "detect: true", "alerts: {kafka: {topic: out}}"), []string{`pump.yaml:5: alerts.kafka.topic: "out" is also written, by sink.kafka.topic`}},
		{"compression", topics(someTopics, "sink: {kafka: {topic: out, compression: lz5}}"), []string{`pump.yaml:3: sink.kafka.compression: unknown value "lz5"; did you mean "lz4"?`}},
		{"no topic", topics(someTopics, "sink: {kafka: {}}"), []string{`pump.yaml:3: sink.kafka.topic: missing; it is required`}},
		{"dead letter without brokers", withLines("dead_letter: {kafka: {topic: out}}"), []string{`pump.yaml:3: dead_letter.kafka.brokers: missing; it is required`}},
		{"security without brokers", topics(someTopics, "sink: {kafka: {topic: out, tls: {}, sasl: {mechanism: plain, username: u, password: {env: P}}}}"), []string{
			`pump.yaml:3: sink.kafka.tls: needs brokers in the same section; without them the source's brokers are used`,
			`pump.yaml:3: sink.kafka.sasl: needs brokers in the same section; without them the source's brokers are used`,
		}},

		{"half a certificate", topics(someTopics+", tls: {cert: c.pem}", "sink: {kafka: {topic: out, brokers: ['c:1'], tls: {key: k.pem}}}"), []string{
			`pump.yaml:2: source.kafka.tls.cert: needs tls.key, its private key`,
			`pump.yaml:3: sink.kafka.tls.key: needs tls.cert, its certificate`,
		}},
		{"tls as a switch", topics(someTopics + ", tls: true"), []string{`pump.yaml:2: source.kafka.tls: must be a mapping, not true`}},
		{"embedded with security", topics("embedded: true, topics: [a], tls: {}, sasl: {mechanism: plain, username: u, password: {env: P}}"), []string{
			`pump.yaml:2: source.kafka.tls: is not for an embedded broker`,
			`pump.yaml:2: source.kafka.sasl: is not for an embedded broker`,
		}},
		{"no login", login(""), []string{
			`pump.yaml:2: source.kafka.sasl.mechanism: missing; it is required`,
			`pump.yaml:2: source.kafka.sasl.username: missing; it is required`,
			`pump.yaml:2: source.kafka.sasl.password: missing; it is required`,
		}},
		{"mechanism", login("mechanism: scram-sha-521, username: u, password: {env: P}"), []string{`pump.yaml:2: source.kafka.sasl.mechanism: unknown value "scram-sha-521"; did you mean "scram-sha-512"?`}},
		{"password", login("mechanism: plain, username: u, password: hunter2"), []string{`pump.yaml:2: source.kafka.sasl.password: ` + noSecret}},
		{"password as a key", login("mechanism: plain, username: u, password: {hunter2}"), []string{`pump.yaml:2: source.kafka.sasl.password: ` + noSecret}},
		{"password by a number", login("mechanism: plain, username: u, password: {env: 71077}"), []string{`pump.yaml:2: source.kafka.sasl.password.env: must be text, not this value; put it in quotes`}},
		{"password nowhere", login("mechanism: plain, username: u, password: {}"), []string{`pump.yaml:2: source.kafka.sasl.password: give one of env and file`}},
		{"password in two places", login("mechanism: plain, username: u, password: {env: P, file: p}"), []string{`pump.yaml:2: source.kafka.sasl.password: give one of env and file`}},
		{"password as an alias", login("mechanism: plain, username: u, password: *hunter2"), []string{`pump.yaml: not YAML: anchors (&name) and aliases (*name) are not supported: write the value in each place; if it is text, put it in quotes`}},
		{"password in place of a login", topics(someTopics + ", sasl: hunter2"), []string{`pump.yaml:2: source.kafka.sasl: must be a mapping, not this value`}},
		{"password in a sink", topics(someTopics, "sink: {kafka: {topic: out, brokers: ['c:1'], sasl: {mechanism: plain, username: u, password: hunter2}}}"), []string{`pump.yaml:3: sink.kafka.sasl.password: ` + noSecret}},

		{"parquet without an end", topics(someTopics, "sink: {parquet: {path: a.parquet}}"), []string{`pump.yaml:3: sink.parquet: a Parquet file ` + noEnd}},
		{"compression without an end", topics(someTopics, "sink: {csv: {path: a.csv.gz}}", "dead_letter: {jsonl: {path: r.jsonl.zst}}", "detect: true", "alerts: {jsonl: {path: a.jsonl.gz}}"), []string{
			`pump.yaml:3: sink.csv.path: a compressed file ` + noEnd,
			`pump.yaml:4: dead_letter.jsonl.path: a compressed file ` + noEnd,
			`pump.yaml:6: alerts.jsonl.path: a compressed file ` + noEnd,
		}},
		{"smooth with a changelog", topics(someTopics+", changelog: c", "transform: smooth"), []string{
			`pump.yaml:2: source.kafka.changelog: belongs to transform: filter`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("pump.yaml", []byte(test.text), nil)
			if err == nil {
				t.Fatal("accepted")
			}
			expect.Same(t, test.want, strings.Split(err.Error(), "\n"))
		})
	}
	for _, text := range []string{
		topics(someTopics+", bounded: true", "sink: {parquet: {path: a.parquet}}", "dead_letter: {jsonl: {path: a.gz}}"),
		topics(someTopics+", bounded: true", "transform: smooth"),
		topics(someTopics, "sink: {csv: {path: a.csv}}", "dead_letter: {jsonl: {path: a.jsonl}}"),
	} {
		parse(t, text)
	}
}

// An error that quotes an override does not show secrets, wherever they were put by mistake.
func TestOverridesDoNotShowSecrets(t *testing.T) {
	base := topics(someTopics + ", sasl: {mechanism: plain, username: u, password: hunter2}")
	for _, set := range [][]string{
		{"source.kafka.sasl.password=hunter2"},
		{"source.kafka.sasl.password.env=PASSWORD"}, // part of a text: hunter2 has no keys
		{"source.kafka.sasl.pasword=hunter2"},
		{"source.kafka.sals.password=hunter2"},
		{"source.kafka.sasl={mechanism: plain, username: u, password: hunter2}"},
		{"source.kafka={brokers: [b], topics: [in], sasl: {password: hunter2}}"},
		{"sink={kafka: {topic: out, brokers: [c], sasl: {mechanism: plain, username: u, password: hunter2}}}"},
		{"source.kafka.sasl=hunter2"},
		{"source.kafka.sasl=[hunter2"},
		{"source.kafka.sasl.password={hunter2}"},
		{"source.kafka.sasl.password=*hunter2"},
		{"source.kafka.sasl.password={file: [hunter2]}"},
		{"source.kafka.SASL.Password=hunter2\x00"},
		{"source.kafka.sasl.password.=hunter2"},
		{"source.kafka.sasl.password={env: P}", "source.kafka.sasl.password.env=71077"},
	} {
		_, err := Parse("pump.yaml", []byte(base), set)
		if err == nil {
			t.Errorf("%q is accepted", set)
		} else if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "71077") {
			t.Errorf("%q: %s", set, text)
		}
	}
	_, err := Parse("pump.yaml", []byte(base), []string{"source.kafka.sasl.password=hunter2"})
	const want = "--set source.kafka.sasl.password=…: source.kafka.sasl.password: secrets are not allowed in a config: use {env: VARIABLE} or {file: path}"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestParseFlink(t *testing.T) {
	const text = `model: {family: normal}
transform: smooth
source: {kafka: {brokers: [a:1], topics: [in]}}
sink: {kafka: {topic: out}}
runner: {name: flink, endpoint: jobs:8099, parallelism: 3, poll: 250ms}
`
	cfg := expect.Get(Parse("flink.yaml", []byte(text), nil))(t)
	want := Runner{
		Name: Flink, Cluster: flink.Cluster{Endpoint: "jobs:8099", REST: "http://jobs:8081"}, Job: "hafvf", Worker: "localhost:50000",
		Parallelism: 3, MaxParallelism: 128, Cells: 256, CheckpointInterval: 10 * time.Second, Poll: 250 * time.Millisecond,
	}
	expect.Same(t, want, cfg.Runner)
}
