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
	"hafvf/internal/inputfile"
	"hafvf/internal/message"
	"hafvf/internal/secret"
	"hafvf/internal/times"
	"hafvf/internal/tlsfiles"
	"hafvf/internal/weburl"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// Kafka is a source of topics.
type Kafka struct {
	kafkaio.Source
	Fields // of a record's value; if it lacks the key, the record's key is used
	// Changelog is the compacted topic that stores the filters' states; empty: none.
	Changelog string
	// Registry has the schemas of values in Format; nil: none, values are JSON.
	Registry *registry.Config
	Format   string
	// Embedded starts a broker in this process instead of using a cluster.
	Embedded bool
}

func (k *Kafka) fields() (*Fields, string) { return &k.Fields, "source.kafka" }
func (k *Kafka) shaped() bool              { return true }
func (k *Kafka) unbounded() bool           { return !k.Bounded }

// Kafka returns the source of topics, nil if the source is another.
func (s *Source) Kafka() *Kafka { return originOf[*Kafka](s) }

// kafkaKeys declares a source of topics.
func (s *Source) kafkaKeys() []keytable.Key {
	k := &Kafka{Fields: defaultFields(), Format: registry.Auto}
	k.MaxAhead = time.Hour // records of a topic were made before they are read
	return []keytable.Key{{Name: "kafka", Doc: "Kafka topics, one observation per record. A value without a key has the key of its record.", Seen: s.set(k), Keys: slices.Concat(clusterKeys(&k.Cluster, ""), []keytable.Key{
		{Name: "topics", Doc: "Topics to read, with all their partitions.", Required: true, Read: keytable.Texts("topics", &k.Topics)},
	}, k.Fields.keys("Field"), []keytable.Key{
		k.Fields.decimal(),
		{Name: "format", Doc: "Format of values. avro, protobuf and json_schema begin with the id of a schema in registry. auto distinguishes these from JSON; without registry it is json. Values are not checked against JSON schemas.", Read: keytable.Choice(&k.Format, registry.Auto, registry.JSON, registry.Avro, registry.Protobuf, registry.JSONSchema)},
		registryKey(&k.Registry, "Schema registry with Confluent's API. Keys of records may have schemas too: their fields replace fields of key that a value lacks.", ""),
		{Name: "group", Doc: "Consumer group, whose offsets are committed once outputs are stored. By default none.", Read: keytable.Text(&k.Group, keytable.NotEmpty)},
		{Name: "start", Doc: "Position at which reading begins, in partitions that exist at the start.", Initial: "committed with a group, else earliest", Read: startAt(&k.Start)},
		{Name: "bounded", Doc: "true ends the run at the offsets where the partitions end at its start.", Read: keytable.Boolean(&k.Bounded)},
		{Name: "changelog", Doc: "Compacted topic of the states. With it, a restart resumes exactly from the last commit.", Read: keytable.Text(&k.Changelog, keytable.NotEmpty)},
		{Name: "disorder", Doc: "How far a record's time may be behind the latest time of its partition. While no records arrive, the watermark is behind the clock by the lag that 99 % of the last records had, at least by disorder, and at first by 15 minutes.", Read: keytable.Duration(&k.Disorder)},
		{Name: "tombstones", Doc: "Records without a value. forget removes their key and its state; a record key that is a JSON object has the filter's key in its fields. Other such records, and all with reject, go to the dead letter.", Initial: tombstonesReject, Read: tombstones(&k.Fields.Forget)},
		{Name: "embedded", Doc: "true starts a broker with example data in this process.", Read: keytable.Boolean(&k.Embedded)},
	})}}
}

// Values of tombstones, the key for records without a value.
const (
	tombstonesReject = "reject"
	tombstonesForget = "forget"
)

func tombstones(dst *bool) keytable.ValueParser {
	quoted := ""
	return keytable.Choice(&quoted, tombstonesReject, tombstonesForget).Sets(func() { *dst = quoted == tombstonesForget })
}

