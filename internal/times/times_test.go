package times

import (
	"hafvf/internal/testing/expect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var instant = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestParse(t *testing.T) {
	after := func(ns int) time.Time { return instant.Add(time.Duration(ns)) }
	for _, test := range []struct {
		text string
		want time.Time
	}{
		{"2026-01-02t03:04:05z", instant},
		{" 2026-01-02 03:04:05 ", instant},
		{"2026-01-02T03:04:05.1234567899Z", after(123456789)},
		{"2016-12-31T23:59:60Z", time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"1767323045.000000001", after(1)},
		{"1767323045000.5", after(500e3)},
		{"1.767323045e12", instant},
		{"0", time.Unix(0, 0).UTC()},
		{"-0.5", time.Unix(0, -500e6).UTC()},
		{"-1.25", time.Unix(-2, 750e6).UTC()},
		{"99999999999", time.Unix(99999999999, 0).UTC()},
		{"100000000000", time.UnixMilli(100000000000).UTC()},
		{"-62135596800000", time.Time{}},

		{"2026-01-02", instant.Truncate(24 * time.Hour)},
		{"20260102", instant.Truncate(24 * time.Hour)},
		{"202601020304", instant.Truncate(time.Minute)},
		{"20260102030405", instant},
		{"18991231", time.Unix(18991231, 0).UTC()},
		{"20260102.5", time.Unix(20260102, 5e8).UTC()},
		{"2026-01-02 03:04:05,25", after(250e6)},
		{"2026-01-02T03:04:05,5Z", after(500e6)},
		{"2026-01-02T03:04Z", instant.Truncate(time.Minute)},
		{"2026-01-02 03:04", instant.Truncate(time.Minute)},
		{"2026-01-02T04:04:05+01", instant},
		{"2026-01-01 22:04:05.5-05", after(500e6)},
		{"2026-01-02 03:04:05.25 utc", after(250e6)},
		{"20260102T0404+0100", instant.Truncate(time.Minute)},
		{"20260102 030405", instant},
		{"99999999999999", time.UnixMilli(99999999999999).UTC()},
		{"1767323045000001.5", after(1500)},
		{"-1767323045000001", time.UnixMicro(-1767323045000001).UTC()},
		{"1767323045000000001", after(1)},
		{"1.767323045e18", instant},
		{"Fri, 02 Jan 2026 03:04:05 GMT", instant},
		{"Fri, 2 Jan 2026 04:04:05 +0100", instant},
		{"2 Jan 2026 03:04 +0000", instant.Truncate(time.Minute)},
		{"Fri Jan  2 03:04:05 2026", instant},
		{"Friday, 02-Jan-26 03:04:05 GMT", instant},
		{"2026-01-02 03:04:05 +0000 UTC", instant},
		{"2026-01-02 03:04:05 - 2026-01-02 04:04:05", instant},
		{"2026-01-02 03:04:05 - 04:04", instant},
		{"2026-01-01T24:00", instant.Truncate(24 * time.Hour)},
		{"20260101 240000.0 UTC", instant.Truncate(24 * time.Hour)},
		{"2026-01-02T01:00:00+01:00", instant.Truncate(24 * time.Hour)},
		{"2026-01-01T24:00+01", instant.Truncate(24 * time.Hour).Add(-time.Hour)},
		{"Thu, 1 Jan 2026 24:00:00 GMT", instant.Truncate(24 * time.Hour)},
		{"2026-01-02 UTC", instant.Truncate(24 * time.Hour)},
		{"2026-01-02   03:04:05", instant},
		{"2026-01-02  03:04:05 \t UTC", instant},
		{"/Date(1767323045000)/", instant},
		{"/Date(1767323045000+0100)/", instant},
		{"/Date(-1500)/", time.Unix(-2, 500e6).UTC()},
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
		"2026-01", "2026-0102", "202601-02", "2026-01-02T", "2026-01-02T03", "2026-01-02T03:04:05.Z", "2026-01-02T03:0405", "2026-01-02Z",
		"2026-01-02 03:04 - 5", "2026-01-02 03:04 - later", "03:04 - 04:04",
		"2026-01-02T24:01", "2026-01-02T24:00:01", "2026-01-02T24:00:00.5", "2026-01-02T25:00", "Fri, 2 Jan 2026 24:30:00 GMT", "9999-12-31T24:00",
		"2026-01-02T03:04:05 CET", "20260102T0304051", "20260102T030405+", "2026-01-02T03:04:05+010", "2026-01-02T03:04:05+01000",
		"2026-01-02T03:60:00Z", "2026-01-02T03:04:60Z", "2026-01-02T03:04:61Z",
		"2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-32T00:00:00Z",
		"2026-01-02T03:04:05+1:00", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+00:60",
		"2026-01-02_03:04:05Z", "2026-01-02T03-04-05Z", "2026-1-2T03:04:05Z", "202x-01-02T03:04:05Z",
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
		"02/01/2026 03:04", "1.2.3", "0x10", "1_000", "inf", "+", "e5",
		"Fri, 02 Jan 2026 03:04:05 EST", "2026-01-02 03:04:05+01:00 UTC", "1767323045 UTC", "20260102 03  04", "/Date(1767323045000+01)/", "/Date(9e9)/", "/Date(999999999999999)/",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: accepted as %v", text, got)
		} else if want := "the time \"" + text + "\" is in no known format: use " + Understood; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %s, want %s", err, want)
		}
	}
	for _, text := range []string{"1e300", "-62135596800001", "-62135596801000", "-99999999999", "1e400"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: accepted as %v", text, got)
		} else if want := "the time " + text + " is outside the years 1 to 9999"; err.Error() != want {
			t.Errorf("got %s, want %s", err, want)
		}
	}
}

