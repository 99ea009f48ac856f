package registry

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"hafvf/connectors/kafkaio"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
)

var quiet = slog.New(slog.DiscardHandler)

// Tests wait only for a moment before they ask again.
func init() { retryPolicy.First, loginPause = 10*time.Millisecond, 10*time.Millisecond }

// fake starts a registry with schemas, whose IDs are 1, 2 and so on.
func fake(t testing.TB, schemas ...sr.Schema) (*srfake.Registry, Config) {
	t.Helper()
	r := srfake.New()
	t.Cleanup(r.Close)
	for i, s := range schemas {
		r.SeedSchema(fmt.Sprint("s", i+1), 1, i+1, s)
	}
	return r, Config{URL: r.URL()}
}

// frame puts the magic byte and the schema ID before a payload.
func frame(id int, payload ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), payload...)
}

// read decodes one record.
func read(t testing.TB, c Config, format string, r kafkaio.Record) kafkaio.Record {
	t.Helper()
	records := []kafkaio.Record{r}
	expect.OK(t, (Source{c, format}).reading()(t.Context(), quiet, records))
	return records[0]
}

const avroSchema = `{"type":"record","name":"Reading","namespace":"plant","fields":[
	{"name":"sensor","type":{"type":"record","name":"Sensor","fields":[{"name":"id","type":"long"},{"name":"name","type":["null","string"]}]}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"at_us","type":["null",{"type":"long","logicalType":"timestamp-micros"}]},
	{"name":"local","type":{"type":"long","logicalType":"local-timestamp-millis"}},
	{"name":"day","type":{"type":"int","logicalType":"date"}},
	{"name":"x","type":["null","double"]},
	{"name":"f","type":"float"},
	{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":8,"scale":3}},
	{"name":"uuid","type":{"type":"string","logicalType":"uuid"}},
	{"name":"uuid16","type":{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}},
	{"name":"state","type":{"type":"enum","name":"State","symbols":["ON","OFF"]}},
	{"name":"more","type":{"type":"map","values":["null","double","string"]}},
	{"name":"list","type":{"type":"array","items":"double"}},
	{"name":"raw","type":"bytes"}
]}`

func avroValue() map[string]any {
	ts := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	return map[string]any{
		"sensor": map[string]any{"id": int64(1) << 60, "name": "a \"b\"\n"}, "at": ts, "at_us": ts.Add(9 * time.Microsecond), "local": ts, "day": ts.Truncate(24 * time.Hour),
		"x": 0.1, "f": float32(0.1), "price": big.NewRat(-12345, 1000), "uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "uuid16": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"state": "OFF", "more": map[string]any{"b": nil, "a": 1e300, "c": "t"}, "list": []any{1.0, -2.5}, "raw": []byte{0, 255},
	}
}

const avroJSON = `{"at":"2026-01-02T03:04:05.678Z","at_us":"2026-01-02T03:04:05.678009Z","day":"2026-01-02T00:00:00","f":0.1,"list":[1,-2.5],"local":"2026-01-02T03:04:05.678",` +
	`"more":{"a":1e+300,"b":null,"c":"t"},"price":-12.345,"raw":"AP8=","sensor":{"id":1152921504606846976,"name":"a \u0022b\u0022\u000a"},"state":"OFF",` +
	`"uuid":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","uuid16":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","x":0.1}`

func TestAvro(t *testing.T) {
	s := avro.MustParse(avroSchema)
	payload := expect.Get(s.Encode(avroValue()))(t)
	_, c := fake(t, sr.Schema{Schema: avroSchema})
	got := read(t, c, Auto, kafkaio.Record{Value: frame(1, payload...)})
	if diff := cmp.Diff(avroJSON, string(got.Value)); diff != "" || got.DecodeInfo != nil {
		t.Errorf("%+v (-want +got)\n%s", got.DecodeInfo, diff)
	}
	if !json.Valid(got.Value) {
		t.Errorf("%s is not JSON", got.Value)
	}
}

const protoSchema = `syntax = "proto3";
package plant;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
message Other { string s = 1; }
message Envelope {
  message Reading {
    string key = 1;
    google.protobuf.Timestamp time = 2;
    double x = 3;
    optional double y = 4;
    google.protobuf.DoubleValue w = 5;
    google.protobuf.Duration took = 6;
    google.protobuf.Struct more = 7;
    State state = 8;
    int64 big = 9;
    map<string, double> parts = 10;
    repeated float list = 11;
    oneof of { string s = 12; uint64 u = 13; }
    Other other = 14;
    google.protobuf.Int64Value unset = 15;
    google.protobuf.Value any = 16;
  }
  enum State { ON = 0; OFF = 1; }
}`

