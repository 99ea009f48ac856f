package kafkatest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
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
	if diff := cmp.Diff(make([]int64, 4), start); diff != "" {
		t.Errorf("the topic starts elsewhere than at 0:\n%s", diff)
	}
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
	if diff := cmp.Diff(contents(produced), contents(client.Consume(t, "numbers"))); diff != "" {
		t.Errorf("after the restart (-produced +consumed):\n%s", diff)
	}
	b.AddPartitions(t, "numbers", 5)
	if _, end := client.Offsets(t, "numbers"); len(end) != 5 {
		t.Errorf("the topic has %d partitions in place of 5", len(end))
	}
}

// ping returns the first error that a client with these options meets.
func ping(t *testing.T, b *kafkatest.Broker, opts ...kgo.Opt) error {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addr()), kgo.RequestRetries(0))...)
	expect.OK(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return cl.Ping(ctx)
}

// trust returns a configuration that trusts the authority of c and shows its
// client's certificate if that is wanted.
func trust(t *testing.T, c kafkatest.Certificates, show bool) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(c.CA)
	expect.OK(t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		t.Fatalf("%s holds no certificate", c.CA)
	}
	if show {
		pair, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
		expect.OK(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func TestSecurity(t *testing.T) {
	const user, password = "ann", ` a "word", ü, \ and more`
	const scramPassword = ` a word's = [\] ; more`
	tests := []struct {
		config kafkatest.Config
		login  func(password string) sasl.Mechanism
	}{
		{config: kafkatest.Config{ClientAuth: true}},
		{
			config: kafkatest.Config{SASL: "PLAIN", User: user, Password: password},
			login:  func(p string) sasl.Mechanism { return plain.Auth{User: user, Pass: p}.AsMechanism() },
		},
		{
			config: kafkatest.Config{TLS: true, SASL: "SCRAM-SHA-512", User: user, Password: scramPassword},
			login:  func(p string) sasl.Mechanism { return scram.Auth{User: user, Pass: p}.AsSha512Mechanism() },
		},
		{
			config: kafkatest.Config{ClientAuth: true, SASL: "SCRAM-SHA-256", User: user, Password: scramPassword},
			login:  func(p string) sasl.Mechanism { return scram.Auth{User: user, Pass: p}.AsSha256Mechanism() },
		},
	}
	for _, test := range tests {
		name := fmt.Sprintf("tls=%t,auth=%t,sasl=%s", test.config.TLS, test.config.ClientAuth, test.config.SASL)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Start(t, test.config)
			var encrypted, login []kgo.Opt
			if test.config.TLS || test.config.ClientAuth {
				encrypted = []kgo.Opt{kgo.DialTLSConfig(trust(t, b.Certificates, test.config.ClientAuth))}
			}
			if test.login != nil {
				login = []kgo.Opt{kgo.SASL(test.login(test.config.Password))}
			}
			all := append(append([]kgo.Opt{}, encrypted...), login...)
			if err := ping(t, b, all...); err != nil {
				t.Fatalf("with all that is needed: %v", err)
			}

			b.CreateTopic(t, "numbers", 2, nil)
			produced := numbered("numbers", 10)
			kafkatest.Dial([]string{b.Addr()}, all...).Produce(t, produced...)
			if diff := cmp.Diff(contents(produced), contents(b.Consume(t, "numbers"))); diff != "" {
				t.Errorf("(-produced +consumed by the broker's own client):\n%s", diff)
			}

			if test.login != nil {
				wrong := append(append([]kgo.Opt{}, encrypted...), kgo.SASL(test.login("wrong")))
				if err := ping(t, b, wrong...); !errors.Is(err, kerr.SaslAuthenticationFailed) {
					t.Errorf("with a wrong password: %v", err)
				}
				if err := ping(t, b, encrypted...); err == nil {
					t.Error("without a password the broker serves")
				}
			}
			if encrypted != nil {
				if err := ping(t, b, login...); err == nil {
					t.Error("without TLS the broker serves")
				}
				other := trust(t, kafkatest.NewCertificates(t), test.config.ClientAuth)
				err := ping(t, b, append(login, kgo.DialTLSConfig(other))...)
				if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
					t.Errorf("with another authority: %v", err)
				}
			}
			if test.config.ClientAuth {
				bare := kgo.DialTLSConfig(trust(t, b.Certificates, false))
				if err := ping(t, b, append(login, bare)...); err == nil {
					t.Error("without a certificate the broker serves")
				}
			}
		})
	}
}
