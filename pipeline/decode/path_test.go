package decode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

func TestPathText(t *testing.T) {
	const path = "data/site=a/day=1/p-7.csv"
	for _, c := range []struct{ part, path, want, err string }{
		{"site=*", path, "a", ""}, {"p-*.csv", path, "7", ""}, {"*.csv", path, "p-7", ""}, {"2", path, "site=a", ""},
		{"1", "/data/a.csv", "data", ""}, {"1", "./data/a.csv", "data", ""}, {"1", "../data/a.csv", "..", ""},
		{"x=*", path, "", `key {path: "x=*"}: 0 parts of the path data/site=a/day=1/p-7.csv match; exactly one has to`},
		{"site=*", "site=/p.csv", "", `key {path: "site=*"}: 0 parts of the path site=/p.csv match; exactly one has to`},
		{"a*a", "a/p.csv", "", `key {path: "a*a"}: 0 parts of the path a/p.csv match; exactly one has to`},
		{"s*", "s1/s2/p.csv", "", `key {path: "s*"}: 2 parts of the path s1/s2/p.csv match; exactly one has to`},
		{"5", path, "", "key {path: 5}: 0 parts of the path data/site=a/day=1/p-7.csv match; exactly one has to"},
		{"site=*", "site=\xff/p.csv", "", "the key is not UTF-8"},
	} {
		text, err := PathText(c.part, c.path)
		expect.Same(t, c.want, text, c.part)
		if err != nil || c.err != "" {
			expect.Same(t, c.err, fmt.Sprint(err), c.part)
		}
	}
}

// TestPathKeys checks keys with parts of the path, in all layouts, in batches with records of two files.
func TestPathKeys(t *testing.T) {
	site, second, ninth := config.PathPart("site=*"), config.PathPart("2"), config.PathPart("9")
	const day = "2026-01-01"
	none := []string{"key {path: 9}: 0 parts of the path d/site=a/p match; exactly one has to", "key {path: 9}: 0 parts of the path d/site=b%/p match; exactly one has to"}
	for _, c := range []struct {
		layout string
		key    []string
		row    []string // or one line of JSON
		want   []string // keys or errors
	}{
		{config.Long, []string{site}, []string{day, "1"}, []string{"a", "b%"}},
		{config.Long, []string{"pump", site, second}, []string{"p/1", day, "1"}, []string{"p%2F1/a/site=a", "p%2F1/b%25/site=b%25"}},
		{config.Long, []string{site, second}, []string{day, "1"}, []string{"a/site=a", "b%25/site=b%25"}},
		{config.Wide, []string{site}, []string{"x", day, "1"}, []string{"a/x", "b%25/x"}},
		{config.Long, []string{site, "pump"}, []string{"", day, "1"}, []string{`the key is empty, in its part "pump"`, `the key is empty, in its part "pump"`}},
		{config.Long, []string{ninth, "pump"}, []string{"p", day, "1"}, none},
		{config.Long, nil, []string{day, "1"}, []string{"a/p", "b%/p"}},
		{config.Long, []string{site}, []string{`{"x": 1}`}, []string{"a", "b%"}},
		{config.Long, []string{site, "m.pump"}, []string{`{"m": {"pump": "p"}, "x": 1}`}, []string{"a/p", "b%25/p"}},
		{config.Wide, []string{site, "pump"}, []string{`{"pump": "p", "x": 1}`}, []string{"a/p/x", "b%25/p/x"}},
		{config.Series, []string{site}, []string{`{"x": [[1, 2]]}`}, []string{"a", "b%"}},
		{config.Long, []string{ninth}, []string{`{"x": 1}`}, none},
	} {
		f := config.Fields{Key: c.key, Time: []string{"time"}, Values: []string{"x"}, Layout: c.layout}
		if c.layout == config.Wide {
			f.Columns, f.Values = []string{"x"}, []string{"value"}
		}
		format, records := connectors.JSONLines, []connectors.Record{{Source: "a/p.csv", Path: "d/site=a/p"}, {Source: "b%/p.csv", Path: "d/site=b%/p"}}
		for i := range records {
			if records[i].Raw = []byte(c.row[0]); len(c.row) > 1 {
				format, records[i].Fields = connectors.CSV, c.row
			}
		}
		var got []string
		NewDecoder(format, expect.Get(NewParser(f))(t)).File(records, func(found []Decoded) {
			for i := range found {
				if got = append(got, found[i].Key); found[i].Err != nil {
					got[len(got)-1] = found[i].Err.Error()
				}
			}
		})
		expect.Same(t, c.want, got, c.layout, c.key, c.row)
	}
}

// TestRecordTimes checks that time: {record: true} takes the timestamp of a Kafka record, also for the watermark.
func TestRecordTimes(t *testing.T) {
	c := expect.Get(config.Parse("c.yaml", []byte("model: {family: normal}\nsource: {kafka: {brokers: [a], topics: [in], time: {record: true}, max_ahead: 1h}}\n"), nil))(t)
	p := expect.Get(NewParser(c.Source.Kafka().Fields))(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, test := range []struct {
		at      time.Time
		problem string
	}{
		{at, ""}, {time.UnixMilli(-1), "the Kafka record has no timestamp, which time: {record: true} needs"}, {time.Now().UTC().Add(2 * time.Hour), "ahead of the clock"},
	} {
		r := kafkaio.Record{Key: []byte("k"), Value: []byte(`{"time": "2020-01-01", "x": 1}`), Time: test.at}
		o := NewDecoder("", p).Topic([]kafkaio.Record{r})[0]
		clock, ok := p.Clock(&r)
		if test.problem != "" {
			if o.Err == nil || !strings.Contains(o.Err.Error(), test.problem) || ok {
				t.Errorf("%v, %v, want %s", o.Err, ok, test.problem)
			}
			continue
		}
		expect.OK(t, o.Err)
		expect.Same(t, []any{"k", at, keyed.Scalar, at, true}, []any{o.Key, o.Time, o.Shape, clock, ok})
	}
}
