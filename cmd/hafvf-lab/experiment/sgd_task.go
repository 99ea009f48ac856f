package experiment

import (
	"math"
	"math/rand/v2"
)

// A trial is one decision between left and right.
type trial struct {
	coherence float64 // of the moving dots; positive for rightward motion
	right     bool    // the choice
	rt        float64 // reaction time (s)
}

const (
	taskSubjects = 64
	taskTrials   = 500
	// One visit to a subject in a hundred is corrupt: in a run of a tenth of the trials, reaction times are
	// impossibly short, as from a key that is held down.
	burstShare  = 0.01
	burstLength = 0.1
	burstRT     = 0.1 // longest reaction time, s
)

// coherences lists the coherences of Britten et al. (1992), without zero.
var coherences = []float64{0.032, 0.064, 0.128, 0.256, 0.512}

// simulateTask draws subjects with the given number of trials each. Subjects differ in drift per coherence, boundary
// separation, bias and non-decision time. Attention multiplies the drift, and varies slowly over the trials.
func simulateTask(random *rand.Rand, trials int) [][]trial {
	subjects := make([][]trial, taskSubjects)
	for i := range subjects {
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
			subjects[i] = append(subjects[i], trial{coherence: c, right: right, rt: rest + t})
		}
	}
	return subjects
}

// drawPassage simulates a Wiener process until it leaves (0, a). It reports whether the process leaves at a, and the
// time in s. The boundaries are moved inwards by 0.5826 standard deviations of a step, as in Broadie, Glasserman and
// Kou (1997), because the process is only checked after each step.
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
		// A process that has not left after five seconds starts again.
	}
}

// corrupt overwrites a run of trials with random choices and short reaction times.
func corrupt(random *rand.Rand, trials []trial) {
	n := int(burstLength * float64(len(trials)))
	start := random.IntN(len(trials) - n)
	for i := range trials[start : start+n] {
		t := &trials[start+i]
		t.right, t.rt = random.IntN(2) == 0, burstRT*random.Float64()
	}
}
