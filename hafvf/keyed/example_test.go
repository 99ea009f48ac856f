package keyed_test

import (
	"fmt"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
)

// A plain loop, without a pipeline: half of a series, save, restore in another
// process, and go on as if nothing had happened.
func ExampleEstimator_RestoreTrack() {
	cfg := keyed.Config{Filter: hafvf.Config{Family: "poisson"}}
	start := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	estimate := func(est *keyed.Estimator, track *keyed.Track, hours ...int) {
		for _, h := range hours {
			e := est.Estimate(track, keyed.Value(start.Add(time.Duration(h)*time.Hour), "", float64(3+h%3)))
			fmt.Printf("n %d  predicted %.2f  memory %.2f\n", e.N, e.Predicted.Mean[0], e.Memory)
		}
	}

	est, err := keyed.NewEstimator(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	track := est.NewTrack("shop")
	estimate(est, track, 0, 1, 2)
	saved, err := track.AppendBinary(nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	there, err := keyed.NewEstimator(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	restored, err := there.RestoreTrack("shop", saved)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("restored")
	estimate(there, restored, 3, 4)
	fmt.Println("uninterrupted")
	estimate(est, track, 3, 4)
	// Output:
	// n 1  predicted 1.00  memory 1.00
	// n 2  predicted 1.95  memory 1.92
	// n 3  predicted 2.61  memory 2.79
	// restored
	// n 4  predicted 3.20  memory 3.60
	// n 5  predicted 3.12  memory 4.35
	// uninterrupted
	// n 4  predicted 3.20  memory 3.60
	// n 5  predicted 3.12  memory 4.35
}
