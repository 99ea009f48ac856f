package usual

import (
	"math"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// Plan returns the hours of the higher of two levels, and nothing for one level or many.
func TestHoursOfWeek(t *testing.T) {
	berlin := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	for _, c := range []struct {
		name string
		mean func(t time.Time) float64
		days int
		want string
	}{
		{"shifts", func(t time.Time) float64 {
			if d, h := t.Weekday(), t.Hour(); d >= 1 && d <= 5 && h >= 6 && h < 22 || d == 6 && h >= 6 && h < 14 {
				return 40
			}
			return 3
		}, 15, "Mon–Fri 06–22, Sat 06–14"},
		{"a week", func(time.Time) float64 { return 40 }, 8, ""},
		{"a weekly job", func(t time.Time) float64 {
			if t.Weekday() == time.Sunday && t.Hour() == 3 {
				return 9
			}
			return 1 + .3*math.Sin(float64(t.Hour()))
		}, 20, "Sun 03:00"},
		{"twice a night", func(t time.Time) float64 {
			if t.Hour() == 2 || t.Hour() >= 22 {
				return 9
			}
			return 1
		}, 20, "Mon–Sun 02:00 22–24"},
		{"a wave", func(t time.Time) float64 { return 30 * math.Sin(float64(t.Hour())/24*2*math.Pi) }, 20, ""},
		{"nothing", func(time.Time) float64 { return 5 }, 20, ""},
	} {
		var w HoursOfWeek
		for i := range c.days * 24 {
			now := time.Date(2026, 6, 1, 0, 0, 0, 0, berlin).Add(time.Duration(i) * time.Hour)
			w.Add(berlin, now, c.mean(now), 1)
		}
		if got := w.Plan(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
