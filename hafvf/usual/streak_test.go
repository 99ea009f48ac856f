package usual

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// usualOf lets a profile learn before standard normal values, and then n values that change makes from them and further
// noise. It returns the usual mean and standard deviation at each of the last n.
func usualOf(t *testing.T, step time.Duration, timed bool, before, n int, change func(i int, x, noise float64) float64) (mean, sd []float64) {
	t.Helper()
	c := DefaultProfile()
	if !timed {
		c.Seasons = nil
	}
	p, pace := profileOf(c), paceOf(BudgetOver(DefaultBudgetTime, step), step, AutoRest)
	s, rng := p.NewState(), rand.New(rand.NewPCG(1, uint64(n)))
	now := time.Unix(1_750_000_000, 0)
	for i := range before + n {
		x := rng.NormFloat64()
		if i >= before {
			x = change(i-before, x, rng.NormFloat64())
		}
		out := p.Update(s, pace, now, []float64{x})
		if i >= before {
			mean, sd = append(mean, out.Mean[0]), append(sd, out.SD[0])
		}
		if i%97 == 0 {
			s = expect.Get(p.Decode(p.Append(nil, s), p.Repeats(s)))(t)
		}
		now = now.Add(step)
	}
	return mean, sd
}

// After the end of an event, the spread recovers in as many observations as the event had.
func TestStreakSpreadRecovers(t *testing.T) {
	expect.Long(t, "events of many lengths")
	for _, c := range []struct {
		step    time.Duration
		timed   bool
		lengths []int
	}{
		{time.Minute, true, []int{1, 20, 200, 500}},
		{time.Minute, false, []int{1, 20, 200, 500}},
		{time.Hour, true, []int{1, 5, 20, 50}},
	} {
		for _, length := range c.lengths {
			for _, size := range []float64{-6, 10, 1e6} {
				for _, scatters := range []bool{false, true} {
					_, sd := usualOf(t, c.step, c.timed, 6000, 2*length+1, func(i int, x, noise float64) float64 {
						switch {
						case i >= length:
							return x
						case scatters:
							return x + size*noise
						}
						return x + size
					})
					if ratio := sd[2*length] / sd[0]; !(ratio < 1.3 && ratio > .9) {
						t.Errorf("step %v, times %v, %d observations %g away, scattered %v: scatter %.2f times as large", c.step, c.timed, length, size, scatters, ratio)
					}
				}
			}
		}
	}
}

// A new level is learned in two rests, and not as spread. A doubled spread is learned in as many observations as the
// memory has.
func TestStreakLearnsNewLevel(t *testing.T) {
	for _, timed := range []bool{true, false} {
		for _, size := range []float64{5, -10, 1e6} {
			mean, sd := usualOf(t, time.Minute, timed, 6000, 121, func(_ int, x, _ float64) float64 { return x + size })
			if off := math.Abs(mean[120] - size); off > 1 || sd[120] > 1.15 {
				t.Errorf("times %v: usual is %.2f ± %.2f, want %g ± 1", timed, mean[120], sd[120], size)
			}
		}
		for _, factor := range []float64{2, 50, 1e4} {
			if _, sd := usualOf(t, time.Minute, timed, 6000, 5001, func(_ int, x, _ float64) float64 { return factor * x }); sd[5000] < .75*factor {
				t.Errorf("times %v: scatter %.2f, want %g", timed, sd[5000], factor)
			}
		}
	}
}

// The harmonics of day and week stay within the range of the values in a stream's first hours.
func TestProfileSeasonDoesNotExtrapolate(t *testing.T) {
	mean, _ := usualOf(t, 10*time.Second, true, 120, 960, func(i int, x, _ float64) float64 {
		if i < 240 || i >= 480 && i < 720 {
			return -23
		}
		return x
	})
	for i, m := range mean {
		if m < -23.5 || m > 2 {
			t.Fatalf("observation %d: %.1f is usual, and values are -23 and 0", i, m)
		}
	}
}
