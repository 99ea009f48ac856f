package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/internal/testing/streams"
)

// pages are streams of hourly errors and requests. The probability of an error is between 1 and 10 percent, and
// varies from hour to hour by a random factor. It doubles for two days.
type pages struct {
	n, weeks int
	errors   float64 // per hour, on average
	spread   float64 // standard deviation of the logarithm of the factor
}

// alarms returns the number of false alarms, and of pages whose doubling is reported within ten hours.
func (p pages) alarms(t testing.TB, seed uint64) (wrong, found int) {
	const doubledHours = 48
	rng := rand.New(rand.NewPCG(seed, 3))
	est := newEstimator(t, Recommended("binomial"))
	hours := 24 * 7 * p.weeks
	for page := range p.n {
		probability := .01 * math.Pow(10, rng.Float64())
		doubles := hours*2/3 + rng.IntN(hours/6)
		track := est.NewTrack(fmt.Sprint(page))
		seen := 0
		for hour := range hours {
			n := math.Round(p.errors / probability * math.Exp(.2*rng.NormFloat64()))
			q := probability * math.Exp(p.spread*rng.NormFloat64()-p.spread*p.spread/2)
			if hour >= doubles && hour < doubles+doubledHours {
				q *= 2
			}
			k := 0.
			for range int(n) {
				k += streams.Toss(rng, q)
			}
			o := Observation{Time: time.Unix(int64(1_767_571_200+3600*hour), 0).UTC(), X: [][]float64{{k, n}}, Shape: Vector}
			if e := est.Estimate(track, o); e.Alarm != nil {
				switch {
				case hour < doubles || hour >= doubles+2*doubledHours:
					wrong++
				case hour < doubles+10:
					seen = 1
				}
			}
		}
		found += seen
	}
	return wrong, found
}

// Shares whose probabilities vary by 30 percent raise fewer alarms than the budget allows, and a doubling is found
// within ten hours.
func TestSharesThatVary(t *testing.T) {
	p := pages{n: 12, weeks: 6, errors: 50, spread: .3}
	wrong, found := p.alarms(t, 1)
	if wrong > p.n*p.weeks || found < p.n*9/10 {
		t.Errorf("%d false alarms in %d weeks; %d of %d doublings found within ten hours", wrong, p.n*p.weeks, found, p.n)
	}
}

// go test ./hafvf/keyed -run - -bench Shares -benchtime 1x
func BenchmarkShares(b *testing.B) {
	for _, p := range []pages{{200, 8, 50, .3}, {200, 8, 50, 0}, {200, 8, 5, .3}, {200, 8, 500, .3}} {
		b.Run(fmt.Sprintf("errors=%g/spread=%g", p.errors, p.spread), func(b *testing.B) {
			for b.Loop() {
				wrong, found := p.alarms(b, 2)
				b.ReportMetric(float64(wrong)/float64(p.n*p.weeks), "false/week")
				b.ReportMetric(float64(found)/float64(p.n), "found")
			}
		})
	}
}
