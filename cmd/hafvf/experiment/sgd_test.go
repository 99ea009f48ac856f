package experiment

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestGradients(t *testing.T) {
	random := newRandom(5)
	m := newAutoencoder(random, 30)
	trials := simulateTask(random, 30)[0]
	noise := [latent]float64{0.3, -1, 0.7, 2}
	m.clear()
	m.elbo(trials, &noise, 0.5)
	for _, g := range m.groups {
		for range 12 {
			i := random.IntN(len(g.Params))
			was := g.Params[i]
			at := func(h float64) float64 {
				g.Params[i] = was + h
				defer func() { g.Params[i] = was }()
				return 0.5 * m.elbo(trials, &noise, 0)
			}
			const h = 1e-3
			d := func(h float64) float64 { return (at(h) - at(-h)) / (2 * h) }
			want := (4*d(h/2) - d(h)) / 3
			if math.Abs(g.Grads[i]-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%s, %d: %.10g, differences give %.10g", g.Name, i, g.Grads[i], want)
			}
		}
	}
}

func BenchmarkStep(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	m := newAutoencoder(random, taskTrials)
	data := simulateTask(random, taskTrials)
	noise := [latent]float64{}
	for b.Loop() {
		m.clear()
		for i := range 5 {
			m.elbo(data[i], &noise, 1)
		}
	}
}
