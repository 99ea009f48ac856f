package experiment

import (
	"math"
	"math/rand/v2"
)

// A trial is one decision between left and right.
type trial struct {
	coherence float64 // of the moving dots, rightward positive
	right     bool    // the choice
	rt        float64 // reaction time (s)
}

const (
	taskSubjects = 64
	taskTrials   = 500
	// A visit to a subject is corrupt once in a hundred: in a tenth of the trials, in
	// a row, reaction times are far below what anybody needs, as from a key held down.
	burstShare  = 0.01
	burstLength = 0.1
	burstRT     = 0.1 // s, the longest
)

// coherences are those of Britten et al. (1992), without zero.
var coherences = []float64{0.032, 0.064, 0.128, 0.256, 0.512}

// simulateTask draws subjects with so many trials each. Subjects differ in drift
// per coherence, boundary separation, bias and non-decision time; attention
// multiplies the drift and wanders over the trials.
func simulateTask(random *rand.Rand, trials int) [][]trial {
	all := make([][]trial, taskSubjects)
	for i := range all {
		gain := 6 * math.Exp(0.3*random.NormFloat64())
		a := 1.3 * math.Exp(0.15*random.NormFloat64())
		w := 0.5 + 0.04*random.NormFloat64()
		rest := 0.2 + 0.15*random.Float64()
		attention := 0.0
		for range trials {
			const keep = 0.98
			attention = keep*attention + math.Sqrt(1-keep*keep)*random.NormFloat64()
			c := coherences[random.IntN(len(coherences))]
			if random.IntN(2) == 0 {
				c = -c
			}
			right, t := drawPassage(random, gain*math.Exp(0.4*attention)*c, a, w)
			all[i] = append(all[i], trial{coherence: c, right: right, rt: rest + t})
		}
	}
	return all
}

// drawPassage simulates a Wiener process until it leaves (0, a), and returns
// whether at a, and when. Boundaries are drawn in by 0.5826 steps, as Broadie,
// Glasserman and Kou (1997) do for a path that is only looked at every step.
func drawPassage(random *rand.Rand, v, a, w float64) (upper bool, t float64) {
	const dt = 1e-3 // s
	sd := math.Sqrt(dt)
	shift := 0.5826 * sd
	for {
		x := w * a
		for n := 1.0; n*dt < 5; n++ {
			x += v*dt + sd*random.NormFloat64()
			if x <= shift || x >= a-shift {
				return x >= a-shift, (n - 0.5) * dt
			}
		}
		// Who has not decided after five seconds tries again.
	}
}

// corrupt overwrites a run of the trials with hasty ones.
func corrupt(random *rand.Rand, trials []trial) {
	n := int(burstLength * float64(len(trials)))
	from := random.IntN(len(trials) - n)
	for i := range trials[from : from+n] {
		t := &trials[from+i]
		t.right, t.rt = random.IntN(2) == 0, burstRT*random.Float64()
	}
}
