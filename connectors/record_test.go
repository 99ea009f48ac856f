package connectors

import (
	"bytes"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"hafvf/internal/testing/expect"
)

func gz(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	expect.OK(t, z.Close())
	return b.String()
}

func zst(t *testing.T, text string) string {
	t.Helper()
	z := expect.Get(zstd.NewWriter(nil))(t)
	return string(z.EncodeAll([]byte(text), nil))
}

// in writes files into a new folder and returns a source of those that match pattern.
func in(t *testing.T, pattern string, files map[string]string) Source {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	src := ktx
	src.Path = filepath.Join(dir, pattern)
	return src
}

func readAll(t *testing.T, src Source) ([]string, error) {
	t.Helper()
	rd, err := Open(src)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	var texts []string
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			return texts, nil
		}
		if err != nil {
			return texts, err
		}
		texts = append(texts, rec.Source+": "+string(rec.Raw))
	}
}

func TestOpen(t *testing.T) {
	const head = "key,time,x\n"
	for _, tt := range []struct {
		name  string
		src   Source
		want  []string
		error string // %s is the folder
	}{
		{"glob, sorted", in(t, "*.csv", map[string]string{"b.csv": head + "b,t,1\n", "a.csv": head + "a,t,1", "c.txt": ""}),
			[]string{"a.csv: a,t,1", "b.csv: b,t,1"}, ""},
		{"a name like a pattern", in(t, "a[1].csv", map[string]string{"a[1].csv": head + "a,t,1\n", "a1.csv": head}),
			[]string{"a[1].csv: a,t,1"}, ""},
		{"columns in another order", in(t, "*.csv", map[string]string{"a.csv": head + "a,t,1\n", "b.csv": "x,key,time\n1,b,t\n"}),
			[]string{"a.csv: a,t,1", "b.csv: 1,b,t"}, ""},
		{"gzip", in(t, "a.csv.gz", map[string]string{"a.csv.gz": gz(t, head+"a,t,1\n")}), []string{"a.csv.gz: a,t,1"}, ""},
		{"gzip in two members", in(t, "a.csv.gz", map[string]string{"a.csv.gz": gz(t, head+"a,t") + gz(t, ",1\n")}), []string{"a.csv.gz: a,t,1"}, ""},
		{"zstd", in(t, "a.csv.zst", map[string]string{"a.csv.zst": zst(t, head+"a,t,1\n")}), []string{"a.csv.zst: a,t,1"}, ""},
		{"nothing matches", in(t, "*.csv", nil), nil, "no file matches %s/*.csv"},
		{"malformed pattern", in(t, "[.csv", nil), nil, "the pattern %s/[.csv is malformed: syntax error in pattern"},
		{"no such file", in(t, "a.csv", nil), nil, "%s/a.csv cannot be read: no such file or directory"},
		{"below a file", in(t, "a/b.csv", map[string]string{"a": ""}), nil, "%s/a/b.csv cannot be read: not a directory"},
		{"a folder", in(t, "", nil), nil, "%s is a folder: give its files, as in %s/*"},
		{"one of several is empty", in(t, "*.csv", map[string]string{"a.csv": head, "b.csv": ""}), nil,
			"%s/b.csv is empty: a CSV begins with a header that names its columns"},
		{"different columns", in(t, "*.csv", map[string]string{"a.csv": head, "b.csv": "key,time,x,y\n"}), nil,
			`%s/a.csv and %s/b.csv have different columns ("key", "time", "x"; "key", "time", "x", "y"): files that are read together must have the same`},
		{"not gzip", in(t, "a.gz", map[string]string{"a.gz": head}), nil, "%s/a.gz is not a gzip file: gzip: invalid header"},
		{"no path", Source{Format: JSONLines}, nil, `the source has no path: give a file, a glob, or "-" for standard input`},
		{"no format", Source{Format: "xml"}, nil, `format "xml" of a source is unknown: use one of csv, jsonl, parquet`},
		{"no columns", Source{Format: CSV, Path: "-", Wide: true}, nil, "a wide csv source needs at least one value column"},
		{"parquet from standard input", Source{Format: Parquet, Path: "-", Key: []string{"k"}, Values: []string{"x"}}, nil,
			"parquet cannot be read from standard input, because its index is at the end: give a file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			texts, err := readAll(t, tt.src)
			expect.Same(t, tt.want, texts)
			dir := filepath.Dir(tt.src.Path)
			switch tt.name {
			case "a folder":
				dir = tt.src.Path
			case "below a file":
				dir = filepath.Dir(dir)
			}
			want := strings.ReplaceAll(tt.error, "%s", dir)
			expect.Same(t, want, errorText(err))
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTruncated(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("key,time,x\n")
	for i := range 100_000 {
		// Rows that do not compress well, so that some of them come before the cut.
		rows.WriteString(time.Unix(int64(i)*7919*104729, 0).UTC().Format("key,20060102150405,05.04\n"))
	}
	for name, whole := range map[string]string{"a.csv.gz": gz(t, rows.String()), "a.csv.zst": zst(t, rows.String())} {
		t.Run(name, func(t *testing.T) {
			src := in(t, name, map[string]string{name: whole[:len(whole)*2/3]})
			texts, err := readAll(t, src)
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(errorText(err), name+", line ") || len(texts) < 1000 {
				t.Errorf("%d records, then %v", len(texts), err)
			}
		})
	}
}

func TestJSONLines(t *testing.T) {
	j := newJSONLReader(io.NopCloser(strings.NewReader("\ufeff{\"a\":1}\r\n\n  \n{\"b\":\"\xff\"}\n{\"c\":NaN}")), "f.jsonl", "f.jsonl")
	records := expect.Get(drain(t, j.next))(t)
	want := []got{
		{1, "", "", `{"a":1}`},
		{4, "", "not UTF-8: byte 0xff at byte 7 of the record; set encoding, such as windows-1252", "{\"b\":\"\xff\"}"},
		{5, "", "", `{"c":NaN}`},
	}
	expect.Same(t, want, records)
	long := `{"a":"` + strings.Repeat("x", MaxRaw) + `"}`
	j = newJSONLReader(io.NopCloser(strings.NewReader(long)), "f.jsonl", "f.jsonl")
	if rec, err := j.next(); err != nil || string(rec.Raw) != long {
		t.Errorf("a long record is not complete: %d bytes, %v", len(rec.Raw), err)
	}
	if texts, err := readAll(t, Source{Format: JSONLines, Path: in(t, "e", map[string]string{"e": ""}).Path}); err != nil || texts != nil {
		t.Errorf("an empty file: %v, %v", texts, err)
	}
}

type pqRow struct {
	Key   string    `parquet:"key,optional"`
	Milli int64     `parquet:"milli,timestamp(millisecond)"`
	Micro time.Time `parquet:"micro,timestamp(microsecond)"`
	Nano  time.Time `parquet:"nano,timestamp(nanosecond)"`
	Date  int32     `parquet:"date,date"`
	I     int32     `parquet:"i"`
	U     uint64    `parquet:"u"`
	F     float32   `parquet:"f"`
	D     *float64  `parquet:"d,optional"`
	B     bool      `parquet:"b"`
	List  []int64   `parquet:"list"`
	Dec   int64     `parquet:"dec,decimal(2:10)"`
}

var pqAll = Source{Format: Parquet, Key: []string{"key"}, Time: "nano", Values: []string{"milli", "micro", "date", "i", "u", "f", "d", "b", "dec"}}

func writeParquet(t *testing.T, rows []pqRow) string {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[pqRow](&b, parquet.MaxRowsPerRowGroup(1000), parquet.PageBufferSize(2000))
	expect.Get(w.Write(rows))(t)
	expect.OK(t, w.Close())
	return b.String()
}

func TestParquetSource(t *testing.T) {
	ts := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
	third := 1.0 / 3
	file := writeParquet(t, []pqRow{
		{Key: "a", Milli: ts.UnixMilli(), Micro: ts, Nano: ts, Date: 1, I: -7, U: math.MaxUint64, F: 0.5, D: &third, B: true, Dec: -1205},
		{Key: "", Nano: ts, Micro: ts},
		{Key: "b\xff", Nano: ts, Micro: ts},
	})
	src := pqAll
	src.Path = in(t, "a.parquet", map[string]string{"a.parquet": file}).Path
	rd := expect.Get(Open(src))(t)
	defer rd.Close()
	records := expect.Get(drain(t, rd.Next))(t)
	const nano, micro = "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456Z"
	want := []string{
		"a|" + nano + "|2026-01-02T03:04:05.123Z|" + micro + "|1970-01-02T00:00:00Z|-7|18446744073709551615|0.5|0.3333333333333333|1|-12.05",
		"|" + nano + "|1970-01-01T00:00:00Z|" + micro + "|1970-01-01T00:00:00Z|0|0|0||0|0.00",
		"",
	}
	for i, g := range records {
		if g.Fields != want[i] || g.Line != int64(i+1) || (g.Reason != "") != (i == 2) {
			t.Errorf("got  %+v\nwant %s", g, want[i])
		}
	}
	for column, text := range map[string]string{
		"list": `column "list" is of type `, "dd": `has no column "dd"`,
	} {
		src.Values = []string{column}
		expect.Error(t, Check(src), text)
	}
}

func TestDecimalText(t *testing.T) {
	for _, test := range []struct {
		v     parquet.Value
		scale int
		want  string
	}{
		{parquet.Int32Value(5), 2, "0.05"},
		{parquet.Int32Value(-1205), 2, "-12.05"},
		{parquet.Int64Value(math.MinInt64), 18, "-9.223372036854775808"},
		{parquet.Int64Value(7), 0, "7"},
		{parquet.FixedLenByteArrayValue([]byte{0xff, 0xff, 0xfb}), 1, "-0.5"},
		{parquet.FixedLenByteArrayValue([]byte{0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}), 3, "18446744073709551.616"},
		{parquet.ByteArrayValue([]byte{0x80}), 0, "-128"},
		{parquet.ByteArrayValue(nil), 2, "0.00"},
	} {
		expect.Same(t, test.want, decimalText(test.v.Kind(), test.scale)(test.v), test.v, ", scale ", test.scale)
	}
}

func TestParquetLarge(t *testing.T) {
	rows := make([]pqRow, 12_345)
	for i := range rows {
		rows[i] = pqRow{Key: "k", I: int32(i)}
	}
	file := writeParquet(t, rows)
	src := Source{Format: Parquet, Key: []string{"key"}, Values: []string{"i"}}
	src.Path = in(t, "a.parquet", map[string]string{"a.parquet": file}).Path
	texts, err := readAll(t, src)
	if err != nil || len(texts) != len(rows) || texts[12_000] != "a.parquet: k,,12000" {
		t.Fatalf("%d rows, %v", len(texts), err)
	}

	src.Path = in(t, "cut.parquet", map[string]string{"cut.parquet": file[:len(file)/2]}).Path
	expect.Error(t, Check(src), "cut.parquet is not a complete parquet file")
	// With damage in the middle, the rows before it are returned and then an error with its position.
	pf, err := parquet.OpenFile(strings.NewReader(file), int64(len(file)))
	expect.OK(t, err)
	column := pf.Root().Column("i").Index()
	damaged := []byte(file)
	copy(damaged[pf.Metadata().RowGroups[5].Columns[column].MetaData.DataPageOffset:], bytes.Repeat([]byte{0xff}, 100))
	src.Path = in(t, "bad.parquet", map[string]string{"bad.parquet": string(damaged)}).Path
	texts, err = readAll(t, src)
	if err == nil || !strings.Contains(err.Error(), "bad.parquet, row ") || len(texts) != 5000 {
		t.Errorf("damaged: %d rows, %v", len(texts), err)
	}
}

// TestFileNames checks that the names of files with the same base name differ, and that further files do not change
// such a name.
func TestFileNames(t *testing.T) {
	const head = "key,time,x\n"
	files := map[string]string{}
	names := func(pattern, added string) string {
		files[added] = head + added + ",t,1\n"
		texts := expect.Get(readAll(t, in(t, pattern, files)))(t)
		return strings.ReplaceAll(strings.Join(texts, " "), ",t,1", "")
	}
	for _, step := range []struct{ pattern, added, want string }{
		{"*/*/*.csv", "s=a/d=1/p.csv", "p.csv: s=a/d=1/p.csv"},
		{"*/*/p.csv", "s=a/d=1/p.csv", "s=a/d=1/p.csv: s=a/d=1/p.csv"}, // each further file is called p.csv too
		{"*/*/*.csv", "s=a/d=2/q.csv", "p.csv: s=a/d=1/p.csv q.csv: s=a/d=2/q.csv"},
		{"*/*/*.csv", "s=a/d=2/p.csv", "s=a/d=1/p.csv: s=a/d=1/p.csv s=a/d=2/p.csv: s=a/d=2/p.csv q.csv: s=a/d=2/q.csv"},
		{"*/*/p.csv", "s=b/d=1/p.csv", "s=a/d=1/p.csv: s=a/d=1/p.csv s=a/d=2/p.csv: s=a/d=2/p.csv s=b/d=1/p.csv: s=b/d=1/p.csv"},
		{"s=a/*/p.csv", "s=b/d=1/p.csv", "d=1/p.csv: s=a/d=1/p.csv d=2/p.csv: s=a/d=2/p.csv"},
	} {
		expect.Same(t, step.want, names(step.pattern, step.added), step.pattern)
	}
}

// TestFolders checks that the errors for a folder, and for ** in a pattern, lead to the files.
func TestFolders(t *testing.T) {
	src := in(t, "", map[string]string{"site=a/day=1/p.csv.gz": "", "_SUCCESS": "", "site=a/.p.crc": ""})
	dir := src.Path
	expect.Same(t, dir+" is a folder: give its files, as in "+dir+"/*/*/*.csv.gz", Check(src).Error())
	src.Path += "/**/p.csv"
	expect.Same(t, "no file matches "+src.Path+": ** is read as *, which matches one folder; write */ for each folder", Check(src).Error())
}