// protoPayload is encoded by hand, as other libraries would.
func protoPayload() []byte {
	text := func(b []byte, n protowire.Number, s []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	varint := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	double := func(b []byte, n protowire.Number, bits uint64) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), bits)
	}
	const tenth = 0x3fb999999999999a
	timestamp := varint(varint(nil, 1, 1767323045), 2, 678_000_000)
	b := text(nil, 1, []byte("a"))
	b = text(b, 2, timestamp)
	b = double(b, 3, tenth)
	b = text(b, 5, double(nil, 1, tenth))
	minus := int64(-1)
	b = text(b, 6, varint(varint(nil, 1, uint64(minus)), 2, uint64(minus*500_000_000)))
	number := double(nil, 2, tenth)
	b = text(b, 7, text(nil, 1, text(text(nil, 1, []byte("k")), 2, number)))
	b = varint(b, 8, 1)
	b = varint(b, 9, 1<<62)
	b = text(b, 10, double(text(nil, 1, []byte("p")), 2, tenth))
	b = text(b, 11, protowire.AppendFixed32(nil, 0x3dcccccd))
	b = varint(b, 13, 1<<63)
	b = text(b, 14, nil)
	return varint(b, 99, 7) // a field that the schema does not have
}

const protoJSON = `{"key":"a","time":"2026-01-02T03:04:05.678Z","x":0.1,"y":null,"w":0.1,"took":-1.500000000,"more":{"k":0.1},"state":"OFF","big":4611686018427387904,` +
	`"parts":{"p":0.1},"list":[0.1],"s":null,"u":9223372036854775808,"other":{"s":""},"unset":null,"any":null}`

func TestProtobuf(t *testing.T) {
	_, c := fake(t, sr.Schema{Schema: protoSchema, Type: sr.TypeProtobuf})
	// The indexes of Envelope and of Reading in it: 1, 0.
	got := read(t, c, Protobuf, kafkaio.Record{Value: frame(1, append([]byte{4, 2, 0}, protoPayload()...)...)})
	if diff := cmp.Diff(protoJSON, string(got.Value)); diff != "" || got.DecodeInfo != nil {
		t.Errorf("%+v (-want +got)\n%s", got.DecodeInfo, diff)
	}
	// Confluent's client for Python registers descriptors, which have no names in JSON.
	field := func(name string, n int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	}
	descriptor, err := proto.Marshal(&descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{field("s", 1), field("t", 2)}}},
	})
	expect.OK(t, err)
	_, descriptorCfg := fake(t, sr.Schema{Schema: base64.StdEncoding.EncodeToString(descriptor), Type: sr.TypeProtobuf})
	if got = read(t, descriptorCfg, Auto, kafkaio.Record{Value: frame(1, 0, 10, 1, 'b')}); string(got.Value) != `{"s":"b","t":""}` {
		t.Errorf("%s %+v", got.Value, got.DecodeInfo)
	}
	// The index of a schema's first message is encoded as one zero.
	if got = read(t, c, Auto, kafkaio.Record{Value: frame(1, 0, 10, 1, 'b')}); string(got.Value) != `{"s":"b"}` {
		t.Errorf("%s %+v", got.Value, got.DecodeInfo)
	}
}

