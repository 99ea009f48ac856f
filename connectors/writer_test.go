package connectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"hafvf/internal/account"
	"hafvf/internal/tabular"
	"hafvf/internal/testing/expect"
)

const twoLines = `{"key":"a","x":[1,2.50],"levels":[{"alpha":0.9},{"alpha":1}],"s":"q\"u,o\nte","t":"2026-01-02T03:04:05.6Z","ok":true,"none":null}
{"key":"b","x":3,"levels":[]}
`

// twoRows contains rows of someColumns.
const twoRows = `"a"	[1,2.50]	2.50	1	"q\"u,o\nte"	"2026-01-02T03:04:05.6Z"	true	null	
"b"	3							
`

var someColumns = []tabular.Column{
	{Path: "key", Kind: tabular.String}, {Path: "x"}, {Path: "x.1", Kind: tabular.Number}, {Path: "levels.1.alpha", Kind: tabular.Number}, {Path: "s", Kind: tabular.String}, {Path: "t", Kind: tabular.Time}, {Path: "ok", Kind: tabular.Bool}, {Path: "none", Kind: tabular.Number}, {Path: "nowhere.0.a", Kind: tabular.String},
}

// content returns the names of the files in the folder of path, and the text of the file at path.
func content(t *testing.T, path string) (names []string, text string) {
	t.Helper()
	entries := expect.Get(os.ReadDir(filepath.Dir(path)))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	b, _ := os.ReadFile(path)
	return names, string(b)
}

func TestWriter(t *testing.T) {
	const csvText = "key,x,x.1,levels.1.alpha,s,t,ok,none,nowhere.0.a\n" +
		`a,"[1,2.50]",2.50,1,"q""u,o` + "\nte\",2026-01-02T03:04:05.6Z,true,,\n" +
		"b,3,,,,,,,\n"
	for _, tt := range []struct {
		format, name string
		lines, want  string
	}{
		{JSONLines, "o.jsonl", twoLines, twoLines},
		{JSONLines, "o.jsonl", "", ""},
		{CSV, "o.csv", twoRows, csvText},
		{CSV, "o.csv", "", csvText[:strings.Index(csvText, "\n")+1]},
		{JSONLines, "o.jsonl.gz", twoLines, twoLines},
		{JSONLines, "o.jsonl.zst", twoLines, twoLines},
	} {
		path := filepath.Join(t.TempDir(), tt.name)
		w, err := Create(Sink{Format: tt.format, Path: path, Columns: someColumns})
		expect.OK(t, err)
		expect.OK(t, w.Write([]byte(tt.lines)))
		if names, text := content(t, path); len(names) != 1 || names[0] == tt.name || text != "" {
			t.Errorf("before Commit the folder holds %v", names)
		}
		expect.OK(t, w.Commit())
		w.Abort()
		names, _ := content(t, path)
		expect.Same(t, []string{tt.name}, names, "after Commit")
		r, err := openText(path, "") // decompresses
		expect.OK(t, err)
		text, err := io.ReadAll(r)
		expect.OK(t, errors.Join(err, r.Close()))
		expect.Same(t, tt.want, string(text))
		expect.Error(t, w.Write(nil), "", "Write after Commit")
	}
}

// A spreadsheet does not read any text of a CSV as a formula.
func TestCSVHasNoFormulas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.csv")
	w := expect.Get(Create(Sink{Format: CSV, Path: path, Columns: []tabular.Column{{Path: "key", Kind: tabular.String}, {Path: "x", Kind: tabular.Number}}}))(t)
	want := "key,x\n"
	for _, c := range []struct{ key, want string }{
		{"=1+1", "'=1+1"}, {"+a", "'+a"}, {"-a", "'-a"}, {"@a", "'@a"}, {"\ta", "'\ta"}, {"\ra", "\"'\ra\""}, {"-1-1", "'-1-1"},
		{`=HYPERLINK("a")`, `"'=HYPERLINK(""a"")"`},
		{"-5", "-5"}, {"+4e3", "+4e3"}, {"a=b", "a=b"}, {"'=a", "'=a"}, {"", ""},
	} {
		key, err := json.Marshal(c.key)
		if err == nil {
			err = w.Write(append(key, "\t-2.5\n"...))
		}
		expect.OK(t, err)
		want += c.want + ",-2.5\n"
	}
	expect.OK(t, w.Commit())
	if _, text := content(t, path); text != want {
		t.Error(cmp.Diff(want, text))
	}
}

