package usual

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// BenchmarkProfile measures an update of a profile, for streams with equal observation times and for others.
func BenchmarkProfile(b *testing.B) {
	for _, dim := range []int{1, 3, 30} {
		for _, same := range []bool{true, false} {
			name := map[bool]string{true: "the same times", false: "times of their own"}[same]
			b.Run("dim "+strconv.Itoa(dim)+", "+name, func(b *testing.B) {
				c := DefaultProfile()
				c.Dim = dim
				p := profileOf(c)
				random := rand.New(rand.NewPCG(1, 2))
				const streams, round = 16, 64
				var states [streams]State
				for i := range states {
					states[i] = p.NewState()
				}
				y := make([]float64, dim)
				start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				n := 0
				for b.Loop() {
					k := n % (streams * round)
					stream, step := k/round, n/(streams*round)*round+k%round
					t := start.Add(time.Duration(step) * time.Minute)
					if !same {
						t = t.Add(time.Duration(stream) * time.Second)
					}
					for i := range y {
						y[i] = random.NormFloat64()
					}
					p.Update(states[stream], anyPace, t, y)
					n++
				}
			})
		}
	}
}
