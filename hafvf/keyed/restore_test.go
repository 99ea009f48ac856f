package keyed

import (
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf/usual"
)

// An episode of any size that raises an alarm leaves little trace. As many observations after its end as it was long,
// or as end an alarm, the SD that decides alarms is at most 1.3 times its earlier value, and the recent SD at most 1.5
// times. The episode may be as long as a tenth of the memory, or as an ended episode is known, and with a plan shorter than a day, because a longer one
// covers the same hours again. If it scatters to both sides, both limits are 1.5, because some of it is learned. All
// this holds on the first day too, except for a slow ramp, which raises its alarm late. Storing and restoring the state
// at any point changes nothing.
func TestEpisodesAreForgotten(t *testing.T) {
	unalarmed := 0
	for _, c := range []struct {
		step time.Duration
		n    int
	}{{time.Minute, 700}, {time.Minute, 3000}, {5 * time.Minute, 700}, {5 * time.Minute, 3000}, {time.Hour, 400}, {time.Hour, 2000}, {24 * time.Hour, 300}, {24 * time.Hour, 1000}} {
		limit := min(c.n/10, 500)
		switch c.step {
		case time.Hour:
			limit = min(limit, 23)
		case 24 * time.Hour:
			limit = min(limit, usual.MaxRest)
		}
		est, source := newEstimator(t, Recommended("normal")), rand.NewPCG(7, uint64(c.n))
		draw := func(rng *rand.Rand, i int) (o Observation, noise float64) {
			x, noise := 100+rng.NormFloat64(), rng.NormFloat64()
			return Value(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(i)*c.step), "", x), noise
		}
		learned, learnRNG := must(est.Open("k", nil)), rand.New(source)
		for i := range c.n {
			o, _ := draw(learnRNG, i)
			learnNow(&learned, new(Estimate), &o)
		}
		before, _ := learned.AppendBinary(nil)
		for _, long := range []int{1, 5, 20, limit} {
			for _, size := range []float64{10, 1e3, 1e6} {
				for shape, deviation := range map[string]func(pos int, noise float64) float64{
					"level":   func(int, float64) float64 { return 1 },
					"scatter": func(_ int, noise float64) float64 { return noise },
					"ramp":    func(pos int, _ float64) float64 { return float64(pos+1) / float64(long) },
				} {
					after := *source
					rng, e := rand.New(&after), must(est.Open("k", before))
					former, firstSeen, end, alarmed, limit := 0., 0., 0, false, 1.3
					if shape == "scatter" {
						limit = 1.5
					}
					if shape == "ramp" && c.n == 700 && c.step == time.Minute && long > 20 {
						continue
					}
					for pos := range 3*long + 62 {
						o, noise := draw(rng, c.n+pos)
						if pos < long {
							o.X[0][0] += size * deviation(pos, noise)
						}
						if (c.n+pos)%7 == 0 {
							b, _ := e.AppendBinary(nil)
							e = must(est.Open("k", b))
						}
						var out Estimate
						learnNow(&e, &out, &o)
						alarmed = alarmed || out.Alarm != nil
						switch sd, seen := e.stages.decider.usual.SD[0], e.stages.decider.recentSD[0]; {
						case pos == 0:
							former, firstSeen, end = sd, seen, long+max(long, e.decisions.pace.Rest()/2+1)
						case pos > 0 && pos == end && alarmed && (sd > limit*former || seen > 1.5*firstSeen):
							t.Errorf("every %v, a %s of %d × %g after %d: the sd is %.3g times its earlier value, the recent sd %.3g times", c.step, shape, long, size, c.n, sd/former, seen/firstSeen)
						case pos == end && !alarmed:
							unalarmed++
						}
					}
				}
			}
		}
	}
	if unalarmed > 20 {
		t.Errorf("%d episodes raise no alarm", unalarmed)
	}
	t.Logf("%d episodes raise no alarm", unalarmed)
}

// After an episode the profile is restored. Another episode soon after it is learned, because episodes may be normal
// for the stream.
func TestEpisodesBecomeNormal(t *testing.T) {
	sd := func(estimates []Estimate, i int) float64 { return estimates[i].Detection.Usual.SD[0] }
	estimates := watched(t, Recommended("normal"), 1100, 0, 5*time.Minute, func(i int, x float64) float64 {
		if i >= 700 && i < 705 || i >= 900 && i < 905 {
			return x + 100
		}
		return x
	})
	if first, second := sd(estimates, 760)/sd(estimates, 700), sd(estimates, 960)/sd(estimates, 700); first > 1.3 || second < 3 {
		t.Errorf("the sd is %.3g times its earlier value after the first episode, and %.3g times after the second", first, second)
	}
}
