// Package streams makes synthetic streams with known changes, for tests and comparisons of methods.
package streams

import (
	"math"
	"math/rand/v2"
	"slices"
)

// A Kind makes streams with known changes and outliers.
type Kind struct {
	Name, Family string
	// Make draws a stream of n observations. The streams of g5 and b2 become volatile after 4000.
	Make func(rng *rand.Rand, n int) Stream
}

// A Stream is observations with their true means, changes and outliers.
type Stream struct {
	X        []float64
	Mean     []float64 // of the distribution of each observation
	Changes  []int     // indices of the first observations of new regimes
	Outliers []bool    // nil if the kind has none or does not record them
}

// Kinds are fifteen: normal regimes with and without outliers, drift, alternation of calm and volatile stretches,
// noise that the model lacks (heavy tails, bursts, outliers of four and a hundred standard deviations), each with
// and without changes, and two of coin tosses.
var Kinds = []Kind{
	{"g1 regimes, outliers", "normal", func(rng *rand.Rand, n int) Stream { return regimes(rng, n, n/2500, .005) }},
	{"g2 regimes", "normal", func(rng *rand.Rand, n int) Stream { return regimes(rng, n, n/2500, 0) }},
	{"g3 outliers", "normal", func(rng *rand.Rand, n int) Stream { return regimes(rng, n, 0, .02) }},
	{"g4 drift", "normal", func(rng *rand.Rand, n int) Stream { return Walk(rng, n, .02) }},
	{"g5 volatile", "normal", volatile},
	{"t3_10 heavy tails", "normal", func(rng *rand.Rand, n int) Stream { return otherNoise(rng, n, n/2000, "t3") }},
	{"t3_0 no change", "normal", func(rng *rand.Rand, n int) Stream { return otherNoise(rng, n, 0, "t3") }},
	{"burst_10 bursts of 3", "normal", func(rng *rand.Rand, n int) Stream { return otherNoise(rng, n, n/2000, "burst") }},
	{"burst_0 no change", "normal", func(rng *rand.Rand, n int) Stream { return otherNoise(rng, n, 0, "burst") }},
	{"4sig_10 4σ outliers", "normal", func(rng *rand.Rand, n int) Stream { return otherNoise(rng, n, n/2000, "4sig") }},
	{"4sig_0 no change", "normal", func(rng *rand.Rand, n int) Stream { return otherNoise(rng, n, 0, "4sig") }},
	{"huge_10 100σ outliers", "normal", func(rng *rand.Rand, n int) Stream { return otherNoise(rng, n, n/2000, "huge") }},
	{"huge_0 no change", "normal", func(rng *rand.Rand, n int) Stream { return otherNoise(rng, n, 0, "huge") }},
	{"b1 coin regimes", "bernoulli", coinRegimes},
	{"b2 coin volatile", "bernoulli", volatileCoins},
}

// Sign returns 1 or −1.
func Sign(rng *rand.Rand) float64 { return float64(2*rng.IntN(2) - 1) }

// Uniform returns a number between lo and hi.
func Uniform(rng *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }

// Separated draws k changes with distances of at least minDistance from each other and from the ends.
func Separated(rng *rand.Rand, n, k, minDistance int) []int {
	for {
		c := make([]int, k)
		for i := range c {
			c[i] = minDistance + rng.IntN(n-2*minDistance)
		}
		slices.Sort(c)
		ok := true
		for i := 1; i < k; i++ {
			ok = ok && c[i]-c[i-1] >= minDistance
		}
		if ok {
			return c
		}
	}
}

// regimes jump by 1.5 to 5 standard deviations, each to a new standard deviation between ½ and 2, with outliers of
// 8 standard deviations.
func regimes(rng *rand.Rand, n, changes int, outliers float64) Stream {
	s := Stream{X: make([]float64, n), Mean: make([]float64, n), Changes: Separated(rng, n, changes, 900*n/20000), Outliers: make([]bool, n)}
	mu, sigma, next := 0.0, 1.0, 0
	for t := range n {
		change := next < len(s.Changes) && t == s.Changes[next]
		if change {
			next++
			d := Uniform(rng, 1.5, 5) * sigma * Sign(rng)
			if math.Abs(mu+d) > 10 {
				d = -d
			}
			mu += d
			sigma = math.Exp(Uniform(rng, -math.Ln2, math.Ln2))
		}
		s.Mean[t] = mu
		s.X[t] = mu + sigma*rng.NormFloat64()
		if rng.Float64() < outliers && !change {
			s.X[t] = mu + 8*sigma*Sign(rng)
			s.Outliers[t] = true
		}
	}
	return s
}

