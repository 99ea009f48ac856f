package keyed

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// An event of any size that alarms leaves the scatter by which alarms are decided within 1.3 of what it was, and
// the one that is shown within 1.5, when as many observations have come after its end as it was long, or as end an
// alarm. It may be as long as a tenth of the memory, and where there is a plan less than a day: a longer one
// comes again at the same hours. Of one that scatters on both sides both are within 1.5: some of it is learned as it
// comes. That is so on the first day too, but for a slow ramp, which alarms late there. A state of any moment in
// between goes on alike.
func TestEventsAreForgotten(t *testing.T) {
	quiet := 0
	for _, c := range []struct {
		step time.Duration
		n    int
	}{{time.Minute, 700}, {time.Minute, 7000}, {5 * time.Minute, 700}, {5 * time.Minute, 3000}, {time.Hour, 400}, {time.Hour, 2000}, {24 * time.Hour, 300}, {24 * time.Hour, 1000}} {
		most := min(c.n/10, 500)
		if c.step == time.Hour {
			most = min(most, 23)
		}
		for _, long := range []int{1, 5, 20, most} {
			est, source := newEstimator(t, Recommended("normal")), rand.NewPCG(7, uint64(c.n*long))
			draw := func(rng *rand.Rand, i int) (o Observation, noise float64) {
				x, noise := 100+rng.NormFloat64(), rng.NormFloat64()
				return Value(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(i)*c.step), "", x), noise
			}
			learned, usual := must(est.Open("k", nil)), rand.New(source)
			for i := range c.n {
				o, _ := draw(usual, i)
				learnNow(&learned, new(Estimate), &o)
			}
			before, _ := learned.AppendBinary(nil)
			for _, size := range []float64{10, 1e3, 1e6} {
				for shape, of := range map[string]func(at int, noise float64) float64{
					"level":   func(int, float64) float64 { return 1 },
					"scatter": func(_ int, noise float64) float64 { return noise },
					"ramp":    func(at int, _ float64) float64 { return float64(at+1) / float64(long) },
				} {
					after := *source
					rng, e := rand.New(&after), must(est.Open("k", before))
					former, shown, end, alarmed, most := 0., 0., 0, false, 1.3
					if shape == "scatter" {
						most = 1.5
					}
					if shape == "ramp" && c.n == 700 && c.step == time.Minute && long > 20 {
						continue
					}
					for at := range 3*long + 62 {
						o, noise := draw(rng, c.n+at)
						if at < long {
							o.X[0][0] += size * of(at, noise)
						}
						if (c.n+at)%7 == 0 {
							b, _ := e.AppendBinary(nil)
							e = must(est.Open("k", b))
						}
						var out Estimate
						learnNow(&e, &out, &o)
						alarmed = alarmed || out.Alarm != nil
						switch sd, seen := e.stages.decider.usual.SD[0], out.Detection.Usual.SD[0]; {
						case at == 0:
							former, shown, end = sd, seen, long+max(long, e.decisions.pace.Rest()/2+1)
						case at > 0 && at == end && alarmed && (sd > most*former || seen > 1.5*shown):
							t.Errorf("every %v, a %s of %d × %g after %d: the sd is %.3g times what it was, and shown %.3g times", c.step, shape, long, size, c.n, sd/former, seen/shown)
						case at == end && !alarmed:
							quiet++
						}
					}
				}
			}
		}
	}
	if quiet > 20 {
		t.Errorf("%d events raise no alarm", quiet)
	}
	t.Logf("%d events raise no alarm", quiet)
}

// An event is forgotten, and another one soon after it is learned: a stream may have them.
func TestEventsBecomeHabits(t *testing.T) {
	sd := func(all []Estimate, i int) float64 { return all[i].Detection.Usual.SD[0] }
	all := watched(t, Recommended("normal"), 1100, 0, 5*time.Minute, func(i int, x float64) float64 {
		if i >= 700 && i < 705 || i >= 900 && i < 905 {
			return x + 100
		}
		return x
	})
	if first, second := sd(all, 760)/sd(all, 700), sd(all, 960)/sd(all, 700); first > 1.3 || second < 3 {
		t.Errorf("the sd is %.3g times what it was after the first event, and %.3g times after the second", first, second)
	}
}

// What comes when the values have returned is no alarm: the means over several have forgotten the event.
func TestEndsAreQuiet(t *testing.T) {
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
			t.Errorf("events of %d observations: %d alarms after their ends, of 10 keys", n, after)
		}
	}
}
