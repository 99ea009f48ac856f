package usual

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

// A state is the same to the last bit after it was stored, whatever has come, and so is what
// comes of it: results do not depend on when it was, nor on what else a profile has seen.
func TestProfileIsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := ProfileConfig{Dim: rapid.IntRange(1, 3).Draw(t, "dim"), Order: rapid.SampledFrom([]int{0, 1, 2, 3, MaxOrder}).Draw(t, "order")}
		c.Seasons = rapid.SampledFrom([][]Season{nil, DefaultSeasons(), {{time.Hour, 1}}, {{24 * time.Hour, 2}, {12 * time.Hour, 2}}, {{7 * time.Minute, 3}, {time.Hour, 2}}}).Draw(t, "seasons")
		p, other := profileOf(c), profileOf(c)
		s, u, foreign := p.NewState(), p.NewState(), p.NewState()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		at := time.Unix(rapid.Int64Range(-1<<33, 1<<33).Draw(t, "time"), 0)
		y := make([]float64, p.dim)
		for range rapid.IntRange(0, 80).Draw(t, "length") {
			level := rapid.SampledFrom([]float64{0, 0, 0, 1, -3e7, 1e20, 1e-300}).Draw(t, "level")
			for k := range y {
				y[k] = level + rng.NormFloat64()
			}
			at = at.Add(time.Duration(rng.ExpFloat64() * 600e9))
			step := p.Update(s, anyPace, at, y)
			if got := other.Update(u, anyPace, at, y); got.Score != step.Score || !equalBits(s, u) {
				t.Fatalf("score %v, want %v", got.Score, step.Score)
			}
			other.Update(foreign, anyPace, at.Add(-time.Hour), make([]float64, p.dim))
			again, err := p.Decode(p.Append(nil, s), p.Repeats(s))
			if err != nil || !equalBits(s, again) {
				t.Fatalf("%v: %v became %v", err, s, again)
			}
			expect.OK(t, p.Valid(s))
			u = again
		}
	})
}