// Parse reads every time that package time formats.
func TestParseReadsWhatTimeFormats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Unix(rapid.Int64Range(minSecond+86400, maxSecond-86400).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nano")).UTC()
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60, 23*60).Draw(t, "zone"))
		for _, text := range []string{
			want.In(zone).Format(time.RFC3339Nano),
			want.Format(time.RFC3339Nano),
			want.Format("2006-01-02 15:04:05.999999999"),
			want.Format("2006-01-02 15:04:05.999999999Z"),
			want.In(zone).Format("2006-01-02 15:04:05.999999999-07:00"),
			want.Format("2006-01-02T15:04:05.999999999"),
			want.In(zone).Format("2006-01-02T15:04:05.999999999-0700"),
			want.Format("20060102T150405.999999999") + "Z",
			want.Format("2006-01-02 15:04:05.999999999 UTC"),
		} {
			got, err := Parse(text)
			if err != nil || got != want {
				t.Fatalf("%q: got %v, %v", text, got, err)
			}
		}
	})
}

// Times without an offset are in the parser's zone, with its daylight saving time; others have their own offset.
func TestZone(t *testing.T) {
	p := expect.Get(NewParser("Europe/Berlin", ""))(t)
	for text, want := range map[string]string{
		"2026-01-02 03:04:05":       "2026-01-02T02:04:05Z",
		"2026-07-02T03:04":          "2026-07-02T01:04:00Z",
		"2026-07-02":                "2026-07-01T22:00:00Z",
		"20260702T030405":           "2026-07-02T01:04:05Z",
		"2026-03-29 01:59:59.5":     "2026-03-29T00:59:59.5Z",
		"2026-03-29 03:00:00":       "2026-03-29T01:00:00Z",
		"2026-07-02T03:04:05Z":      "2026-07-02T03:04:05Z",
		"2026-07-02 03:04 UTC":      "2026-07-02T03:04:00Z",
		"2026-07-02T03:04:05+05:00": "2026-07-01T22:04:05Z",
		"1782961445":                "2026-07-02T03:04:05Z",
	} {
		got, err := p.Parse(text)
		expect.OK(t, err)
		expect.Same(t, want, got.Format(time.RFC3339Nano), text)
	}
}

