package usual

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/internal/compact"
	"hafvf/internal/testing/expect"
)

// A stored state is restored to the last bit after any input, and continues identically: results depend neither on the
// time of storing, nor on other streams of the profile.
func TestProfileDecodeExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := ProfileConfig{Dim: rapid.IntRange(1, 3).Draw(t, "dim"), Order: rapid.SampledFrom([]int{0, 1, 2, 3, MaxOrder}).Draw(t, "order")}
		c.Seasons = rapid.SampledFrom([][]Season{nil, DefaultSeasons(), {{time.Hour, 1}}, {{24 * time.Hour, 2}, {12 * time.Hour, 2}}, {{7 * time.Minute, 3}, {time.Hour, 2}}}).Draw(t, "seasons")
		p, other := profileOf(c), profileOf(c)
		s, u, foreign := p.NewState(), p.NewState(), p.NewState()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		now := time.Unix(rapid.Int64Range(-1<<33, 1<<33).Draw(t, "time"), 0)
		y := make([]float64, p.dim)
		for range rapid.IntRange(0, 80).Draw(t, "length") {
			level := rapid.SampledFrom([]float64{0, 0, 0, 1, -3e7, 1e20, 1e-300}).Draw(t, "level")
			for k := range y {
				y[k] = level + rng.NormFloat64()
			}
			now = now.Add(time.Duration(rng.ExpFloat64() * 600e9))
			step := p.Update(s, anyPace, now, y)
			if got := other.Update(u, anyPace, now, y); got.Score != step.Score || !equalBits(s, u) {
				t.Fatalf("score %v, want %v", got.Score, step.Score)
			}
			other.Update(foreign, anyPace, now.Add(-time.Hour), make([]float64, p.dim))
			again, err := p.Decode(p.Append(nil, s), p.Repeats(s))
			if err != nil || !equalBits(s, again) {
				t.Fatalf("%v: %v became %v", err, s, again)
			}
			expect.OK(t, p.Valid(s))
			u = again
		}
	})
}

// Decode ignores the runs that older versions stored after the repeats.
func TestProfileDecodeIgnoresUnused(t *testing.T) {
	times, ys := profileStream(5, 200, 1)
	p := profileOf(DefaultProfile())
	s := p.NewState()
	for i, y := range ys {
		p.Update(s, anyPace, times[i], y)
	}
	p.Update(s, anyPace, times[len(times)-1].Add(time.Hour), ys[len(ys)-1])
	if !p.Repeats(s) {
		t.Fatal("the last value is not repeated")
	}
	_, _, repeats := p.alone(s)
	b := p.Append(nil, s)
	exact := 1
	p.exact(s, func(v []float64) { exact += len(v) })
	r := compact.Reader{B: b}
	r.Packed(make([]float64, exact))
	stored := len(b) - len(r.B) + p.storedLen(s)
	former := compact.AppendPacked(slices.Clone(b[:stored]), slices.Concat(repeats, []float64{2, .5, 1}))
	former = append(former, b[stored+len(compact.AppendPacked(nil, slices.Concat(repeats, make([]float64, unusedRepeats)))):]...)
	if slices.Equal(b, former) {
		t.Fatal("the former state is not another one")
	}
	if got := expect.Get(p.Decode(former, true))(t); !equalBits(s, got) {
		t.Errorf("%v became %v", s, got)
	}
}
