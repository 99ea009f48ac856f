package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/sniff"
)

// tableOf returns the lines of a file: a header and n records.
func tableOf(header string, n int, line func(i int) string) []string {
	lines := []string{header}
	for i := range n {
		lines = append(lines, line(i))
	}
	return lines
}

// A run with the config that Draft writes for a file reads the whole file.
func TestDraft(t *testing.T) {
	milli := func(i int) int64 { return start.Add(time.Duration(i) * time.Minute).UnixMilli() }
	for _, test := range []struct {
		name   string
		lines  []string
		wanted []string // parts of the config
		keys   int64
	}{
		{"spreadsheet.csv", tableOf("\ufeffZeitpunkt;\"Pumpe\";Druck\r\n", 60, func(i int) string {
			return fmt.Sprintf("%d;\"Pumpe \"\"%c\"\"\";%d,5\r\n", milli(i), 'A'+i%2, i%9)
		}), []string{"delimiter: ;\n", "decimal: ','\n", "key: Pumpe ", "time: Zeitpunkt ", "values: [Druck]\n", "family: normal"}, 2},
		{"days.csv", tableOf("day,visitors\n", 40, func(i int) string {
			return fmt.Sprintf("%s,%d\n", start.AddDate(0, 0, i).Format(time.DateOnly), 10+i%7)
		}), []string{"key: none ", "time: day ", "family: poisson", "detect: {budget: 2400h} ", "# season: [168h] "}, 1},
		{"visits.csv", tableOf("at,variant,bought\n", 300, func(i int) string {
			return fmt.Sprintf("%s,%c,%d\n", start.Add(time.Duration(i/2)*time.Minute).Format(time.RFC3339), 'a'+i%2, (i%30)/29)
		}), []string{"key: variant ", "family: bernoulli", "bank: [{levels: [], top: 0.9998}] "}, 2},
		{"amounts.csv", tableOf("hour,shop,sales\n", 60, func(i int) string {
			return fmt.Sprintf("%s,s%d,%d\n", start.Add(time.Duration(i/2)*time.Minute).Format(time.RFC3339), i%2, 2000+i*37%900)
		}), []string{"key: shop ", "values: [sales]", "family: normal", "warm_up: 7 ", "detect: {budget: 1h40m, rest: 3, season: [], settling: 0} "}, 2},
		{"german.csv", tableOf("Datum,Wert\n", 40, func(i int) string {
			return fmt.Sprintf("%s,%s\n", start.AddDate(0, 0, i).Format("02.01.2006 15:04"), []string{"-", "1.5", "NA", "2"}[i%4])
		}), []string{"time_format: '%d.%m.%Y %H:%M'", "missing: ['-', NA]"}, 1},
		{"compact.tsv", tableOf("t\tid\tvalue\n", 40, func(i int) string {
			return fmt.Sprintf("%s\t%d\t%d\n", start.AddDate(0, 0, i/2).Format("20060102"), i%2, (i+1)%2)
		}), []string{`delimiter: "\t"`, "time: t ", "key: id ", "family: bernoulli"}, 2},
		{"nested.jsonl", tableOf("", 40, func(i int) string {
			return fmt.Sprintf(`{"meta":{"dev":{"id":%d}},"ts":%q,"data":{"temp":%d.5,"hum":null}}`+"\n", i%3, start.Add(time.Duration(i)*time.Minute).Format("2006-01-02T15:04:05.000000"), i%5)
		})[1:], []string{"key: meta.dev.id ", "time: ts ", "values: [data.temp]\n"}, 3},
		{"either.csv", tableOf("when,x\n", 40, func(i int) string {
			return fmt.Sprintf("%02d/%02d/26,%d.5\n", 1+i/12, 1+i%12, i%5)
		}), []string{"time_format: '%m/%d/%y' ", "2026-01-01 00:00 to 2026-04-04 00:00"}, 1},
		{"late.csv", tableOf("key,time,x\n", 40, func(i int) string {
			return fmt.Sprintf("a,%d,%d.25\n", milli(i^1)/1000, i%3)
		}), []string{"lateness: 1m "}, 1},
		{"untimed.csv", tableOf("sensor,reading,voltage\n", 40, func(i int) string {
			return fmt.Sprintf("s%d,%d.5,3.3\n", i%4, i%3)
		}), []string{"order: arrival ", `time: ""`, "key: sensor ", "values: [reading] ", "# or voltage"}, 4},
		{"wide.csv", tableOf("date,boiler,pump,valve\n", 60, func(i int) string {
			return fmt.Sprintf("%s,%d.5,%d,%d.25\n", start.AddDate(0, 0, i).Format(time.DateOnly), i%5, i*i%7, i%3)
		}), []string{"layout: wide ", "time: date ", "values: ['*']\n"}, 3},
		{"numbered.csv", tableOf("row,date,note,S1,S2,S3\n", 60, func(i int) string {
			return fmt.Sprintf("%d,%s,n%d,%d.5,,%d.25\n", i, start.AddDate(0, 0, i).Format(time.DateOnly), i, i%5, i%3)
		}), []string{"layout: wide ", "values: [S1, S3]\n"}, 2},
		{"rows.csv", tableOf("row,date,S1,S2,S3\n", 60, func(i int) string {
			return fmt.Sprintf("%d,%s,%d.5,%d,%d.25\n", i, start.AddDate(0, 0, i).Format(time.DateOnly), i%5, i*i%7, i%3)
		}), []string{"layout: wide ", "values: [S1, S2, S3]\n"}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, test.name, test.lines...)
			text := expect.Get(sniff.Draft(path))(t).Config
			for _, want := range test.wanted {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			s, _, _ := runConfig(t, strings.Replace(string(text), "alerts:\n  jsonl: {path: alerts.jsonl}\n", "", 1))
			if s.Rejected > 0 || s.Keys != test.keys || s.Records == 0 {
				t.Errorf("%d rejected, %d keys, %d records with\n%s", s.Rejected, s.Keys, s.Records, text)
			}
		})
	}
}

func TestDraftRejects(t *testing.T) {
	for reason, lines := range map[string]string{
		"CSV without a column of numbers, and without times by which to count records; its columns are a, b": "a,b\nx,y\n",
		"begins with the numbers 1, 2": "1,2\n3,4\n",
		"is empty":                     "",
	} {
		if text, err := sniff.Draft(write(t, "in.csv", lines)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %s, %v", lines, text.Config, err)
		}
	}
	if _, err := sniff.Draft(filepath.Join(t.TempDir(), "no.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
