package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors/kafkaio"
)

// Kafka is a source of topics.
type Kafka struct {
	kafkaio.Source
	// Changelog is the compacted topic that the filters' states are kept in; empty
	// for none.
	Changelog string
	// Embedded starts a broker in this process, in place of a cluster.
	Embedded bool
}

// unending reports whether the source goes on until it is stopped.
func (s *Source) unending() bool { return s.Kafka != nil && !s.Kafka.Bounded }

// kafkaKey declares a source of topics.
func (s *Source) kafkaKey() key {
	k := &Kafka{}
	return key{name: "kafka", doc: "topics of Kafka, one JSON object per record", seen: func() { s.Kafka = k }, keys: slices.Concat(clusterKeys(&k.Cluster), []key{
		{name: "topics", doc: "topics to read, with all their partitions; required", required: true, read: texts("topics", &k.Topics)},
		{name: "group", doc: "consumer group whose offsets are committed once the outputs are stored; none by default", read: text(&k.Group, notEmpty)},
		{name: "start", doc: "earliest, latest, committed (the default with a group, else earliest), {offset: n} or {time: t}", read: startAt(&k.Start)},
		{name: "bounded", doc: "true: end where the partitions end at the start; false by default", read: boolean(&k.Bounded)},
		{name: "changelog", doc: "compacted topic of the filters' states, with which a restart goes on exactly where it was; none by default", read: text(&k.Changelog, notEmpty)},
		{name: "disorder", doc: "how far a record's time may be behind the latest of its partition; 0s by default", read: duration(&k.Disorder)},
		{name: "embedded", doc: "true: a broker in this process in place of a cluster, with an example to read; false by default", read: boolean(&k.Embedded)},
	})}
}

// kafkaKey declares a sink of topics.
func (s *Sink) kafkaKey() key {
	k := &kafkaio.Sink{}
	return key{name: "kafka", doc: "a topic of Kafka, one JSON object per record", seen: func() { s.Kafka = k }, keys: slices.Concat(clusterKeys(&k.Cluster), []key{
		{name: "topic", doc: "created where it does not exist; required", required: true, read: text(&k.Topic, notEmpty)},
	})}
}

// clusterKeys declare how to reach a cluster.
func clusterKeys(c *kafkaio.Cluster) []key {
	tls, sasl := &kafkaio.TLS{}, &kafkaio.SASL{}
	return []key{
		{name: "brokers", doc: "host:port of some brokers; of a sink by default those of the source", read: someTexts("brokers", &c.Brokers)},
		{name: "tls", doc: "encrypts; {} trusts the system's authorities", seen: func() { c.TLS = tls }, keys: []key{
			{name: "ca", doc: "file of the authorities to trust, PEM", read: text(&tls.CA, notEmpty)},
			{name: "cert", doc: "file of the client's certificate, PEM, with key", read: text(&tls.Cert, notEmpty)},
			{name: "key", doc: "file of the client's private key, PEM", read: text(&tls.Key, notEmpty)},
		}},
		{name: "sasl", doc: "logs in", seen: func() { c.SASL = sasl }, keys: []key{
			{name: "mechanism", doc: "plain, scram-sha-256 or scram-sha-512; required", required: true, read: mechanism(&sasl.Mechanism)},
			{name: "username", doc: "required", required: true, read: text(&sasl.Username, notEmpty)},
			{name: "password", doc: "{env: VARIABLE} or {file: path}: where it is, never what it is; required", required: true, read: secret(&sasl.Password)},
		}},
	}
}

func mechanism(dst *string) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		var s string
		if !d.text(path, n, &s) {
			return
		}
		known := []string{"plain", "scram-sha-256", "scram-sha-512"}
		if !slices.Contains(known, strings.ToLower(s)) {
			d.fail(path, "unknown value %s; %s", quote(s), suggest(s, known))
			return
		}
		*dst = strings.ToUpper(s)
	}
}

// secret reads where a secret is. Its errors do not show what stands there.
func secret(dst *kafkaio.Secret) reader {
	return func(d *decoder, path string, n *yaml.Node) {
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
		before := len(d.errs)
		d.mapping(path, n, []key{
			{name: "env", read: text(&dst.Env, notEmpty)},
			{name: "file", read: text(&dst.File, notEmpty)},
		})
		if len(d.errs) == before && (dst.Env == "") == (dst.File == "") {
			d.fail(path, "give one of env and file")
		}
	}
}