func TestWriterParquet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.parquet")
	w, err := Create(Sink{Format: Parquet, Path: path, Columns: someColumns})
	expect.OK(t, err)
	const times = rowsPerGroup // two row groups
	for range times {
		expect.OK(t, w.Write([]byte(twoRows)))
	}
	expect.OK(t, w.Commit())
	f, err := os.Open(path)
	expect.OK(t, err)
	defer f.Close()
	info, _ := f.Stat()
	pf, err := parquet.OpenFile(f, info.Size())
	expect.OK(t, err)
	var names []string
	for _, c := range pf.Root().Columns() {
		names = append(names, c.Name())
	}
	for i, c := range someColumns {
		if names[i] != c.Path {
			t.Fatalf("columns %v", names)
		}
	}
	expect.Same(t, 2, len(pf.RowGroups()), "row groups")
	src := Source{Format: Parquet, Path: path, Key: []string{"key"}, Time: "t", Values: []string{"x", "x.1", "levels.1.alpha", "s", "ok", "none", "nowhere.0.a"}}
	rd, err := Open(src)
	expect.OK(t, err)
	defer rd.Close()
	records, err := drain(t, rd.Next)
	if err != nil || len(records) != 2*times {
		t.Fatal(len(records), err)
	}
	for i, want := range []string{"a|2026-01-02T03:04:05.6Z|[1,2.50]|2.5|1|q\"u,o\nte|1||", "b||3||||||"} {
		expect.Same(t, want, records[i].Fields)
	}
	w, err = Create(Sink{Format: Parquet, Path: path, Columns: []tabular.Column{{Path: "key", Kind: tabular.Number}}})
	expect.OK(t, err)
	defer w.Abort()
	expect.Same(t, path+` cannot be written: column "key": "a" is not a number`, errorText(w.Write([]byte("\"a\"\n"))))
}

func TestCreateErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	columns := []tabular.Column{{Path: "a"}}
	for _, tt := range []struct {
		sink Sink
		want string
	}{
		{Sink{Format: JSONLines}, `the sink has no path: give a file, or "-" for standard output`},
		{Sink{Format: JSONLines, Path: dir}, dir + " cannot be written: it is a folder"},
		{Sink{Format: JSONLines, Path: dir + "/no/o"}, dir + "/no/o cannot be written: its folder " + dir + "/no does not exist; create it first"},
		{Sink{Format: JSONLines, Path: dir + "/file/o"}, dir + "/file/o cannot be written: not a directory"},
		{Sink{Format: "xml", Path: dir + "/o"}, dir + `/o cannot be written: format "xml" is unknown: use one of csv, jsonl, parquet`},
		{Sink{Format: CSV, Path: dir + "/o"}, dir + "/o cannot be written: there are no columns"},
		{Sink{Format: CSV, Path: dir + "/o", Columns: append(columns, columns...)}, dir + `/o cannot be written: column "a" occurs twice`},
		{Sink{Format: Parquet, Path: "-", Columns: columns}, "parquet cannot be written to standard output: give a file"},
		{Sink{Format: Parquet, Path: dir + "/o.gz", Columns: columns}, dir + "/o.gz: parquet is compressed inside the file already: leave out .gz"},
	} {
		_, err := Create(tt.sink)
		expect.Same(t, tt.want, errorText(err))
	}
	if names, _ := content(t, dir+"/o"); !cmp.Equal(names, []string{"file"}) {
		t.Errorf("the folder holds %v", names)
	}
}

// A live file can be read while it is written, unless its format needs an end.
func TestLiveFile(t *testing.T) {
	for name, exists := range map[string]bool{"a.jsonl": true, "a.jsonl.gz": false} {
		path := filepath.Join(t.TempDir(), name)
		w := expect.Get(Create(Sink{Format: JSONLines, Path: path, Live: true}))(t)
		_, err := os.Stat(path)
		expect.Same(t, exists, err == nil, name)
		w.Abort()
	}
}

