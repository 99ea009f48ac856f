package flink_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// schemas checks that workers of a bounded job call the registry themselves, with the password from the file in the
// config, and write the same in Avro as a run in one process.
func (s *site) schemas(t *testing.T) {
	const schema = `{"type":"record","name":"Reading","fields":[{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"x","type":"double"}]}`
	registry := srfake.New(srfake.WithAuth("Basic dXNlcjpzZWNyZXQ=")) // user:secret
	t.Cleanup(registry.Close)
	registry.SeedSchema("framed-in-value", 1, 7, sr.Schema{Schema: schema})
	registry.SeedSchema("framed-in-key", 1, 8, sr.Schema{Schema: `{"type":"record","name":"Key","fields":[{"name":"sensor","type":"string"}]}`})
	password := filepath.Join(t.TempDir(), "password")
	expect.OK(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	frame := func(id uint32, schema *avro.Schema, v any) []byte {
		b := expect.Get(schema.AppendEncode(binary.BigEndian.AppendUint32([]byte{0}, id), v))(t)
		return b
	}
	values, text := avro.MustParse(schema), avro.MustParse(`"string"`)
	const n, keys = 2_000, 20
	records := make([]*kgo.Record, n)
	for i := range records {
		timestamp := time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
		records[i] = &kgo.Record{
			Topic: "framed-in", Key: frame(8, text, fmt.Sprint("k", i%keys)), // a record with one text is encoded as that text
			Value: frame(7, values, map[string]any{"at": timestamp, "x": float64(i%7) + float64(i)/n}),
		}
	}
	records[5].Value = frame(999, values, map[string]any{"at": time.Now(), "x": 1.0}) // an unknown schema
	for _, topic := range []string{"in", "out", "rejected"} {
		s.Broker.CreateTopic(t, "framed-"+topic, 4, nil)
	}
	s.Broker.Produce(t, records...)
	source := fmt.Sprintf(`, bounded: true, key: sensor, time: at, format: avro, registry: {url: "%s", username: user, password: {file: "%s"}}`, registry.URL(), password)
	cfg := s.Config(t, "framed", source, ", parallelism: 2", "lateness: 10m\n") // waiting records are written at the end
	d := program.Start(t, nil, "run", cfg, "--set", "sink.kafka.format=avro")
	s.Leaves(t, cfg)
	d.Ends(t, 0)
	if code, _, stderr := program.Run(t, "", "", "run", cfg, "--set", "sink.kafka.format=avro", "--set", "sink.kafka.topic=framed-whole-out",
		"--set", "dead_letter.kafka.topic=framed-whole-rejected", "--set", "runner={name: direct}"); code != 0 {
		t.Fatal(stderr)
	}
	for _, topic := range []string{"out", "rejected"} {
		want, _ := e2e.ByID(t, s.Broker, "framed-whole-"+topic)
		if len(want) != map[string]int{"out": n - 1, "rejected": 1}[topic] {
			t.Fatalf("%s: %d", topic, len(want))
		}
		got, repeats := e2e.ByID(t, s.Broker, "framed-"+topic)
		e2e.Same(t, topic, want, got, repeats)
		for _, value := range got {
			if topic == "rejected" && !strings.Contains(value, "does not know schema 999") {
				t.Error(value)
			}
		}
	}
}
