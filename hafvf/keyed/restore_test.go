package keyed

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
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
	}{{time.Minute, 700}, {5 * time.Minute, 3000}, {time.Hour, 400}, {24 * time.Hour, 300}} {
		limit := min(c.n/10, 500)
		switch c.step {
		case time.Hour:
			limit = min(limit, 23)
		case 24 * time.Hour:
			limit = min(limit, usual.MaxRest)
		}
		for _, long := range []int{1, 5, limit} {
			est, source := newEstimator(t, Recommended("normal")), rand.NewPCG(7, uint64(c.n*long))
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
			for _, size := range []float64{10, 1e6} {
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
	if unalarmed > 10 {
		t.Errorf("%d episodes raise no alarm", unalarmed)
	}
	t.Logf("%d episodes raise no alarm", unalarmed)
}

// After the values have returned there is no alarm: the running means of the profile no longer include the episode.
func TestEpisodeEndRaisesNoAlarm(t *testing.T) {
	expect.Long(t, "many episodes")
	for _, n := range []int{4, 8, 12, 16} {
		after := 0
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			est := newEstimator(t, Recommended("normal"))
			track := est.NewTrack("k")
			for i := range 1700 {
				x := 35 + 5*rng.NormFloat64()
				if i >= 1500 && i < 1500+n {
					x += 60
				}
				e := est.Estimate(track, Value(time.Unix(int64(1800*i), 0), fmt.Sprint(i), x))
				if i >= 1500+n && i < 1560+n && e.Alarm != nil {
					after++
				}
			}
		}
		if after > 1 {
			t.Errorf("episodes of %d observations: %d alarms after their ends, of 10 keys", n, after)
		}
	}
}