// An aborted or failed writer leaves the existing file unchanged.
func TestAbort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.csv")
	write(t, path, "before")
	for _, fail := range []bool{false, true} {
		w := expect.Get(Create(Sink{Format: CSV, Path: path, Columns: someColumns}))(t)
		if fail {
			expect.Error(t, w.Write([]byte("1\t2\n")), "", "a row that is too short")
			expect.Error(t, w.Commit(), "", "Commit after an error")
		} else {
			w.Abort()
		}
		if names, text := content(t, path); !cmp.Equal(names, []string{"o.csv"}) || text != "before" {
			t.Errorf("the folder holds %v, the file %q", names, text)
		}
	}
}

// A sink that appends keeps complete records, and can be read at once.
func TestAppend(t *testing.T) {
	const header = "a,b\n"
	long := strings.Repeat("x", 200<<10)
	for _, tt := range []struct {
		name, format, before, want string // before and after a row is added, without the row
	}{
		{"nothing", JSONLines, "", ""},
		{"whole lines", JSONLines, "{}\n{}\n", "{}\n{}\n"},
		{"a torn line", JSONLines, "{}\n{\"a\":", "{}\n"},
		{"a torn line only", JSONLines, "{\"a\":", ""},
		{"a long torn line", JSONLines, "{}\n" + long, "{}\n"},
		{"an end at the edge of what is read", JSONLines, "{}\n" + long[:64<<10], "{}\n"},
		{"a quote in JSON", JSONLines, "{\"a\":\"\\\"\"}\n{", "{\"a\":\"\\\"\"}\n"},
		{"no header", CSV, "", header},
		{"a torn header", CSV, "a,", header},
		{"a header", CSV, header, header},
		{"rows", CSV, header + "1,2\n", header + "1,2\n"},
		{"a torn row", CSV, header + "1,2\n3,", header + "1,2\n"},
		{"a row of two lines", CSV, header + "1,\"x\ny\"\n", header + "1,\"x\ny\"\n"},
		{"a row torn in quotes", CSV, header + "1,2\n3,\"x\ny", header + "1,2\n"},
		{"a row torn at a line end in quotes", CSV, header + "1,2\n3,\"x\n", header + "1,2\n"},
		{"a row torn at a quote", CSV, header + "1,\"q\"\"\n\"\n3,\"x\n\"", header + "1,\"q\"\"\n\"\n"},
		{"a long row torn in quotes", CSV, header + "1,2\n3,\"" + strings.Repeat("x\n", 200<<10), header + "1,2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "o")
			if tt.before != "" {
				write(t, path, tt.before)
			}
			want := tt.want
			for i := range 2 { // the second time nothing has to be repaired
				w := expect.Get(Create(Sink{Format: tt.format, Path: path, Columns: []tabular.Column{{Path: "a"}, {Path: "b"}}, Append: true}))(t)
				line, row := fmt.Sprintf("{\"a\":%d,\"b\":\"l\\nm\"}\n", i), fmt.Sprintf("%d,\"l\nm\"\n", i)
				if tt.format == CSV {
					line = fmt.Sprintf("%d\t\"l\\nm\"\n", i)
				}
				expect.OK(t, w.Write([]byte(line)))
				if tt.format == CSV {
					want += row
				} else {
					want += line
				}
				if _, text := content(t, path); text != want {
					t.Fatalf("before the end the file is %.300q, want %.300q", text, want)
				}
				if i == 0 {
					w.Abort() // written rows are kept
				} else if err := w.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			if names, text := content(t, path); text != want || len(names) != 1 {
				t.Errorf("%v, %.300q, want %.300q", names, text, want)
			}
		})
	}
}

