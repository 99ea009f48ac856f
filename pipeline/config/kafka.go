package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/registry"
	"hafvf/internal/httpclient"
	"hafvf/internal/message"
	"hafvf/internal/secret"
	"hafvf/internal/times"
	"hafvf/internal/weburl"
)

// Kafka is a source of topics.
type Kafka struct {
	kafkaio.Source
	Fields // of a record's value; without its key, the key of the record stands in
	// Changelog is the compacted topic that the filters' states are kept in; empty
	// for none.
	Changelog string
	// Registry has the schemas of values of a Format; nil for none, and JSON.
	Registry *registry.Config
	Format   string
	// Embedded starts a broker in this process, in place of a cluster.
	Embedded bool
}

func (k *Kafka) fields() (*Fields, string) { return &k.Fields, "source.kafka" }
func (k *Kafka) shaped() bool              { return true }
func (k *Kafka) unending() bool            { return !k.Bounded }

// Kafka is what the source reads of Kafka, nil if it reads nothing there.
func (s *Source) Kafka() *Kafka { return originOf[*Kafka](s) }

// kafkaKeys declare a source of topics.
func (s *Source) kafkaKeys() []key {
	k := &Kafka{Fields: defaultFields(), Format: registry.Auto}
	k.MaxAhead = time.Hour // records of a topic were made before they are read
	return []key{{name: "kafka", doc: "Topics of Kafka, one observation per record. The key of a value without one is the record's.", seen: s.set(k), keys: slices.Concat(clusterKeys(&k.Cluster, ""), []key{
		{name: "topics", doc: "Topics to read, with all their partitions.", required: true, read: texts("topics", &k.Topics)},
	}, k.Fields.keys("Field"), []key{
		k.Fields.decimal(),
		{name: "format", doc: "What a value is. avro, protobuf and json_schema begin with the id of a schema of registry. auto tells these from JSON; without registry it is json. JSON schemas are not checked.", read: choice(&k.Format, registry.Auto, registry.JSON, registry.Avro, registry.Protobuf, registry.JSONSchema)},
		registryKey(&k.Registry, "Schema registry with the API of Confluent's. Keys of records may have schemas too: their fields stand in for those of key that a value has not.", ""),
		{name: "group", doc: "Consumer group, whose offsets are committed once outputs are stored. By default none.", read: text(&k.Group, notEmpty)},
		{name: "start", doc: "Where reading begins in partitions that exist at the start.", initial: "committed with a group, else earliest", read: startAt(&k.Start)},
		{name: "bounded", doc: "true ends the run at the ends that the partitions have at the start.", read: boolean(&k.Bounded)},
		{name: "changelog", doc: "Compacted topic of the states. With it a restart goes on exactly from the last commit.", read: text(&k.Changelog, notEmpty)},
		{name: "disorder", doc: "How far a record's time may be behind the latest of its partition. While nothing comes, the watermark is behind the clock as 99 % of the last records were, at least by disorder, at first by 15 minutes.", read: duration(&k.Disorder)},
		{name: "tombstones", doc: "A record without a value: with forget its key is forgotten with all that is known of it; a JSON object has the filter's key in its fields. Others, and with reject all, go to the dead letter.", initial: tombstonesReject, read: tombstones(&k.Fields.Forget)},
		{name: "embedded", doc: "true starts a broker with an example in this process.", read: boolean(&k.Embedded)},
	})}}
}

// What a record without a value is.
const (
	tombstonesReject = "reject"
	tombstonesForget = "forget"
)

func tombstones(dst *bool) valueParser {
	quoted := ""
	return choice(&quoted, tombstonesReject, tombstonesForget).then(func() error {
		*dst = quoted == tombstonesForget
		return nil
	})
}

// kafkaKey declares a sink of topics.
func (s *Sink) kafkaKey() key {
	k := &kafkaio.Sink{Compression: kafkaio.DefaultCompression}
	return key{name: "kafka", doc: "A topic of Kafka, one record per message.", seen: func() { s.Kafka = k }, keys: slices.Concat(clusterKeys(&k.Cluster, "those of the source"), []key{
		{name: "topic", doc: "Topic to write to. hafvf creates it if it does not exist.", required: true, read: text(&k.Topic, notEmpty)},
		{name: "format", doc: "json is one JSON object per record. avro has a schema, registered as TOPIC-value; what a record does not have is null, and times are in microseconds.", initial: registry.JSON, read: choice(&s.Format, registry.JSON, registry.Avro)},
		registryKey(&s.Registry, "Schema registry of the topic.", "that of the source"),
		{name: "compression", doc: "How batches are compressed. zstd needs a broker of version 2.1 or newer.", read: choice(&k.Compression, kafkaio.Compressions...)},
	})}
}

