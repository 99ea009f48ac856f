package kafkaio

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/kafkatest"
	layouts "hafvf/pipeline/records"
)

// The codec of a batch is that of Sink.Compression, and another client can read it.
func TestCompression(t *testing.T) {
	for _, test := range []struct {
		compression string
		codec       byte // its number in the protocol
	}{{"", 4}, {"none", 0}, {"gzip", 1}, {"snappy", 2}, {"lz4", 3}, {"zstd", 4}} {
		t.Run("compression="+test.compression, func(t *testing.T) {
			k, c := fake(t, kfake.SeedTopics(1, "out"))
			codecs := make(chan byte, 1)
			k.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				const attributes = 22 // offset of the low byte in a batch
				codecs <- req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records[attributes] & 7
				return nil, nil, false
			})
			sink := Sink{Cluster: c, Topic: "out", Compression: test.compression}
			w := expect.Get(NewWriter(context30(t), sink, quiet))(t)
			t.Cleanup(func() { w.Close() })
			value := bytes.Repeat([]byte("value "), 1000)
			expect.OK(t, w.Write(context30(t), []Message{{Key: []byte("k"), Value: value}}))
			expect.Same(t, test.codec, <-codecs, "codec")
			if got := kafkatest.Dial(c.Brokers).Consume(t, "out"); len(got) != 1 || !bytes.Equal(got[0].Value, value) {
				t.Errorf("%d records come back, or another value", len(got))
			}
		})
	}
}

func TestUnknownCompression(t *testing.T) {
	_, err := openWriter(Sink{Cluster: Cluster{Brokers: []string{"b:1"}}, Topic: "out", Compression: "brotli"}, quiet)
	says(t, err, `compression "brotli" of topic "out" is unknown: use one of none, gzip, snappy, lz4, zstd`)
}

// BenchmarkCompression encodes batches of a megabyte of estimates. MB/s count bytes before compression; ratio is the
// size before compression divided by the size after it.
func BenchmarkCompression(b *testing.B) {
	filter := hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}}
	for _, brief := range []bool{true, false} {
		est := expect.Get(keyed.NewEstimator(keyed.Config{Filter: filter, Order: keyed.Arrival}))(b)
		layout := expect.Get(layouts.NewLayout(filter))(b)
		layout.Brief = brief
		rng := rand.New(rand.NewPCG(1, 2))
		tracks := map[string]*keyed.Track{}
		begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var batch []*Message
		size := 0
		for i := 0; size < batchBytes; i++ {
			key := fmt.Sprintf("k%d", rng.IntN(100))
			if tracks[key] == nil {
				tracks[key] = est.NewTrack(key)
			}
			id := fmt.Sprintf("in-%d-%d", rng.IntN(4), i)
			e := est.Estimate(tracks[key], keyed.Value(begin.Add(time.Duration(i)*time.Second), id, rng.NormFloat64()))
			m := &Message{Key: []byte(key), ID: id, Value: bytes.TrimSpace(layout.AppendEstimate(nil, layouts.Object, key, &e))}
			batch = append(batch, m)
			size += m.size()
		}
		for _, name := range Compressions {
			b.Run(fmt.Sprintf("brief=%t/%s", brief, name), func(b *testing.B) {
				codec, err := Sink{Compression: name}.codec()
				expect.OK(b, err)
				var out []byte
				b.SetBytes(int64(size))
				for b.Loop() {
					if out, err = encode(codec, batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size)/float64(len(out)), "ratio")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(batch)), "µs/record")
				b.ReportMetric(float64(size)/float64(len(batch)), "B/record")
			})
		}
	}
}
