package beta

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/internal/special"
)

// A Beta distribution comes back from its expected logs, from a start far off.
func TestOfLogs(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	for range 10_000 {
		want := Dist{Alpha: logUniform(rng, 1e-3, 1e5), Beta: logUniform(rng, 1e-3, 1e5)}
		lw, _ := special.DigammaDelta(want.Alpha, want.Beta)
		l1w, _ := special.DigammaDelta(want.Beta, want.Alpha)
		start := Dist{Alpha: want.Alpha * logUniform(rng, .01, 100), Beta: want.Beta * logUniform(rng, .01, 100)}
		got := OfLogs(-lw, -l1w, start)
		if math.Abs(got.Alpha-want.Alpha) > 1e-6*want.Alpha || math.Abs(got.Beta-want.Beta) > 1e-6*want.Beta {
			t.Fatalf("%+v from %+v, want %+v", got, start, want)
		}
	}
}