// Walk is a random walk with the given standard deviation per step, and noise with standard deviation 1.
func Walk(rng *rand.Rand, n int, step float64) Stream {
	s := Stream{X: make([]float64, n), Mean: make([]float64, n)}
	mu := 0.0
	for t := range n {
		mu += step * rng.NormFloat64()
		s.Mean[t] = mu
		s.X[t] = mu + rng.NormFloat64()
	}
	return s
}

// volatile is calm for 4000 observations, then changes every 40 to 80 observations for 4000, by at least 2 standard
// deviations, and so on.
func volatile(rng *rand.Rand, n int) Stream {
	s := Stream{X: make([]float64, n), Mean: make([]float64, n)}
	for t := 0; t < n; {
		if t/4000%2 == 0 {
			t = (t/4000 + 1) * 4000
		} else {
			t += 40 + rng.IntN(40)
		}
		if t < n {
			s.Changes = append(s.Changes, t)
		}
	}
	mu, next := 0.0, 0
	for t := range n {
		change := next < len(s.Changes) && t == s.Changes[next]
		if change {
			next++
			previous := mu
			for math.Abs(mu-previous) < 2 {
				mu = Uniform(rng, -5, 5)
			}
		}
		s.Mean[t] = mu
		s.X[t] = mu + rng.NormFloat64()
		if rng.Float64() < .01 && !change {
			s.X[t] = mu + 8*Sign(rng)
		}
	}
	return s
}

// otherNoise has regimes that jump by 1.5 to 4 at random times, with noise that differs from the model's.
func otherNoise(rng *rand.Rand, n, changes int, noise string) Stream {
	edge := n / 25
	s := Stream{X: make([]float64, n), Mean: make([]float64, n), Changes: rng.Perm(n - 2*edge)[:changes]}
	slices.Sort(s.Changes)
	mu, next := 0.0, 0
	for t := range n {
		if next < changes && t == s.Changes[next]+edge {
			s.Changes[next] = t
			next++
			mu += Uniform(rng, 1.5, 4) * Sign(rng)
		}
		s.Mean[t] = mu
		e := rng.NormFloat64()
		if noise == "t3" {
			chi := 0.0
			for range 3 {
				z := rng.NormFloat64()
				chi += z * z
			}
			e /= math.Sqrt(chi / 3)
		}
		s.X[t] = mu + e
	}
	for t := range n {
		r := rng.Float64()
		switch {
		case noise == "burst" && r < .003:
			v := s.Mean[t] + 8*Sign(rng)
			for i := t; i < min(t+3, n); i++ {
				s.X[i] = v
			}
		case noise == "4sig" && r < .02:
			s.X[t] = s.Mean[t] + 4*Sign(rng)
		case noise == "huge" && r < .01:
			s.X[t] = s.Mean[t] + 100*Sign(rng)
		}
	}
	return s
}

// Poisson draws a Poisson count with a small mean, by Knuth's product of uniforms.
func Poisson(rng *rand.Rand, mean float64) float64 {
	count := 0.
	for p := rng.Float64(); p > math.Exp(-mean); p *= rng.Float64() {
		count++
	}
	return count
}

// Toss returns 1 with probability p, else 0.
func Toss(rng *rand.Rand, p float64) float64 {
	if rng.Float64() < p {
		return 1
	}
	return 0
}

// coinRegimes changes the probability on average every 5000 tosses, by at least .2.
func coinRegimes(rng *rand.Rand, n int) Stream {
	s := Stream{X: make([]float64, n), Mean: make([]float64, n), Changes: Separated(rng, n, n/5000, 1500*n/20000)}
	next := 0
	draw := func(previous float64) float64 {
		p := previous
		for math.Abs(p-previous) < .2 {
			p = Uniform(rng, .05, .95)
		}
		return p
	}
	p := draw(.5)
	for t := range n {
		if next < len(s.Changes) && t == s.Changes[next] {
			next++
			p = draw(p)
		}
		s.Mean[t] = p
		s.X[t] = Toss(rng, p)
	}
	return s
}

// volatileCoins alternates between .8 and .2: every 2000 tosses or, in every other stretch of 4000, every 40.
func volatileCoins(rng *rand.Rand, n int) Stream {
	s := Stream{X: make([]float64, n), Mean: make([]float64, n)}
	p, end := .2, 0
	for t := range n {
		if t == end {
			if t > 0 {
				s.Changes = append(s.Changes, t)
			}
			p = 1 - p
			end += 40
			if t/4000%2 == 0 {
				end += 1960
			}
		}
		s.Mean[t] = p
		s.X[t] = Toss(rng, p)
	}
	return s
}