// kafkaKey declares a sink to a topic.
func (s *Sink) kafkaKey() keytable.Key {
	k := &kafkaio.Sink{Compression: kafkaio.DefaultCompression}
	return keytable.Key{Name: "kafka", Doc: "A Kafka topic, one record per message.", Seen: func() { s.Kafka = k }, Keys: slices.Concat(clusterKeys(&k.Cluster, "those of the source"), []keytable.Key{
		{Name: "topic", Doc: "Topic to write to. hafvf creates it if it does not exist.", Required: true, Read: keytable.Text(&k.Topic, keytable.NotEmpty)},
		{Name: "format", Doc: "json is one JSON object per record. avro has a schema, registered as TOPIC-value; fields that a record lacks are null, and times are in microseconds.", Initial: registry.JSON, Read: keytable.Choice(&s.Format, registry.JSON, registry.Avro)},
		registryKey(&s.Registry, "Schema registry of the topic.", "that of the source"),
		{Name: "compression", Doc: "Compression of batches. zstd needs a broker of version 2.1 or newer.", Read: keytable.Choice(&k.Compression, kafkaio.Compressions...)},
	})}
}

// tlsKey declares the encryption of a connection.
func tlsKey(dst **kafkaio.TLS) keytable.Key {
	tls := &kafkaio.TLS{}
	return keytable.Key{Name: "tls", Doc: "TLS. {} trusts the system's authorities.", Seen: func() { *dst = tls }, Keys: []keytable.Key{
		{Name: "ca", Doc: "PEM file of the trusted authorities, at most 1 MB. A pipe is read once, within 10 s.", Read: keytable.File(&tls.CA, tlsfiles.MaxBytes)},
		{Name: "cert", Doc: "PEM file of the client's certificate, as ca. It needs key.", Read: keytable.File(&tls.Cert, tlsfiles.MaxBytes)},
		{Name: "key", Doc: "PEM file of the client's private key, as ca. It needs cert.", Read: keytable.File(&tls.Key, tlsfiles.MaxBytes)},
	}}
}

// clusterKeys declares the connection to a cluster.
func clusterKeys(c *kafkaio.Cluster, brokers string) []keytable.Key {
	sasl := &kafkaio.SASL{}
	return []keytable.Key{
		{Name: "brokers", Doc: "host:port of some brokers of the cluster.", Initial: brokers, Read: keytable.SomeTexts("brokers", &c.Brokers)},
		tlsKey(&c.TLS),
		{Name: "sasl", Doc: "Login to the brokers.", Seen: func() { c.SASL = sasl }, Keys: []keytable.Key{
			{Name: "mechanism", Doc: "Method by which the client proves the password to the broker.", Required: true, Read: mechanism(&sasl.Mechanism)},
			{Name: "username", Doc: "Name of the user.", Required: true, Read: keytable.Text(&sasl.Username, keytable.NotEmpty)},
			{Name: "password", Doc: "Location of the password.", Required: true, Read: secretAt(&sasl.Password)},
		}},
	}
}

// registryKey declares the connection to a schema registry.
func registryKey(dst **registry.Config, doc, initial string) keytable.Key {
	r := &registry.Config{}
	return keytable.Key{Name: "registry", Doc: doc, Initial: initial, Seen: func() { *dst = r }, Keys: []keytable.Key{
		{Name: "url", Doc: "URL of the registry, http://… or https://….", Required: true, Read: keytable.Checked(&r.URL, "URL", registry.CheckURL)},
		{Name: "username", Doc: "Name of the user. It needs password.", Read: keytable.Text(&r.Username, keytable.NotEmpty)},
		{Name: "password", Doc: "Location of the password.", Read: secretAt(&r.Password)},
		tlsKey(&r.TLS),
	}}
}

