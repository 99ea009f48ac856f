package sniff

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// TestDraftOfFolders checks that parts of the path become the key where times show that they separate series, and that
// parts that follow the times do not.
func TestDraftOfFolders(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, path string // path of the file of a day and a series
		rows, days int
		pump       bool // a column has two pumps
		want       string
	}{
		{"series first", "station=%[2]c/date=%[1]s/part-0.csv", 48, 4, false, `key: {path: "station=*"} `},
		{"an unusual name", "lot=%[2]c/dt=%[1]s/part-0.csv", 48, 4, false, `key: {path: "lot=*"} `},
		{"days in the file names", "station=%[2]c/%[1]s.csv", 48, 4, false, `key: {path: "station=*"} `},
		{"more than a sample, days first", "date=%[1]s/station=%[2]c/part-0.csv", 300, 30, false, `key: {path: "station=*"} `},
		{"a folder without =", "%[2]c/log.csv", 48, 1, false, "key: {path: 1} "},
		{"a part and a column", "station=%[2]c/date=%[1]s/part-0.csv", 48, 4, true, `key: [{path: "station=*"}, pump] `},
		{"one series", "date=%[1]s/year=2026/part-0.csv", 48, 4, false, "key: none "},
		{"no folders", "%[2]c-%[1]s.csv", 48, 1, false, "key: none "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.rows*c.days > 1000 {
				expect.Long(t, "large folders")
			}
			t.Chdir(t.TempDir())
			for day := range c.days {
				for _, series := range "ABC" {
					text := "time,level\n"
					if c.pump {
						text = "time,pump,level\n"
					}
					for i := range c.rows {
						at, x := start.AddDate(0, 0, day).Add(time.Duration(i)*24*time.Hour/time.Duration(c.rows)), float64(series)+float64(i*i%17)/10
						if c.pump {
							text += fmt.Sprintf("%s,p1,%.1f\n%[1]s,p2,%.1f\n", at.Format(time.RFC3339), x, 2*x)
						} else {
							text += fmt.Sprintf("%s,%.1f\n", at.Format(time.RFC3339), x)
						}
					}
					path := fmt.Sprintf(c.path, start.AddDate(0, 0, day).Format(time.DateOnly), series)
					if c.name == "one series" && series != 'A' {
						continue
					}
					expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
					expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
				}
			}
			d := expect.Get(Draft(strings.Repeat("*/", strings.Count(c.path, "/")) + "*.csv"))(t)
			if !strings.Contains(string(d.Config), c.want) || !d.Sure() && c.name != "no folders" {
				t.Errorf("no %s, or doubts, in\n%s", c.want, d.Config)
			}
			cfg := expect.Get(config.Parse("c.yaml", d.Config, []string{"source.csv.key=none"}))(t)
			if res := expect.Get(Inspect(cfg))(t); c.pump && !strings.Contains(res.String(), `source.csv.key: [{path: "station=*"}, pump]`) {
				t.Errorf("hafvf check suggests\n%s", res)
			}
		})
	}
}
