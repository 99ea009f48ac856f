package incidents_test

import (
	"fmt"
	"time"

	"hafvf/hafvf/incidents"
)

// Four metrics of a host alarm within three minutes. The fleet has 48 keys that alarm at most once a week.
func Example() {
	fleet, err := incidents.New(incidents.Config{})
	if err != nil {
		panic(err)
	}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range 48 {
		fleet.Register(fmt.Sprintf("berlin/web%d:m%d", i/6, i%6), start, time.Minute, 7*24*time.Hour)
	}
	noon := start.Add(5*24*time.Hour + 12*time.Hour)
	for i := range 4 {
		fleet.Add(incidents.Alarm{
			ID: fmt.Sprintf("telemetry-0-%d", i), Key: fmt.Sprintf("berlin/web3:m%d", i), Kind: "novelty",
			Time: noon.Add(time.Duration(i) * time.Minute), Score: 5 + float64(i),
		})
	}
	for {
		next, ok := fleet.Next() // a timer in a stream
		if !ok {
			break
		}
		step := fleet.Advance(next)
		for _, e := range step.Events {
			fmt.Println(e.ID, e.State, e.Page)
			fmt.Println(e.Message)
		}
	}
	// Output:
	// berlin/web3@2026-03-06T12:01:00Z opened true
	// 2 of 6 keys of berlin/web3 have alarmed since 2026-03-06 12:00 (1 min). First alarm: berlin/web3:m0. Clearest alarm: berlin/web3:m1. Expected by chance: 0.0017 alarms in 2 min.
	// berlin/web3@2026-03-06T12:01:00Z update false
	// 3 of 6 keys of berlin/web3 have alarmed since 2026-03-06 12:00 (2 min). First alarm: berlin/web3:m0. Clearest alarm: berlin/web3:m2. Expected by chance: 0.0017 alarms in 2 min.
	// berlin/web3@2026-03-06T12:01:00Z closed true
	// 4 of 6 keys of berlin/web3 alarmed from 2026-03-06 12:00 to 12:03. First alarm: berlin/web3:m0. Clearest alarm: berlin/web3:m3. Expected by chance: 0.0017 alarms in 2 min.
}