// tlsKey declares how a connection is encrypted.
func tlsKey(dst **kafkaio.TLS) key {
	tls := &kafkaio.TLS{}
	return key{name: "tls", doc: "TLS. {} trusts the system's authorities.", seen: func() { *dst = tls }, keys: []key{
		{name: "ca", doc: "PEM file of the authorities to trust.", read: text(&tls.CA, notEmpty)},
		{name: "cert", doc: "PEM file of the client's certificate. It needs key.", read: text(&tls.Cert, notEmpty)},
		{name: "key", doc: "PEM file of the client's private key. It needs cert.", read: text(&tls.Key, notEmpty)},
	}}
}

// clusterKeys declare how to reach a cluster.
func clusterKeys(c *kafkaio.Cluster, brokers string) []key {
	sasl := &kafkaio.SASL{}
	return []key{
		{name: "brokers", doc: "host:port of some brokers of the cluster.", initial: brokers, read: someTexts("brokers", &c.Brokers)},
		tlsKey(&c.TLS),
		{name: "sasl", doc: "Login to the brokers.", seen: func() { c.SASL = sasl }, keys: []key{
			{name: "mechanism", doc: "How the client proves the password to the broker.", required: true, read: mechanism(&sasl.Mechanism)},
			{name: "username", doc: "Name of the user.", required: true, read: text(&sasl.Username, notEmpty)},
			{name: "password", doc: "Place of the password.", required: true, read: secretAt(&sasl.Password)},
		}},
	}
}

// registryKey declares how to reach a schema registry.
func registryKey(dst **registry.Config, doc, initial string) key {
	r := &registry.Config{}
	return key{name: "registry", doc: doc, initial: initial, seen: func() { *dst = r }, keys: []key{
		{name: "url", doc: "URL of the registry, http://… or https://….", required: true, read: checked(&r.URL, "URL", registry.CheckURL)},
		{name: "username", doc: "Name of the user. It needs password.", read: text(&r.Username, notEmpty)},
		{name: "password", doc: "Place of the password.", read: secretAt(&r.Password)},
		tlsKey(&r.TLS),
	}}
}

func mechanism(dst *string) valueParser {
	known := []string{"plain", "scram-sha-256", "scram-sha-512"}
	return valueParser{takes: strings.Join(known, ", "), read: func(d *Decoder, path string, n *yaml.Node) {
		var s string
		if !d.text(path, n, &s) {
			return
		}
		if !slices.Contains(known, strings.ToLower(s)) {
			d.fail(path, "unknown value %s; %s", message.Quote(s), message.Suggest(s, known))
			return
		}
		*dst = strings.ToUpper(s)
	}}
}

// secretAt reads where a secret is. Its errors do not show what stands there.
func secretAt(dst *secret.Secret) valueParser {
	keys := []key{
		{name: "env", doc: "Environment variable that holds the secret.", read: text(&dst.Env, notEmpty)},
		{name: "file", doc: "File that holds the secret, of at most 64 kB. A pipe is read once, within 10 s.", read: text(&dst.File, notEmpty)},
	}
	return valueParser{takes: "{env: VARIABLE} or {file: PATH}", keys: keys, read: func(d *Decoder, path string, n *yaml.Node) {
		const need = "a secret does not stand in a config: give {env: VARIABLE} or {file: path}"
		if n.Kind != yaml.MappingNode {
			d.fail(path, need)
			return
		}
		for i := 0; i < len(n.Content); i += 2 {
			if name := n.Content[i].Value; name != "env" && name != "file" {
				d.fail(path, need)
				return
			}
		}
		before := len(d.Errs)
		d.mapping(path, n, keys)
		switch {
		case len(d.Errs) > before:
		case (dst.Env == "") == (dst.File == ""):
			d.fail(path, "give one of env and file")
		case dst.IsPipe():
			dst.Value(path) // now, as a signal still ends the program; whoever uses it says what is wrong
		}
	}}
}

// textOrSecret reads a text, or where it stands.
func textOrSecret(dst *secret.Text) valueParser {
	place := secretAt(&dst.Secret)
	return valueParser{takes: "text, {env: VARIABLE} or {file: PATH}", read: func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.MappingNode {
			place.read(d, path, n)
			return
		}
		text(&dst.Text, notEmpty).read(d, path, n)
	}}
}

