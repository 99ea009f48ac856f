package sessions

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/cmd/hafvf/outfile"
	"hafvf/internal/testing/expect"
)

// record returns a smoothed record at minute position of a session with n records. The session starts at minute start
// of 1 January 2026.
func record(key string, start, position, n, revision int, fields string) string {
	minute := func(m int) string { return fmt.Sprintf("2026-01-01T%02d:%02d:00Z", m/60, m%60) }
	return fmt.Sprintf(`{"key":%q,"time":%q,"id":"%s/%d","n":%d,"x":1,"session":{"start":%q,"end":%q,"n":%d},"revision":%d,%s}`,
		key, minute(position), key, position, position-start+1, minute(start), minute(start+n-1), n, revision, fields)
}

func inSegment(mean, sd string, n int) string {
	return fmt.Sprintf(`"estimate":{"mean":%s,"sd":%s},"outlier":0.75,"segment":{"start":"2026-01-01T00:00:00Z","n":%d,"mean":%s,"sd":%s}`, mean, sd, n, mean, sd)
}

const same = `,"change_evidence":null,"change":false`

const changed = `,"change_evidence":12.5,"change":true,"change_probability":0.96,"change_interval":{"from":"2026-01-01T00:01:00Z","to":"2026-01-01T00:03:00Z","from_n":2,"to_n":4}`

// table writes the records as a table, and reads the table.
func table(t *testing.T, lines ...string) (Tally, [][]string) {
	t.Helper()
	input, out := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "out.csv")
	expect.OK(t, os.WriteFile(input, []byte(strings.Join(lines, "\n")), 0o666))
	tally := expect.Get(write(input, out, .95, time.UTC))(t)
	f := expect.Get(os.Open(out))(t)
	defer f.Close()
	rows := expect.Get(csv.NewReader(f).ReadAll())(t)
	return tally, rows
}

// write writes the table of the records in a file.
func write(input, out string, interval float64, zone *time.Location) (Tally, error) {
	var c Collector
	if err := outfile.ForEachResult(context.Background(), input, nil, c.Add); err != nil {
		return Tally{}, err
	}
	table, tally := c.Table(interval, zone)
	return tally, outfile.WriteTable(out, table)
}

var header = strings.Split("key,session,segment,start,end,n,mean,sd,se,lower,upper,changed,kind,against,change_interval.from,change_interval.to,change_interval.from_n,change_interval.to_n,change_probability,evidence,outliers,drift,drift_lower,drift_upper", ",")

