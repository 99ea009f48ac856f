package segments_test

import (
	"flag"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
	"hafvf/internal/testing/familytest"
)

// streamModel is the same prior for every stream of its family.
func streamModel(t testing.TB, family string) expfam.Model {
	t.Helper()
	params := expfam.Params{}
	if family == "normal" {
		params = expfam.Params{"mu": 0., "kappa": .01, "alpha": 1., "beta": 1.}
	}
	m := familytest.New(t, family, params)
	return m
}

var long = flag.Bool("long", false, "run the searches at full length instead of one hundredth")

var seed = flag.Uint64("seed", 1, "seed of the streams, and of the search for missed maxima")

var seeds = flag.Int("seeds", 1, "number of seeds, from -seed on, that streams are averaged over")

// means are those of every step, and deviations their standard deviations.
func means(g *segments.Segmentation) []float64 {
	return each(g, func(t int) float64 { return g.Mean(t)[0] })
}

func deviations(g *segments.Segmentation) []float64 {
	return each(g, func(t int) float64 { return g.SD(t)[0] })
}

func each(g *segments.Segmentation, f func(t int) float64) (all []float64) {
	for t := range g.Len() {
		all = append(all, f(t))
	}
	return all
}
