package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// drawn draws standard observations of a family, for a model with dim values in an observation.
var drawn = map[string]func(rng *rand.Rand, dim int) []float64{
	"bernoulli":   func(rng *rand.Rand, _ int) []float64 { return []float64{float64(rng.IntN(2))} },
	"categorical": func(rng *rand.Rand, dim int) []float64 { return []float64{float64(rng.IntN(dim))} },
	"exponential": func(rng *rand.Rand, _ int) []float64 { return []float64{rng.ExpFloat64()} },
	"poisson":     func(rng *rand.Rand, _ int) []float64 { return []float64{float64(rng.IntN(7))} },
	"normal":      normals,
	"mvnormal":    normals,
	"regression":  normals,
	"ar":          normals,
}

func normals(rng *rand.Rand, dim int) []float64 {
	x := make([]float64, dim)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// BenchmarkStateSize measures the bytes of a key's state after 1,000 observations of a topic in event time, without
// waiting observations, by family and filter: the table of deploy/reference.md. Run it with -benchtime 1x.
func BenchmarkStateSize(b *testing.B) {
	const keys, n = 16, 1000
	level := hafvf.Beta{Alpha: .9, Beta: .1}
	filters := []struct {
		name string
		cfg  hafvf.Config
		step time.Duration
	}{
		{"depth 0", hafvf.Config{Member: &hafvf.Member{Top: .99}}, time.Second},
		{"depth 1", hafvf.Config{Member: &hafvf.Member{Levels: []hafvf.Beta{level}, Top: 1}}, time.Second},
		{"depth 2", hafvf.Config{Member: &hafvf.Member{Levels: []hafvf.Beta{level, {Alpha: 1, Beta: 1}}, Top: 1}}, time.Second},
		{"detect", hafvf.Config{Bank: hafvf.DefaultBank(), Detect: &hafvf.Detect{}}, time.Second},
		{"detect, hourly", hafvf.Config{Bank: hafvf.DefaultBank(), Detect: &hafvf.Detect{}}, time.Hour},
		{"detect, daily", hafvf.Config{Bank: hafvf.DefaultBank(), Detect: &hafvf.Detect{}}, 24 * time.Hour},
	}
	models := []struct {
		name, family string
		prior        expfam.Params
		dim          int
	}{
		{"bernoulli", "bernoulli", nil, 1},
		{"categorical of 3", "categorical", expfam.Params{"alpha": []any{1., 1., 1.}}, 3},
		{"categorical of 10", "categorical", expfam.Params{"alpha": []any{1., 1., 1., 1., 1., 1., 1., 1., 1., 1.}}, 10},
		{"exponential", "exponential", nil, 1},
		{"poisson", "poisson", nil, 1},
		{"normal", "normal", nil, 1},
		{"mvnormal of 3", "mvnormal", nil, 3},
		{"mvnormal of 10", "mvnormal", nil, 10},
		{"regression on 2", "regression", nil, 3},
		{"ar of order 2", "ar", expfam.Params{"order": 2.}, 1},
	}
	for _, m := range models {
		for _, f := range filters {
			b.Run(m.name+"/"+f.name, func(b *testing.B) {
				cfg := f.cfg
				cfg.Family, cfg.Prior = m.family, m.prior
				if cfg.Bank != nil {
					cfg.Bank = hafvf.DefaultBankFor(m.family)
				}
				if m.family != "categorical" {
					cfg.Dim = m.dim
				}
				model := must(expfam.New(cfg.Family, cfg.Prior, cfg.Dim))
				if _, ok := model.(expfam.Fitted); ok {
					cfg.WarmUp = 50 // prior: auto
				}
				for b.Loop() {
					est := newEstimator(b, Config{Filter: cfg, Order: EventTime})
					total, largest := 0, 0
					for k := range keys {
						key := fmt.Sprint("k", k)
						rng := rand.New(rand.NewPCG(uint64(k), 5))
						e := KeyState{Track: est.NewTrack(key)}
						for i := range n {
							now := time.Unix(1_800_000_000, 0).UTC().Add(time.Duration(i) * f.step)
							o := Observation{Time: now, ID: fmt.Sprint("observations-3-", i), Seq: int64(i), Log: "observations-3", X: [][]float64{drawn[m.family](rng, m.dim)}}
							fatal(b, est.Check(key, o))
							if e.repeats(&o) {
								b.Fatal("an observation counts as a repeat")
							}
							est.Estimate(e.Track, o)
							e.clock, e.released = now, now
						}
						size := len(e.append(nil))
						total, largest = total+size, max(largest, size)
					}
					b.ReportMetric(math.Round(float64(total)/keys), "bytes/key")
					b.ReportMetric(float64(largest), "largest")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
