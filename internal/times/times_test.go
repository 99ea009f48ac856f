package times

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var instant = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestParse(t *testing.T) {
	at := func(ns int) time.Time { return instant.Add(time.Duration(ns)) }
	for _, test := range []struct {
		text string
		want time.Time
	}{
		{"2026-01-02T03:04:05Z", instant},
		{"2026-01-02t03:04:05z", instant},
		{" 2026-01-02 03:04:05 ", instant},
		{"2026-01-02 03:04:05.25", at(250e6)},
		{"2026-01-02 03:04:05Z", instant},
		{"2026-01-02 04:34:05+01:30", instant},
		{"2026-01-02T03:04:05.123456789Z", at(123456789)},
		{"2026-01-02T03:04:05.1234567899Z", at(123456789)},
		{"2026-01-01T22:04:05-05:00", instant},
		{"2024-02-29T00:00:00Z", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{"2016-12-31T23:59:60Z", time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"1767323045", instant},
		{"1767323045.000000001", at(1)},
		{"1767323045000", instant},
		{"1767323045000.5", at(500e3)},
		{"1.767323045e9", instant},
		{"1.767323045e12", instant},
		{"0", time.Unix(0, 0).UTC()},
		{"-0.5", time.Unix(0, -500e6).UTC()},
		{"-1.25", time.Unix(-2, 750e6).UTC()},
		{"99999999999", time.Unix(99999999999, 0).UTC()},
		{"100000000000", time.UnixMilli(100000000000).UTC()},
		{"-62135596800000", time.Time{}},
		{"253402300799999", time.UnixMilli(253402300799999).UTC()},
	} {
		got, err := Parse(test.text)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
		}
		if got != test.want && !(got.IsZero() && test.want.IsZero()) {
			t.Errorf("%q: got %v, want %v", test.text, got, test.want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for _, text := range []string{
		"2026-01-02", "2026-01-02T03:04Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05.Z",
		"2026-01-02T24:00:00Z", "2026-01-02T03:60:00Z", "2026-01-02T03:04:60Z", "2026-01-02T03:04:61Z",
		"2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-32T00:00:00Z",
		"2026-01-02T03:04:05+1:00", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+00:60", "2026-01-02T03:04:05+0100",
		"2026-01-02_03:04:05Z", "2026-01-02T03-04-05Z", "2026-1-2T03:04:05Z", "202x-01-02T03:04:05Z",
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
		"02/01/2026 03:04", "1.2.3", "0x10", "1_000", "inf", "+", "e5",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: accepted as %v", text, got)
		} else if want := "the time \"" + text + "\" does not parse"; err.Error() != want {
			t.Errorf("got %s, want %s", err, want)
		}
	}
	for _, text := range []string{"253402300800000", "-62135596800001", "-62135596801000", "-99999999999", "1e400"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: accepted as %v", text, got)
		} else if want := "the time " + text + " is outside the years 1 to 9999"; err.Error() != want {
			t.Errorf("got %s, want %s", err, want)
		}
	}
}

// What time formats, Parse reads: the oracle is package time.
func TestParseReadsWhatTimeFormats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Unix(rapid.Int64Range(minSecond+86400, maxSecond-86400).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nano")).UTC()
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60, 23*60).Draw(t, "zone"))
		for _, text := range []string{
			want.In(zone).Format(time.RFC3339Nano),
			want.Format(time.RFC3339Nano),
			want.Format("2006-01-02 15:04:05.999999999"),
		} {
			got, err := Parse(text)
			if err != nil || got != want {
				t.Fatalf("%q: got %v, %v", text, got, err)
			}
		}
	})
}
