package decode

import (
	"fmt"
	"testing"
	"time"

	"hafvf/connectors"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// localSeries decodes records with local times, and returns the times in UTC.
func localSeries(t *testing.T, zone string, records ...[2]string) (times []time.Time) {
	t.Helper()
	p := expect.Get(NewParser(config.Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}, Zone: zone}))(t)
	d := NewDecoder(connectors.CSV, p)
	for i, r := range records {
		// Decode one by one: the decoder remembers earlier records.
		got := fileOf(d, []connectors.Record{{Source: "in", Fields: []string{r[0], r[1], "1"}, Position: int64(i)}})
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if got.Time.Location() != time.UTC {
			t.Errorf("%v is not in UTC", got.Time)
		}
		times = append(times, got.Time)
	}
	return times
}

// TestFolds checks that the order of the records resolves local times that occur twice: a series keeps its step, for
// any step and zone.
func TestFolds(t *testing.T) {
	for _, test := range []struct {
		zone  string
		back  time.Time // time at which the clock is set back
		shift time.Duration
	}{
		{"Europe/Berlin", time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC), time.Hour},
		{"America/New_York", time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC), time.Hour},
		{"Australia/Lord_Howe", time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC), 30 * time.Minute},
	} {
		zone := expect.Get(time.LoadLocation(test.zone))(t)
		for _, step := range []time.Duration{10 * time.Second, time.Minute, 7 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour} {
			if step > test.shift {
				continue // each pass has at most one record
			}
			for _, keys := range []int{1, 3} {
				var records [][2]string
				var want []time.Time
				for instant := test.back.Add(-3 * time.Hour); instant.Before(test.back.Add(3 * time.Hour)); instant = instant.Add(step) {
					for k := range keys {
						records = append(records, [2]string{fmt.Sprint("k", k), instant.In(zone).Format("2006-01-02 15:04:05")})
						want = append(want, instant)
					}
				}
				for i, got := range localSeries(t, test.zone, records...) {
					if !got.Equal(want[i]) {
						t.Errorf("%s, every %v, %d keys: %s is %v, not %v", test.zone, step, keys, records[i][1], got, want[i])
						break
					}
				}
			}
		}
	}
}

// TestFoldsWithOffsets checks that an offset resolves a time that occurs twice.
func TestFoldsWithOffsets(t *testing.T) {
	var got []string
	for _, instant := range localSeries(t, "Europe/Berlin", [2]string{"a", "2026-10-25 02:30+01:00"}, [2]string{"a", "2026-10-25 02:31+01:00"}, [2]string{"a", "2026-10-25 02:30+02:00"}) {
		got = append(got, instant.Format("15:04"))
	}
	expect.Same(t, []string{"01:30", "01:31", "00:30"}, got)
}
