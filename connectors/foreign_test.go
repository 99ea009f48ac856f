package connectors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// Each foreign file is named with its conversion, by a source of CSV too; a table with a column that looks like one
// is not refused.
func TestForeign(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"press.xlsx": {"PK\x03\x04\x14\x00\x06\x00[Content_Types].xml\"a", "a spreadsheet (.xlsx), which is not read as it is: libreoffice --headless --convert-to csv press.xlsx"},
		"a.ods":      {"PK\x03\x04mimetypeapplication/vnd.oasis.opendocument.spreadsheet\n", "a spreadsheet (.ods)"},
		"b.csv":      {"PK\x03\x04data.csv\n", "unzip b.csv"},
		"c.xls":      {"\xd0\xcf\x11\xe0\xa1\xb1\n", "a spreadsheet (.xls)"},
		"d.db":       {"SQLite format 3\x00\n", "sqlite3 -header -csv d.db 'select * from TABLE' > d.csv"},
		"e.avro":     {"Obj\x01\x04\n", "fastavro e.avro > e.jsonl"},
		"f.csv":      {"ORC\n", `python3 -c 'import pandas; pandas.read_orc("f.csv").to_csv("f.csv.csv", index=False)'`},
		"g.csv":      {"\x1f\x8b\x08\x00\n", "mv g.csv g.csv.gz"},
		"h.html":     {"<!DOCTYPE html>\n<html><body>\n<table>\n", `read_html("h.html")[0].to_csv("h.csv"`},
		"i.log":      {"{\"t\": 1, \"x\": 2}\n\n{\"t\": 2, \"x\": 2}\n", "mv i.log i.jsonl"},
		"j.log":      {"192.0.2.2 - - [02/Mar/2026:00:05:42 +0000] \"GET /p HTTP/1.1\" 404 52 \"-\" \"c\"\n", "jc --clf-s < j.log > j.jsonl"},
		"k.log":      {"<165>1 2026-03-02T22:14:15.003Z web app 1 ID47 - m\n", "jc --syslog-s < k.log > k.jsonl"},
		"l.log":      {"<34>Mar  2 00:05:42 web1 sshd[322]: Failed\nMar  2 00:06:19 web1 sshd[3]: no\n", "whose times have no year, which is not read: write CSV, JSON Lines or Parquet"},
		"m.log":      {"time=2026-03-02T00:05:42Z level=info msg=\"all \\\"done\\\"\" ms=81.9\n", "mlr --idkvp --ifs ' ' --ojsonl cat m.log > m.jsonl"},
		"n.prom":     {"# HELP node_load1 1m\n# TYPE node_load1 gauge\nnode_load1 0.2\nup{job=\"a b\"} 1\n", "text for a scrape by Prometheus"},
		"o.lp":       {"cpu,host=a,core=1 usage=1.5,on=t 1700000000000000001\n", "line protocol of InfluxDB"},
	} {
		err := Foreign(name, []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		path := filepath.Join(t.TempDir(), name)
		expect.OK(t, os.WriteFile(path, []byte(c.text), 0o600))
		if _, err := open(Source{Format: CSV, Path: path, Key: []string{"key"}, Values: []string{"x"}}, nil, nil); err == nil || !strings.Contains(err.Error(), ", which is not read") {
			t.Errorf("%s is opened: %v", name, err)
		}
	}
	for _, text := range []string{"", "time,x\n2026-01-01,1\n", "time labels x\n2026-01-01 a=1 5\n2026-01-02 a=1 6\n", "key,x\n\"{\"\"a\"\": 1}\",2\n", "A1 5.3\nA2 5.2\n", "# HELP: a table\ntime,x\n2026-01-01,1\n2026-01-02,2\n"} {
		if err := Foreign("t.csv", []byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
