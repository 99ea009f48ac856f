package decode

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hafvf/connectors"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// read decodes the records of a file with some settings of the source. It returns key, value and time of each, or the
// reason for the rejection.
func read(t *testing.T, format, settings, text string) (results []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in."+format)
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	if !strings.Contains(settings, "key:") && !strings.Contains(settings, "wide") {
		settings += ", key: none"
	}
	c := expect.Get(config.Parse("c", fmt.Appendf(nil, "order: arrival\nmodel: {family: normal}\nsource: {%s: {path: %s, %s}}", format, path, settings), nil))(t)
	src, fields := Files(c)
	d := NewDecoder(format, expect.Get(NewParser(fields))(t))
	in := expect.Get(connectors.Open(src))(t)
	defer in.Close()
	for {
		r, err := in.Next()
		if err == io.EOF {
			return results
		}
		expect.OK(t, err)
		d.File([]connectors.Record{r}, func(found []Decoded) {
			for _, o := range found {
				switch {
				case o.Err != nil:
					results = append(results, o.Err.Error())
				case o.Time.IsZero():
					results = append(results, fmt.Sprint(o.Key, o.X))
				default:
					results = append(results, fmt.Sprint(o.Key, o.X, o.Time.UTC().Format(time.RFC3339Nano)))
				}
			}
		})
	}
}

// TestJoinedTimes checks times in several columns or fields.
func TestJoinedTimes(t *testing.T) {
	for _, c := range []struct{ format, settings, text, want string }{
		{"csv", `time: [Date, Time], delimiter: ";", time_format: "%d/%m/%Y %H:%M:%S"`,
			"Date;Time;x\n16/12/2006;17:24:00;1\n16/12/2006; 17:24:00.5 ;2\n;17:24:00;3\n16/12/2006;;4\n16/12/2006;25:00:00;5\n",
			"in[[1]]2006-12-16T17:24:00Z|in[[2]]2006-12-16T17:24:00.5Z|in[[3]]|in[[4]]|" + `the time "16/12/2006 25:00:00" is in no known format: use `},
		{"csv", "time: [a, b], zone: Europe/Berlin", "x,b,a\n1,12:00,2026-07-01\n", "in[[1]]2026-07-01T10:00:00Z"},
		{"csv", `time: [d, t], layout: wide, time_format: "%m/%d/%y %I:%M %p"`, "d,t,a,b\n1/2/26,3:04 pm,1,2\n", "a[[1]]2026-01-02T15:04:00Z|b[[2]]2026-01-02T15:04:00Z"},
		{"csv", "time: [d, t], key: [k]", "t,k,x,d\n12:00,a,1,2026-07-01\n", "a[[1]]2026-07-01T12:00:00Z"},
		{"jsonl", "time: [at.d, t]", `{"at":{"d":"2026-07-01"},"t":"12:00","x":1}` + "\n" + `{"at":{"d":20260701},"t":"1200","x":1}` + "\n" + `{"at":{"d":null},"t":"12:00","x":1}` + "\n" + `{"t":"12:00","x":1}` + "\n" + `{"at":{"d":[]},"t":"12:00","x":1}`,
			`in[[1]]2026-07-01T12:00:00Z|in[[1]]2026-07-01T12:00:00Z|in[[1]]|in[[1]]|"at.d" of the time is a list, not text or a number`},
		{"jsonl", "time: [d, t], layout: wide", `{"d":"2026-07-01","t":"12:00","x":1,"y":2}`, "x[[1]]2026-07-01T12:00:00Z|y[[2]]2026-07-01T12:00:00Z"},
	} {
		got := strings.Join(read(t, c.format, c.settings, c.text), "|")
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.settings, got, c.want)
		}
	}
}

