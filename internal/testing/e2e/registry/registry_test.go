// Package registry_test reads and writes topics with other implementations: a schema registry and Confluent's
// client.
package registry_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/javatest"
	"hafvf/internal/testing/kafkatest"
	"hafvf/internal/testing/registrytest"
)

var program e2e.Program

func TestMain(m *testing.M) { e2e.Main(m, &program) }

// python runs testdata/client.py.
func python(t *testing.T, args ...string) (out []byte) {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"testdata/client.py"}, args...)...)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the client fails: %v\n%s", err, failed.String())
	}
	return out
}

// Records of Confluent's client in Avro, Protobuf and JSON Schema give the same estimates as plain JSON, byte for
// byte, and hafvf reads the Avro that it writes.
func TestRegistry(t *testing.T) {
	if err := exec.Command("python3", "-c", "import confluent_kafka.schema_registry.avro, confluent_kafka.schema_registry.protobuf, confluent_kafka.schema_registry.json_schema").Run(); err != nil {
		javatest.Missing(t, "Confluent's client", "it for python3, as confluent-kafka[avro,protobuf,json]", err)
	}
	b := kafkatest.Start(t, kafkatest.Config{})
	url := registrytest.Start(t)
	dir := t.TempDir()
	const n = 400
	var lines strings.Builder
	var plain []*kgo.Record
	for i := range n {
		timestamp := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC).Add(time.Duration(i) * time.Minute).Format(time.RFC3339Nano)
		x := "null"
		if i%50 != 7 {
			text := expect.Get(json.Marshal(math.Sin(float64(i)/9) + float64(i/200)*8))(t)
			x = string(text)
		}
		key := fmt.Sprintf("pump-%d", i%3)
		fmt.Fprintf(&lines, `{"key":%q,"at":%q,"x":%s}`+"\n", key, timestamp, x)
		plain = append(plain, &kgo.Record{Topic: "plain", Key: []byte(key), Value: fmt.Appendf(nil, `{"at":%q,"data":{"x":%s}}`, timestamp, x)})
	}
	path := filepath.Join(dir, "observations.jsonl")
	expect.OK(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	topics := []string{"plain", "avro", "protobuf", "json_schema"}
	for _, topic := range topics {
		b.CreateTopic(t, topic, 1, nil)
	}
	b.Produce(t, plain...)
	python(t, "write", b.Addr(), url, path)

	var want []string
	for _, topic := range topics {
		config := filepath.Join(dir, topic+".yaml")
		text := fmt.Sprintf(`model: {family: normal}
records: full
source: {kafka: {brokers: ["%s"], topics: [%s], key: sensor, time: at, values: [data.x], bounded: true, registry: {url: "%s"}}}
sink: {kafka: {topic: %[2]s-out}}
dead_letter: {kafka: {topic: %[2]s-rejected}}
`, b.Addr(), topic, url)
		expect.OK(t, os.WriteFile(config, []byte(text), 0o600))
		if code, _, stderr := program.Run(t, dir, "", "run", config); code != 0 {
			t.Fatalf("%s: exit %d\n%s", topic, code, stderr)
		}
		var got []string
		for _, r := range b.Consume(t, topic+"-out") {
			got = append(got, strings.ReplaceAll(string(r.Value), `"id":"`+topic+"-", `"id":"plain-`))
		}
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != n {
			t.Fatalf("%s: %d records (-plain +this)\n%s", topic, len(got), diff)
		}
	}

	if code, _, stderr := program.Run(t, dir, "", "run", filepath.Join(dir, "plain.yaml"), "--set", "sink.kafka.format=avro", "--set", "sink.kafka.topic=estimates"); code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	read := strings.Split(strings.TrimSpace(string(python(t, "read", b.Addr(), url, "estimates", fmt.Sprint(n)))), "\n")
	if len(read) != n {
		t.Fatalf("%d records were read", len(read))
	}
	for i, line := range read {
		var in, out map[string]any
		for text, v := range map[string]*map[string]any{want[i]: &in, strings.Replace(line, "+00:00", "Z", 1): &out} {
			expect.OK(t, json.Unmarshal([]byte(text), v))
		}
		for _, v := range []map[string]any{in, out} {
			parsed := expect.Get(time.Parse(time.RFC3339Nano, v["time"].(string)))(t)
			v["time"] = parsed.UnixMicro()
		}
		if diff := cmp.Diff(in, out); diff != "" {
			t.Fatalf("record %d (-JSON +Avro)\n%s", i, diff)
		}
	}

	// An estimate of another model is incompatible, which this registry checks if configured. The run does not
	// start.
	rule := expect.Get(http.NewRequest(http.MethodPut, url+"/config/estimates-value", strings.NewReader(`{"compatibility":"BACKWARD"}`)))(t)
	rule.Header.Set("Content-Type", "application/json")
	answer := expect.Get(http.DefaultClient.Do(rule))(t)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	code, _, stderr := program.Run(t, dir, "", "run", filepath.Join(dir, "plain.yaml"), "--set", "sink.kafka.format=avro", "--set", "sink.kafka.topic=estimates",
		"--set", "model={family: mvnormal, dim: 1}")
	if code != 1 || !strings.Contains(stderr, "refuses the schema of estimates-value, because it is incompatible with the existing schema") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
}