// A file to which the sink cannot append is refused, and not changed.
func TestAppendErrors(t *testing.T) {
	dir := t.TempDir()
	columns := []tabular.Column{{Path: "a"}, {Path: "b"}}
	const noEnd = ": a file of this kind needs an input with an end: use plain JSON Lines or CSV"
	const other = " cannot be written: its first line is not the header of this run's columns; move it away, or give another path"
	for _, tt := range []struct {
		format, name, before, want string
	}{
		{Parquet, "o.parquet", "PAR1", noEnd},
		{JSONLines, "o.jsonl.gz", "\x1f\x8b", noEnd},
		{CSV, "o.csv.zst", "", noEnd},
		{CSV, "o.csv", "a,c\n1,2\n", other},
		{CSV, "less.csv", "a\n1\n", other},
		{CSV, "more.csv", "a,b,c\n", other},
		{CSV, "semicolons.csv", "a;b\n", other},
		{CSV, "none.csv", "\n", other},
		{CSV, "odd.csv", "a,b\"\"\n", other},
		{JSONLines, "no/o.jsonl", "", " cannot be written: its folder " + dir + "/no does not exist; create it first"},
	} {
		path := filepath.Join(dir, tt.name)
		if tt.before != "" {
			write(t, path, tt.before)
		}
		_, err := Create(Sink{Format: tt.format, Path: path, Columns: columns, Append: true})
		expect.Same(t, path+tt.want, errorText(err))
		if _, text := content(t, filepath.Join(dir, "o.csv")); tt.before != "" && tt.name == "o.csv" && text != tt.before {
			t.Errorf("%s is now %q", tt.name, text)
		}
	}
}

func TestDevices(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	for _, sink := range []Sink{{Format: JSONLines}, {Format: CSV, Columns: someColumns}} {
		lines := twoLines
		if sink.Format == CSV {
			lines = twoRows
		}
		sink.Path = "/dev/full"
		w, err := Create(sink)
		expect.OK(t, err)
		const want = "/dev/full cannot be written: no space left on device"
		expect.Same(t, want, errorText(w.Write([]byte(lines))))
		if err := w.Commit(); errorText(err) != want {
			t.Errorf("Commit: %v", err)
		}
		sink.Path = "/dev/null"
		if w, err = Create(sink); err != nil {
			t.Fatal(err)
		}
		expect.OK(t, w.Write([]byte(lines)))
		expect.OK(t, w.Commit())
	}
}

func TestStandardOutput(t *testing.T) {
	r, pipe, err := os.Pipe()
	expect.OK(t, err)
	old := os.Stdout
	os.Stdout = pipe
	defer func() { os.Stdout = old }()
	w, err := Create(Sink{Format: JSONLines, Path: stdio})
	expect.OK(t, err)
	expect.OK(t, w.Write([]byte("{}\n")))
	b := make([]byte, 10)
	if n, err := r.Read(b); err != nil || string(b[:n]) != "{}\n" {
		t.Errorf("%q, %v", b[:n], err)
	}
	r.Close()
	if err := w.Write([]byte("{}\n")); !errors.Is(err, ErrReaderGone) || err.Error() != "standard output cannot be written: its reader has closed it" {
		t.Error(err)
	}
}

func TestWriteIsConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.jsonl")
	w := expect.Get(Create(Sink{Format: JSONLines, Path: path}))(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				if err := w.Write(fmt.Appendf(nil, "{\"a\":%d}\n{\"b\":%d}\n", i, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	expect.OK(t, w.Commit())
	_, text := content(t, path)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 1600 {
		t.Fatalf("%d lines", len(lines))
	}
	for i := 0; i < len(lines); i += 2 {
		if strings.Replace(lines[i], "a", "b", 1) != lines[i+1] {
			t.Fatalf("lines %d: %s, %s", i, lines[i], lines[i+1])
		}
	}
}

func chunkOf(line string) []byte { return append(Chunk(nil).Begin([]byte("k"), "id"), line...) }

func TestWriteTransform(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.jsonl")
	w := expect.Get(Create(Sink{Format: JSONLines, Path: path}))(t)
	books := account.Open(account.StateKeeper{})
	defer books.Close()
	account.WithValue(books, "out", w)
	expect.OK(t, books.HandOver(t.Context(), 2, nil))
	p, s := beam.NewPipelineWithRoot()
	Write(s, "out", beam.Create(s, chunkOf("{\"a\":1}\n"), chunkOf("{\"a\":2}\n")))
	expect.OK(t, run(t, books, p))
	expect.OK(t, w.Commit())
	if _, text := content(t, path); len(text) != 16 {
		t.Errorf("got %q", text)
	}
	expect.Same(t, time.Duration(0), books.Busy(), "busy")
	// The writer is committed, so writing to it again fails the pipeline.
	p, s = beam.NewPipelineWithRoot()
	Write(s, "out", beam.Create(s, chunkOf("{}\n")))
	expect.Error(t, run(t, books, p), errClosed.Error())
}
