package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
)

// Of the values of a key, .95 lie within 1.96 of the reported standard deviations, also if their tails are heavy, they
// depend on each other, or the filter sees their logarithms. The standard deviations of the profile contain fewer.
func TestBandContainsItsShare(t *testing.T) {
	const n = 4000
	noises := map[string]func(*rand.Rand, float64) float64{
		"normal": func(r *rand.Rand, _ float64) float64 { return r.NormFloat64() },
		"t3": func(r *rand.Rand, _ float64) float64 {
			x, y, z := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
			return r.NormFloat64() / math.Sqrt(x*x+y*y+z*z)
		},
		"ar": func(r *rand.Rand, last float64) float64 { return .8*last + r.NormFloat64() },
	}
	for name, noise := range noises {
		for _, scale := range []hafvf.Scale{hafvf.Linear, hafvf.Log} {
			cfg := Recommended("normal")
			cfg.Filter.Scale = scale
			est, rng := newEstimator(t, cfg), rand.New(rand.NewPCG(5, 9))
			track, inside, scored, last := est.NewTrack("k"), 0., 0., 0.
			for i := range n {
				last = noise(rng, last)
				x := 20 + last
				if scale == hafvf.Log {
					x = math.Exp(last / 4)
				}
				e := est.Estimate(track, Value(time.Unix(int64(3600*i), 0), "", x))
				if u := e.Detection.Usual; !math.IsNaN(e.Detection.Score) {
					scored++
					if math.Abs(x-u.Mean[0]) <= 1.96*u.SD[0] {
						inside++
					}
				}
			}
			if share := inside / scored; math.Abs(share-.95) > .02 {
				t.Errorf("%s noise, scale %s: %.3f of %g values", name, scale, share, scored)
			}
		}
	}
}

// A long episode widens the band by at most episodeBand. Its end reports the same usual values as its onset.
func TestEpisodeBarelyWidensBand(t *testing.T) {
	const onset, length = 1000, 70
	est, rng := newEstimator(t, Recommended("normal")), rand.New(rand.NewPCG(3, 1))
	track, first, shown := est.NewTrack("k"), 0., 0.
	for i := range onset + length + 60 {
		x := rng.NormFloat64()
		if i >= onset && i < onset+length {
			x += 40
		}
		e := est.Estimate(track, Value(time.Unix(int64(300*i), 0), "", x))
		switch {
		case e.Alarm != nil && first == 0:
			first, shown = track.decisions.band[0], e.Detection.Usual.SD[0]
		case first != 0 && track.decisions.band[0] > first+episodeBand+1e-6:
			t.Fatalf("observation %d: the band rises from %g to %g", i, first, track.decisions.band[0])
		}
		if e.Recovered != nil {
			if sd := e.Detection.Episode.UsualBefore.SD[0]; math.Abs(sd/shown-1) > .05 {
				t.Errorf("usual sd before the episode: %g, at the onset %g", sd, shown)
			}
			return
		}
	}
	t.Error("no episode ends")
}
