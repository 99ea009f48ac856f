package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

func parseHolidays(holidays, extra string) (*Config, error) {
	return Parse("a.yaml", []byte("{model: {family: normal"+extra+"}, detect: {holidays: "+holidays+"}, source: {csv: {path: a.csv}}}"), nil)
}

func TestHolidays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "holidays.txt")
	expect.OK(t, os.WriteFile(file, []byte("\ufeff# of 2027\n2027-01-01  # New Year\n\n2027-05-01\n"), 0o666))
	for holidays, want := range map[string]usual.Holidays{
		"[]":                       {},
		"[2026-12-25, 2026-12-26]": {Dates: []string{"2026-12-25", "2026-12-26"}},
		"{dates: [2026-12-24], file: " + file + ", like: Sat}": {Dates: []string{"2026-12-24", "2027-01-01", "2027-05-01"}, Like: time.Saturday},
		"{file: " + file + "}":                                 {Dates: []string{"2027-01-01", "2027-05-01"}},
	} {
		c := expect.Get(parseHolidays(holidays, ", season: [24h, 168h]"))(t)
		expect.Same(t, want.Dates, append([]string(nil), c.Detect.Holidays.Dates...), holidays)
		if got := c.Filter(); c.Detect.Holidays.Like != want.Like || got.Alarms.Holidays.Like != want.Like || len(got.Filter.Season.Like.Dates) != len(want.Dates) {
			t.Errorf("%s: %+v", holidays, got.Filter.Season)
		}
	}
	for _, test := range []struct{ extra, detect, want string }{
		{", season: [24h, 168h], holidays: [2026-12-25]", "{holidays: [2026-12-25]}", ""},
		{", season: [24h, 168h], holidays: [2026-12-25]", "true", "alarms do not use model.holidays"},
		{", season: [24h, 168h], holidays: [2026-12-25, 2026-12-26]", "{holidays: [2026-12-25]}", "alarms do not use model.holidays"},
		{", season: [24h, 168h]}, keys: [{match: a, model: {holidays: [2026-12-26]}}], silence: {after: 1h", "true", "alarms do not use model.holidays"},
		{"", "{holidays: [2026-12-25], season: [24h]}", "detect.holidays have no effect on what is usual"},
		{"", "true", ""},
	} {
		c := expect.Get(Parse("a.yaml", []byte("{model: {family: normal"+test.extra+"}, detect: "+test.detect+", source: {csv: {path: a.csv}}}"), nil))(t)
		if remarks := strings.Join(c.HolidayRemarks(), "; "); (remarks == "") != (test.want == "") || !strings.HasPrefix(remarks, test.want) {
			t.Errorf("%s, %s: remarks %q", test.extra, test.detect, remarks)
		}
	}
	for _, test := range []struct{ holidays, want string }{
		{"25.12.2026", "detect.holidays: must be a list of dates, or {dates: […], file: …, like: Sun}"},
		{"[25.12.2026]", `detect.holidays.0: "25.12.2026" is not a date such as 2026-12-25`},
		{"{dates: [2026-12-25], like: Sunday}", `detect.holidays.like: unknown value "Sunday"`},
		{"{file: nowhere.txt}", "detect.holidays.file: stat nowhere.txt"},
		{"{days: []}", "detect.holidays.days: unknown key"},
		{"{file: " + file + "}", `holidays.txt:2: "1 May" is not a date such as 2026-12-25`},
	} {
		expect.OK(t, os.WriteFile(file, []byte("2026-12-25\n1 May\n"), 0o666))
		if _, err := parseHolidays(test.holidays, ""); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.holidays, err, test.want)
		}
	}
}