// hookURL reads the URL of a receiver.
func hookURL(dst *secret.Text) valueParser {
	return textOrSecret(dst).then(func() error {
		if dst.Text == "" {
			return nil
		}
		_, err := weburl.Parse(dst.Text)
		return err
	})
}

// headers reads a mapping of names to texts.
func headers(dst *map[string]secret.Text) valueParser {
	return valueParser{takes: "mapping of names to texts, or to {env: VARIABLE} or {file: PATH}", read: func(d *Decoder, path string, n *yaml.Node) {
		all := map[string]secret.Text{}
		d.entries(path, n, func(p string, k, v *yaml.Node) {
			var value secret.Text
			before := len(d.Errs)
			textOrSecret(&value).read(d, p, v)
			all[k.Value] = value
			if len(d.Errs) > before {
				return
			}
			text, err := value.Read(p)
			if err != nil {
				text = "" // a config may be checked where its secrets are not
			}
			if err := httpclient.CheckHeader(k.Value, text); err != nil {
				d.fail(value.Path(p), "%v", err)
			}
		})
		*dst = all
	}}
}

// startAt reads where to start: a name, {offset: n} or {time: t}.
func startAt(dst *kafkaio.Start) valueParser {
	keys := []key{
		{name: "offset", doc: "This offset, in every partition.", read: valueParser{takes: "whole number, at least 0", read: func(d *Decoder, p string, n *yaml.Node) {
			var at int
			if d.whole(p, n, 0, &at) {
				dst.At, dst.Offset = kafkaio.AtOffset, int64(at)
			}
		}}},
		{name: "time", doc: "The first record at or after this time.", read: valueParser{takes: "time, such as 2026-01-02T03:04:05Z", read: func(d *Decoder, p string, n *yaml.Node) {
			t, err := times.Parse(n.Value)
			if n.Kind != yaml.ScalarNode || err != nil {
				d.wrongType(p, "a time such as 2026-01-02T03:04:05Z", n)
				return
			}
			dst.At, dst.Time = kafkaio.AtTime, t
		}}},
	}
	return valueParser{takes: "earliest, latest, committed, {offset: n} or {time: t}", keys: keys, read: func(d *Decoder, path string, n *yaml.Node) {
		switch n.Kind {
		case yaml.ScalarNode:
			choice(&dst.At, kafkaio.Earliest, kafkaio.Latest, kafkaio.Committed).read(d, path, n)
		case yaml.MappingNode:
			before := len(d.Errs)
			d.mapping(path, n, keys)
			if len(d.Errs) == before && d.has(join(path, "offset")) == d.has(join(path, "time")) {
				d.fail(path, "give one of offset and time")
			}
		default:
			d.wrongType(path, "earliest, latest, committed, {offset: n} or {time: t}", n)
		}
	}}
}

// checkKafka holds what concerns more than one key of sinks of topics, and fills in
// what one takes from another.
func (d *decoder) checkKafka(c *Config) {
	k := c.Source.Kafka()
	type topic struct {
		key  string
		sink *kafkaio.Sink
	}
	var written []topic
	type section struct {
		key  string
		sink *Sink
	}
	sections := []section{{"sink", &c.Sink}, {"dead_letter", c.DeadLetter}, {"marks", c.Marks}}
	for i := range c.Alerts {
		sections = append(sections, section{c.Alerts[i].At, &c.Alerts[i].Sink})
	}
	for _, s := range sections {
		if s.sink == nil {
			continue
		}
		d.checkUnending(c, s.key, s.sink)
		t := s.sink.Kafka
		if t == nil {
			continue
		}
		at := s.key + ".kafka"
		d.checkPair(at)
		d.checkSinkRegistry(at, s.sink, k)
		switch {
		case d.failed(at+".brokers") || len(t.Cluster.Brokers) > 0:
		case k != nil:
			for _, name := range []string{"tls", "sasl"} {
				if d.has(join(at, name)) {
					d.fail(join(at, name), "belongs to brokers, and those are the source's")
				}
			}
			t.Cluster = k.Cluster
		default:
			d.fail(at+".brokers", "missing; it is required")
		}
		if k != nil && slices.Equal(t.Cluster.Brokers, k.Cluster.Brokers) {
			if t.Topic != "" && slices.Contains(k.Topics, t.Topic) {
				d.fail(at+".topic", "%s is also read, by source.kafka.topics", message.Quote(t.Topic))
			}
			if t.Topic == k.Changelog && t.Topic != "" {
				d.fail(at+".topic", "%s is the changelog", message.Quote(t.Topic))
			}
		}
		for _, w := range written {
			if w.sink.Topic == t.Topic && t.Topic != "" && slices.Equal(w.sink.Cluster.Brokers, t.Cluster.Brokers) {
				d.fail(at+".topic", "%s is also written, by %s", message.Quote(t.Topic), w.key)
			}
		}
		written = append(written, topic{at + ".topic", t})
	}
}

