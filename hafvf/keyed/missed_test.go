package keyed

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A job writes many rows at 04:30 every day. On the day that it does not, the key raises one alarm at 05:00 with
// the reason, and the alarm ends. A key with Direction Up raises none.
func TestMissedSpike(t *testing.T) {
	for _, direction := range []Direction{Both, Up} {
		cfg := Recommended("normal")
		cfg.Values, cfg.Alerts.Direction = []string{"rows"}, direction
		est := newEstimator(t, cfg)
		track := est.NewTrack("k")
		rng := rand.New(rand.NewPCG(3, 1))
		start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
		var alarms []Estimate
		recovered := 0
		for i := range 25 * 288 {
			now := start.Add(time.Duration(i) * 5 * time.Minute)
			rows := float64(rng.IntN(7))
			if slot := i%288 - 54; slot >= 0 && slot < 3 && i/288 != 23 {
				rows = float64(390 + rng.IntN(20))
			}
			if i%288 == 53 { // decode the state once a day
				track = restored(t, est, must(track.AppendBinary(nil)))
			}
			e := est.Estimate(track, Value(now, "", rows))
			if i/288 >= 14 {
				if e.Alarm != nil {
					alarms = append(alarms, e)
				}
				if e.Recovered != nil {
					recovered++
				}
			}
		}
		if direction == Up {
			if len(alarms) > 0 {
				t.Errorf("%d alarms although only rises count", len(alarms))
			}
			continue
		}
		if len(alarms) != 1 || recovered != 1 {
			t.Fatalf("%d alarms and %d ends, want one: %v", len(alarms), recovered, alarms)
		}
		e, a := alarms[0], alarms[0].Alarm
		const want = "k rows stayed at 6 from 2026-03-25 04:00 to 05:00, usually it reaches 399.7 then (21 of 21 days)."
		if wantTime := start.AddDate(0, 0, 23).Add(5 * time.Hour); a.Message != want || a.Kind != "novelty" || !e.Time.Equal(wantTime) || !a.Start.Equal(wantTime) {
			t.Errorf("%s %q at %v, want %q", a.Kind, a.Message, e.Time, want)
		}
		if a.Score < a.Threshold || a.Usual.Mean[0] < 390 || a.Size > -50 || e.Detection.Usual.Mean[0] > 10 || e.Detection.Score != a.Score {
			t.Errorf("%+v of %+v", a, e.Detection)
		}
	}
}
