package pipeline

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/registry"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/decode"
)

// readingsAvro and readingsProto are schemas of the same readings.
const (
	readingsAvro = `{"type":"record","name":"Reading","fields":[
		{"name":"sensor","type":{"type":"record","name":"Sensor","fields":[{"name":"id","type":"string"}]}},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"x","type":["null","double"]}]}`
	readingsProto = `syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Reading {
  message Sensor { string id = 1; }
  Sensor sensor = 1;
  google.protobuf.Timestamp at = 2;
  google.protobuf.DoubleValue x = 3;
}`
)

// framed puts the ID of a schema before a payload.
func framed(id int, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), payload...)
}

// A reading is a value that has all formats.
type reading struct {
	id   string
	time time.Time
	x    float64 // NaN is missing
}

func (r reading) json() []byte {
	var x any
	if !math.IsNaN(r.x) {
		x = r.x
	}
	text, err := json.Marshal(map[string]any{"sensor": map[string]any{"id": r.id}, "at": r.time, "x": x})
	if err != nil {
		panic(err)
	}
	return text
}

var readingSchema = avro.MustParse(readingsAvro)

func (r reading) avro() []byte {
	var x any
	if !math.IsNaN(r.x) {
		x = r.x
	}
	payload, err := readingSchema.Encode(map[string]any{"sensor": map[string]any{"id": r.id}, "at": r.time, "x": x})
	if err != nil {
		panic(err)
	}
	return payload
}

func (r reading) proto() []byte {
	part := func(b []byte, n protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), content)
	}
	stamp := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(r.time.Unix()))
	stamp = protowire.AppendVarint(protowire.AppendTag(stamp, 2, protowire.VarintType), uint64(r.time.Nanosecond()))
	b := part([]byte{0}, 1, part(nil, 1, []byte(r.id))) // after the index of the message
	b = part(b, 2, stamp)
	if !math.IsNaN(r.x) {
		b = part(b, 3, protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(r.x)))
	}
	return b
}

func someReadings(n int) []reading {
	readings := make([]reading, n)
	for i := range readings {
		x := math.Sin(float64(i)/50) + float64(i%7)/3
		if i%97 == 5 {
			x = math.NaN()
		}
		readings[i] = reading{fmt.Sprintf("pump-%02d", i%20), time.UnixMicro(1_767_323_045_000_000 + 60_000_000*int64(i/20) + int64(i%1000)).UTC(), x}
	}
	return readings
}

// formats are the formats of a reading.
var formats = []struct {
	name  string
	value func(reading) []byte
}{
	{registry.JSON, reading.json},
	{registry.Avro, func(r reading) []byte { return framed(1, r.avro()) }},
	{registry.Protobuf, func(r reading) []byte { return framed(2, r.proto()) }},
	{registry.JSONSchema, func(r reading) []byte { return framed(3, r.json()) }},
}

func readingsRegistry(t testing.TB) *srfake.Registry {
	t.Helper()
	r := srfake.New()
	t.Cleanup(r.Close)
	r.SeedSchema("in-value", 1, 1, sr.Schema{Schema: readingsAvro})
	r.SeedSchema("proto-value", 1, 2, sr.Schema{Schema: readingsProto, Type: sr.TypeProtobuf})
	r.SeedSchema("json-value", 1, 3, sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON})
	return r
}

const readingFields = "key: sensor.id, time: at, values: [x]"