func TestTable(t *testing.T) {
	none := strings.Split(",,,,,", ",")
	change := strings.Split("2026-01-01T00:01:00Z,2026-01-01T00:03:00Z,2,4,0.96,12.5", ",")
	// Records of earlier builds have neither scatter nor kind.
	row := func(text string, change []string, outliers string) []string {
		cells := append(slices.Insert(strings.Split(text, ","), 7, ""), "", "", "")
		return append(append(cells, change...), outliers, "", "", "")
	}
	for name, c := range map[string]struct {
		lines []string
		want  [][]string
		tally Tally
	}{
		"two segments, keys in order, no formula": {
			[]string{
				record("b", 0, 0, 4, 0, inSegment("1", "0", 2)+same),
				record("=a", 0, 0, 1, 0, inSegment("3", "null", 1)+same),
				record("b", 0, 1, 4, 0, inSegment("1", "0", 2)+same),
				record("b", 0, 2, 4, 0, inSegment("2", "0", 2)+changed),
				record("b", 0, 3, 4, 0, inSegment("2", "0", 2)+same),
			},
			[][]string{
				row("'=a,2026-01-01T00:00:00Z,1,2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,1,3,,,", none, "1"),
				row("b,2026-01-01T00:00:00Z,1,2026-01-01T00:00:00Z,2026-01-01T00:01:00Z,2,1,0,1,1", none, "2"),
				row("b,2026-01-01T00:00:00Z,2,2026-01-01T00:02:00Z,2026-01-01T00:03:00Z,2,2,0,2,2", change, "2"),
			},
			Tally{2, 2, 3, 0},
		},
		"regressors make another mean at each record": {
			[]string{
				record("k", 0, 0, 3, 0, inSegment("null", "null", 3)+same),
				record("k", 0, 1, 3, 0, inSegment("1", "0", 3)+same),
				record("k", 0, 2, 3, 0, inSegment("2", "0", 3)+same),
			},
			[][]string{row("k,2026-01-01T00:00:00Z,1,2026-01-01T00:00:00Z,2026-01-01T00:02:00Z,3,1.5,0,1.5,1.5", none, "3")},
			Tally{1, 1, 1, 0},
		},
		"sessions that a late record merges": {
			[]string{
				record("k", 10, 10, 1, 0, inSegment("1", "0", 1)+same),
				record("k", 12, 12, 1, 0, inSegment("2", "0", 1)+same),
				record("k", 10, 10, 3, 1, inSegment("5", "0", 3)+same),
				record("k", 10, 11, 3, 1, inSegment("5", "0", 3)+same),
				record("k", 10, 12, 3, 1, inSegment("5", "0", 3)+same),
				record("k", 80, 80, 1, 0, inSegment("7", "0", 1)+same),
			},
			[][]string{
				row("k,2026-01-01T00:10:00Z,1,2026-01-01T00:10:00Z,2026-01-01T00:12:00Z,3,5,0,5,5", none, "3"),
				row("k,2026-01-01T01:20:00Z,1,2026-01-01T01:20:00Z,2026-01-01T01:20:00Z,1,7,0,7,7", none, "1"),
			},
			Tally{1, 2, 2, 0},
		},
		"a session that drifts": {
			[]string{strings.Replace(record("k", 0, 0, 1, 0, inSegment("1", "0", 1)+same), `"n":1},"revision"`, `"n":1,"drift":{"rate":1.5,"lower":1,"upper":2}},"revision"`, 1)},
			[][]string{append(row("k,2026-01-01T00:00:00Z,1,2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,1,1,0,1,1", none, "1")[:21], "1.5", "1", "2")},
			Tally{1, 1, 1, 0},
		},
		"scatter and kind": {
			func() (lines []string) {
				for i, scatter := range []string{"1", "2", "6.5", "5.5", "7", "null", "null"} {
					segment, change := strings.Replace(inSegment(strconv.Itoa(max(1, 7*(i-3))), "0", 2), `"n":2`, `"n":2,"scatter":`+scatter, 1), same
					if i > 1 && i != 3 && i != 6 {
						change = changed
					}
					lines = append(lines, strings.Replace(record("k", 0, i, 7, 0, segment+change), `"n":7},"revision"`, `"n":7,"kind":"levels","against":3.5},"revision"`, 1))
				}
				return lines
			}(),
			[][]string{
				withKind(row("k,2026-01-01T00:00:00Z,1,2026-01-01T00:00:00Z,2026-01-01T00:01:00Z,2,1,0,1,1", none, "2"), "1.5", ""),
				withKind(row("k,2026-01-01T00:00:00Z,2,2026-01-01T00:02:00Z,2026-01-01T00:03:00Z,2,1,0,1,1", change, "2"), "6", "scatter"),
				withKind(row("k,2026-01-01T00:00:00Z,3,2026-01-01T00:04:00Z,2026-01-01T00:04:00Z,2,7,0,7,7", change, "1"), "7", "mean"),
				withKind(row("k,2026-01-01T00:00:00Z,4,2026-01-01T00:05:00Z,2026-01-01T00:06:00Z,2,17.5,0,17.5,17.5", change, "2"), "", "mean"),
			},
			Tally{1, 1, 4, 0},
		},
		"levels": {
			[]string{
				record("k", 0, 0, 3, 0, `"estimate":{"mean":1,"sd":1}`+same),
				record("k", 0, 1, 3, 0, `"estimate":{"mean":2,"sd":1}`+same),
				record("k", 0, 2, 3, 0, `"estimate":{"mean":6,"sd":1}`+changed),
				record("l", 0, 0, 3, 0, `"estimate":{"mean":null,"sd":1}`+same),
				record("l", 0, 1, 3, 0, `"estimate":{"mean":2,"sd":1}`+same),
				record("l", 0, 2, 3, 0, `"estimate":{"mean":null,"sd":1}`+changed),
			},
			[][]string{
				row("k,2026-01-01T00:00:00Z,1,2026-01-01T00:00:00Z,2026-01-01T00:01:00Z,2,1.5,,,", none, ""),
				row("k,2026-01-01T00:00:00Z,2,2026-01-01T00:02:00Z,2026-01-01T00:02:00Z,1,6,,,", change, ""),
				row("l,2026-01-01T00:00:00Z,1,2026-01-01T00:00:00Z,2026-01-01T00:01:00Z,2,2,,,", none, ""),
				row("l,2026-01-01T00:00:00Z,2,2026-01-01T00:02:00Z,2026-01-01T00:02:00Z,1,,,,", change, ""),
			},
			Tally{2, 2, 4, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tally, rows := table(t, c.lines...)
			if diff := cmp.Diff(append([][]string{header}, c.want...), rows); diff != "" || tally != c.tally {
				t.Errorf("%+v, want %+v; rows (-want +got): %s", tally, c.tally, diff)
			}
		})
	}
}

// withKind fills the cells of scatter, change and kind in a row.
func withKind(row []string, sd, changed string) []string {
	row[7], row[11], row[12], row[13] = sd, changed, "levels", "3.5"
	return row
}