// needBoth refuses one of two keys without the other, with what it then needs.
func (d *decoder) needBoth(one, needs, other, otherNeeds string) {
	switch {
	case d.has(one) && !d.has(other):
		d.fail(one, "needs %s", needs)
	case d.has(other) && !d.has(one):
		d.fail(other, "needs %s", otherNeeds)
	}
}

// checkPair refuses half of a client's certificate.
func (d *decoder) checkPair(at string) {
	d.needBoth(at+".tls.cert", "tls.key, its private key", at+".tls.key", "tls.cert, its certificate")
}

// checkLogin refuses half of a client's certificate or of a login.
func (d *decoder) checkLogin(at string) {
	d.checkPair(at)
	d.needBoth(at+".username", "password", at+".password", "username")
}

// checkRegistry refuses half of a login, and encryption of what is not encrypted.
func (d *decoder) checkRegistry(at string, r *registry.Config) {
	at += ".registry"
	d.checkLogin(at)
	if r != nil && r.TLS != nil && strings.HasPrefix(r.URL, "http://") {
		d.fail(at+".tls", "is for https://…, and url is without encryption")
	}
}

// checkSinkRegistry finds the registry of a sink of Avro, which may be the source's.
func (d *decoder) checkSinkRegistry(at string, s *Sink, source *Kafka) {
	d.checkRegistry(at, s.Registry)
	switch {
	case s.Format != registry.Avro:
		if d.has(at + ".registry") {
			d.fail(at+".registry", "is for format: avro")
		}
		s.Registry = nil
	case s.Registry == nil && source != nil && source.Registry != nil:
		s.Registry = source.Registry
	case s.Registry == nil:
		d.fail(at+".format", "avro needs registry, which has the schemas; the source has none")
	}
}

func (k *Kafka) check(d *decoder, c *Config) {
	const at = "source.kafka"
	d.checkPair(at)
	d.checkRegistry(at, k.Registry)
	if k.Format != registry.Auto && k.Format != registry.JSON && k.Registry == nil {
		d.fail(at+".format", "%s needs registry, which has the schemas", k.Format)
	}
	if k.Embedded {
		for _, name := range []string{"tls", "sasl"} {
			if d.has(join(at, name)) {
				d.fail(join(at, name), "is not for an embedded broker")
			}
		}
	} else if len(k.Cluster.Brokers) == 0 && !d.failed(at+".brokers") {
		d.fail(at+".brokers", "missing; it is required, unless embedded is true")
	}
	if k.Start.At == "" {
		k.Start.At = kafkaio.Earliest
		if k.Group != "" {
			k.Start.At = kafkaio.Committed
		}
	}
	if k.Start.At == kafkaio.Committed && k.Group == "" {
		d.fail(at+".start", "committed needs a group")
	}
	if k.Changelog != "" && slices.Contains(k.Topics, k.Changelog) {
		d.fail(at+".changelog", "%s is also read, by topics", message.Quote(k.Changelog))
	}
	for i, topic := range k.Topics {
		if slices.Contains(k.Topics[:i], topic) {
			d.fail(fmt.Sprintf("%s.topics.%d", at, i), "%s stands here twice", message.Quote(topic))
		}
	}
	if c.Transform == Smooth && k.Changelog != "" {
		d.fail(at+".changelog", "belongs to transform: filter")
	}
}

func (k *Kafka) checkFlink(d *decoder) {
	if k.Embedded {
		d.fail("source.kafka.embedded", "is for the runner direct")
	}
	if k.Changelog != "" {
		d.fail("source.kafka.changelog", "is for the runner direct: flink keeps the states in its checkpoints")
	}
}

// checkUnending refuses files that have to come to an end for a source without
// one.
func (d *decoder) checkUnending(c *Config, at string, s *Sink) {
	if s.File == nil || !c.Source.Unending() {
		return
	}
	const reason = "has to come to an end, and the source has none: give bounded: true, a topic, or a plain csv or jsonl file"
	if format := connectors.FormatOf(s.File.Format); format.Whole {
		d.fail(join(at, format.Name), "a %s file %s", format.Title, reason)
	} else if connectors.Unpacked(s.File.Path) != s.File.Path {
		d.fail(join(at, format.Name+".path"), "a compressed file %s", reason)
	}
}