func TestFormat(t *testing.T) {
	for _, test := range []struct{ format, text, want string }{
		{"02.01.2006 15:04", "03.04.2026 05:06", "2026-04-03T03:06:00Z"},
		{"%d.%m.%Y %H:%M", "03.04.2026 05:06", "2026-04-03T03:06:00Z"},
		{"%d/%m/%y", "3/4/26", "2026-04-02T22:00:00Z"},
		{"%Y%m%d", "20260403", "2026-04-02T22:00:00Z"},
		{"%Y%m%d%H%M%S", "20260403050607", "2026-04-03T03:06:07Z"},
		{"%Y-%j", "2026-093", "2026-04-02T22:00:00Z"},
		{"%b %e, %Y %I:%M %p", "Apr  3, 2026 5:06 PM", "2026-04-03T15:06:00Z"},
		{"%A, %d %B %Y at %T UTC", "Friday, 03 April 2026 at 05:06:07 UTC", "2026-04-03T03:06:07Z"},
		{"%d/%m/%Y %H:%M:%S.%f", "03/04/2026 05:06:07.25", "2026-04-03T03:06:07.25Z"},
		{"%d/%m/%Y %H:%M:%S,%f", "03/04/2026 05:06:07", "2026-04-03T03:06:07Z"},
		{"%d/%m/%Y %H:%M%z", "03/04/2026 05:06+0530", "2026-04-02T23:36:00Z"},
		{"%d/%m/%Y %H:%M%z", "03/04/2026 05:06+05:30", "2026-04-02T23:36:00Z"},
		{"%d/%m/%Y %I:%M:%S %p", "03/04/2026 5:06:07 pm", "2026-04-03T15:06:07Z"},
		{"%d/%m/%Y %H:%M:%S", "03/04/2026 05:06:07.25", "2026-04-03T03:06:07.25Z"},
		{"%d/%m/%Y %H:%M", "03/04/2026  05:06 UTC", "2026-04-03T05:06:00Z"},
		{"%d/%m/%Y %H.%M.%S", "03/04/2026 05.06.07", "2026-04-03T03:06:07Z"},
		{"%d.%m.%Y %H:%M", "28.03.2026 24:00", "2026-03-28T23:00:00Z"},
		{"%d.%m.%Y %H:%M", "29.03.2026 24:00", "2026-03-29T22:00:00Z"},
		{"%d/%m/%Y %H", "2/4/2026 24", "2026-04-02T22:00:00Z"},
		{"%d.%m.%Y %H:%M", "03.04.2026 05:06 - 03.04.2026 06:06", "2026-04-03T03:06:00Z"},
		{"%d.%m.%Y %H:%M", "03.04.2026 23:00 - 24:00", "2026-04-03T21:00:00Z"},
		// A month, a quarter, a week or a year is its first instant in the zone.
		{"%Y-%m", "2026-04", "2026-03-31T22:00:00Z"},
		{"%Y%m", "202601", "2025-12-31T23:00:00Z"},
		{"2006-01", "2026-04", "2026-03-31T22:00:00Z"},
		{"%b-%y", "Apr-26", "2026-03-31T22:00:00Z"},
		{"%b %Y", "Apr 2026", "2026-03-31T22:00:00Z"},
		{"%Y", "2026", "2025-12-31T23:00:00Z"},
		{"%Y-Q%q", "2026-Q2", "2026-03-31T22:00:00Z"},
		{"%YQ%q", "2026Q4", "2026-09-30T22:00:00Z"},
		{"Q%q %Y", "Q1 2026", "2025-12-31T23:00:00Z"},
		{"%G-W%V", "2026-W01", "2025-12-28T23:00:00Z"},
		{"%G-W%V", "2026-W53", "2026-12-27T23:00:00Z"},
		{"%G-W%V-%u", "2020-W53-7", "2021-01-02T23:00:00Z"},
		{"%GW%V", "2024W1", "2023-12-31T23:00:00Z"},
		// A text in another form is read as without a format.
		{"%d/%m/%Y", "2026-04-03T05:06:07Z", "2026-04-03T05:06:07Z"},
		{"%d/%m/%Y", "1775192767000", "2026-04-03T05:06:07Z"},
	} {
		p, err := NewParser("Europe/Berlin", test.format)
		if err != nil {
			t.Errorf("%s: %v", test.format, err)
			continue
		}
		got, err := p.Parse(test.text)
		expect.OK(t, err)
		expect.Same(t, test.want, got.Format(time.RFC3339Nano), test.format, ": ", test.text)
	}
	p := expect.Get(NewParser("", "%Y%m%d"))(t)
	if got, err := p.ParseLocalNumber("20260403"); err != nil || !got.Equal(time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", got, err)
	}
	for format, text := range map[string]string{"%Y%m%d": "31/31/2026", "%Y-Q%q": "2026-Q5", "%G-W%V": "2025-W53", "%G-W%V-%u": "2026-W01-8", "%Y-%m": "2026-13"} {
		p := expect.Get(NewParser("", format))(t)
		if got, err := p.Parse(text); err == nil {
			t.Errorf("%s: %s accepted as %v", format, text, got)
		}
	}
}

