package likelihood

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// tosses are of coins whose chance turns over every so many of them.
func tosses(seed uint64, n, every int) (all [][]float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for t := range n {
		p := .85
		if t/every%2 == 1 {
			p = .15
		}
		x := 0.
		if rng.Float64() < p {
			x = 1
		}
		all = append(all, []float64{x})
	}
	return all
}

// ofLevel is the evidence of tosses by the α and β of the only level.
func ofLevel(all [][]float64, calls *int) func(at []float64) float64 {
	return func(at []float64) (nats float64) {
		*calls++
		f, err := hafvf.Config{Family: "bernoulli", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: at[0], Beta: at[1]}}, Top: 1}}.Filter()
		if err != nil {
			return math.Inf(-1)
		}
		s := f.NewState()
		for _, x := range all {
			nats += f.Update(s, x).LogPredictive
		}
		return nats
	}
}

func TestTry(t *testing.T) {
	for seed := range uint64(8) {
		calls := 0
		p := Problem{Parameters: []Parameter{NewShape(.9), NewShape(.1)}, Pairs: [][2]int{{0, 1}}, Evidence: ofLevel(tosses(seed, 300, 40), &calls)}
		m := p.Maximise()
		n := calls
		best := math.Inf(-1)
		var g [2]float64
		for mu := -3.; mu <= 6; mu += .25 {
			for c := -2.; c <= 6.9; c += .25 {
				a := expit(mu) * math.Exp(c)
				b := math.Exp(c) - a
				if e := p.Evidence([]float64{a, b}); e > best {
					best, g = e, [2]float64{a, b}
				}
			}
		}
		t.Log(seed, n, m, m.At[0]/(m.At[0]+m.At[1]), m.At[0]+m.At[1], "grid", best, g)
	}
	_ = expect.OK
}