// A schema is compiled with the schemas that it refers to, also if it refers to one of them in two ways.
func TestReferences(t *testing.T) {
	r, c := fake(t,
		sr.Schema{Schema: `{"type":"enum","name":"State","symbols":["ON","OFF"]}`},
		sr.Schema{Schema: `{"type":"record","name":"Sensor","fields":[{"name":"state","type":"State"}]}`, References: []sr.SchemaReference{{Name: "State", Subject: "s1", Version: 1}}},
		sr.Schema{Type: sr.TypeProtobuf, Schema: "syntax = \"proto3\"; package plant; message Sensor { string name = 1; }"},
	)
	r.SeedSchema("s4", 1, 4, sr.Schema{
		Schema:     `{"type":"record","name":"Reading","fields":[{"name":"sensor","type":"Sensor"},{"name":"state","type":"State"}]}`,
		References: []sr.SchemaReference{{Name: "Sensor", Subject: "s2", Version: 1}, {Name: "State", Subject: "s1", Version: 1}},
	})
	r.SeedSchema("s5", 1, 5, sr.Schema{
		Type: sr.TypeProtobuf, Schema: "syntax = \"proto3\"; import \"plant/sensor.proto\"; message Reading { plant.Sensor sensor = 1; }",
		References: []sr.SchemaReference{{Name: "plant/sensor.proto", Subject: "s3", Version: 1}},
	})
	for _, test := range []struct {
		value []byte
		want  string
	}{
		{frame(4, 2, 0), `{"sensor":{"state":"OFF"},"state":"ON"}`},
		{frame(5, 0, 10, 3, 10, 1, 'a'), `{"sensor":{"name":"a"}}`},
	} {
		if got := read(t, c, Auto, kafkaio.Record{Value: test.value}); string(got.Value) != test.want || got.DecodeInfo != nil {
			t.Errorf("%s %+v, want %s", got.Value, got.DecodeInfo, test.want)
		}
	}
}

// Keys and values are converted, or have a reason why they are not.
func TestReading(t *testing.T) {
	_, c := fake(t,
		sr.Schema{Schema: `"string"`},
		sr.Schema{Schema: `{"type":"record","name":"K","fields":[{"name":"id","type":"int"}]}`},
		sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON},
		sr.Schema{Schema: "syntax = \"proto3\"; message M { int64 id = 1; }", Type: sr.TypeProtobuf},
		sr.Schema{Schema: `"long"`},
		sr.Schema{Schema: `"boolean"`},
		sr.Schema{Schema: "syntax = \"proto3\"; import \"other.proto\"; message M { int64 id = 1; }", Type: sr.TypeProtobuf},
	)
	for _, test := range []struct {
		name, format string
		key, value   []byte
		wantKey      string
		wantValue    string
		want         *kafkaio.DecodeInfo
	}{
		{"a text as a key", Auto, frame(1, 4, 'a', 'b'), frame(3, []byte("{}")...), "ab", "{}", nil},
		{"a number", Auto, frame(5, 3), []byte(`{"x":1}`), "-2", `{"x":1}`, nil},
		{"a record", Auto, frame(2, 14), frame(2, 2), string(frame(2, 14)), `{"id":1}`, &kafkaio.DecodeInfo{KeyFields: []byte(`{"id":7}`)}},
		{"a message", Protobuf, frame(4, 0, 8, 7), frame(4, 0), string(frame(4, 0, 8, 7)), `{"id":0}`, &kafkaio.DecodeInfo{KeyFields: []byte(`{"id":7}`)}},
		{"a JSON text", JSON, frame(3, []byte(`"a"`)...), []byte(`{"x":1}`), "a", `{"x":1}`, nil},
		{"a key that is plain", Avro, []byte("plain"), frame(2, 2), "plain", `{"id":1}`, nil},
		{"a key of a wrong type", Auto, frame(6, 1), frame(2, 2), string(frame(6, 1)), `{"id":1}`, &kafkaio.DecodeInfo{KeyReason: "the key of the record is neither a text, nor a number, nor a record"}},
		{"a key without a schema", Auto, frame(99, 1), frame(2, 2), string(frame(99, 1)), `{"id":1}`, &kafkaio.DecodeInfo{KeyReason: "the schema registry does not know schema 99, or one that it refers to: schema not found"}},
		{"a tombstone", Avro, frame(1, 2, 'a'), nil, "a", "", nil},

		{"an unknown id", Auto, nil, frame(99, 1), "", string(frame(99, 1)), &kafkaio.DecodeInfo{Reason: "the schema registry does not know schema 99, or one that it refers to: schema not found"}},
		{"a short payload", Auto, nil, frame(1, 4, 'a'), "", string(frame(1, 4, 'a')), &kafkaio.DecodeInfo{Reason: "the payload does not fit schema 1: it ends too early"}},
		{"a long payload", Auto, nil, frame(2, 2, 2), "", string(frame(2, 2, 2)), &kafkaio.DecodeInfo{Reason: "the payload does not fit schema 2: 1 bytes follow the record"}},
		{"no index", Auto, nil, frame(4), "", string(frame(4)), &kafkaio.DecodeInfo{Reason: "the payload does not fit schema 4: it does not begin with a message index"}},
		{"an index beyond", Auto, nil, frame(4, 2, 2), "", string(frame(4, 2, 2)), &kafkaio.DecodeInfo{Reason: "the payload does not fit schema 4: the schema has no message with index [1]"}},
		{"a broken message", Auto, nil, frame(4, 0, 8), "", string(frame(4, 0, 8)), &kafkaio.DecodeInfo{Reason: "the payload does not fit schema 4: proto:"}},
		{"a schema that lacks a part", Auto, nil, frame(7, 0), "", string(frame(7, 0)), &kafkaio.DecodeInfo{Reason: "schema 7 cannot be used: the schema:1:27: other.proto is imported, but the schema's references do not contain it"}},
		{"another format", Avro, nil, frame(4, 0), "", string(frame(4, 0)), &kafkaio.DecodeInfo{Reason: "schema 4 has the format protobuf, but format: avro is required"}},
		{"JSON in place of Avro", Avro, nil, []byte(`{"x":1}`), "", `{"x":1}`, &kafkaio.DecodeInfo{Reason: "the value does not begin with the magic byte and the id of a schema, which format: avro requires"}},
		{"nothing of a JSON schema", JSONSchema, nil, frame(3), "", string(frame(3)), &kafkaio.DecodeInfo{Reason: "nothing follows the id of the schema"}},
		{"JSON is not looked at", JSON, nil, frame(99, 1), "", string(frame(99, 1)), nil},
	} {
		got := read(t, c, test.format, kafkaio.Record{Key: test.key, Value: test.value})
		if string(got.Key) != test.wantKey || string(got.Value) != test.wantValue || (got.Value == nil) != (test.value == nil) {
			t.Errorf("%s: key %q, value %q", test.name, got.Key, got.Value)
		}
		if got.DecodeInfo != nil && test.want != nil && test.want.Reason != "" && strings.HasPrefix(strings.ReplaceAll(got.DecodeInfo.Reason, "\u00a0", " "), test.want.Reason) {
			continue
		}
		expect.Same(t, test.want, got.DecodeInfo, test.name)
	}
	if got := read(t, c, Auto, kafkaio.Record{Key: frame(1), Value: frame(1), Oversized: 300_000}); got.DecodeInfo == nil || got.DecodeInfo.Reason == "" || got.DecodeInfo.KeyReason != "" {
		t.Errorf("%+v", got.DecodeInfo)
	}
}

