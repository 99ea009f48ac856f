package keyed

import (
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
)

// BenchmarkState measures an update of a key with detection and alarms, and the encoding and decoding of its state.
func BenchmarkState(b *testing.B) {
	est := newEstimator(b, Config{Order: EventTime, Filter: hafvf.Config{Family: "normal", Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}, WarmUp: 50}})
	e := KeyState{Track: est.NewTrack("k"), est: est}
	rng := rand.New(rand.NewPCG(3, 5))
	var m Memory
	var out Estimate
	i := 0
	update := func() {
		now := time.Unix(1_800_000_000+300*int64(i), 0).UTC()
		o := Value(now, "", rng.NormFloat64())
		est.EstimateIn(&m, &out, e.Track, &o)
		e.clock, e.released = now, now
		i++
	}
	for range 1000 {
		update()
	}
	b.Run("Update", func(b *testing.B) {
		for b.Loop() {
			update()
		}
	})
	state := e.append(nil)
	b.Run("Encode", func(b *testing.B) {
		buf := make([]byte, 0, 2*len(state))
		for b.Loop() {
			e.append(buf)
		}
	})
	b.Run("Decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := est.decodeKeyState("k", state); err != nil {
				b.Fatal(err)
			}
		}
	})
}
