package clock

import (
	"hafvf/internal/testing/expect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func grid(t rapid.TB, every time.Duration, zone string) Grid {
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return Grid{every, location}
}

// Intervals begin and end by the local time of the zone.
func TestGrid(t *testing.T) {
	for _, c := range []struct {
		zone       string
		every      time.Duration
		t          string
		start, end string
	}{
		{"UTC", 5 * time.Minute, "2026-01-05T16:13:07Z", "2026-01-05T16:10:00Z", "2026-01-05T16:15:00Z"},
		{"UTC", time.Second, "1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"},
		{"UTC", 7 * 24 * time.Hour, "2026-01-11T23:59:59Z", "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"},
		{"Europe/Berlin", 24 * time.Hour, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // 23 h
		{"Europe/Berlin", 24 * time.Hour, "2026-10-25T20:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 h
		{"Europe/Berlin", time.Hour, "2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"Europe/Berlin", time.Hour, "2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		{"Europe/Berlin", 2 * time.Hour, "2026-03-29T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},    // 02:00 is skipped
		{"America/New_York", 2 * time.Hour, "2017-11-05T05:30:00Z", "2017-11-05T04:00:00Z", "2017-11-05T07:00:00Z"}, // at 02:00 the clock is set back to 01:00
		{"Asia/Kolkata", time.Hour, "2026-01-05T10:10:00Z", "2026-01-05T09:30:00Z", "2026-01-05T10:30:00Z"},
		{"America/Sao_Paulo", 24 * time.Hour, "2017-10-15T02:50:00Z", "2017-10-14T03:00:00Z", "2017-10-15T03:00:00Z"}, // midnight is skipped
	} {
		g := grid(t, c.every, c.zone)
		instant, _ := time.Parse(time.RFC3339, c.t)
		start := g.Start(instant)
		expect.Same(t, []string{c.start, c.end}, []string{start.Format(time.RFC3339Nano), g.Next(start).Format(time.RFC3339Nano)}, c.zone, ", ", c.every, ", ", c.t)
	}
}

// The intervals of a zone follow each other without gaps, and all times in an interval have the same start and end.
func TestGridCoversTime(t *testing.T) {
	covers := func(t rapid.TB, g Grid, instant time.Time) {
		start, end := g.Start(instant), g.Next(instant)
		if start.After(instant) || !end.After(instant) {
			t.Fatalf("%v, %v: %v is not between %v and %v", g.Zone, g.Every, instant, start, end)
		}
		if !g.Start(end).Equal(end) || !g.Start(end.Add(-1)).Equal(start) || !g.Start(start).Equal(start) || !g.Next(start).Equal(end) {
			t.Fatalf("%v, %v, %v to %v: %v, %v, %v, %v", g.Zone, g.Every, start, end, g.Start(end), g.Start(end.Add(-1)), g.Start(start), g.Next(start))
		}
	}
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Beirut"} {
		for _, every := range []time.Duration{45 * time.Minute, time.Hour, 90 * time.Minute, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
			g := grid(t, every, zone)
			for instant := time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC); instant.Year() < 2018; instant = instant.Add(10 * time.Minute) {
				covers(t, g, instant)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"}).Draw(t, "zone")
		g := grid(t, time.Duration(rapid.IntRange(1, 31*24*60).Draw(t, "minutes"))*time.Minute, zone)
		covers(t, g, time.Unix(rapid.Int64Range(1_600_000_000, 1_800_000_000).Draw(t, "at"), 0))
	})
}