// counted counts the requests to a registry.
func counted(t *testing.T, r *srfake.Registry) (asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	r.Intercept(func(http.ResponseWriter, *http.Request) bool {
		asked.Add(1)
		return false
	})
	return asked
}

// A schema is requested once, also if the registry does not know it. A new schema is requested when it occurs.
func TestSchemasAreCached(t *testing.T) {
	r, c := fake(t, sr.Schema{Schema: `"string"`})
	asked := counted(t, r)
	reading := (Source{c, Auto}).reading()
	batch := func(ids ...int) (records []kafkaio.Record) {
		for _, id := range ids {
			records = append(records, kafkaio.Record{Value: frame(id, 2, 'a')})
		}
		return records
	}
	for _, test := range []struct {
		ids   []int
		asked int32
	}{{[]int{1, 1}, 1}, {[]int{1}, 0}, {[]int{2, 2}, 1}, {[]int{2}, 0}, {[]int{1, 3, 1, 2}, 1}} {
		asked.Store(0)
		expect.OK(t, reading(t.Context(), quiet, batch(test.ids...)))
		expect.Same(t, test.asked, asked.Load(), test.ids, ": requests")
	}
	// After retryAt the registry is asked again.
	s := schemasOf(c)
	s.known[2].retryAt = time.Now()
	r.SeedSchema("late", 1, 2, sr.Schema{Schema: `"string"`})
	if got := read(t, c, Auto, kafkaio.Record{Value: frame(2, 2, 'a')}); string(got.Value) != `"a"` {
		t.Errorf("%q %+v", got.Value, got.DecodeInfo)
	}
	// Corrupt records with many different IDs do not fill the memory.
	s.failed = maxFailed - 5
	for id := range 10 {
		expect.Get(s.get(t.Context(), quiet, 100+id))(t)
	}
	if s.known[1] == nil || s.known[100] != nil || s.known[109] == nil {
		t.Errorf("%d schemas are remembered", len(s.known))
	}
}

