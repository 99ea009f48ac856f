package sniff

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"hafvf/connectors"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// A sheet is a random file with a known correct reading. Its parts are drawn independently: delimiter, decimals, time
// format, header, unit, order of the rows, key and extra columns.
type sheet struct {
	name string
	text []byte
	want []string // the times and values of each series, sorted
	note string   // description of the parts
}

// stampForms are time formats; a zone is UTC. A | separates the formats of a date column and a time column.
var stampForms = []struct {
	form    string // layout of package time; "ms", "s" and "dotnet" are numbers
	minStep time.Duration
	json    bool // only in JSON
}{
	{time.RFC3339, time.Second, false}, {"2006-01-02 15:04:05", time.Second, false}, {"2006-01-02T15:04:05-07:00", time.Second, false},
	{"02/01/2006 15:04", time.Minute, false}, {"01/02/2006 15:04", time.Minute, false}, {"02.01.2006 15:04:05", time.Second, false},
	{"s", time.Second, false}, {"ms", time.Second, false}, {"dotnet", time.Second, true},
	{"Mon, 02 Jan 2006 15:04:05 GMT", time.Second, false}, {"2006-01-02 15:04:05 UTC", time.Second, false},
	{"02/01/2006|15:04:05", time.Second, false}, {"2006-01-02|15:04", time.Minute, false}, {"01/02/2006 03:04:05 PM", time.Second, false},
	{time.DateOnly, 24 * time.Hour, false}, {"2006-01", 31 * 24 * time.Hour, false}, {"Jan-06", 31 * 24 * time.Hour, false}, {"Jan 2006", 31 * 24 * time.Hour, false},
	{"quarter", 92 * 24 * time.Hour, false}, {"02-Jan-2006 15:04", time.Minute, false}, {"2006/01/02 15:04:05", time.Second, false},
}

func stampText(form string, t time.Time) string {
	switch form {
	case "s":
		return strconv.FormatInt(t.Unix(), 10)
	case "ms":
		return strconv.FormatInt(t.UnixMilli(), 10)
	case "dotnet":
		return fmt.Sprintf("/Date(%d)/", t.UnixMilli())
	case "quarter":
		return fmt.Sprintf("%d-Q%d", t.Year(), (int(t.Month())+2)/3)
	}
	return t.Format(form)
}

