package keyed

import (
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// A correlation that turns raises an alarm that names the pair, although each coordinate stays usual. Coordinates that
// stay as they were raise none.
func TestCorrelationThatTurns(t *testing.T) {
	expect.Long(t, "weeks of vectors")
	for _, step := range []time.Duration{5 * time.Minute, time.Hour} {
		cfg := Recommended("mvnormal")
		cfg.Filter.Dim, cfg.Values = 3, []string{"in", "out", "errors"}
		est := newEstimator(t, cfg)
		const keys, n, turned = 8, 1400, 1300
		found, early := 0, 0
		for key := range uint64(keys) {
			rng, track, hit := rand.New(rand.NewPCG(key, 4)), est.NewTrack("web"), false
			for i := range n {
				common := 3 * rng.NormFloat64()
				x := []float64{10 + common + rng.NormFloat64(), 20 + common + rng.NormFloat64(), rng.NormFloat64()}
				if i >= turned {
					x[1] = 20 - (x[1] - 20)
				}
				o := Value(time.Unix(0, 0).Add(time.Duration(i)*step), "", 0)
				o.X, o.Shape = [][]float64{x}, Vector
				e := est.Estimate(track, o)
				switch {
				case e.Alarm == nil:
				case i < turned:
					early++
				default:
					if hit = regexp.MustCompile(`^web in and out do not move together as usual at .*: -?[\d.]+ and -?[\d.]+, usual at this hour \S+ ± \S+ and \S+ ± \S+\.$`).MatchString(e.Alarm.Message); !hit {
						t.Error(e.Alarm.Message)
					}
				}
				if i%100 == 99 {
					track = must(est.RestoreTrack("web", must(track.AppendBinary(nil))))
				}
				if hit {
					found++
					break
				}
			}
		}
		if found < keys-1 || early > 3 {
			t.Errorf("every %v: the alarms of %d of %d keys, and %d before the correlation turns", step, found, keys, early)
		}
	}
}
