package hafvf_test

import (
	"testing"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/testing/familytest"
)

// BenchmarkAlarm times the default profile with its alarm, and reports the bytes of state per key.
func BenchmarkAlarm(b *testing.B) {
	b.Run("default", func(b *testing.B) {
		xs := familytest.Stream("outliers", 4096)
		pace, p := paceOf(usual.DefaultBudget, 0), profileOf(usual.DefaultProfile())
		a := usual.NewAlarm(pace)
		s, u := a.NewState(), p.NewState()
		b.ReportAllocs()
		t := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := 0; b.Loop(); i++ {
			step := p.Update(u, pace, t, xs[i%len(xs)])
			a.Update(s, step.Score, usual.Context{Change: i%500 == 0}, nil)
			t = t.Add(time.Minute)
		}
		b.ReportMetric(float64(8*(len(s)+len(u))), "B/key")
	})
}
