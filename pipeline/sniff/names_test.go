package sniff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// TestZoneInName checks that the name of the column of times gives the zone of the source.
func TestZoneInName(t *testing.T) {
	for name, want := range map[string]string{
		"Date Time, GMT+02:00": "Etc/GMT-2", "time (UTC -5)": "Etc/GMT+5", "Time (UTC+0530)": "", "Time UTC+05:30": "Asia/Kolkata", "MTU (CET/CEST)": "CET",
		"time [gmt/bst]": "Europe/London", "time": "", "UTC": "", "Timestamp (UTC)": "", "UTC+10": "Etc/GMT-10",
	} {
		if got := zoneOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		} else if _, err := time.LoadLocation(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := write(t, "in.csv", tableOf(`"Date Time, GMT+02:00",x`+"\n", 50, func(i int) string {
		return fmt.Sprintf("%s,%d.5\n", start.Add(time.Duration(i)*time.Hour).Format("2006-01-02 15:04"), i%7)
	})...)
	if text := string(expect.Get(Draft(path))(t).Config); !strings.Contains(text, "zone: Etc/GMT-2 ") || !strings.Contains(text, "# 2026-01-02 01:04 to ") {
		t.Error(text)
	}
}

// TestHours checks that whole numbers which each date has once are its hours, and that 24 is a doubtful hour.
func TestHours(t *testing.T) {
	for _, first := range []int{0, 1} {
		path := write(t, "in.csv", tableOf("meter,date,hour,x\n", 24*6*2, func(i int) string {
			day := start.AddDate(0, 0, i/24%6)
			return fmt.Sprintf("m%d,%s,%d,%d.5\n", i/(24*6), day.Format("02/01/2006"), i%24+first, i%7)
		})...)
		d := expect.Get(Draft(path))(t)
		for _, want := range []string{"time: [date, hour] ", "time_format: '%d/%m/%Y %H'", "key: meter "} {
			if !strings.Contains(string(d.Config), want) {
				t.Errorf("first hour %d: no %s in\n%s", first, want, d.Config)
			}
		}
		if d.Sure() != (first == 0) {
			t.Errorf("first hour %d: %v", first, d.Remarks)
		}
	}
	// Numbers that dates have in different numbers are no hours.
	path := write(t, "in.csv", tableOf("date,rack,x\n", 600, func(i int) string {
		return fmt.Sprintf("%s,%d,%d.5\n", start.AddDate(0, 0, i/100).Format(time.DateOnly), i*i%97%24, i%7)
	})...)
	if text := string(expect.Get(Draft(path))(t).Config); strings.Contains(text, "[date, rack]") {
		t.Error(text)
	}
}

// TestThousandsOfDecimalComma checks that a decimal comma makes the point a separator of thousands, which only later
// numbers may have.
func TestThousandsOfDecimalComma(t *testing.T) {
	path := write(t, "in.csv", tableOf("time;x\n", 50, func(i int) string {
		return fmt.Sprintf("%s;%d,5\n", start.Add(time.Duration(i)*time.Hour).Format(time.RFC3339), i)
	})...)
	if text := string(expect.Get(Draft(path))(t).Config); !strings.Contains(text, "    decimal: ','\n    thousands: '.'\n") && !strings.Contains(text, "    thousands: .\n") {
		t.Error(text)
	}
}

// TestRhythmOfCounts checks that counts with a day and a night are not taken for values that differ by factors, and
// that local times of such a rhythm are said to lack a zone.
func TestRhythmOfCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, layout := range []string{"2006-01-02 15:04", time.RFC3339} {
		path := write(t, "in.csv", tableOf("time,calls\n", 24*7*15, func(i int) string {
			mean := 4.
			if i%24 >= 8 && i%24 < 16 && i/24%7 < 5 {
				mean = 80
			}
			return fmt.Sprintf("%s,%.0f\n", start.Add(time.Duration(i)*time.Hour).Format(layout), max(0, mean+1.7*math.Sqrt(mean)*rng.NormFloat64()))
		})...)
		text := string(expect.Get(Draft(path))(t).Config)
		if !strings.Contains(text, "  scale: sqrt ") || strings.Contains(text, "see detect.zone") != (layout != time.RFC3339) {
			t.Error(layout, text)
		}
	}
}

