package kafkaio

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
)

// The tests of this file cover differences between the fake and a real Kafka.

// refusal is an error for users.
type refusal struct {
	name string
	err  error
	want string
}

func checkRefusals(t *testing.T, refusals []refusal) {
	for _, r := range refusals {
		says(t, r.err, r.want, r.name)
	}
}

func TestKafkaSecured(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Config{ClientAuth: true, SASL: "SCRAM-SHA-512", User: "ann", Password: "secret&sound"})
	certs, other := b.Certificates, kafkatest.NewCertificates(t)
	tlsConfig := &TLS{CA: certs.CA, Cert: certs.ClientCert, Key: certs.ClientKey}
	login := func(mechanism, env string) *SASL {
		return &SASL{Mechanism: mechanism, Username: "ann", Password: Secret{Env: env}}
	}
	right := login("SCRAM-SHA-512", "RIGHT")
	check := func(tls *TLS, sasl *SASL) error {
		return openClient(t, Cluster{Brokers: []string{b.Addr()}, TLS: tls, SASL: sasl}).Check(context30(t))
	}
	expect.OK(t, check(tlsConfig, right))
	ours, theirs := "broker "+b.Addr()+" ", ": set tls (it may be empty if a well-known authority has signed the certificate), or use the port without TLS"
	checkRefusals(t, []refusal{
		{"wrong password", check(tlsConfig, login("SCRAM-SHA-512", "WRONG")), ours + `refuses the login of user "ann" by SCRAM-SHA-512: the name or the password (in the environment variable WRONG) is wrong, or the user is not set up for this mechanism`},
		{"other mechanism", check(tlsConfig, login("PLAIN", "RIGHT")), ours + "does not offer PLAIN, but SCRAM-SHA-512: set sasl.mechanism to one of these"},
		{"no login", check(tlsConfig, nil), ours + "hangs up on a client that has not logged in: set sasl, or use a port that asks for no login"},
		{"no TLS", check(nil, right), ours + "speaks TLS at this port" + theirs},
		{"no TLS and no login", check(nil, nil), ours + "speaks TLS at this port" + theirs},
		{"no client certificate", check(&TLS{CA: certs.CA}, right), ours + "probably asks for a client certificate: set tls.cert and tls.key (it says: bad certificate)"},
		{"wrong client certificate", check(&TLS{CA: certs.CA, Cert: other.ClientCert, Key: other.ClientKey}, right), ours + "probably does not accept the client certificate …: it must be valid, and of an authority that the broker trusts (it says: unknown certificate)"},
		{"other authority", check(&TLS{CA: other.CA}, right), ours + `shows a certificate of an authority that is not trusted ("kafkatest authority"): the authority's certificate is not in tls.ca, …`},
	})

	// A writer, kafka-go's client and the owner of a changelog connect with the same settings.
	c := Cluster{Brokers: []string{b.Addr()}, TLS: tlsConfig, SASL: right}
	expect.Get(openClient(t, c).Create(context30(t), "out", 3, nil))(t)
	msgs := numbered(100, []byte("x"))
	expect.OK(t, newWriter(t, c, "out").Write(context30(t), msgs))
	expect.Same(t, len(msgs), len(b.Consume(t, "out")), "messages written")
	for range 2 { // the second takes over
		o := expect.Get(takeOwnership(context30(t), c, "out", "g", batchBytes))(t)
		defer o.close()
		expect.OK(t, o.commit(context30(t), puts(entry{key: msgs[0].Key, value: msgs[0].Value}), map[string]partitionProgress{"out-0": committedBy("out-0", 1)}))
	}
	expect.Same(t, len(msgs)+2, len(b.Consume(t, "out")), "messages, with two of an owner")
}

