package connectors

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

var ktx = Source{Format: CSV, Key: []string{"key"}, Time: "time", Values: []string{"x"}}

// got contains the parts of a Record that tests compare.
type got struct {
	Line   int64
	Fields string // joined by |
	Reason string
	Raw    string
}

func drain(t expect.T, next func() (Record, error)) ([]got, error) {
	t.Helper()
	var records []got
	for {
		rec, err := next()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, got{rec.Position, strings.Join(rec.Fields, "|"), rec.Reason, string(rec.Raw)})
	}
}

func readCSV(t expect.T, text string, src Source) ([]got, error) {
	t.Helper()
	c, err := newCSVReader(io.NopCloser(strings.NewReader(text)), "f.csv", src, nil)
	if err != nil {
		return nil, err
	}
	return drain(t, c.next)
}

// utf16 encodes a text as UTF-16, high byte first.
func utf16(text string) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteByte(byte(r >> 8))
		b.WriteByte(byte(r))
	}
	return b.String()
}

func TestCSV(t *testing.T) {
	section := ktx
	section.Delimiter = "§"
	below, noted := ktx, ktx
	below.Skip, noted.Comment = 3, "#"
	const head = "key,time,x\n"
	const lacks = `the table that begins at line 4 cannot be read: f.csv has no column "key"; its columns are "table", "id", "time", "x". If the file has only one series, set key: none.`
	good := func(line int64, key string) got {
		return got{Line: line, Fields: key + "|t|1", Raw: key + ",t,1"}
	}
	for _, tt := range []struct {
		name string
		src  Source
		text string
		want []got
	}{
		{"plain", ktx, head + "a,t,1\nb,t,1\n", []got{good(2, "a"), good(3, "b")}},
		{"no line end at the end", ktx, head + "a,t,1", []got{good(2, "a")}},
		{"no rows", ktx, head, nil},
		{"columns in another order, and more", ktx, "x,more,key,time\n1,2,a,t\n", []got{{2, "a|t|1", "", "1,2,a,t"}}},
		{"CRLF", ktx, "key,time,x\r\na,t,1\r\n\"b\",t,1\r\n", []got{good(2, "a"), {3, "b|t|1", "", `"b",t,1`}}},
		{"byte order mark before a quote", ktx, "\ufeff\"key\",time,x\na,t,1\n", []got{good(2, "a")}},
		{"UTF-16", ktx, utf16("\ufeff" + head + "ä,t,1\r\nb,t,1\n"), []got{{2, "ä|t|1", "", "ä,t,1"}, good(3, "b")}},
		{"CR as the line end", ktx, "key,time,x\ra,t,1\r\"b\",t,1\r", []got{good(2, "a"), {3, "b|t|1", "", `"b",t,1`}}},
		{"blank lines", ktx, "\n" + head + "\n\r\na,t,1\n\n\n", []got{good(5, "a")}},
		{"empty fields", ktx, head + ",,\n", []got{{2, "||", "", ",,"}}},
		{"delimiter of two bytes", section, "key§time§x\na§\"t\"§1\n", []got{{2, "a|t|1", "", `a§"t"§1`}}},
		{"quotes", ktx, head + `"a,""b""",t,"1"`, []got{{2, `a,"b"|t|1`, "", `"a,""b""",t,"1"`}}},
		{"record of several lines", ktx, head + "\"a\n\nb\",t,1\nc,t,1\n",
			[]got{{2, "a\n\nb|t|1", "", "\"a\n\nb\",t,1"}, good(5, "c")}},
		{"header of several lines", ktx, "key,time,x,\"a\nb\"\na,t,1,2\n", []got{{3, "a|t|1", "", "a,t,1,2"}}},
		{"too few, too many fields", ktx, head + "a\na,t,1,2\nb,t,1\n", []got{
			{2, "", "1 fields where the header has 3; if the header is further down, set skip to the number of lines above it", "a"},
			{3, "", "4 fields where the header has 3", "a,t,1,2"},
			good(4, "b")}},
		{"quote inside a field", ktx, head + "a\"b,t,1\nb,t,1\n", []got{
			{2, "", "a quote inside a field without quotes, at byte 2 of the record", `a"b,t,1`}, good(3, "b")}},
		{"text after a quote", ktx, head + "\"a\"b,t,1\nb,t,1\n", []got{
			{2, "", "text after a closing quote, at byte 4 of the record", `"a"b,t,1`}, good(3, "b")}},
		{"quote closed by a stray one", ktx, head + "a,t,\"1\nb,t,1\nc,t,\"1\nd,t,1\n", []got{
			{2, "", "text after a closing quote, at byte 19 of the record", `a,t,"1`},
			good(3, "b"),
			{4, "", "a quote is opened and not closed before the end of the file", `c,t,"1`},
			good(5, "d")}},
		{"several lines, wrong number of fields", ktx, head + "a,t,1\n\"a\nb\",t\nc,t,1\n", []got{
			good(2, "a"),
			{3, "", "2 fields where the header has 3", `"a`},
			{4, "", "a quote inside a field without quotes, at byte 2 of the record", `b",t`},
			good(5, "c")}},
		{"not UTF-8", ktx, head + "a,t,1\xff\n\"b\xc3\",t,1\nc,t,1\n", []got{
			{2, "", "not UTF-8: byte 0xff at byte 6 of the record; set encoding, such as windows-1252", "a,t,1\xff"},
			{3, "", "not UTF-8: byte 0xc3 at byte 3 of the record; set encoding, such as windows-1252", "\"b\xc3\",t,1"},
			good(4, "c")}},
		{"lines before the header", below, "Station: 5, north\n\nof \"x\n" + head + "a,t,1\n", []got{good(5, "a")}},
		{"comments", noted, "# by hand\n" + head + "#a,t,1\r\na,t,1\n#", []got{good(4, "a")}},
		{"no comments", ktx, head + "#12,t,1\n", []got{good(2, "#12")}},
		{"names of rows", ktx, head + "1,a,t,1\n2,b,t,\n", []got{{2, "a|t|1", "", "1,a,t,1"}, {3, "b|t|", "", "2,b,t,"}}},
		{"delimiter at the end of lines", ktx, head + "a,t,1,\nb,t,1,\n", []got{{2, "a|t|1", "", "a,t,1,"}, {3, "b|t|1", "", "b,t,1,"}}},
		{"the last value of a row with a name is missing", ktx, head + "1,a,t,\n2,b,t,1\n", []got{{2, "a|t|", "", "1,a,t,"}, {3, "b|t|1", "", "2,b,t,1"}}},
		{"columns without a name, others twice", ktx, ",key,,y,time,y,x\n0,a,,,t,,1\n", []got{{2, "a|t|1", "", "0,a,,,t,,1"}}},
		{"tables", noted, "#datatype,s\n,key,time,x\n,a,t,1\n\n#datatype,s\n,x,key,y,time\n,1,a,0,t\n\n\"time\",key,\"x\"\nt,a,1\n", []got{
			{3, "a|t|1", "", ",a,t,1"}, {7, "a|t|1", "", ",1,a,0,t"}, {10, "a|t|1", "", "t,a,1"}}},
		{"tables, one of which lacks a column", ktx, "table,key,time,x\n0,a,t,1\n\ntable,id,time,x\n1,b,t,1\n\nb,t,1\n\n" + head + "a,t,1\n", []got{
			{2, "a|t|1", "", "0,a,t,1"},
			{5, "", lacks, "1,b,t,1"},
			{7, "", lacks, "b,t,1"},
			good(10, "a")}},
		{"a table of another value", Source{Format: CSV, Time: "time", Values: []string{"x"}}, "time,x\nt,1\n\ntime,y\nt,2\n\ntime,1\n", []got{
			{2, "t|1", "", "t,1"},
			{5, "", "the table that begins at line 4 cannot be read: f.csv has no column \"x\"; its columns are \"time\", \"y\". Did you mean \"y\"?", "t,2"},
			{7, "", "the table that begins at line 4 cannot be read: f.csv has no column \"x\"; its columns are \"time\", \"y\". Did you mean \"y\"?", "time,1"}}},
		{"the header again", ktx, head + "a,t,1\n" + head + "b,t,1\n", []got{good(2, "a"), good(4, "b")}},
		{"the header in another order", ktx, "time,key,x,y\nt,a,1,2\n\"y\",key,time,x\n2,b,t,1\n", []got{{2, "a|t|1", "", "t,a,1,2"}, {4, "b|t|1", "", "2,b,t,1"}}},
		{"the header with another column", ktx, head + "a,t,1\nkey,y,time,x\nb,2,t,1\n", []got{good(2, "a"), {4, "b|t|1", "", "b,2,t,1"}}},
		{"a header that lacks a column", ktx, "table,key,time,x\n0,a,t,1\ntable,id,time,x\n1,b,t,1\n", []got{
			{2, "a|t|1", "", "0,a,t,1"}, {4, "", strings.Replace(lacks, "line 4", "line 3", 1), "1,b,t,1"}}},
		{"names among values", ktx, head + "key,t,1\nx,time,1\nkey,time,1\n", []got{good(2, "key"), {3, "x|time|1", "", "x,time,1"}, {4, "key|time|1", "", "key,time,1"}}},
		{"a name is no header", ktx, head + "\nkey,t,1\n", []got{good(3, "key")}},
		{"NUL", ktx, head + "a,\x00,1\nb,t,1\n", []got{
			{2, "", "a NUL at byte 3 of the record", "a,\x00,1"}, good(3, "b")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			records := expect.Get(readCSV(t, tt.text, tt.src))(t)
			expect.Same(t, tt.want, records)
		})
	}
}