// TestLostParts checks that a part of the records is named if all of its records are rejected, however few they are.
func TestLostParts(t *testing.T) {
	for name, c := range map[string]struct {
		line func(i int) string
		want []string // beginnings of remarks
	}{
		"an hour": {func(i int) string {
			return fmt.Sprintf("k,2026-02-%02d %02d:%02d,%d\n", i/24+1, (i+1)%24+(i%24)/23*24, i%24/23*30, i)
		},
			[]string{`all records of 1 hour are rejected: 24; such as in.csv:25: the time "2026-02-01 24:30"`}},
		"a weekday and keys": {func(i int) string {
			key, x, day := "k", "5", start.AddDate(0, 0, i/2)
			if i%90 > 83 {
				key, x = fmt.Sprint("r", i%90), "."
			}
			if day.Weekday() == time.Sunday {
				x = "closed"
			}
			return fmt.Sprintf("%s,%s,%s\n", key, day.Format(time.DateOnly), x)
		}, []string{"all records of 6 keys are rejected: r84, r85, r86, r87, r88, …; such as in.csv:86: ", "all records of 1 weekday are rejected: Sunday; such as in.csv:6: "}},
		"none": {func(i int) string { return fmt.Sprintf("k,2026-02-%02d %02d:00,%d\n", i/24+1, i%24, i) }, nil},
	} {
		var remarks []string
		for _, r := range inspect(t, "{family: normal}", write(t, "in.csv", tableOf("key,time,x\n", 600, c.line)...)).Remarks {
			if strings.HasPrefix(r.Text, "all records of ") {
				remarks = append(remarks, r.Text)
			}
		}
		for i, text := range remarks {
			if i >= len(c.want) || !strings.HasPrefix(text, c.want[i]) {
				t.Errorf("%s: %s", name, text)
			}
		}
		if len(remarks) != len(c.want) {
			t.Errorf("%s: %q", name, remarks)
		}
	}
}

// TestRepeats checks that numbers of trials that go back are reported with what separates the runs, unless they are
// blocks of a design.
func TestRepeats(t *testing.T) {
	for name, c := range map[string]struct {
		runs []int // lengths of the runs of six subjects, the last ones of the same subject
		from int   // first number of the first run
		col  bool  // a column has the start of the run
		want string
	}{
		"a run and its repeat":   {[]int{40, 40, 40, 40, 40, 15, 40}, 0, true, `column "trial" numbers the trials, and goes back within 1 of 6 keys, such as from 14 to 0: a run and its repeat may share the key: key: [id, begun] separates them, or session: {by: begun} with transform: smooth`},
		"no column of the run":   {[]int{40, 40, 40, 40, 40, 15, 40}, 0, false, "such as from 14 to 0: a run and its repeat may share the key: remove one of the runs, or sort the file"},
		"the second half first":  {[]int{0, 0, 0, 0, 0, 40, 40}, 40, false, "goes back within 1 of 1 key, such as from 79 to 0"},
		"blocks of equal length": {[]int{0, 0, 0, 0, 0, 40, 40}, 0, true, ""},
		"no repeat":              {[]int{40, 40, 40, 40, 40, 40}, 0, true, ""},
	} {
		lines := []string{"id,trial,correct,begun\n"}
		for run, n := range c.runs {
			for i := range n {
				number, begun := i, "day"
				if run == 5 {
					number += c.from
				}
				if c.col {
					begun = fmt.Sprint("day ", run)
				}
				lines = append(lines, fmt.Sprintf("s%d,%d,%d,%s\n", min(run, 5), number, i*i%7%2, begun))
			}
		}
		d := expect.Get(Draft(write(t, "in.csv", lines...)))(t)
		if text := string(d.Config); c.want == "" && strings.Contains(text, "goes back") || !strings.Contains(text, c.want) || d.Sure() != (c.want == "") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
