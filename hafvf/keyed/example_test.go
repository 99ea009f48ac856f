package keyed_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
)

// A plain loop over the values of one key, one every ten minutes, with the recommended settings. Unusual values raise
// an alarm.
func Example() {
	est, err := keyed.NewEstimator(keyed.Recommended("normal"))
	if err != nil {
		fmt.Println(err)
		return
	}
	track := est.NewTrack("pump-1")
	rng := rand.New(rand.NewPCG(1, 1))
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		x := 20 + rng.NormFloat64()
		if i >= 800 {
			x += 6 // the level changes
		}
		o := keyed.Value(start.Add(time.Duration(i)*10*time.Minute), "", x)
		if err := est.Check("pump-1", o); err != nil { // for example an infinite number
			fmt.Println(err)
			continue
		}
		e := est.Estimate(track, o)
		if e.N%300 == 0 {
			fmt.Printf("%s  predicted %.1f ± %.1f, is %.1f\n", e.Time.Format("Jan 2 15:04"), e.Predicted.Mean[0], e.Predicted.SD[0], x)
		}
		if a := e.Alarm; a != nil {
			fmt.Printf("%s  %s: score %.1f, threshold %.1f\n%s\n", e.Time.Format("Jan 2 15:04"), a.Kind, a.Score, a.Threshold, a.Message)
		}
	}
	// Output:
	// Jan 7 01:50  predicted 20.0 ± 0.9, is 19.1
	// Jan 9 03:50  predicted 20.0 ± 1.0, is 20.5
	// Jan 10 13:20  novelty: score 3.6, threshold 3.0
	// pump-1 is 26 % above usual at 2026-01-10 13:20: 25, usual at this hour 19.9 ± 1.1.
	// Jan 11 05:50  predicted 25.9 ± 0.9, is 27.5
}

// A plain loop over records that arrive in any order within a minute. Estimates are in the order of time. A record that
// is too late returns an error.
func ExampleKeyState_Estimates() {
	cfg := keyed.Recommended("normal")
	cfg.Lateness = time.Minute
	est, err := keyed.NewEstimator(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	key, _ := est.Open("pump-1", nil) // nil: a new key
	show := func(e keyed.Estimate) { fmt.Printf("%d: %s %v\n", e.N, e.Time.Format("15:04:05"), e.X[0][0]) }
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for i, seconds := range []int{0, 40, 20, 130, 30} {
		for e, err := range key.Estimates(keyed.Value(start.Add(time.Duration(seconds)*time.Second), "", float64(i))) {
			if err != nil {
				fmt.Println(err)
				continue
			}
			show(e)
		}
	}
	for e := range key.Rest() {
		show(e)
	}
	// Output:
	// 1: 00:00:00 0
	// 2: 00:00:20 2
	// 3: 00:00:40 1
	// late: 2026-01-05T00:00:30Z is before 2026-01-05T00:00:40Z, which this key has already released
	// 4: 00:02:10 3
}

// A service without a pipeline: many keys, records that arrive late, and states that survive a restart. A store, here a map, keeps the
// encoded states; each run opens the states of the keys that it reads.
func ExampleEstimator_Open() {
	cfg := keyed.Recommended("normal")
	cfg.Lateness = 10 * time.Minute
	store := map[string][]byte{}
	run := func(first, last int) error {
		est, err := keyed.NewEstimator(cfg)
		if err != nil {
			return err
		}
		keys := map[string]*keyed.KeyState{}
		for minute := first; minute < last; minute++ {
			for i, pump := range []string{"north", "south"} {
				k, ok := keys[pump]
				if !ok {
					state, err := est.Open(pump, store[pump]) // nil: a new key
					if err != nil {
						return err
					}
					k, keys[pump] = &state, &state
				}
				m := minute ^ 1 // each second record arrives a minute late
				x := 20 + float64(10*i) + float64(m*7%5)/2
				if pump == "south" && m >= 150 {
					x += 8
				}
				for e, err := range k.Estimates(keyed.Value(time.Unix(60*int64(m), 0).UTC(), "", x)) {
					if err != nil {
						fmt.Println("rejected:", err)
						continue
					}
					for _, a := range e.Alerts(pump) {
						fmt.Println(a.Message)
					}
				}
			}
		}
		for pump, k := range keys {
			if store[pump], err = k.AppendBinary(nil); err != nil {
				return err
			}
		}
		return nil
	}
	for _, minutes := range [][2]int{{0, 120}, {120, 200}} { // two runs
		if err := run(minutes[0], minutes[1]); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// south is 23 % above usual at 1970-01-01 02:30: 38, usual at this hour 31.0 ± 0.7.
}

// A plain loop without a pipeline: process half of a series, save the track, restore it in another process, and
// continue with the same results.
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

	other, err := keyed.NewEstimator(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	restored, err := other.RestoreTrack("shop", saved)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("restored")
	estimate(other, restored, 3, 4)
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