// Equal observations in all formats give equal estimates, byte for byte.
func TestFormatsAreEqual(t *testing.T) {
	expect.Long(t, "pairs of formats")
	t.Parallel()
	readings := someReadings(10_000)
	var want []string
	for _, f := range formats {
		b := fakeBus(t, 1)
		records := make([]*kgo.Record, len(readings))
		for i, r := range readings {
			records[i] = &kgo.Record{Topic: "in", Value: f.value(r)}
		}
		b.Produce(t, records...)
		r := readingsRegistry(t)
		for _, format := range []string{registry.Auto, f.name} {
			out := "out-" + format
			g := compose(t, b.config(fmt.Sprintf("bounded: true, %s, format: %s, registry: {url: %s}", readingFields, format, r.URL()), ""), "sink.kafka.topic="+out)
			s := expect.Get(Run{Graph: g, Log: quiet}.Execute(t.Context(), nil))(t)
			equal(t, [3]int64{int64(len(readings)), 20, 0}, [3]int64{s.Records, s.Keys, s.Rejected})
			got := b.values(t, out)
			slices.Sort(got)
			if want == nil {
				want = got
			}
			if len(got) != len(readings) || !slices.Equal(got, want) {
				t.Errorf("%s as %s: %d records, and not those of JSON", f.name, format, len(got))
			}
		}
	}
	if missing := slices.IndexFunc(want, func(line string) bool { return strings.Contains(line, `"x":null`) }); missing < 0 {
		t.Error("no observation is missing")
	}
}

// Reads keys in Avro, schemas that evolve during the run, and values that cannot be read.
func TestRegistry(t *testing.T) {
	b := fakeBus(t, 1)
	r := readingsRegistry(t)
	r.SeedSchema("in-key", 1, 10, sr.Schema{Schema: `{"type":"record","name":"Key","fields":[{"name":"site","type":"string"},{"name":"pump","type":"int"}]}`})
	r.SeedSchema("in-value", 2, 11, sr.Schema{Schema: `{"type":"record","name":"V","fields":[{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"x","type":"float"}]}`})
	key := framed(10, []byte{2, 'a', 14}) // a, 7
	value := func(id int, rest ...byte) []byte {
		return framed(id, append(append(binary.AppendVarint(nil, 1_767_323_045_000), 0, 0, 0, 0x3f), rest...))
	}
	put := func(key, value []byte) { b.Produce(t, &kgo.Record{Topic: "in", Key: key, Value: value}) }
	put(key, value(11))
	put([]byte("plain"), value(11))
	put(key, value(99))
	put(key, value(11)[:13])
	put(framed(99, nil), value(11))
	put(key, []byte(`{"t":"2026-01-02T03:04:06Z","x":2}`))
	put(key, nil)
	b.CreateTopic(t, "out", 1, nil)
	b.CreateTopic(t, "rejected", 1, nil)
	g := compose(t, b.config(fmt.Sprintf("key: [site, pump], time: t, values: [x], tombstones: forget, registry: {url: %s}", r.URL()), "order: arrival"))
	run := launch(t, g)
	b.await(t, "out", 2, run)
	b.await(t, "rejected", 4, run)
	// A field is added during the run.
	r.SeedSchema("in-value", 3, 12, sr.Schema{Schema: `{"type":"record","name":"V","fields":[{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"x","type":"float"},{"name":"unit","type":"string"}]}`})
	put(key, value(12, 2, 'C'))
	b.await(t, "out", 3, run)
	run.halt(t)
	var keys []string
	type record struct {
		Key string
		X   float64
		N   int
	}
	for _, o := range parse[record](t, b.values(t, "out")) {
		keys = append(keys, fmt.Sprint(o.Key, " ", o.X, " ", o.N))
	}
	// After the tombstone the key is reset.
	equal(t, []string{"a/7 0.5 1", "a/7 2 2", "a/7 0.5 1"}, keys)
	var reasons []string
	for _, r := range parse[struct{ Reason, Raw string }](t, b.values(t, "rejected")) {
		reasons = append(reasons, r.Reason+" | "+r.Raw)
	}
	decoded := `{"t":"2026-01-02T03:04:05Z","x":0.5}`
	equal(t, []string{
		`no key: no field "site", in its part "site" | ` + decoded,
		"the schema registry does not know schema 99, or one that it refers to: schema not found | AAAAAGOQsszK72YAAAA/",
		"the payload does not fit schema 11: it ends too early | AAAAAAuQsszK72YAAA==",
		"no key: the value lacks it, and the record's key cannot be read: the schema registry does not know schema 99, or one that it refers to: schema not found | " + decoded,
	}, reasons)
}