func mechanism(dst *string) keytable.ValueParser {
	known := []string{"plain", "scram-sha-256", "scram-sha-512"}
	return keytable.Parsed(strings.Join(known, ", "), func(s string) error {
		if !slices.Contains(known, strings.ToLower(s)) {
			return fmt.Errorf("unknown value %s; %s", message.Quote(s), message.Suggest(s, known))
		}
		*dst = strings.ToUpper(s)
		return nil
	})
}

// secretAt reads the place of a secret. Its errors do not show the given value.
func secretAt(dst *secret.Secret) keytable.ValueParser {
	keys := []keytable.Key{
		{Name: "env", Doc: "Environment variable that holds the secret.", Read: keytable.Text(&dst.Env, keytable.NotEmpty)},
		{Name: "file", Doc: "File that holds the secret, of at most 64 kB. A pipe is read once, within 10 s.", Read: keytable.Text(&dst.File, keytable.NotEmpty)},
	}
	return keytable.ValueParser{Takes: "{env: VARIABLE} or {file: PATH}", Keys: keys, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		const need = "secrets are not allowed in a config: use {env: VARIABLE} or {file: path}"
		if n.Kind != yaml.MappingNode {
			d.Fail(path, need)
			return
		}
		for i := 0; i < len(n.Content); i += 2 {
			if name := n.Content[i].Value; name != "env" && name != "file" {
				d.Fail(path, need)
				return
			}
		}
		before := len(d.Errs)
		d.Mapping(path, n, keys)
		switch {
		case len(d.Errs) > before:
		case (dst.Env == "") == (dst.File == ""):
			d.Fail(path, "give one of env and file")
		default:
			inputfile.Check(dst.File, secret.MaxBytes) // reads a pipe while a signal still ends the program; users of the secret report the error
		}
	}}
}

// textOrSecret reads a text, or the place of a secret.
func textOrSecret(dst *secret.Text) keytable.ValueParser {
	place := secretAt(&dst.Secret)
	return keytable.ValueParser{Takes: "text, {env: VARIABLE} or {file: PATH}", Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.MappingNode {
			place.Read(d, path, n)
			return
		}
		keytable.Text(&dst.Text, keytable.NotEmpty).Read(d, path, n)
	}}
}

// hookURL reads the URL of a receiver.
func hookURL(dst *secret.Text) keytable.ValueParser {
	return textOrSecret(dst).WithCheck(func() error {
		if dst.Text == "" {
			return nil
		}
		_, err := weburl.Parse(dst.Text)
		return err
	})
}

// headers reads a mapping of names to texts.
func headers(dst *map[string]secret.Text) keytable.ValueParser {
	return keytable.ValueParser{Takes: "mapping of names to texts, or to {env: VARIABLE} or {file: PATH}", Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		result := map[string]secret.Text{}
		d.Entries(path, n, func(p string, k, v *yaml.Node) {
			var value secret.Text
			before := len(d.Errs)
			textOrSecret(&value).Read(d, p, v)
			result[k.Value] = value
			if len(d.Errs) > before {
				return
			}
			text, err := value.Read(p)
			if err != nil {
				text = "" // secrets may be missing where a config is checked
			}
			if err := httpclient.CheckHeader(k.Value, text); err != nil {
				d.Fail(value.Path(p), "%v", err)
			}
		})
		*dst = result
	}}
}

