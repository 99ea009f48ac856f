package transforms

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
)

// BenchmarkSmoothSessions measures observations per second through the node that smooths,
// without a runner: many sessions of a hundred, and one long session. Run it with -cpu 1,2.
func BenchmarkSmoothSessions(b *testing.B) {
	text, err := json.Marshal(SmoothConfig{SmoothConfig: keyed.SmoothConfig{
		Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1}},
		Gap:    time.Hour,
	}})
	if err != nil {
		b.Fatal(err)
	}
	const n = 100_000
	for _, length := range []int{100, n} {
		rng := rand.New(rand.NewPCG(1, 2))
		var sessions [][]byte
		for range n / length {
			var s keyed.Gathered
			for j := range length {
				s.Observations = append(s.Observations, keyed.Value(time.Unix(int64(j), 0), "", rng.NormFloat64()+float64(j/50%2*3)))
			}
			session, _ := s.AppendBinary(nil)
			sessions = append(sessions, session)
		}
		b.Run(fmt.Sprintf("length=%d", length), func(b *testing.B) {
			fn := &encodeSmoothedFn{sessionNode: sessionNode{Config: string(text)}, Encoder: Registered{Name: objects}}
			if err := fn.Setup(b.Context()); err != nil {
				b.Fatal(err)
			}
			emit := func([]byte) {}
			b.ReportAllocs()
			for b.Loop() {
				fn.StartBundle(emit, nil)
				for i, s := range sessions {
					if err := fn.ProcessElement(context.Background(), fmt.Sprint("k", i), s, emit, nil); err != nil {
						b.Fatal(err)
					}
				}
				if err := fn.drain(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "observations/s")
		})
	}
}