// get waits for an unavailable registry, and the outage is logged once.
func TestRegistryAway(t *testing.T) {
	r, c := fake(t, sr.Schema{Schema: `"string"`})
	asked, status := new(atomic.Int32), new(atomic.Int32)
	r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if asked.Add(1) == 3 || status.Load() == 0 {
			return false
		}
		w.WriteHeader(int(status.Load()))
		return true
	})
	for _, code := range []int{503, 429, 404} {
		var logText strings.Builder
		registries.Clear()
		asked.Store(0)
		status.Store(int32(code))
		records := []kafkaio.Record{{Value: frame(1, 2, 'a')}}
		if err := (Source{c, Auto}).reading()(t.Context(), slog.New(slog.NewTextHandler(&logText, nil)), records); err != nil || string(records[0].Value) != `"a"` || records[0].DecodeInfo != nil {
			t.Errorf("%d: %v %q %+v", code, err, records[0].Value, records[0].DecodeInfo)
		}
		expect.Same(t, int32(3), asked.Load(), code, ": requests")
		if lines := strings.Split(strings.TrimSpace(logText.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "level=WARN msg=\"the schema registry does not answer: trying again\"") || !strings.Contains(lines[1], "answers again") {
			t.Errorf("%d: %q", code, lines)
		}
	}
	// A run that ends does not wait.
	registries.Clear()
	status.Store(503)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := (Source{c, Auto}).reading()(ctx, quiet, []kafkaio.Record{{Value: frame(1)}}); err != context.DeadlineExceeded {
		t.Error(err)
	}
	r.Close()
	expect.Error(t, c.Check(t.Context()), "does not answer: start it, or set registry.url: dial tcp")
}

// JSON that is not an answer of a registry is requested again, by a source and by a sink.
func TestForeignAnswer(t *testing.T) {
	r, c := fake(t, sr.Schema{Schema: `"string"`})
	r.SeedSchema("out", 1, 2, sr.Schema{Schema: `"string"`})
	asked := new(atomic.Int32)
	for _, text := range []string{"{}", "null", `{"message": "starting"}`} {
		foreign := func(w http.ResponseWriter, _ *http.Request) bool {
			if asked.Add(1) == 3 {
				return false
			}
			io.WriteString(w, text)
			return true
		}
		registries.Clear()
		asked.Store(0)
		r.Intercept(foreign)
		if got := read(t, c, Auto, kafkaio.Record{Value: frame(1, 2, 'a')}); string(got.Value) != `"a"` || got.DecodeInfo != nil {
			t.Errorf("%s: %q %+v", text, got.Value, got.DecodeInfo)
		}
		asked.Store(0)
		id := 0
		expect.OK(t, c.askUntilAnswered(t.Context(), quiet, func(ctx context.Context, cl *sr.Client) (err error) {
			id, err = Sink{c, "out", `"string"`}.id(ctx, cl)
			return err
		}))
		expect.Same(t, 2, id, text)
		expect.Error(t, c.Check(t.Context()), "there is no schema registry at", text)
		r.ClearInterceptors()
	}
}

