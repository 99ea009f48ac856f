package transforms

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/dofn"
	"hafvf/pipeline/direct"
)

func init() {
	register.Function2x0((&generateFn{}).ProcessElement)
	dofn.Register(func(f *generateFn) any { return f.ProcessElement })
	register.Function4x0((&emptyFn{}).ProcessElement)
	dofn.Register(func(f *emptyFn) any { return f.ProcessElement })
	register.Function3x0((&countFn{}).ProcessElement)
	dofn.Register(func(f *countFn) any { return f.ProcessElement })
	register.Emitter3[beam.EventTime, string, keyed.Observation]()
	register.Emitter1[string]()
}

// generateFn emits N observations over Keys keys.
type generateFn struct{ N, Keys int }

func (fn *generateFn) ProcessElement(_ []byte, emit func(beam.EventTime, string, keyed.Observation)) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range fn.N {
		t := time.Unix(int64(i), 0)
		emit(mtime.FromTime(t), fmt.Sprint("k", rng.IntN(fn.Keys)), keyed.Value(t, "", rng.NormFloat64()))
	}
}

// emptyFn is keyed and stateful as encodeFn is, and does nothing.
type emptyFn struct {
	State state.Value[[]byte]
}

func (fn *emptyFn) ProcessElement(_ state.Provider, key string, _ []byte, emit func(string)) {
	emit(key)
}

// countFn is an end with an output that nobody reads.
type countFn struct{}

var counted atomic.Int64

func (fn *countFn) ProcessElement(string, keyed.Estimate, func(string)) { counted.Add(1) }

// BenchmarkFilter measures observations per second through the node on the
// direct runner, beside the same graph with a stateful node that does nothing
// and the plain loop. Run it with -benchtime 1x.
func BenchmarkFilter(b *testing.B) {
	const n = 250_000 // one bundle of the file source
	for _, levels := range [][]hafvf.Beta{{}, {{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}} {
		cfg := Config{Config: keyed.Config{Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: levels, Top: 1}}, Order: keyed.EventTime}}
		for _, keys := range []int{1, 100, 100_000} {
			name := fmt.Sprintf("levels=%d/keys=%d", len(levels), keys)
			rate := func(b *testing.B) {
				b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "observations/s")
			}
			b.Run(name+"/loop", func(b *testing.B) {
				for b.Loop() {
					est, err := keyed.NewEstimator(cfg.Config)
					if err != nil {
						b.Fatal(err)
					}
					tracks := map[string]*keyed.Track{}
					(&generateFn{n, keys}).ProcessElement(nil, func(_ beam.EventTime, key string, o keyed.Observation) {
						if tracks[key] == nil {
							tracks[key] = est.NewTrack(key)
						}
						est.Estimate(tracks[key], o)
					})
				}
				rate(b)
			})
			b.Run(name+"/empty", func(b *testing.B) {
				for b.Loop() {
					p, s := beam.NewPipelineWithRoot()
					text, err := json.Marshal(cfg)
					if err != nil {
						b.Fatal(err)
					}
					packed := beam.ParDo(s, packObservation, beam.ParDo(s, &generateFn{n, keys}, beam.Impulse(s)))
					blocks, _ := beam.ParDo2(s, &packFn{packer: packer{Config: string(text)}, Decoder: Registered{Name: objects}}, packed)
					beam.ParDo(s, &emptyFn{State: state.MakeValueState[[]byte]("entity")}, blocks)
					if _, err := direct.Execute(context.Background(), p); err != nil {
						b.Fatal(err)
					}
				}
				rate(b)
			})
			b.Run(name+"/filter", func(b *testing.B) {
				for b.Loop() {
					p, s := beam.NewPipelineWithRoot()
					counted.Store(0)
					estimates, _ := Filter(s, cfg, beam.ParDo(s, &generateFn{n, keys}, beam.Impulse(s)))
					beam.ParDo(s, &countFn{}, estimates)
					if _, err := direct.Execute(context.Background(), p); err != nil {
						b.Fatal(err)
					}
					if counted.Load() != n {
						b.Fatalf("%d estimates", counted.Load())
					}
				}
				rate(b)
			})
		}
	}
}
