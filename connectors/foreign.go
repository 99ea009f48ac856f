package connectors

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A signature recognises a kind of file that no Format reads.
type signature struct {
	kind         string
	begin, holds string         // the first bytes, and a text within the first headBytes
	lines        *regexp.Regexp // or the pattern of more than half of the first lines
	// convert is the command that writes a file that can be read. FILE stands for the path, BASE for the path without
	// a foreign extension. It is empty if no single command does.
	convert string
}

const (
	headBytes = 4 << 10
	headLines = 20 // that are not empty
)

const (
	toCSV  = "libreoffice --headless --convert-to csv FILE"
	pandas = `python3 -c 'import pandas; pandas.%s.to_csv("BASE.csv", index=False)'`
)

var signatures = []signature{
	{kind: "a spreadsheet (.xlsx)", begin: "PK\x03\x04", holds: "[Content_Types].xml", convert: toCSV},
	{kind: "a spreadsheet (.xlsx)", begin: "PK\x03\x04", holds: "docProps/", convert: toCSV},
	{kind: "a spreadsheet (.ods)", begin: "PK\x03\x04", holds: "opendocument", convert: toCSV},
	{kind: "a ZIP archive", begin: "PK\x03\x04", convert: "unzip FILE"},
	{kind: "a spreadsheet (.xls)", begin: "\xd0\xcf\x11\xe0", convert: toCSV},
	{kind: "a database of SQLite", begin: "SQLite format 3\x00", convert: "sqlite3 -header -csv FILE 'select * from TABLE' > BASE.csv"},
	{kind: "an Avro file", begin: "Obj\x01", convert: "fastavro FILE > BASE.jsonl"},
	{kind: "an ORC file", begin: "ORC", convert: fmt.Sprintf(pandas, `read_orc("FILE")`)},
	{kind: "a Parquet file", begin: "PAR1", convert: "mv FILE BASE.parquet"},
	{kind: "compressed (gzip)", begin: "\x1f\x8b", convert: "mv FILE FILE.gz"},
	{kind: "compressed (zstd)", begin: "\x28\xb5\x2f\xfd", convert: "mv FILE FILE.zst"},
	{kind: "compressed (bzip2)", begin: "BZh", convert: "bunzip2 FILE"},
	{kind: "compressed (xz)", begin: "\xfd7zXZ", convert: "unxz FILE"},
	{kind: "a PDF document", begin: "%PDF-"},
	{kind: "an HDF5 or NetCDF file", begin: "\x89HDF"},
	{kind: "HTML", lines: regexp.MustCompile(`(?i)^\s*<(!doctype html|/?[a-z][a-z0-9]*)\b.*>`), convert: fmt.Sprintf(pandas, `read_html("FILE")[0]`)},
	{kind: "JSON Lines", lines: regexp.MustCompile(`^\s*\{".*\}\s*$`), convert: "mv FILE BASE.jsonl"},
	{kind: "a web server's access log", lines: regexp.MustCompile(`^\S+ \S+ \S+ \[\d\d/\w{3}/\d{4}:`), convert: "jc --clf-s < FILE > BASE.jsonl"},
	{kind: "a log (syslog, RFC 5424)", lines: regexp.MustCompile(`^<\d{1,3}>1 \d{4}-\d\d-\d\dT`), convert: "jc --syslog-s < FILE > BASE.jsonl"},
	{kind: "a log (syslog, RFC 3164), whose times have no year", lines: regexp.MustCompile(`^(<\d{1,3}>)?[A-Z][a-z]{2} [ 123]\d \d\d:\d\d:\d\d `)},
	{kind: "a log (logfmt)", lines: regexp.MustCompile(`^[\w.-]+=("([^"\\]|\\.)*"|[^\s"=]*)( [\w.-]+=("([^"\\]|\\.)*"|[^\s"=]*))+\s*$`), convert: "mlr --idkvp --ifs ' ' --ojsonl cat FILE > BASE.jsonl"},
	{kind: "text for a scrape by Prometheus, with one time", lines: regexp.MustCompile(`^(# (HELP|TYPE) |[a-zA-Z_:][\w:]*\{.*\} )`)},
	{kind: "line protocol of InfluxDB", lines: regexp.MustCompile(`^[A-Za-z_][^\s,=]*(,[^\s,=]+=[^\s,=]+)* ([^\s,=]+=(-?\d[\d.eE+-]*[iu]?|"[^"]*"|[tTfF]\w*),?)+( -?\d+)?\s*$`)},
}

// Foreign returns an error that names the kind of a file and a command that converts it, if a signature recognises the
// beginning of the file; else nil.
func Foreign(path string, head []byte) error {
	head = head[:min(len(head), headBytes)]
	for _, s := range signatures {
		if !s.matches(head) {
			continue
		}
		if s.convert == "" {
			return fmt.Errorf("%s is %s, which is not read: write CSV, JSON Lines or Parquet", path, s.kind)
		}
		base := path // keeps an extension that the new file may get
		if ext := filepath.Ext(path); !slices.ContainsFunc(Formats, func(f Format) bool { return slices.Contains(f.Extensions, ext) }) {
			base = strings.TrimSuffix(path, ext)
		}
		names := strings.NewReplacer("FILE", path, "BASE", base)
		return fmt.Errorf("%s is %s, which is not read as it is: %s", path, s.kind, names.Replace(s.convert))
	}
	return nil
}

func (s signature) matches(head []byte) bool {
	if s.lines == nil {
		return bytes.HasPrefix(head, []byte(s.begin)) && bytes.Contains(head, []byte(s.holds))
	}
	n, found := 0, 0
	for line := range bytes.Lines(head) {
		if line = chomp(line); len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if n++; s.lines.Match(line) {
			found++
		}
		if n == headLines {
			break
		}
	}
	return 2*found > n
}