// TestWrittenNumbers checks numbers in texts: in cells, and in JSON fields along with numbers, booleans and extended
// JSON. The wanted values contain no blanks.
func TestWrittenNumbers(t *testing.T) {
	for _, c := range []struct{ settings, cells, want, err string }{
		{`unit: "°C"`, "13.7 °C|13.7°C|-5|°C 2|NaN||1.5e1\u00a0°C", "13.7 13.7 -5 2 NaN NaN 15", ""},
		{`unit: "$", thousands: ","`, "$3.20|-$1,234.5|$-2|7 $", "3.2 -1234.5 -2 7", ""},
		{`unit: "€", decimal: ",", thousands: "."`, "€ 3,20|1.234.567,5 €|1.234", "3.2 1.2345675e+06 1234", ""},
		{`unit: "%"`, "45 %|45%|.5", "45 45 0.5", ""},
		{"unit: any", "1.7 MB/s|900 kB/s|$3|4", "1.7 900 3 4", ""},
		{"unit: MB/s", "900 kB/s", "", `the unit "kB/s" where "MB/s" is due, in "900 kB/s"`},
		{"unit: m", "3 km", "", `the unit "km" where "m" is due, in "3 km"`},
		{"unit: m", "3 m m", "", `the unit "m m" where "m" is due, in "3 m m"`},
		{"unit: any", "noon", "", `the text "noon" where a number is due`},
		{`missing: ["-"]`, "13.7 °C", "", `the text "13.7 °C" where a number is due: set unit: "°C" in the source`},
		{`thousands: ","`, "1,234.5|12|-12,345,678|1e3|0.1234", "1234.5 12 -1.2345678e+07 1000 0.1234", ""},
		{`thousands: " "`, "1 234|1\u202f234|1\u00a0234 567", "1234 1234 1.234567e+06", ""},
		{`thousands: "'"`, "1'234|1’234.5", "1234 1234.5", ""},
		{`thousands: ","`, "1,23", "", `the text "1,23" where a number is due: thousands: "," must separate groups of three digits`},
		{`thousands: ","`, "1234,567", "", `the text "1234,567" where a number is due: thousands: "," must separate groups of three digits`},
		{`thousands: ","`, "1.234,567", "", `the text "1.234,567" where a number is due`},
		{`missing: ["-"]`, "1,234.5", "", `the text "1,234.5" where a number is due`},
		{"values_as: [off, on], missing: [unknown]", "on|off|unknown|", "1 0 NaN NaN", ""},
		{`missing: ["-"]`, "null|NULL|NaN||-", "NaN NaN NaN NaN NaN", ""},
		{"values_as: [off, on]", "On", "", `the value "On" where "off" or "on" is due, by values_as`},
		{"values_as: [1, 2]", "1|2|2.0", "0 1 1", ""},
		{"values_as: [1, 2]", "3", "", `the value "3" where "1" or "2" is due, by values_as`},
		{`missing: ["-"]`, "on", "", `the text "on" where a number is due: values_as of the source sets which texts are 0 and 1`},
	} {
		cells := strings.Split(c.cells, "|")
		var want []string
		for _, v := range strings.Fields(c.want) {
			want = append(want, "in[["+v+"]]")
		}
		if c.err != "" {
			want = append(want, c.err)
		}
		table, lines := "x\ty\n", ""
		for _, cell := range cells {
			table += cell + "\t\n"
			lines += fmt.Sprintf("{\"x\":%q}\n", cell)
		}
		expect.Same(t, want, read(t, "csv", `time: "", delimiter: "\t", `+c.settings, table), c.settings, " of cells")
		expect.Same(t, want, read(t, "jsonl", `time: "", `+c.settings, lines), c.settings, " of fields")
	}
	for _, c := range []struct{ settings, lines, want string }{
		{`decimal: ","`, `{"x":"1,5"}|{"x":1.5}|{"x":["2,5",3]}`, "in[[1.5]]|in[[1.5]]|in[[2.5 3]]"},
		{`missing: ["-"]`, `{"x":"1.5"}|{"x":true}|{"x":false}|{"x":"-"}|{"x":"0x1p2"}|{"x":"inf"}`, `in[[1.5]]|in[[1]]|in[[0]]|in[[NaN]]|the text "0x1p2" where a number is due|the number is infinite`},
		{`decimal: ","`, `{"x":{"$numberDouble":"22.5"}}|{"x":{"$numberInt":"3"}}|{"x":{"$numberDecimal":"NaN"}}|{"x":{"$numberDouble":"-Infinity"}}|{"x":{"$oid":"1"}}|{"x":{"$numberInt":"3","a":1}}`,
			"in[[22.5]]|in[[3]]|in[[NaN]]|the number is infinite|an object where a number is due|an object where a number is due"},
		{"values_as: [1, 2]", `{"x":2}|{"x":1.0}|{"x":{"$numberInt":"2"}}|{"x":true}`, `in[[1]]|in[[0]]|in[[1]]|the value "true" where "1" or "2" is due, by values_as`},
		{"values_as: [true, false]", `{"x":true}|{"x":false}`, "in[[0]]|in[[1]]"},
		{"time: at", `{"x":1,"at":{"$date":"2026-01-02T03:04:05Z"}}|{"x":1,"at":{"$date":1767323045000}}|{"x":1,"at":{"$date":{"$numberLong":"1767323045000"}}}|{"x":1,"at":{"$numberLong":"1767323045"}}|{"x":1,"at":{"$date":[]}}`,
			strings.Repeat("in[[1]]2026-01-02T03:04:05Z|", 4) + "the time is a list, not text or a number"},
	} {
		expect.Same(t, c.want, strings.Join(read(t, "jsonl", c.settings, strings.ReplaceAll(c.lines, "|", "\n")), "|"), c.settings)
	}
}

