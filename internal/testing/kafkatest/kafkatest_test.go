package kafkatest_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// numbered returns n records of a topic that differ in key, value and header.
func numbered(topic string, n int) []*kgo.Record {
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{
			Topic:   topic,
			Key:     fmt.Appendf(nil, "key %d", i%100),
			Value:   fmt.Appendf(nil, "value %d", i),
			Headers: []kgo.RecordHeader{{Key: "id", Value: fmt.Append(nil, i)}},
		})
	}
	return records
}

// contents returns the records' contents by partition and offset.
func contents(records []*kgo.Record) map[string]string {
	found := map[string]string{}
	for _, r := range records {
		found[fmt.Sprintf("%d/%d", r.Partition, r.Offset)] = fmt.Sprintf("%s %s %s", r.Key, r.Value, r.Headers)
	}
	return found
}

func TestClient(t *testing.T) {
	addrs := kafkatest.Fake(t, kfake.SeedTopics(3, "seeded")).ListenAddrs()
	kafka := kafkatest.Dial(addrs)
	kafka.CreateTopic(t, "created", 2, map[string]string{"cleanup.policy": "compact"})
	for _, topic := range []string{"seeded", "created"} {
		produced := numbered(topic, 1000)
		kafka.Produce(t, produced...)
		consumed := kafka.Consume(t, topic)
		expect.Same(t, contents(produced), contents(consumed), "topic ", topic)
		at := map[int32]int64{}
		for _, r := range consumed {
			if r.Offset != at[r.Partition] {
				t.Fatalf("topic %s, partition %d: offset %d follows %d", topic, r.Partition, r.Offset, at[r.Partition]-1)
			}
			at[r.Partition]++
		}
	}

	kafka.AddPartitions(t, "created", 4)
	manual := kafkatest.Dial(addrs, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	manual.Produce(t, &kgo.Record{Topic: "created", Partition: 3}, &kgo.Record{Topic: "created", Partition: 3})
	start, end := kafka.Offsets(t, "created")
	if len(end) != 4 || end[0]+end[1] != 1000 || end[2] != 0 || end[3] != 2 {
		t.Errorf("the topic ends at %d in place of 1000 in partitions 0 and 1, and 0, 2", end)
	}
	expect.Same(t, make([]int64, 4), start, "where the topic starts")
}

func TestKillAndRestart(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{})
	b.CreateTopic(t, "numbers", 4, map[string]string{"cleanup.policy": "compact"})
	produced := numbered("numbers", 1000)
	b.Produce(t, produced...)
	addr := b.Addr()
	b.Kill()
	b.Kill()
	b.Restart(t)
	if b.Addr() != addr {
		t.Errorf("the broker came back at %s, not at %s", b.Addr(), addr)
	}
	client := kafkatest.Dial([]string{addr})
	expect.Same(t, contents(produced), contents(client.Consume(t, "numbers")), "after the restart")
	b.AddPartitions(t, "numbers", 5)
	if _, end := client.Offsets(t, "numbers"); len(end) != 5 {
		t.Errorf("the topic has %d partitions in place of 5", len(end))
	}
}

// TestSecurity: who shows what the broker asks for is served. TestKafkaSecured of kafkaio has who is
// not.
func TestSecurity(t *testing.T) {
	const user, password = "ann", ` a "word", ü, \ and more`
	const scramPassword = ` a word's = [\] ; more`
	for _, test := range []struct {
		config kafkatest.Config
		login  sasl.Mechanism
	}{
		{kafkatest.Config{SASL: "PLAIN", User: user, Password: password}, plain.Auth{User: user, Pass: password}.AsMechanism()},
		{kafkatest.Config{ClientAuth: true, SASL: "SCRAM-SHA-256", User: user, Password: scramPassword}, scram.Auth{User: user, Pass: scramPassword}.AsSha256Mechanism()},
	} {
		t.Run(test.config.SASL, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Start(t, test.config)
			opts := []kgo.Opt{kgo.SASL(test.login)}
			if test.config.ClientAuth {
				text, err := os.ReadFile(b.Certificates.CA)
				expect.OK(t, err)
				pair, err := tls.LoadX509KeyPair(b.Certificates.ClientCert, b.Certificates.ClientKey)
				expect.OK(t, err)
				config := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
				config.RootCAs.AppendCertsFromPEM(text)
				opts = append(opts, kgo.DialTLSConfig(config))
			}
			b.CreateTopic(t, "numbers", 2, nil)
			produced := numbered("numbers", 10)
			kafkatest.Dial([]string{b.Addr()}, opts...).Produce(t, produced...)
			expect.Same(t, contents(produced), contents(b.Consume(t, "numbers")))
		})
	}
}