// A run that crashed writes records again, with the same IDs.
func TestRepeatedRecords(t *testing.T) {
	lines := []string{
		record("k", 0, 0, 3, 0, inSegment("1", "0", 1)+same),
		record("k", 0, 1, 3, 0, inSegment("2", "0", 2)+changed),
		record("k", 0, 2, 3, 0, inSegment("2", "0", 2)+same),
	}
	_, once := table(t, lines...)
	for _, repeated := range [][]string{append(lines[:3:3], lines...), append(lines[:2:2], lines...)} {
		tally, rows := table(t, repeated...)
		if diff := cmp.Diff(once, rows); diff != "" || tally != (Tally{1, 1, 2, 0}) {
			t.Errorf("%+v %s", tally, diff)
		}
	}
}

// A session counts as incomplete if the file lacks records of its latest revision.
func TestIncompleteSessions(t *testing.T) {
	if tally, _ := table(t,
		record("k", 0, 0, 2, 0, inSegment("1", "0", 2)+same),
		record("k", 0, 1, 2, 0, inSegment("1", "0", 2)+same),
		record("k", 0, 1, 3, 1, inSegment("1", "0", 3)+same),
		record("k", 0, 2, 3, 1, inSegment("1", "0", 3)+same), // the first record of revision 1 is not in the file
		record("l", 0, 0, 1, 0, inSegment("1", "0", 1)+same),
	); tally != (Tally{2, 2, 2, 1}) {
		t.Errorf("%+v", tally)
	}
}

// lower and upper are quantiles of a normal distribution.
func TestInterval(t *testing.T) {
	_, rows := table(t, record("k", 0, 0, 1, 0, inSegment("1", "0.5", 1)+same))
	for i, want := range []float64{1 - .5*1.959963984540054, 1 + .5*1.959963984540054} {
		if got, err := strconv.ParseFloat(rows[1][9+i], 64); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("%s, want %g", rows[1][9+i], want)
		}
	}
}

func TestTableOfVectors(t *testing.T) {
	_, rows := table(t, record("a", 0, 0, 1, 0, inSegment("[1,2]", "[0,null]", 1)+same), record("b", 0, 0, 1, 0, inSegment("3", "0", 1)+same))
	got := [][]string{rows[0][6:16], rows[1][6:16], rows[2][6:16]}
	want := [][]string{
		{"mean.0", "mean.1", "sd.0", "sd.1", "se.0", "se.1", "lower.0", "lower.1", "upper.0", "upper.1"},
		{"1", "2", "", "", "0", "", "1", "", "1", ""},
		{"3", "", "", "", "0", "", "3", "", "3", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// pandas reads times as times and numbers as numbers.
func TestForeignReaders(t *testing.T) {
	dir := t.TempDir()
	input, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.csv")
	lines := record("k", 0, 0, 2, 0, inSegment("1", "0.5", 1)+same) + "\n" + record("k", 0, 1, 2, 0, inSegment("2", "0.5", 1)+changed) + "\n" +
		strings.ReplaceAll(record("l", 0, 0, 1, 0, inSegment("1", "0.5", 1)+same), "00Z", "00.25+01:00") // not all times have fractions
	expect.OK(t, os.WriteFile(input, []byte(lines), 0o666))
	expect.Get(write(input, out, .95, time.UTC))(t)
	zoned := filepath.Join(dir, "zoned.csv")
	expect.Get(write(input, zoned, .95, expect.Get(time.LoadLocation("Europe/Berlin"))(t)))(t)
	t.Run("pandas", func(t *testing.T) {
		if err := exec.Command("python3", "-c", "import pandas").Run(); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal("python3 has no pandas")
			}
			t.Skip("SKIPPED: python3 has no pandas, which reads the table in this test: pip install pandas")
		}
		text, err := exec.Command("python3", "-c", `
import pandas, sys
times = ["session", "start", "end", "change_interval.from", "change_interval.to"]
t = pandas.read_csv(sys.argv[1], parse_dates=times)
for c in times:
    assert isinstance(t[c].dtype, pandas.DatetimeTZDtype), (c, t[c].dtype)
for c in t.columns.drop(times + ["key", "changed", "kind"]):
    assert t[c].dtype.kind in "if", (c, t[c].dtype)
assert t["end"][1] == pandas.Timestamp("2026-01-01T00:01:00Z")
assert t["start"][2] == pandas.Timestamp("2025-12-31T23:00:00.25Z")
assert t["change_interval.to_n"][1] == 4
zoned = pandas.read_csv(sys.argv[2])
assert zoned["end"][1] == "2026-01-01T01:01:00.000+01:00", zoned["end"][1]
for c in times:
    assert pandas.to_datetime(zoned[c], utc=True).dropna().equals(t[c].dropna()), c
`, out, zoned).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, text)
		}
	})
}