func TestCSVHeaderErrors(t *testing.T) {
	with := func(change func(*Source)) Source {
		src := ktx
		change(&src)
		return src
	}
	for _, tt := range []struct {
		name, text string
		src        Source
		want       string
	}{
		{"empty", "", ktx, "f.csv is empty: a CSV begins with a header that names its columns"},
		{"blank", "\ufeff\n\r\n", ktx, "f.csv is empty: a CSV begins with a header that names its columns"},
		{"missing, near", "Key,time,x\n", ktx, `f.csv has no column "key"; its columns are "Key", "time", "x". Did you mean "Key"?`},
		{"missing, misspelt", "key,time,value\n", with(func(s *Source) { s.Values = []string{"vlaue"} }),
			`f.csv has no column "vlaue"; its columns are "key", "time", "value". Did you mean "value"?`},
		{"missing, nothing near", "id,time,x\n", with(func(s *Source) { s.Key = []string{"customer"} }),
			`f.csv has no column "customer"; its columns are "id", "time", "x". If the file has only one series, set key: none.`},
		{"twice", "key,x,time,x\n", ktx, `f.csv has two columns "x": rename one of them`},
		{"further down", "Station: 5\n\n\"key\",\"time\",\"x\"\n", ktx, `f.csv has no column "key"; its columns are "Station: 5". If the file has only one series, set key: none; line 3 has these names: set skip: 2`},
		{"below comments", "#group,false\nkey,time,x\n", ktx, `f.csv has no column "key"; its columns are "#group", "false". If the file has only one series, set key: none; line 1 begins with #: if it is not a header, set comment: "#"`},
		{"delimiter named", "\ufeffsep=;\nkey;time;x\n", ktx, `f.csv, line 1 names a delimiter: set skip: 1 and delimiter: ";"`},
		{"more skipped than there is", "key,time,x\n", with(func(s *Source) { s.Skip = 2 }), "f.csv has no header: skip and comment of the source leave no line"},
		{"quote", "key,time,\"x\n", ktx, "f.csv, line 1: the header is not usable: a quote is opened and not closed before the end of the file"},
		{"not UTF-8", "\xffk", ktx, "f.csv, line 1: the header is not usable: not UTF-8: byte 0xff at byte 1 of the record; set encoding, such as windows-1252"},
		{"UTF-16 without a mark", "k\x00,\x00\n\x00", ktx, "f.csv, line 1: the header is not usable: a NUL at byte 2 of the record; if this is UTF-16, set encoding: utf-16"},
		{"two runes", "key,time,x\n", with(func(s *Source) { s.Delimiter = "||" }),
			`delimiter "||" is not usable: give one character that is neither a quote nor a line end, such as ",", ";" or a tab`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readCSV(t, tt.text, tt.src)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestCSVWithoutTime(t *testing.T) {
	none, optional := ktx, ktx
	none.Time = ""
	optional.TimeOptional = true
	for _, tt := range []struct {
		name   string
		src    Source
		text   string
		fields []string
	}{
		{"none asked for", none, "key,x\na,1\n", []string{"a", "", "1"}},
		{"none asked for, one there", none, "key,time,x\na,t,1\n", []string{"a", "", "1"}},
		{"optional, not there", optional, "key,x\na,1\n", []string{"a", "", "1"}},
		{"optional, there", optional, "key,time,x\na,t,1\n", []string{"a", "t", "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := newCSVReader(io.NopCloser(strings.NewReader(tt.text)), "f.csv", tt.src, nil)
			expect.OK(t, err)
			rec, err := c.next()
			if err != nil || !cmp.Equal(rec.Fields, tt.fields) {
				t.Errorf("got %v, %v", rec.Fields, err)
			}
		})
	}
}

// A line of 100 MB is rejected with its length, and needs no more memory than the longest record.
func TestLongLine(t *testing.T) {
	const length = 100 << 20
	for _, format := range []string{CSV, JSONLines} {
		t.Run(format, func(t *testing.T) {
			long := strings.NewReader("key,time,x\n" + strings.Repeat("abcdefg,", length/8) + "\nb,t,1\n")
			var next func() (Record, error)
			var l *lines
			if format == CSV {
				c := expect.Get(newCSVReader(io.NopCloser(long), "f.csv", ktx, nil))(t)
				next, l = c.next, c.lines
			} else {
				j := newJSONLReader(io.NopCloser(long), "f.jsonl", "f.jsonl")
				expect.Get(j.next())(t)
				next, l = j.next, j.lines
			}
			rec, err := next()
			expect.OK(t, err)
			want := fmt.Sprintf("the line has %d bytes; at most %d are allowed", length, MaxRecord)
			if rec.Position != 2 || rec.Reason != want || len(rec.Raw) != MaxRaw || rec.Fields != nil {
				t.Errorf("line %d, %q, %d bytes of it, fields %v", rec.Position, rec.Reason, len(rec.Raw), rec.Fields)
			}
			rec, err = next()
			if err != nil || rec.Position != 3 || rec.Reason != "" || string(rec.Raw) != "b,t,1" {
				t.Errorf("then %+v, %v", rec, err)
			}
			if len(l.buf) > MaxRecord+window {
				t.Errorf("the buffer has grown to %d bytes", len(l.buf))
			}
		})
	}
}

// checkLines checks that the records of text, none of them longer than MaxRaw, are exactly its lines: in order,
// each once, and complete except for blank ones.
func checkLines(t interface{ Fatalf(string, ...any) }, text []byte, skip int, next func() (Record, error)) {
	var physical [][]byte
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		physical = append(physical, line)
	}
	index := skip
	for {
		rec, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		for ; index < int(rec.Position)-1; index++ {
			if len(bytes.TrimSpace(physical[index])) > 0 {
				t.Fatalf("line %d is lost: %q", index+1, physical[index])
			}
		}
		if index != int(rec.Position)-1 {
			t.Fatalf("record at line %d where line %d is next", rec.Position, index+1)
		}
		// A line that is too long is reported with its beginning only.
		if strings.HasPrefix(rec.Reason, "the line has ") {
			if !bytes.HasPrefix(physical[index], rec.Raw) {
				t.Fatalf("record %q is not the beginning of line %q", rec.Raw, physical[index])
			}
			index++
			continue
		}
		whole := physical[index]
		for index++; len(chomp(whole)) < len(rec.Raw); index++ {
			whole = append(bytes.Clone(whole), physical[index]...)
		}
		if !bytes.Equal(chomp(whole), rec.Raw) {
			t.Fatalf("record %q is not line %q", rec.Raw, whole)
		}
	}
	for ; index < len(physical); index++ {
		if len(bytes.TrimSpace(physical[index])) > 0 {
			t.Fatalf("line %d is lost at the end: %q", index+1, physical[index])
		}
	}
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,t,1\n", "\"a\nb\",t,1\r\n\n", "a,\"t\nb,t,1\nc,\"t,1", "\xff\x00\n\"\"\"", "a,t,1111111111111111111111111111111111111\n", "a,t,\"1\n" + strings.Repeat("a,t,1\n", 9), "\nb,t,\"\nc,\","} {
		f.Add([]byte(s), uint8(40), uint8(3))
	}
	f.Fuzz(func(t *testing.T, rows []byte, longest, chunk uint8) {
		text := append([]byte("key,time,x\n"), rows...)
		c := &csvReader{
			lines:     newLines(io.NopCloser(&chunks{text, int(chunk) + 1}), "f.csv", "f.csv"),
			delimiter: ",",
			index:     []int{0, 1, 2},
		}
		c.begin()
		c.buf = append(make([]byte, 0, 16), c.buf[:c.end]...)
		c.buf = c.buf[:cap(c.buf)]
		c.maxLength = 11 + int(longest)
		if _, _, err := c.read(); err != nil {
			t.Fatal(err)
		}
		c.header = []string{"key", "time", "x"}
		checkLines(t, text, 1, c.next)
	})
}

// chunks reads text a few bytes at a time.
type chunks struct {
	text []byte
	n    int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.text)
	c.text = c.text[n:]
	return n, nil
}