// newSheet draws a file from a seed.
func newSheet(seed uint64) sheet {
	r := rand.New(rand.NewPCG(seed, 54))
	pick := func(choices ...string) string { return choices[r.IntN(len(choices))] }
	chance := func(p float64) bool { return r.Float64() < p }
	jsonl := chance(.25)
	delimiter, comma := pick(",", ",", ";", "\t"), false
	if delimiter != "," && !jsonl {
		comma = chance(.5)
	}

	// The times.
	stamp := stampForms[r.IntN(len(stampForms))]
	for stamp.json && !jsonl {
		stamp = stampForms[r.IntN(len(stampForms))]
	}
	steps := []time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour}
	step := steps[r.IntN(len(steps))]
	for step < stamp.minStep && stamp.minStep <= 24*time.Hour {
		step = steps[r.IntN(len(steps))]
	}
	n := 60 + r.IntN(500)
	months := 0
	if stamp.minStep > 24*time.Hour {
		if months = 1; stamp.form == "quarter" {
			months = 3
		}
		n = 40 + r.IntN(60)
	}
	begin := time.Date(2010+r.IntN(15), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), 0, 0, 0, time.UTC)
	if months > 0 {
		begin = time.Date(begin.Year()-10, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if step == 24*time.Hour {
		begin = begin.Truncate(step)
	}
	jitter := time.Duration(0)
	if step >= time.Minute && step < 24*time.Hour && stamp.minStep == time.Second && chance(.3) {
		jitter = step / 20
	}

	// The keys.
	kind := pick("none", "text", "text", "number", "two", "wide")
	if jsonl && kind == "wide" {
		kind = "two"
	}
	keys := 1
	if kind != "none" {
		keys = 2 + r.IntN(12)
	}
	if kind == "wide" {
		keys = 3 + r.IntN(4)
	}
	keyName := pick("device", "sensor_id", "host", "station", "Anlage", "customer", "unit_name", "machine")
	if kind == "number" {
		keyName = pick("id", "sensor_id", "device", "subject", "station_no", "imei")
	}
	labels := make([]string, keys)
	for k := range labels {
		switch kind {
		case "number":
			labels[k] = fmt.Sprint(1 + k)
			if keyName == "imei" {
				labels[k] = fmt.Sprint(356938035643809 + k*977)
			}
		case "wide":
			labels[k] = []string{"boiler", "pump", "valve", "inlet", "outlet", "tank"}[k%6] + strings.Repeat("2", k/6)
		default:
			labels[k] = fmt.Sprintf("%s%c", []string{"north-", "S", "srv/", "Halle "}[seed%4], 'A'+k)
		}
	}
	fieldsOf := []string{"temperature", "humidity", "pressure"}

	// The values.
	valueName := pick("value", "x", "temperature", "Wert", "reading", "power_w", "pm25")
	unit := ""
	if chance(.2) && kind != "two" {
		unit = pick(" °C", "°C", " %", " kWh", " ms", "$")
	}
	number := func(v float64) string {
		s := strconv.FormatFloat(v, 'f', 2, 64)
		if comma {
			s = strings.Replace(s, ".", ",", 1)
		}
		return s
	}
	cell := func(v float64) string {
		if unit == "$" {
			return unit + number(v)
		}
		return number(v) + unit
	}
	quoted := jsonl && (unit != "" || chance(.2))

	// The extra columns.
	extras := map[string]func(i, k int) string{
		"row":     func(i, k int) string { return fmt.Sprint(i) },
		"status":  func(i, k int) string { return []string{"ok", "ok", "ok", "warn"}[r.IntN(4)] },
		"rating":  func(i, k int) string { return fmt.Sprint(1 + r.IntN(5)) },
		"version": func(i, k int) string { return "3" },
		"project": func(i, k int) string { return "alpine" },
		"note":    func(i, k int) string { return fmt.Sprintf("n%x", r.Uint64()) },
		"empty":   func(i, k int) string { return "" },
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(extras)) {
		if chance(.2) && kind != "wide" {
			names = append(names, name)
		}
	}

	// The rows.
	type row struct {
		time time.Time
		key  int
		text []string
	}
	var header []string
	timeName := pick("time", "timestamp", "Zeit", "ts", "date", "recorded_at")
	stampNames := []string{timeName}
	if strings.Contains(stamp.form, "|") {
		stampNames = []string{"Date", "Time"}
	}
	var rows []row
	series := map[string][]string{}
	add := func(series_ string, t time.Time, v float64) {
		series[series_] = append(series[series_], fmt.Sprintf("%d %.6g", t.Unix(), v))
	}
	missing := chance(.2)
	round := func(v float64) float64 { return math.Round(100*v) / 100 }
	level := pick("20", "400", "3")
	base, _ := strconv.ParseFloat(level, 64)
	draw := func(i, k int) float64 {
		return round(base*(1+.1*float64(k)) + base/20*r.NormFloat64() + base/10*math.Sin(float64(i)/12))
	}
	for k := range keys {
		if kind == "wide" && k > 0 {
			break
		}
		offset := time.Duration(0)
		if jitter > 0 {
			offset = time.Duration(r.Int64N(int64(step/time.Second))) * time.Second
		}
		for i := range n {
			t := begin.Add(offset + time.Duration(i)*step)
			if months > 0 {
				t = begin.AddDate(0, months*i, 0)
			}
			if jitter > 0 {
				t = t.Add(time.Duration(r.Int64N(int64(jitter))) / time.Second * time.Second)
			}
			stamps := strings.Split(stampText(stamp.form, t), "|")
			var more []string
			for _, name := range names {
				more = append(more, extras[name](i, k))
			}
			switch kind {
			case "wide":
				text := slices.Clone(stamps)
				for c := range keys {
					v := draw(i, c)
					text = append(text, cell(v))
					add(labels[c], t, v)
				}
				rows = append(rows, row{t, 0, text})
			case "two":
				for f, field := range fieldsOf {
					v := draw(i, k+3*f)
					rows = append(rows, row{t, k*3 + f, slices.Concat(stamps, []string{labels[k], field, cell(v)}, more)})
					add(labels[k]+field, t, v)
				}
			default:
				v := draw(i, k)
				text := cell(v)
				if missing && r.IntN(30) == 0 {
					v, text = math.NaN(), ""
				}
				key := []string{labels[k]}
				if kind == "none" {
					key = nil
				}
				rows = append(rows, row{t, k, slices.Concat(stamps, key, []string{text}, more)})
				add(labels[k], t, v)
			}
		}
	}
	switch kind {
	case "wide":
		header = slices.Concat(stampNames, labels)
	case "two":
		header = slices.Concat(stampNames, []string{keyName, pick("field", "measure", "kind"), "value"}, names)
	case "none":
		header = slices.Concat(stampNames, []string{valueName}, names)
	default:
		header = slices.Concat(stampNames, []string{keyName, valueName}, names)
	}
	order := pick("time", "time", "series", "late")
	switch order {
	case "time":
		slices.SortStableFunc(rows, func(a, b row) int { return a.time.Compare(b.time) })
	case "late":
		slices.SortStableFunc(rows, func(a, b row) int { return a.time.Compare(b.time) })
		for range len(rows) / 100 {
			i := r.IntN(len(rows) - 1)
			rows[i], rows[i+1] = rows[i+1], rows[i]
		}
	}

	// The file.
	head := "plain"
	var b bytes.Buffer
	s := sheet{name: fmt.Sprintf("sheet%d.csv", seed)}
	if jsonl {
		s.name = fmt.Sprintf("sheet%d.jsonl", seed)
		array := chance(.2)
		if array {
			head = "array"
			b.WriteString("[")
		}
		for i, row := range rows {
			if array && i > 0 {
				b.WriteString(",")
			}
			b.WriteString("{")
			for j, name := range header {
				text := strconv.Quote(row.text[j])
				if _, err := strconv.ParseFloat(row.text[j], 64); err == nil && !(quoted && j > len(stampNames)-1) {
					text = row.text[j]
				}
				if row.text[j] == "" {
					text = "null"
				}
				fmt.Fprintf(&b, "%s%q:%s", map[bool]string{true: ",", false: ""}[j > 0], name, text)
			}
			b.WriteString("}\n")
		}
		if array {
			b.WriteString("]\n")
		}
	} else {
		head = pick("plain", "plain", "plain", "sep", "comments", "metadata", "rownames", "index")
		switch head {
		case "sep":
			fmt.Fprintf(&b, "sep=%s\n", delimiter)
		case "comments":
			b.WriteString("# exported\n# site: 4\n")
		case "metadata":
			fmt.Fprintf(&b, "Report of readings\nSite%sHarbour\n\n", delimiter)
		case "index":
			header = slices.Concat([]string{""}, header)
		}
		write := func(cells []string) {
			for i, c := range cells {
				if i > 0 {
					b.WriteString(delimiter)
				}
				if strings.Contains(c, delimiter) {
					c = `"` + c + `"`
				}
				b.WriteString(c)
			}
			b.WriteString("\n")
		}
		write(header)
		for i, row := range rows {
			if head == "rownames" || head == "index" {
				row.text = slices.Concat([]string{fmt.Sprint(i + 1)}, row.text)
			}
			write(row.text)
		}
	}
	s.text = b.Bytes()
	encoding := "utf-8"
	if !jsonl {
		switch encoding = pick("utf-8", "utf-8", "utf-8", "utf-8", "bom", "crlf", "utf-16"); encoding {
		case "bom":
			s.text = append([]byte("\ufeff"), s.text...)
		case "crlf":
			s.text = bytes.ReplaceAll(s.text, []byte("\n"), []byte("\r\n"))
		case "utf-16":
			wide := []byte{0xff, 0xfe}
			for _, u := range utf16.Encode([]rune(string(s.text))) {
				wide = append(wide, byte(u), byte(u>>8))
			}
			s.text = wide
		}
	}
	for _, points := range series {
		slices.Sort(points)
		s.want = append(s.want, strings.Join(points, "\n"))
	}
	slices.Sort(s.want)
	s.note = fmt.Sprintf("key %s (%s), %d × %d, time %q every %s, delimiter %q, decimal comma %t, unit %q, header %s, order %s, %s, beside %v", kind, keyName, keys, n, stamp.form, step, delimiter, comma, unit, head, order, encoding, names)
	return s
}

// readSheet returns the series that a run with the config would read from the file.
func readSheet(path string, draft []byte) (got []string, err error) {
	c, err := config.Parse(path, draft, nil)
	if err != nil {
		return nil, err
	}
	if c.Aggregate != nil {
		return nil, fmt.Errorf("aggregates")
	}
	file, fields := decode.Files(c)
	p, err := decode.NewParser(fields)
	if err != nil {
		return nil, err
	}
	rd, err := connectors.Open(file)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	d := decode.NewDecoder(file.Format, p)
	series := map[string][]string{}
	for {
		r, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		d.File([]connectors.Record{r}, func(found []decode.Decoded) {
			for _, o := range found {
				if o.Err != nil {
					series["rejected"] = append(series["rejected"], o.Err.Error())
					continue
				}
				for _, x := range o.X {
					series[o.Key] = append(series[o.Key], strconv.FormatInt(o.Time.Unix(), 10)+fmt.Sprintf(" %.6g", x[0]))
				}
			}
		})
	}
	for _, points := range series {
		slices.Sort(points)
		got = append(got, strings.Join(points, "\n"))
	}
	slices.Sort(got)
	return got, nil
}

var (
	sheets    = flag.Int("sheets", 200, "random files of BenchmarkSheets")
	sheetSeed = flag.Uint64("sheet-seed", 1, "seed of the first file")
)

// BenchmarkSheets reports the shares of random files that a draft reads correctly, incorrectly with a remark, and
// incorrectly without a remark.
func BenchmarkSheets(b *testing.B) {
	note := func(format string, args ...any) {
		if testing.Verbose() {
			fmt.Printf(format, args...)
		}
	}
	for range b.N {
		var right, unsure, noted, silent int
		for i := range *sheets {
			s := newSheet(*sheetSeed + uint64(i))
			path := filepath.Join(b.TempDir(), s.name)
			if err := os.WriteFile(path, s.text, 0o666); err != nil {
				b.Fatal(err)
			}
			draft, err := Draft(path)
			var got []string
			if err == nil {
				got, err = readSheet(path, draft.Config)
			}
			switch {
			case err == nil && slices.Equal(got, s.want):
				right++
				if !draft.Sure() {
					unsure++
					note("%s: right, and not sure: %v\n%s\n\n", s.name, draft.Remarks, s.note)
				}
			case err != nil || len(draft.Remarks) > 0:
				noted++
				note("%s: wrong, and told: %v %v\n%s\n%s\n\n", s.name, err, draft.Remarks, s.note, draft.Config)
			default:
				silent++
				note("%s: wrong in silence, %d series for %d\n%s\n%s\n", s.name, len(got), len(s.want), s.note, draft.Config)
			}
		}
		total := float64(*sheets)
		b.ReportMetric(float64(right)/total, "right")
		b.ReportMetric(float64(unsure)/total, "unsure")
		b.ReportMetric(float64(noted)/total, "told")
		b.ReportMetric(float64(silent)/total, "silent")
	}
}

// TestSheets checks that a seed determines its file.
func TestSheets(t *testing.T) {
	a, b := newSheet(3), newSheet(3)
	expect.Same(t, string(a.text), string(b.text))
	if len(a.want) == 0 {
		t.Error("no series")
	}
}