func TestFormatRejects(t *testing.T) {
	for format, reason := range map[string]string{
		"YYYY-MM-DD":           "has no year and month",
		"15:04":                "has no year and month",
		"%H:%M":                "has no year and month",
		"%d/%m":                "has no year and month",
		"%Y %d":                "has no year and month",
		"%Y-%m %H:%M":          "has no year and month",
		"Q%q":                  "use it only with %Y",
		"%Y-%m Q%q":            "use it only with %Y",
		"%Y-W%V":               "only with each other",
		"W%V":                  "only with each other",
		"%Y-%m-%d %Z":          "unknown directive %Z: use one of %Y",
		"%Y-%m-%d %":           "ends with %",
		"%Y-%m-%d %S%f":        "%f must follow",
		"2 %Y-%m-%d":           "between directives would be read",
		"2006-01-02 15:04 MST": "abbreviation",
	} {
		if _, err := NewParser("", format); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want %s", format, err, reason)
		}
	}
	if _, err := NewParser("Mars/Base", ""); err == nil {
		t.Error("a zone of Mars was accepted")
	}
}

// The format says how to read numbers.
func TestNumbers(t *testing.T) {
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		zone, format, text string
		want               time.Time
	}{
		{"", Unix, "20260102", time.Unix(20260102, 0).UTC()},
		{"", Unix, "202601020304", time.UnixMilli(202601020304).UTC()},
		{"", Unix, "20260102030405", time.UnixMilli(20260102030405).UTC()},
		{"Europe/Berlin", "", "20260102040405", instant},
		{"", Unix, "20260231", time.Unix(20260231, 0).UTC()},
		{"", Unix, "46024", time.Unix(46024, 0).UTC()},
		{"", Unix, "2026-01-02", day},
		{"", Spreadsheet, "46024", day}, // 46023 is 2026-01-01 in Excel, LibreOffice and Google Sheets
		{"", Spreadsheet, "46024.5", day.Add(12 * time.Hour)},
		{"", Spreadsheet, "46024.1278356481", instant},
		{"", Spreadsheet, "2026-01-02", day},
		{"Europe/Berlin", Spreadsheet, "46024.5", day.Add(11 * time.Hour)},
		{"Europe/Berlin", Spreadsheet, "46204.5", time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)},
	} {
		p := expect.Get(NewParser(test.zone, test.format))(t)
		if got, err := p.Parse(test.text); err != nil || !got.Equal(test.want) {
			t.Errorf("%s of %s in %s: %v, %v", test.text, test.format, test.zone, got, err)
		}
		if !strings.Contains(test.text, "-") {
			if got, err := p.ParseLocalNumber(test.text); err != nil || !got.Equal(test.want) {
				t.Errorf("the number %s of %s in %s: %v, %v", test.text, test.format, test.zone, got, err)
			}
		}
	}
	for format, text := range map[string]string{"": "20260231", Spreadsheet: "1767323045"} {
		p, _ := NewParser("", format)
		if got, err := p.Parse(text); err == nil {
			t.Errorf("%s of %q is %v", text, format, got)
		}
	}
}