// startAt reads where to start: a name, {offset: n} or {time: t}.
func startAt(dst *kafkaio.Start) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		switch n.Kind {
		case yaml.ScalarNode:
			choice(&dst.At, kafkaio.Earliest, kafkaio.Latest, kafkaio.Committed)(d, path, n)
		case yaml.MappingNode:
			before := len(d.errs)
			d.mapping(path, n, []key{
				{name: "offset", read: func(d *decoder, p string, n *yaml.Node) {
					var at int
					if d.whole(p, n, 0, &at) {
						dst.At, dst.Offset = kafkaio.AtOffset, int64(at)
					}
				}},
				{name: "time", read: func(d *decoder, p string, n *yaml.Node) {
					t, err := parseTime(n.Value)
					if n.Kind != yaml.ScalarNode || err != nil || t.IsZero() {
						d.wrongType(p, "a time such as 2026-01-02T03:04:05Z", n)
						return
					}
					dst.At, dst.Time = kafkaio.AtTime, t
				}},
			})
			if len(d.errs) == before && d.has(join(path, "offset")) == d.has(join(path, "time")) {
				d.fail(path, "give one of offset and time")
			}
		default:
			d.wrongType(path, "earliest, latest, committed, {offset: n} or {time: t}", n)
		}
	}
}

func boolean(dst *bool) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(dst) != nil {
			d.wrongType(path, "true or false", n)
		}
	}
}

// checkKafka holds what concerns more than one key of sources and sinks of
// topics, and fills in what one takes from another.
func (d *decoder) checkKafka(c *Config) {
	k := c.Source.Kafka
	if k != nil {
		d.checkTopics(c, k)
	}
	type topic struct {
		key  string
		sink *kafkaio.Sink
	}
	var written []topic
	for _, s := range []struct {
		key  string
		sink *Sink
	}{{"sink", &c.Sink}, {"dead_letter", c.DeadLetter}, {"alerts", c.Alerts}} {
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
				d.fail(at+".topic", "%s is also read, by source.kafka.topics", quote(t.Topic))
			}
			if t.Topic == k.Changelog && t.Topic != "" {
				d.fail(at+".topic", "%s is the changelog", quote(t.Topic))
			}
		}
		for _, w := range written {
			if w.sink.Topic == t.Topic && t.Topic != "" && slices.Equal(w.sink.Cluster.Brokers, t.Cluster.Brokers) {
				d.fail(at+".topic", "%s is also written, by %s", quote(t.Topic), w.key)
			}
		}
		written = append(written, topic{at + ".topic", t})
	}
}

// checkPair refuses half of a client's certificate.
func (d *decoder) checkPair(at string) {
	cert, key := at+".tls.cert", at+".tls.key"
	switch {
	case d.has(cert) && !d.has(key):
		d.fail(cert, "needs tls.key, its private key")
	case d.has(key) && !d.has(cert):
		d.fail(key, "needs tls.cert, its certificate")
	}
}

// checkTopics checks the source.
func (d *decoder) checkTopics(c *Config, k *Kafka) {
	const at = "source.kafka"
	d.checkPair(at)
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
		d.fail(at+".changelog", "%s is also read, by topics", quote(k.Changelog))
	}
	for i, topic := range k.Topics {
		if slices.Contains(k.Topics[:i], topic) {
			d.fail(fmt.Sprintf("%s.topics.%d", at, i), "%s stands here twice", quote(topic))
		}
	}
	if c.Transform != Smooth {
		return
	}
	if k.Changelog != "" {
		d.fail(at+".changelog", "belongs to transform: filter")
	}
	if !k.Bounded && c.Runner.Name != Flink {
		d.fail(at+".bounded", "must be true for transform: smooth: the embedded runner gives out sessions of an input without an end in parts; flink does not")
	}
}

// checkUnending refuses files that have to come to an end for a source without
// one.
func (d *decoder) checkUnending(c *Config, at string, s *Sink) {
	if !c.Source.unending() {
		return
	}
	const reason = "has to come to an end, and the source has none: give bounded: true, a topic, or a plain csv or jsonl file"
	if s.Parquet != nil {
		d.fail(at+".parquet", "a Parquet file %s", reason)
	}
	for name, f := range map[string]*File{"csv": s.CSV, "jsonl": s.JSONL} {
		if f != nil && (strings.HasSuffix(f.Path, ".gz") || strings.HasSuffix(f.Path, ".zst")) {
			d.fail(at+"."+name+".path", "a compressed file %s", reason)
		}
	}
}