func TestUnit(t *testing.T) {
	for text, want := range map[string]string{
		"13.7 °C": "13.7;°C", "$3.20": "3.20;$", "45 %": "45;%", "1.7 MB/s": "1.7;MB/s", "-€ 1,234.50": "-1,234.50;€", "US$ 5": "5;US$", "5kWh": "5;kWh",
		"1 234,5 m³/h": "1 234,5;m³/h", "12 m3/h": "12;m3/h", "3 µg/m³": "3;µg/m³", "5 e-mail": "", "1.5e3 V": "1.5e3;V", "2.5 kWh el": "2.5;kWh el", "05 °C": "05;°C",
	} {
		number, unit, ok := Unit(text)
		got := ""
		if ok {
			got = number + ";" + unit
		}
		expect.Same(t, want, got, text)
	}
	for _, text := range strings.Split("|12|-1.5e3|1,234|17:24|17:24 h|5 PM|10am|2026-01-02|15 Nov|15 Nov 1994|3 march|2026 UTC|1.2.3|1.2.3 b|v1.2|1.0beta|3rd|1st|a12|12b-44|0xff|007a|1e5f|2026-Q1|2026 Q3|12 of 3|°C|5 a b c|5 abcdefghijklm|$5 USD|--5 m|inf m", "|") {
		if number, unit, ok := Unit(text); ok {
			t.Errorf("%q is %q of %q", text, number, unit)
		}
	}
}

// TestRoundedNumbers checks that whole numbers that are not a float64 are reported, from JSON and from rows, and that
// other numbers are not.
func TestRoundedNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"9007199254740993": "9007199254740992", "-9007199254740993": "-9007199254740992", "9007199254740992": "", "9007199254740994": "",
		"00009007199254740993": "9007199254740992", "18446744073709551615": "18446744073709551616", "9007199254740993.5": "", "1e300": "", "1.5": "", "123": "",
		"100000000000000000000": "", "99999999999999999999": "100000000000000000000",
	} {
		for _, comma := range []rune{'.', ','} {
			p := expect.Get(NewParser(config.Fields{Decimal: comma}))(t)
			got := ""
			p.OnRounded = func(reported string, read float64) {
				if got = strconv.FormatFloat(read, 'f', 0, 64); reported != text {
					t.Errorf("%s is reported as %s", text, reported)
				}
			}
			expect.Get(p.Number(strings.Replace(text, ".", string(comma), 1)))(t)
			expect.Same(t, want, got, text)
			if got = ""; text[0] != '0' {
				expect.Get(p.jsonComponent([]byte(text)))(t)
				expect.Same(t, want, got, text)
			}
		}
	}
}

// TestNumbersOf checks notations of numbers. A decimal comma is recognised only if no number has a point.
func TestNumbersOf(t *testing.T) {
	for texts, want := range map[string]Numbers{
		"3,5|4,25|7":   {Share: 1, Decimal: ',', Fractions: true},
		"3,5|4.25|7":   {Share: 2. / 3, Fractions: true},
		"1.234,5|2":    {Share: 1, Decimal: ',', Thousands: '.', Fractions: true},
		"1,234|5,678":  {Share: 1, Decimal: ',', Fractions: true, Either: "1,234"},
		"1,234.5|7":    {Share: 1, Thousands: ',', Fractions: true},
		"3 m|4 m|5 km": {Share: 1, Units: []string{"m", "km"}},
		"On|off":       {Words: []string{"off", "On"}},
		"3|x":          {Share: .5},
	} {
		expect.Same(t, want, NumbersOf(strings.Split(texts, "|")), texts)
	}
}