// startAt reads a start position: a name, {offset: n} or {time: t}.
func startAt(dst *kafkaio.Start) keytable.ValueParser {
	offset := -1 // no default
	keys := []keytable.Key{
		{Name: "offset", Doc: "This offset, in every partition.", Read: keytable.Whole(&offset, 0).Sets(func() {
			dst.At, dst.Offset = kafkaio.AtOffset, int64(offset)
		})},
		{Name: "time", Doc: "The first record at or after this time.", Read: keytable.ValueParser{Takes: "time, such as 2026-01-02T03:04:05Z", Read: func(d *keytable.Decoder, p string, n *yaml.Node) {
			t, err := times.Parse(n.Value)
			if n.Kind != yaml.ScalarNode || err != nil {
				d.WrongType(p, "a time such as 2026-01-02T03:04:05Z", n)
				return
			}
			dst.At, dst.Time = kafkaio.AtTime, t
		}}},
	}
	return keytable.ValueParser{Takes: "earliest, latest, committed, {offset: n} or {time: t}", Keys: keys, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		switch n.Kind {
		case yaml.ScalarNode:
			keytable.Choice(&dst.At, kafkaio.Earliest, kafkaio.Latest, kafkaio.Committed).Read(d, path, n)
		case yaml.MappingNode:
			before := len(d.Errs)
			d.Mapping(path, n, keys)
			if len(d.Errs) == before && d.Has(keytable.Join(path, "offset")) == d.Has(keytable.Join(path, "time")) {
				d.Fail(path, "give one of offset and time")
			}
		default:
			d.WrongType(path, "earliest, latest, committed, {offset: n} or {time: t}", n)
		}
	}}
}

// checkKafka checks combinations of keys in sinks to topics, and copies defaults from the source.
func (d *decoder) checkKafka(c *Config) {
	k := c.Source.Kafka()
	type section struct {
		key  string
		sink *Sink
	}
	var written []section
	sections := []section{{"sink", &c.Sink}, {"dead_letter", c.DeadLetter}, {"marks", c.Marks}}
	for i := range c.Alerts {
		sections = append(sections, section{c.Alerts[i].Path, &c.Alerts[i].Sink})
	}
	for _, s := range sections {
		if s.sink == nil {
			continue
		}
		d.checkUnbounded(c, s.key, s.sink)
		t := s.sink.Kafka
		if t == nil {
			continue
		}
		path := s.key + ".kafka"
		d.checkPair(path)
		d.checkSinkRegistry(path, s.sink, k)
		switch {
		case d.Failed(path+".brokers") || len(t.Cluster.Brokers) > 0:
		case k != nil:
			for _, name := range []string{"tls", "sasl"} {
				d.Refuse(keytable.Join(path, name), "needs brokers in the same section; without them the source's brokers are used")
			}
			t.Cluster = k.Cluster
		default:
			d.Fail(path+".brokers", "missing; it is required")
		}
		if k != nil && slices.Equal(t.Cluster.Brokers, k.Cluster.Brokers) {
			if t.Topic != "" && slices.Contains(k.Topics, t.Topic) {
				d.Fail(path+".topic", "%s is also read, by source.kafka.topics", message.Quote(t.Topic))
			}
			if t.Topic == k.Changelog && t.Topic != "" {
				d.Fail(path+".topic", "%s is the changelog", message.Quote(t.Topic))
			}
		}
		for _, w := range written {
			if o := w.sink.Kafka; o.Topic == t.Topic && t.Topic != "" && slices.Equal(o.Cluster.Brokers, t.Cluster.Brokers) {
				d.Fail(path+".topic", "%s is also written, by %s.kafka.topic", message.Quote(t.Topic), w.key)
			}
		}
		written = append(written, s)
	}
}

// needBoth refuses one of two keys without the other; firstNeeds and secondNeeds name the missing key.
func (d *decoder) needBoth(first, firstNeeds, second, secondNeeds string) {
	switch {
	case d.Has(first) && !d.Has(second):
		d.Fail(first, "needs %s", firstNeeds)
	case d.Has(second) && !d.Has(first):
		d.Fail(second, "needs %s", secondNeeds)
	}
}

// checkPair refuses a client certificate without its key, or a key without its certificate.
func (d *decoder) checkPair(path string) {
	d.needBoth(path+".tls.cert", "tls.key, its private key", path+".tls.key", "tls.cert, its certificate")
}

// checkLogin does checkPair, and refuses a username without a password or a password without a username.
func (d *decoder) checkLogin(path string) {
	d.checkPair(path)
	d.needBoth(path+".username", "password", path+".password", "username")
}

