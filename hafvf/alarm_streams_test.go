package hafvf_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// alarmKinds are streams without an incident, with an observation every five minutes.
var alarmKinds = []struct {
	name  string
	timed bool // whether the profile gets the times
	draw  func(rng *rand.Rand, i int, last float64) float64
}{
	{"iid normal", false, func(rng *rand.Rand, _ int, _ float64) float64 { return rng.NormFloat64() }},
	{"iid lognormal", false, func(rng *rand.Rand, _ int, _ float64) float64 { return math.Exp(rng.NormFloat64()) }},
	{"iid t3", false, func(rng *rand.Rand, _ int, _ float64) float64 {
		return distuv.StudentsT{Sigma: 1, Nu: 3, Src: rng}.Rand()
	}},
	{"random walk", false, func(rng *rand.Rand, _ int, last float64) float64 { return last + rng.NormFloat64() }},
	{"AR .8", false, func(rng *rand.Rand, _ int, last float64) float64 { return .8*last + .6*rng.NormFloat64() }},
	{"daily cycle", true, func(rng *rand.Rand, i int, _ float64) float64 {
		return 5*math.Sin(2*math.Pi*float64(i)/288) + rng.NormFloat64()
	}},
}

// BenchmarkAlarmStreams reports the false alarms per 10,000 observations under the default settings, at budgets
// of 500, 2000 and 10,000 observations:
//
//	go test ./hafvf -run - -bench AlarmStreams -benchtime 1x
//
// For streams with a daily cycle, the profile gets the times.
func BenchmarkAlarmStreams(b *testing.B) {
	const n, seeds = 12_000, 6
	for _, kind := range alarmKinds {
		b.Run(kind.name, func(b *testing.B) {
			for b.Loop() {
				for _, budget := range []float64{500, 2000, 10_000} {
					alarms := 0
					for seed := range uint64(seeds) {
						rng := rand.New(rand.NewPCG(seed+1, 16))
						x := make([]float64, n)
						var times []time.Time
						for i := range x {
							x[i] = kind.draw(rng, i, x[max(i-1, 0)])
							if kind.timed {
								times = append(times, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i)*5*time.Minute))
							}
						}
						alarms += len(alarmsOf(b, budget, x, times))
					}
					b.ReportMetric(1e4*float64(alarms)/(seeds*(n-alarmWarmUp)), fmt.Sprintf("false@%g", budget))
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