// A run waits for an unreachable registry, and can be stopped while it waits. A registry that refuses requests ends the
// run, at its start and later.
func TestRegistryAwayAndRefusing(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 1, "out")
	r := readingsRegistry(t)
	var status, refused atomic.Int32
	r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		code := status.Load()
		if code != 0 {
			refused.Add(1)
			w.WriteHeader(int(code))
		}
		return code != 0
	})
	g := func(settings string) *Graph {
		return compose(t, b.config(fmt.Sprintf("%s, registry: {url: %s}%s", readingFields, r.URL(), settings), ""))
	}
	for code, want := range map[int32]string{
		401: "requires a login: set registry.username and registry.password",
		503: "the schema registry " + r.URL() + " does not answer: start it, or set registry.url: no response",
	} {
		status.Store(code)
		if _, err := (Run{Graph: g("")}).Execute(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", code, err)
		}
	}
	single := someReadings(1)[0]
	waits := func(f int) {
		t.Helper()
		before := refused.Load()
		b.Produce(t, &kgo.Record{Topic: "in", Value: formats[f].value(single)})
		expect.Soon(t, "the registry is asked", func() bool { return refused.Load() > before })
	}
	status.Store(0)
	run := launch(t, g(", group: g"))
	b.Produce(t, &kgo.Record{Topic: "in", Value: formats[1].value(single)})
	b.await(t, "out", 1, run)
	status.Store(503)
	waits(2)
	run.halt(t)
	status.Store(0)
	run = launch(t, g(", group: g"))
	b.await(t, "out", 2, run) // no waiting record is lost
	status.Store(401)
	waits(3)
	run.ends(t)
	if run.err == nil || !strings.Contains(run.err.Error(), "in-0 cannot be read at offset 2: the schema registry "+r.URL()+" requires a login") {
		t.Error(run.err)
	}
}

// BenchmarkFormats measures how fast values of each format are decoded to observations.
func BenchmarkFormats(b *testing.B) {
	const together = 1000
	readings := someReadings(together)
	url := readingsRegistry(b).URL()
	for _, f := range formats {
		g := compose(b, fmt.Sprintf("model: {family: normal}\nsource: {kafka: {brokers: ['b:1'], topics: [in], %s, format: %s, registry: {url: %s}}}\nsink: {kafka: {topic: out}}\n", readingFields, f.name, url))
		source := g.source.(topicSource)
		read, decoder := source.Form.Reading(), decode.NewDecoder("", parserOfFields(source.Fields))
		values := make([][]byte, together)
		for i, r := range readings {
			values[i] = f.value(r)
		}
		records := make([]kafkaio.Record, together)
		b.Run(f.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for i, v := range values {
					records[i] = kafkaio.Record{Position: kafkaio.Position{Topic: "in"}, Value: v}
				}
				expect.OK(b, read(b.Context(), quiet, records))
				for _, o := range decoder.Topic(records) {
					if o.Err != nil {
						b.Fatal(o.Err)
					}
				}
			}
			b.ReportMetric(float64(b.N)*together/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// inAvro reads the records of a topic with their schema from the registry.
func (b *bus) inAvro(t *testing.T, r *srfake.Registry, topic string) map[string]string {
	t.Helper()
	found, ok := r.GetSchema(topic+"-value", 1)
	if !ok {
		t.Fatalf("%s-value is not registered", topic)
	}
	schema := avro.MustParse(found.Schema.Schema)
	return b.read(t, topic, func(value []byte, v *any) error {
		if id := int(binary.BigEndian.Uint32(value[1:])); value[0] != 0 || id != found.ID {
			t.Fatalf("schema %d in %q", id, value)
		}
		_, err := schema.Decode(value[5:], v)
		return err
	})
}

// read returns the records of a topic as JSON without null fields, by ID.
func (b *bus) read(t *testing.T, topic string, decode func(value []byte, v *any) error) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, r := range b.Consume(t, topic) {
		if len(r.Headers) != 1 || r.Headers[0].Key != "id" {
			t.Fatalf("headers %v", r.Headers)
		}
		var v any
		expect.OK(t, decode(r.Value, &v))
		values[string(r.Headers[0].Value)] = canonical(t, v)
	}
	return values
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	var drop func(v any) any
	drop = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, e := range v {
				if v[name] = drop(e); e == nil {
					delete(v, name)
				}
			}
		case []any:
			for i, e := range v {
				v[i] = drop(e)
			}
		}
		return v
	}
	text := expect.Get(json.Marshal(drop(v)))(t)
	return string(text)
}

