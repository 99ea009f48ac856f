package connectors

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"hafvf/internal/testing/expect"
)

// readLong reads the records of a source as key, series, time and value.
func readLong(t *testing.T, src Source) (texts []string, err error) {
	t.Helper()
	rd, err := Open(src)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	for {
		r, err := rd.Next()
		if err == io.EOF {
			return texts, nil
		}
		if err != nil {
			return texts, err
		}
		if r.Reason != "" {
			texts = append(texts, fmt.Sprintf("%d: %s", r.Position, r.Reason))
			continue
		}
		texts = append(texts, fmt.Sprintf("%d: %s", r.Position, strings.Join(r.Fields, " ")))
	}
}

// Further tables may have the columns of the first in another order, but no other columns.
func TestWideTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.csv")
	expect.OK(t, os.WriteFile(path, []byte(",time,a,b\n0,1,2,3\n\nb,a,time\n3,2,1\n\ntime,a,c\n1,2,4\n"), 0o644))
	got := expect.Get(readLong(t, Source{Format: CSV, Path: path, Wide: true, Time: "time", Values: []string{"*"}}))(t)
	expect.Same(t, []string{"2: a 1 2", "2: b 1 3", "5: a 1 2", "5: b 1 3",
		`8: the table that begins at line 7 cannot be read: its value columns differ from those of the first table: "a", "c"`}, got)
}

