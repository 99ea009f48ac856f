package methods

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
)

// outcomes returns n trials with k outcomes. One outcome has probability p, and the others are equally probable.
// Which one it is changes with the given hazard or, if block is not 0, after each block.
func outcomes(rng *rand.Rand, k, n int, p, hazard float64, block int) (x []float64) {
	frequent := rng.IntN(k)
	for i := range n {
		if block == 0 && rng.Float64() < hazard || block > 0 && i > 0 && i%block == 0 {
			frequent = (frequent + 1 + rng.IntN(k-1)) % k
		}
		v := frequent
		if rng.Float64() >= p {
			v = (frequent + 1 + rng.IntN(k-1)) % k
		}
		x = append(x, float64(v))
	}
	return x
}

// hgfBinary returns the mean log predictive of the hierarchical Gaussian filter for binary inputs with two levels
// (Mathys et al. 2011, equations 22 to 27). At first x₂ ~ N(0, 1); then x₂ is a random walk with variance e^ω.
func hgfBinary(x []float64, omega float64) (mean float64) {
	mu, variance := 0., 1.
	for _, v := range x {
		p := 1 / (1 + math.Exp(-mu))
		mean += math.Log(math.Abs(1-v-p)) / float64(len(x))
		variance = 1 / (1/(variance+math.Exp(omega)) + p*(1-p))
		mu += variance * (v - p)
	}
	return mean
}

// BenchmarkOutcomes prints the mean log predictive, in nats per trial, of the default filter of single outcomes, of
// its first two members, of the paper's two levels, and of a hierarchical Gaussian filter whose ω is the best for ten
// other subjects. The data are 20 fresh subjects of 300 trials whose probabilities reverse, and probabilities that
// are constant:
//
//	go test ./cmd/hafvf-lab/compare/methods -run - -bench Outcomes -benchtime 1x
func BenchmarkOutcomes(b *testing.B) {
	type set struct {
		k, n      int
		p, hazard float64
		block     int
	}
	names := []string{"coins that reverse", "three outcomes that reverse", "coins in blocks", "three outcomes in blocks", "coins of .5 and .8", "three outcomes of .5 and .8", "coins of .02, 5,000 tosses"}
	sets := map[string][]set{}
	for i, k := range []int{2, 3} {
		for _, p := range []float64{.8, .7} {
			for _, every := range []float64{15, 30, 60, 100} {
				sets[names[i]] = append(sets[names[i]], set{k, 300, p, 1 / every, 0})
			}
			for _, block := range []int{10, 20, 40, 80} {
				sets[names[2+i]] = append(sets[names[2+i]], set{k, 300, p, 0, block})
			}
		}
		sets[names[4+i]] = []set{{k, 300, .5, 0, 0}, {k, 300, .8, 0, 0}}
	}
	sets[names[6]] = []set{{2, 5000, .98, 0, 0}}
	score := func(sets []set, seed uint64, subjects int, predictive func(x []float64, k int) float64) (mean float64) {
		for i, s := range sets {
			for j := range subjects {
				mean += predictive(outcomes(rand.New(rand.NewPCG(seed+uint64(j), uint64(i))), s.k, s.n, s.p, s.hazard, s.block), s.k)
			}
		}
		return mean / float64(len(sets)*subjects)
	}
	filter := func(c hafvf.Config) func(x []float64, k int) float64 {
		return func(x []float64, k int) (mean float64) {
			if c.Family = "bernoulli"; k > 2 {
				c.Family, c.Prior = "categorical", expfam.Params{"alpha": []float64{1, 1, 1}}
			}
			bank := expect.Get(c.NewBank())(b)
			s := bank.NewState()
			for _, v := range x {
				mean += bank.Update(s, []float64{v}).LogPredictive / float64(len(x))
			}
			return mean
		}
	}
	paper, first := hafvf.DefaultMember(), hafvf.Config{Family: "bernoulli"}.Members()[:2]
	for b.Loop() {
		for _, name := range names {
			nameSets := sets[name]
			fmt.Printf("%-28s default %.4f, its first two %.4f, two levels %.4f", name, score(nameSets, 2000, 20, filter(hafvf.Config{})),
				score(nameSets, 2000, 20, filter(hafvf.Config{Bank: first})), score(nameSets, 2000, 20, filter(hafvf.Config{Member: &paper})))
			if nameSets[0].k == 2 {
				best, maxScore := 0., math.Inf(-1)
				for omega := -7.; omega <= -1; omega += .5 {
					if v := score(sets["coins that reverse"], 1000, 10, func(x []float64, _ int) float64 { return hgfBinary(x, omega) }); v > maxScore {
						best, maxScore = omega, v
					}
				}
				fmt.Printf(", hgf %.4f (ω %g)", score(nameSets, 2000, 20, func(x []float64, _ int) float64 { return hgfBinary(x, best) }), best)
			}
			fmt.Println()
		}
	}
}