func TestKafka(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Config{})
	c := Cluster{Brokers: []string{b.Addr()}}

	t.Run("topics", func(t *testing.T) {
		expect.OK(t, openClient(t, c).Check(context30(t)))
		for _, want := range []bool{true, false} {
			expect.Same(t, want, expect.Get(openClient(t, c).Create(context30(t), "states", 0, map[string]string{"cleanup.policy": "compact"}))(t))
		}
		config := expect.Get(openClient(t, c).config(context30(t), "states", "cleanup.policy", "max.message.bytes"))(t)
		expect.Same(t, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1048588"}, config)
		tls, sasl := c, c
		tls.TLS = &TLS{}
		sasl.SASL = &SASL{Mechanism: "PLAIN", Username: "ann", Password: Secret{Env: "RIGHT"}}
		_, name := openClient(t, c).Create(context30(t), "a b", 0, nil)
		_, policy := openClient(t, c).Create(context30(t), "new", 0, map[string]string{"cleanup.policy": "shred"})
		_, space := openClient(t, c).Partitions(context30(t), []string{"states", "a b"})
		checkRefusals(t, []refusal{
			{"TLS where there is none", openClient(t, tls).Check(context30(t)), "broker " + b.Addr() + " does not speak TLS at this port: leave out tls, or use the port that does"},
			{"login where there is none", openClient(t, sasl).Check(context30(t)), "broker " + b.Addr() + " asks for no login at this port: leave out sasl, or use the port that does"},
			{"name", name, `topic "a b" cannot be created: Invalid Topic: Topic name is invalid: …`},
			{"policy", policy, `topic "new" cannot be created: Invalid Configuration: Invalid value shred for configuration cleanup.policy: …`},
			{"space", space, `"a b" is not a topic name: …`},
		})
	})

	// An owner may pause at any point of a commit. If another owner has taken over meanwhile, the rest of the commit
	// is refused.
	t.Run("owners", func(t *testing.T) {
		b.CreateTopic(t, "owned", 2, map[string]string{"cleanup.policy": "compact"})
		state := func(text string) func(put func(entry)) {
			return puts(entry{key: []byte("k"), value: []byte(text)})
		}
		offsets := func(offset int64) map[string]partitionProgress {
			return map[string]partitionProgress{"owned-0": committedBy("owned-0", offset)}
		}
		begin := func() *owner {
			o := expect.Get(takeOwnership(context30(t), c, "owned", "g", batchBytes))(t)
			t.Cleanup(o.close)
			return o
		}
		keeps := func(want string, offset int64) {
			t.Helper()
			states, err := openClient(t, c).ReadStates(context30(t), "owned", quiet)
			if err != nil || len(states) != 1 || string(states[0].Bytes) != want {
				t.Errorf("%v, %v: want %s", states, err, want)
			}
			// An offset becomes visible a moment after its transaction.
			expect.Soon(t, fmt.Sprint("the offset ", offset), func() bool { return offsetsOf(t, c, "g")["owned-0"] == offset })
		}
		first := begin()
		expect.OK(t, first.commit(context30(t), state("1"), offsets(1)))
		pauses := map[string]func(o *owner){
			"before a commit": func(*owner) {},
			"after the states": func(o *owner) {
				expect.OK(t, errors.Join(o.client.BeginTransaction(), o.write(t.Context(), state("stale"))))
			},
			"after the offsets": func(o *owner) {
				ctx := t.Context()
				expect.OK(t, errors.Join(o.client.BeginTransaction(), o.write(ctx, state("stale")), o.addOffsets(ctx, offsets(0))))
			},
		}
		offset := int64(1)
		for name, pause := range pauses {
			old := begin()
			pause(old)
			next := begin()
			offset++
			expect.OK(t, next.commit(context30(t), state(name), offsets(offset)))
			var err error
			if name == "before a commit" {
				err = old.commit(context30(t), state("stale"), offsets(0))
			} else {
				err = old.client.EndTransaction(context30(t), kgo.TryCommit)
			}
			if err == nil {
				t.Errorf("%s: what comes after the pause is accepted", name)
			}
			expect.Error(t, old.commit(context30(t), state("stale"), offsets(0)), "", name, ": a later commit")
			expect.OK(t, begin().commit(context30(t), state(name), offsets(offset))) // open transactions of the old owner are aborted
			keeps(name, offset)
		}
	})

	t.Run("refused", func(t *testing.T) {
		b.CreateTopic(t, "compacted", 1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "100000"})
		w := newWriter(t, c, "compacted")
		checkRefusals(t, []refusal{
			{"no key", w.Write(context30(t), []Message{{ID: "1", Value: []byte("x")}}), `topic "compacted" does not take messages: …Compacted topic cannot accept message without key…`},
		})
		// Together they exceed the limit; each of them does not.
		noise := make([]byte, 60_000)
		rand.NewChaCha8([32]byte{}).Read(noise)
		var parts []Message
		for i := range 20 {
			parts = append(parts, Message{Key: []byte("k"), ID: fmt.Sprint(i), Value: noise[:50_000+i]})
		}
		expect.OK(t, w.Write(context30(t), parts))
		checkOrder(t, c, "compacted", parts)
	})

	t.Run("killed", func(t *testing.T) {
		b.CreateTopic(t, "out", 4, nil)
		msgs := numbered(40_000, []byte(strings.Repeat("x", 700)))
		const part = 500
		// A new topic may be refused for a moment, which would log the first warning.
		expect.OK(t, newWriter(t, c, "out").Write(context30(t), msgs[:part]))
		log := &logged{warned: make(chan struct{}, 100)}
		w := expect.Get(NewWriter(context30(t), Sink{Cluster: c, Topic: "out"}, slog.New(log)))(t)
		defer w.Close()
		tenth, done := make(chan struct{}), make(chan error, 1)
		go func() {
			for i := part; i < len(msgs); i += part {
				if i == 10*part {
					close(tenth)
				}
				if err := w.Write(context30(t), msgs[i:i+part]); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		<-tenth
		b.Kill()
		select {
		case <-log.warned:
		case err := <-done:
			t.Fatalf("nothing was tried again (%v)", err)
		}
		b.Restart(t)
		expect.OK(t, <-done)
		t.Logf("%d repeats", checkOrder(t, c, "out", msgs))
		// For all partitions and attempts there is one warning and one line when it works again. A busy machine may
		// need more than ten seconds to start the broker, which adds reminders.
		text := log.String()
		if warned := strings.Count(text, " for=0s"); warned == 0 || !strings.Contains(text, "WARN Kafka does not take messages; trying again topic=out what=") ||
			warned != strings.Count(text, "INFO Kafka takes messages again topic=out after=") || warned > 3 {
			t.Errorf("log:\n%s", text)
		}
	})
}