// Estimates, alerts, smoothed records and rejected records in Avro equal those in JSON, with the same IDs.
func TestAvroSinks(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 1)
	r := srfake.New()
	t.Cleanup(r.Close)
	lines := observations(2_000, 3)
	b.put(t, lines...)
	b.Produce(t, &kgo.Record{Topic: "in", Value: []byte("oops")})
	for name, rest := range map[string]string{
		"filter": "detect: true\nincidents: true\nalerts: [{beliefs: [outlier, change], labels: {team: a}, kafka: {topic: %s-alerts, format: %[2]s}}]\n",
		"smooth": "transform: smooth\nsession: {gap: 24h}\n#%s %[2]s\n",
	} {
		for _, format := range []string{registry.JSON, registry.Avro} {
			topic := name + "-" + format
			g := compose(t, b.config(fmt.Sprintf("bounded: true, registry: {url: %s}", r.URL()), fmt.Sprintf(rest, topic, format)),
				"sink.kafka.topic="+topic, "sink.kafka.format="+format, "dead_letter.kafka.topic="+topic+"-rejected", "dead_letter.kafka.format="+format)
			expect.Get(Run{Graph: g, Log: quiet}.Execute(t.Context(), nil))(t)
		}
		kinds := []string{"", "-rejected"}
		if name == "filter" {
			kinds = append(kinds, "-alerts")
		}
		for _, kind := range kinds {
			want := b.read(t, name+"-json"+kind, func(value []byte, v *any) error { return json.Unmarshal(value, v) })
			got := b.inAvro(t, r, name+"-avro"+kind)
			if len(want) == 0 || !maps.Equal(want, got) {
				t.Errorf("%s%s: %d in JSON, %d in Avro", name, kind, len(want), len(got))
				for id := range want {
					if want[id] != got[id] {
						t.Errorf("%s:\n%s\n%s", id, want[id], got[id])
						break
					}
				}
			}
		}
	}
}

// An equal registered schema is used, and a compatible one becomes a new version. An incompatible one ends the run
// before it starts.
func TestAvroSchemas(t *testing.T) {
	b := fakeBus(t, 1)
	b.put(t, observations(10, 1)...)
	r := srfake.New()
	t.Cleanup(r.Close)
	run := func(set ...string) error {
		g := compose(t, b.config(fmt.Sprintf("bounded: true, registry: {url: %s}", r.URL()), ""), append([]string{"sink.kafka.format=avro"}, set...)...)
		_, err := Run{Graph: g, Log: quiet}.Execute(t.Context(), nil)
		return err
	}
	versions := func() (n int) {
		for {
			if _, ok := r.GetSchema("out-value", n+1); !ok {
				return n
			}
			n++
		}
	}
	readOnly := false
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		refused := readOnly && strings.HasSuffix(req.URL.Path, "/versions") && req.Method == http.MethodPost
		if refused {
			w.WriteHeader(http.StatusForbidden)
		}
		return refused
	})
	for _, step := range []struct {
		readOnly bool
		set      []string
		versions int
		want     string
	}{
		{true, nil, 0, "or allow it to read the schemas of the topics and to register those of sinks"},
		{false, nil, 1, ""},
		{true, nil, 1, ""},
		{false, []string{"records=brief"}, 2, ""},
	} {
		readOnly = step.readOnly
		err := run(step.set...)
		if (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("%v: %v", step, err)
		}
		equal(t, step.versions, versions())
	}
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, "/versions") {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error_code":409,"message":"READER_FIELD_MISSING_DEFAULT_VALUE"}`)
			return true
		}
		return false
	})
	before := len(b.values(t, "out"))
	err := run("sink.kafka.topic=other")
	want := "refuses the schema of other-value, because it is incompatible with the existing schema: write to another topic"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "READER_FIELD") {
		t.Error(err)
	}
	equal(t, before, len(b.values(t, "out")))
}
