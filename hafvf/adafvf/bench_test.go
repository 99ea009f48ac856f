package adafvf_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf/adafvf"
)

// A stepper is either optimizer.
type stepper interface {
	Step()
	Steps() int
	Skipped() int
	MarshalBinary() ([]byte, error)
	UnmarshalBinary([]byte) error
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// BenchmarkStep times a step on one group of N coordinates: Adam, AdaFVF with weights from 256 coordinates, by
// their mean and by their sum, with weights from all coordinates, and with fixed weights.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{64, 1024, 65536} {
		for _, c := range []struct {
			name string
			make func(adafvf.Group) stepper
		}{
			{"adam", func(g adafvf.Group) stepper { return must(adafvf.NewAdam(adafvf.AdamConfig{}, g)) }},
			{"adafvf", func(g adafvf.Group) stepper { return must(adafvf.New(adafvf.Config{}, g)) }},
			{"adafvf sum", func(g adafvf.Group) stepper { return must(adafvf.New(adafvf.Config{Pooling: 1}, g)) }},
			{"adafvf all", func(g adafvf.Group) stepper { return must(adafvf.New(adafvf.Config{Coordinates: math.MaxInt}, g)) }},
			{"adafvf fixed", func(g adafvf.Group) stepper {
				return must(adafvf.New(adafvf.Config{Fixed: &adafvf.Decays{W1: .9, W2: .95}}, g))
			}},
		} {
			b.Run(fmt.Sprintf("N=%d/%s", n, c.name), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 1))
				g := adafvf.Group{Params: make([]float64, n), Grads: make([]float64, n)}
				noise := make([]float64, n+997)
				for i := range noise {
					noise[i] = rng.NormFloat64()
				}
				copy(g.Grads, noise)
				o := c.make(g)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					// An eighth of the gradient is new, which costs next to nothing.
					start, part := i%8*n/8, n/8
					copy(g.Grads[start:start+part], noise[i*131%997:])
					o.Step()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/coordinate")
			})
		}
	}
}