// An error that ends a run names the setting to change. No error contains a secret.
func TestRegistryErrors(t *testing.T) {
	dir := t.TempDir()
	for name, password := range map[string]string{"right": "right \r\n", "wrong": "wrong-secret"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(password), 0o600))
	}
	secure := srfake.New()
	t.Cleanup(secure.Close)
	secure.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if _, password, _ := r.BasicAuth(); password == "right " { // without the line end
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	secure.SeedSchema("s", 1, 1, sr.Schema{Schema: `"string"`})
	login := func(file string) Config {
		return Config{URL: secure.URL(), Username: "user", Password: secret.Secret{File: filepath.Join(dir, file)}}
	}
	answers := func(code int) Config {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(s.Close)
		return Config{URL: s.URL}
	}
	encrypted := srfake.NewRegistry()
	encrypted.SeedSchema("s", 1, 1, sr.Schema{Schema: `"string"`})
	tls := httptest.NewUnstartedServer(encrypted.Handler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0) // the client that trusts nobody causes TLS errors
	tls.StartTLS()
	t.Cleanup(tls.Close)
	ca := filepath.Join(dir, "ca.pem")
	expect.OK(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}), 0o600))
	for _, test := range []struct {
		name        string
		cfg         Config
		check, read string
	}{
		{"a login", login("right"), "", ""},
		{"no login", Config{URL: secure.URL()}, "requires a login: set registry.username and registry.password", "requires a login"},
		{"a wrong password", login("wrong"), `refuses the login of user "user": set registry.username, and the password in the file`, "refuses the login"},
		{"no password", login("none"), "registry.password.file: the file that it names cannot be read", "registry.password.file"},
		{"forbidden", answers(403), "refuses this client, which has no login: set registry.username", "refuses this client, which has no login: set registry.username"},
		{"another server", answers(404), "there is no schema registry at", "-"},
		{"a bad request", answers(400), "answers: no response", "answers: no response"},
		{"a certificate", Config{URL: tls.URL}, "shows a certificate that is not trusted: set registry.tls.ca to the authority's", "shows a certificate"},
		{"its authority", Config{URL: tls.URL, TLS: &kafkaio.TLS{CA: ca}}, "", ""},
		{"no authority", Config{URL: tls.URL, TLS: &kafkaio.TLS{CA: "/nowhere.pem"}}, "registry.tls.ca: /nowhere.pem cannot be read: no such file", "registry.tls.ca"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			expectError := func(err error, want string) {
				t.Helper()
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err != nil && strings.Contains(err.Error(), "wrong-secret") {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			expectError(test.cfg.Check(t.Context()), test.check)
			if test.read != "-" {
				_, err := schemasOf(test.cfg).get(t.Context(), quiet, 1)
				expectError(err, test.read)
			}
		})
	}
}

// The error of a refused login whose password can no longer be read says so, once.
func TestPasswordIsGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	expect.OK(t, os.WriteFile(file, []byte("old"), 0o600))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		os.Remove(file)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	err := Config{URL: s.URL, Username: "user", Password: secret.Secret{File: file}}.Check(t.Context())
	expect.Error(t, err, "answers 401 Unauthorized, and the login cannot be read again: registry.password.file")
	expect.Same(t, 1, strings.Count(err.Error(), "answers"), err)
}

func TestCheckURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://r:8081": "", "https://r/apis/ccompat/v7": "", "r:8081": "with a host", "ftp://r": "with a host", "https://u:p@r": "not contain a login", "http://r?a=b": "not have a query", "": "with a host",
	} {
		if err := CheckURL(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// No payload causes a panic, and a decoded value is one JSON value, except with a JSON schema.
func FuzzReading(f *testing.F) {
	_, c := fake(f, sr.Schema{Schema: avroSchema}, sr.Schema{Schema: protoSchema, Type: sr.TypeProtobuf},
		sr.Schema{Schema: `{"type":"record","name":"L","fields":[{"name":"v","type":"long"},{"name":"next","type":["null","L",{"type":"array","items":"L"}]}]}`}, sr.Schema{Schema: `"string"`})
	payload := expect.Get(avro.MustParse(avroSchema).Encode(avroValue()))(f)
	f.Add(frame(1, payload...))
	f.Add(frame(2, append([]byte{4, 2, 0}, protoPayload()...)...))
	f.Add(frame(2, []byte("\x04\x02\x00R\f\n\x010\t00000000")...)) // package proto panics for this
	f.Add(frame(3, 2, 2, 4, 0))
	f.Add(frame(4, 6, 'a', '"', 0xff)) // invalid UTF-8 does not change where a text ends
	reading := (Source{c, Auto}).reading()
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > 0 && value[0] != 0 {
			return
		}
		records := []kafkaio.Record{{Key: value, Value: value}}
		expect.OK(t, reading(t.Context(), quiet, records))
		bare := strings.NewReplacer("NaN", "0", "-Infinity", "0", "Infinity", "0").Replace(string(records[0].Value))
		if _, _, idErr := header.DecodeID(value); idErr == nil && records[0].DecodeInfo != nil && records[0].DecodeInfo.Reason == "" && !json.Valid([]byte(bare)) {
			t.Errorf("%q is not JSON", records[0].Value)
		}
	})
}

// A value that JSON cannot represent is an error, also when nested.
func TestAppendAvroUnsupported(t *testing.T) {
	for _, v := range []any{struct{}{}, []any{1.5, struct{}{}}, map[string]any{"a": "b", "c": struct{}{}}, big.NewRat(1, 3)} {
		if b, err := appendAvro(nil, v); err == nil {
			t.Errorf("%v is %s", v, b)
		}
	}
}