func FuzzJSONL(f *testing.F) {
	f.Add([]byte("{}\n \n{\"a\":1}\r\n\xff\n"), uint8(9), uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, longest, chunk uint8) {
		if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) || bytes.IndexByte(text, '\n') < 0 || bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
			return // decoded before it is read, or an array
		}
		j := newJSONLReader(io.NopCloser(&chunks{text, int(chunk) + 1}), "f.jsonl", "f.jsonl")
		j.maxLength = 1 + int(longest)
		checkLines(t, text, 0, j.next)
	})
}

// The reader reads every field as a CSV writer has written it.
func TestCSVRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.StringMatching(`[a-z",\n ä]{0,6}`).Filter(func(s string) bool { return !slices.Contains(ktx.columns(), s) })
		text := "key,time,x\n"
		var want []string
		for _, row := range rapid.SliceOf(rapid.SliceOfN(field, 3, 3)).Draw(t, "rows") {
			want = append(want, strings.Join(row, "|"))
			for i, f := range row {
				row[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
			}
			text += strings.Join(row, ",") + "\n"
		}
		records := expect.Get(readCSV(t, text, ktx))(t)
		var fields []string
		for _, r := range records {
			fields = append(fields, r.Fields)
		}
		expect.Same(t, want, fields)
	})
}
