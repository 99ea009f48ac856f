package connectors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

func TestHead(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("0123456789abcde\r\n", window/17+9)
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "a\r\nb", "a\nb"},
		{"UTF-16", "\xff\xfeh\x00\xe4\x00\n\x00", "hä\n"},
		{"UTF-16, the high byte first", "\xfe\xff\x00h\x00\n", "h\n"},
		{"CR", "\ufeffa\rb\r", "a\nb\n"},
		{"long", long, strings.ReplaceAll(long[:window/17*17], "\r\n", "\n")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, "f.csv")
			expect.OK(t, os.WriteFile(path, []byte(tt.text), 0o644))
			expect.Same(t, tt.want, string(expect.Get(Head(path, ""))(t)))
		})
	}
}

// A sample covers the whole file except for records that are cut at a place. Each record occurs once and unchanged.
// If the file cannot be sought, the sample is its beginning.
func TestSample(t *testing.T) {
	dir := t.TempDir()
	const rows = 20_000
	var csv, quoted, json strings.Builder
	csv.WriteString("time,a,b\n")
	quoted.WriteString("time,a,b\n")
	table := make([]pqRow, rows)
	for i := range rows {
		table[i].I = int32(i)
		fmt.Fprintf(&csv, "%d,1,%d\n", i, i)
		fmt.Fprintf(&quoted, "%d,\"1\n2,3\",%d\n", i, i)
		fmt.Fprintf(&json, `{"time":%d}`+"\n", i)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		w := expect.Get(os.Create(path))(t)
		z := expect.Get(compressor(w, path))(t)
		expect.Get(z.Write([]byte(text)))(t)
		expect.OK(t, z.Close())
		expect.OK(t, w.Close())
		return path
	}
	for _, tt := range []struct {
		src             Source
		n               int
		places, records int
		whole           bool
		last            string // place of the last record
	}{
		{Source{Format: CSV, Path: write("a.csv", csv.String())}, 1000, 10, 1000, false, "a.csv, after byte 232010:100"},
		{Source{Format: CSV, Path: write("b.csv", quoted.String())}, 1000, 10, 992, false, "b.csv, after byte 340010:198"},
		{Source{Format: CSV, Path: filepath.Join(dir, "a.csv"), Wide: true, Time: "time", Values: []string{"*"}}, 4000, 10, 4000, false, "a.csv, after byte 232010:200"},
		{Source{Format: CSV, Path: filepath.Join(dir, "a.csv")}, 30_000, 1, rows, true, "a.csv:20001"},
		{Source{Format: CSV, Path: write("c.csv.gz", csv.String())}, 1000, 1, 1000, false, "c.csv.gz:1001"},
		{Source{Format: JSONLines, Path: write("d.jsonl", json.String())}, 1000, 10, 1000, false, "d.jsonl, after byte 260001:100"},
		{Source{Format: Parquet, Path: write("f.parquet", writeParquet(t, table))}, 1000, 10, 1000, false, "f.parquet:18100"},
		{Source{Format: JSONLines, Path: write("e.json", "["+json.String()+"]")}, 1000, 1, 1000, false, "e.json:1000"},
		{Source{Format: CSV, Path: filepath.Join(dir, "?.csv")}, 1000, 10, 996, false, "b.csv, after byte 302231:198"},
	} {
		t.Run(fmt.Sprint(filepath.Base(tt.src.Path), tt.n), func(t *testing.T) {
			s := expect.Get(Sample(tt.src, tt.n))(t)
			seen, last := map[string]bool{}, Record{}
			n := 0
			for _, place := range s.Records {
				for _, r := range place {
					if r.Reason != "" || seen[r.Path+string(r.Raw)] {
						t.Fatalf("%s: %q twice, or %s", r.Source, r.Raw, r.Reason)
					}
					seen[r.Path+string(r.Raw)] = true
					last = r
					n++
				}
			}
			place := string(last.AppendPlace(nil))
			if len(s.Records) != tt.places || n != tt.records || s.Whole != tt.whole || place != tt.last {
				t.Errorf("%d places, %d records, whole %v, the last of %s", len(s.Records), n, s.Whole, place)
			}
		})
	}
}

// The fields of all files are in the order of the first file's columns.
func TestSampleFindsColumnsByName(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.csv": "time,x\n1,2\n", "b.csv": "y,x,time,z\n0,4,3,0\n", "c.csv": "y\n5\n"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s := expect.Get(Sample(Source{Format: CSV, Path: filepath.Join(dir, "*.csv")}, 100))(t)
	var got [][]string
	for _, r := range s.Records[0] {
		got = append(got, r.Fields)
	}
	expect.Same(t, [][]string{{"1", "2"}, {"3", "4"}, {"", ""}}, got)
}