func TestWide(t *testing.T) {
	const table = "time,note,S1,S2,T/3,site\n1,fine,10,20,30,b\n2,,11,,31,b\n3,x\n4,so,n/a,22,32,c\n"
	for _, c := range []struct {
		name   string
		key    []string
		values []string
		want   []string
		err    string
	}{
		{"all numbers", nil, []string{"*"}, []string{
			"2: S1 1 10", "2: S2 1 20", "2: T/3 1 30", "3: S1 2 11", "3: S2 2 ", "3: T/3 2 31",
			"4: 2 fields where the header has 6", "5: S1 4 n/a", "5: S2 4 22", "5: T/3 4 32",
		}, ""},
		{"a key and a pattern", []string{"site"}, []string{"S?"}, []string{
			"2: b S1 1 10", "2: b S2 1 20", "3: b S1 2 11", "3: b S2 2 ", "4: 2 fields where the header has 6", "5: c S1 4 n/a", "5: c S2 4 22",
		}, ""},
		{"a name and a pattern, each column once", nil, []string{"T/3", "T*", "note"}, []string{
			"2: T/3 1 30", "2: note 1 fine", "3: T/3 2 31", "3: note 2 ", "4: 2 fields where the header has 6", "5: T/3 4 32", "5: note 4 so",
		}, ""},
		{"no such column", nil, []string{"S3"}, nil, `has no column "S3"`},
		{"no column of a pattern", nil, []string{"U*"}, nil, `has no column of values that matches "U*"`},
		{"no numbers", nil, []string{"n*"}, nil, `has no column of numbers that matches "n*"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := in(t, "a.csv", map[string]string{"a.csv": table})
			src.Key, src.Time, src.Values, src.Wide = c.key, "time", c.values, true
			got, err := readLong(t, src)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, want %q", err, c.err)
				}
				return
			}
			expect.OK(t, err)
			expect.Same(t, c.want, got)
		})
	}
}

// Parquet columns that are not numbers, or whose type is not supported, are left out.
func TestWideParquet(t *testing.T) {
	third := 1.0 / 3
	src := pqAll
	src.Path = in(t, "a.parquet", map[string]string{"a.parquet": writeParquet(t, []pqRow{{Key: "a", I: -7, U: 2, F: 0.5, D: &third, Dec: -1205}, {Key: "b", I: 1, U: 3}})}).Path
	src.Wide, src.Time, src.Values = true, "milli", []string{"i", "d*"}
	got, err := readLong(t, src)
	want := []string{"1: a i 1970-01-01T00:00:00Z -7", "1: a d 1970-01-01T00:00:00Z 0.3333333333333333", "1: a dec 1970-01-01T00:00:00Z -12.05",
		"2: b i 1970-01-01T00:00:00Z 1", "2: b d 1970-01-01T00:00:00Z ", "2: b dec 1970-01-01T00:00:00Z 0.00"}
	expect.OK(t, err)
	expect.Same(t, want, got)
}

// All rows are read, not only the first ones that choose the columns.
func TestWideLong(t *testing.T) {
	var b strings.Builder
	b.WriteString("time,a,b\n")
	for i := range 2*sniffRows + 1 {
		if i < sniffRows {
			fmt.Fprintf(&b, "%d,%d,text\n", i, i)
		} else {
			fmt.Fprintf(&b, "%d,%d,7\n", i, i)
		}
	}
	src := in(t, "a.csv", map[string]string{"a.csv": b.String()})
	src.Key, src.Time, src.Values, src.Wide = nil, "time", []string{"*"}, true
	got, err := readLong(t, src)
	if err != nil || len(got) != 2*sniffRows+1 || got[2*sniffRows] != "2002: a 2000 2000" {
		t.Errorf("%d records, %v, the last %q", len(got), err, got[len(got)-1])
	}
}

// wideTable returns a CSV with the given number of value columns: c0, c1 and so on.
func wideTable(columns, rows int) string {
	var b strings.Builder
	b.WriteString("time")
	for i := range columns {
		fmt.Fprintf(&b, ",c%d", i)
	}
	for r := range rows {
		fmt.Fprintf(&b, "\n%d", r)
		for i := range columns {
			fmt.Fprintf(&b, ",%d", i%7)
		}
	}
	return b.String() + "\n"
}

// A table with very many columns is read quickly, also if each is named. The number of columns is bounded.
func TestVeryWide(t *testing.T) {
	expect.Long(t, "rows of very many columns")
	const columns, rows = 100_000, 3
	src := in(t, "a.csv", map[string]string{"a.csv": wideTable(columns, rows)})
	src.Wide, src.Key, src.Time, src.Values = true, nil, "time", []string{"*"}
	names := make([]string, columns)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	for _, values := range [][]string{{"*"}, names} {
		src.Values = values
		if texts, err := readLong(t, src); err != nil || len(texts) != rows*columns || texts[columns-1] != "2: c99999 0 4" {
			t.Errorf("%d records, error %v", len(texts), err)
		}
	}
	src = in(t, "a.csv", map[string]string{"a.csv": wideTable(MaxColumns, 1)})
	src.Wide, src.Key, src.Time, src.Values = true, nil, "time", []string{"*"}
	_, err := readLong(t, src)
	expect.Error(t, err, "262145 columns; at most 262144 are read")
}

// Peek stops after a number of fields in a very wide table.
func TestPeekIsBounded(t *testing.T) {
	src := in(t, "a.csv", map[string]string{"a.csv": wideTable(sniffFields/8, 20)})
	if _, records, err := Peek(src, 1000); err != nil || len(records) != 8 {
		t.Errorf("%d rows, error %v", len(records), err)
	}
}

// A key, time or value that is too long is rejected without using memory of its length.
func TestFieldsAreBounded(t *testing.T) {
	longest := strings.Repeat("k", MaxField)
	src := in(t, "a.csv", map[string]string{"a.csv": "key,time,x,note\n" + longest + "k,1,2,\n" + longest + ",1,2,\n\"" + longest + "k\",1,2,\nk,1,2," + longest + "k\n"})
	src.Key, src.Time, src.Values = []string{"key"}, "time", []string{"x"}
	texts, err := readLong(t, src)
	want := `the field of the column "key" has 65537 bytes; at most 65536 are allowed`
	expect.OK(t, err)
	expect.Same(t, []string{"2: " + want, "3: " + longest + " 1 2", "4: " + want, "5: k 1 2"}, texts)

	type row struct {
		Key  string `parquet:"key,dict"`
		Time int64  `parquet:"time"`
		X    float64
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	f, err := os.Create(path)
	expect.OK(t, err)
	w := parquet.NewGenericWriter[row](f)
	rows := []row{{Key: strings.Repeat("k", 1<<20)}, {Key: strings.Repeat("k", 1<<20)}, {Key: "k"}}
	expect.Get(w.Write(rows))(t)
	expect.OK(t, w.Close())
	f.Close()
	rd, err := Open(Source{Format: Parquet, Path: path, Key: []string{"key"}, Time: "time", Values: []string{"X"}})
	expect.OK(t, err)
	defer rd.Close()
	want = `the field of the column "key" has 1048576 bytes; at most 65536 are allowed`
	for i, want := range []string{want, want, ""} {
		r, err := rd.Next()
		if err != nil || r.Reason != want || want != "" && (r.Fields != nil || len(r.Raw) != MaxRaw) {
			t.Errorf("row %d: %q, %d bytes of text, error %v", i+1, r.Reason, len(r.Raw), err)
		}
	}
}