// checkRegistry checks the login, and refuses tls for a URL without encryption.
func (d *decoder) checkRegistry(path string, r *registry.Config) {
	path += ".registry"
	d.checkLogin(path)
	if r != nil && r.TLS != nil && strings.HasPrefix(r.URL, "http://") {
		d.Fail(path+".tls", "is for https://…, but url has no encryption")
	}
}

// checkSinkRegistry checks the registry of an Avro sink. By default it is the source's.
func (d *decoder) checkSinkRegistry(path string, s *Sink, source *Kafka) {
	d.checkRegistry(path, s.Registry)
	switch {
	case s.Format != registry.Avro:
		d.Refuse(path+".registry", "is for format: avro")
		s.Registry = nil
	case s.Registry == nil && source != nil && source.Registry != nil:
		s.Registry = source.Registry
	case s.Registry == nil:
		d.Fail(path+".format", "avro needs registry, which has the schemas; the source has none")
	}
}

func (k *Kafka) check(d *decoder, c *Config) {
	const path = "source.kafka"
	d.checkPair(path)
	d.checkRegistry(path, k.Registry)
	if k.Format != registry.Auto && k.Format != registry.JSON && k.Registry == nil {
		d.Fail(path+".format", "%s needs registry, which has the schemas", k.Format)
	}
	if k.Embedded {
		for _, name := range []string{"tls", "sasl"} {
			d.Refuse(keytable.Join(path, name), "is not for an embedded broker")
		}
	} else if len(k.Cluster.Brokers) == 0 && !d.Failed(path+".brokers") {
		d.Fail(path+".brokers", "missing; it is required, unless embedded is true")
	}
	if k.UsesPath() {
		d.Fail(path+".key", "{path: …} is a part of a file's path, and a topic has none: name a field")
	}
	if k.UsesRecordTime() {
		d.Refuse(path+".time_format", "is for times in the records' values: with time: {record: true} leave it out")
	}
	if k.Start.At == "" {
		k.Start.At = kafkaio.Earliest
		if k.Group != "" {
			k.Start.At = kafkaio.Committed
		}
	}
	if k.Start.At == kafkaio.Committed && k.Group == "" {
		d.Fail(path+".start", "committed needs a group")
	}
	if k.Changelog != "" && slices.Contains(k.Topics, k.Changelog) {
		d.Fail(path+".changelog", "%s is also read, by topics", message.Quote(k.Changelog))
	}
	for i, topic := range k.Topics {
		if slices.Contains(k.Topics[:i], topic) {
			d.Fail(fmt.Sprintf("%s.topics.%d", path, i), "%s is listed twice", message.Quote(topic))
		}
	}
	if c.Transform == settings.Smooth && k.Changelog != "" {
		d.Fail(path+".changelog", "belongs to transform: filter")
	}
}

func (k *Kafka) checkFlink(d *decoder) {
	if k.Embedded {
		d.Fail("source.kafka.embedded", "is for the runner direct")
	}
	if k.Changelog != "" {
		d.Fail("source.kafka.changelog", "is for the runner direct: flink keeps the states in its checkpoints")
	}
}

// checkUnbounded refuses files that are complete only at their end if the source has none.
func (d *decoder) checkUnbounded(c *Config, path string, s *Sink) {
	if s.File == nil || !c.Source.Unbounded() {
		return
	}
	const reason = "is complete only at its end, and the source has none: use bounded: true, a topic, or a plain csv or jsonl file"
	if format := connectors.FormatOf(s.File.Format); format.Whole {
		d.Fail(keytable.Join(path, format.Name), "a %s file %s", format.Title, reason)
	} else if connectors.Unpacked(s.File.Path) != s.File.Path {
		d.Fail(keytable.Join(path, format.Name+".path"), "a compressed file %s", reason)
	}
}