// A skipped local time uses the offset before the change, in all zones and forms. A repeated local time is not
// skipped.
func TestTimesLeftOut(t *testing.T) {
	for zone, c := range map[string]struct {
		skipped, shifted string
		want             string
	}{
		"America/New_York": {"2026-03-08 02:05:00", "2026-03-08 03:05:00", "2026-03-08T07:05:00Z"},
		"Europe/Berlin":    {"2026-03-29 02:59:59", "2026-03-29 03:59:59", "2026-03-29T01:59:59Z"},
		"Australia/Sydney": {"2026-10-04 02:30:00", "2026-10-04 03:30:00", "2026-10-03T16:30:00Z"},
		"America/Santiago": {"2026-09-06 00:30:00", "2026-09-06 01:30:00", "2026-09-06T04:30:00Z"},
	} {
		for _, layout := range []string{"", "2006-01-02 15:04:05"} {
			p := expect.Get(NewParser(zone, layout))(t)
			for _, text := range []string{c.skipped, c.shifted} {
				if got := expect.Get(p.Parse(text))(t).Format(time.RFC3339); got != c.want {
					t.Errorf("%s %q: %s, want %s", zone, text, got, c.want)
				}
			}
			if !p.IsSkippedTime(c.skipped) || p.IsSkippedTime(c.shifted) || p.IsSkippedTime(c.skipped+"Z") || p.IsSkippedTime("2026-11-01 01:30:00") || p.IsSkippedTime("x") {
				t.Errorf("%s %q: left out %t, and %t", zone, layout, p.IsSkippedTime(c.skipped), p.IsSkippedTime(c.shifted))
			}
		}
	}
}

// Slight disorder and equal times are not the second pass of a repeated hour. The order of all records decides for
// a key that begins there.
func TestFolds(t *testing.T) {
	zone := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	for name, records := range map[string]string{ // key, local time on 2026-10-25, time in UTC
		"equal":                        "a 01:59 23:59, a 02:00 00:00, a 02:00 00:00, a 02:01 00:01",
		"out of order":                 "a 02:10 00:10, a 02:12 00:12, a 02:11 00:11, a 02:13 00:13",
		"out of order by a step":       "a 01:50 23:50, a 02:00 00:00, a 02:20 00:20, a 02:10 00:10",
		"by more":                      "a 01:50 23:50, a 02:00 00:00, a 02:20 00:20, a 02:09 01:09",
		"out of order at the boundary": "a 02:58 00:58, a 02:00 01:00, a 02:59 00:59, a 02:01 01:01, a 03:00 02:00",
		"a gap in the second":          "a 02:58 00:58, a 02:59 00:59, a 02:01 01:01, a 02:45 01:45, a 03:00 02:00",
		"another key begins":           "a 02:58 00:58, b 02:59 00:59, a 02:00 01:00, c 02:01 01:01",
		"one key after the other":      "a 02:30 00:30, a 02:31 00:31, a 02:00 01:00, a 03:00 02:00, b 01:00 23:00, b 02:00 00:00",
	} {
		var f Folds
		for record := range strings.SplitSeq(records, ", ") {
			r := strings.Fields(record)
			local := expect.Get(time.ParseInLocation("2006-01-02 15:04", "2026-10-25 "+r[1], zone))(t)
			expect.Same(t, r[2], f.Resolve(r[0], local).Format("15:04"), name, ": ", record)
		}
	}
}
