package hafvf_test

import (
	"testing"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/testing/familytest"
)

// BenchmarkAlarm times an alarm alone, and with the profile of one view and of
// three, with the bytes of state per key.
func BenchmarkAlarm(b *testing.B) {
	full := usual.DefaultProfile()
	for _, c := range []struct {
		name    string
		profile *usual.ProfileConfig
	}{
		{"none", nil},
		{"level", &usual.ProfileConfig{}},
		{"level, ar", &usual.ProfileConfig{Order: full.Order}},
		{"default", &full},
	} {
		b.Run(c.name, func(b *testing.B) {
			xs := familytest.Stream("outliers", 4096)
			pace := paceOf(usual.DefaultBudget, 0)
			a := usual.NewAlarm(pace)
			s := a.NewState()
			b.ReportAllocs()
			bytes := 8 * len(s)
			if c.profile == nil {
				for i := 0; b.Loop(); i++ {
					a.Update(s, xs[i%len(xs)][0], i%500 == 0, nil)
				}
			} else {
				p := profileOf(*c.profile)
				u := p.NewState()
				bytes += 8 * len(u)
				t := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				for i := 0; b.Loop(); i++ {
					step := p.Update(u, pace, t, xs[i%len(xs)])
					a.Update(s, step.Score, i%500 == 0, nil)
					t = t.Add(time.Minute)
				}
			}
			b.ReportMetric(float64(bytes), "B/key")
		})
	}
}
