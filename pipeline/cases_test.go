package pipeline

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/sniff"
)

// An importCase is a file in a format that people have, with planted events. A run with the config that Draft writes
// for it must report the events.
type importCase struct {
	file     string
	lines    []string
	wanted   []string // parts of the config
	unwanted []string // parts that the config must not have
	doubt    string   // part of the remark that makes the config unsure; empty for a sure one
	remarks  []string // parts of other remarks
	set      []string // settings that a person adds
	keys     int64    // 0: do not run

	rejected       int64
	events         []planted
	minEvents      int // minimum events reported; 0 for all
	maxFalseAlarms int // maximum other alarms
}

// A planted event is the time range in which one alarm of a key is due. Without times, it may be at any time.
type planted struct{ key, begin, end string }

// daily is a daily rhythm around 0.
func daily(t time.Time) float64 {
	return math.Sin(2 * math.Pi * (float64(t.Hour()) + float64(t.Minute())/60 - 9) / 24)
}

// within returns 1 if begin <= i < end, else 0.
func within(i, begin, end int) float64 {
	if begin <= i && i < end {
		return 1
	}
	return 0
}

func noiseOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 54)) }

func day(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

// panels are exports of a Grafana panel: units in the cells, and Berlin times across the end of summer time.
func panels(t *testing.T) []importCase {
	berlin := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	local := func(i int) string {
		return day("2024-10-01 00:00").Add(time.Duration(i) * 30 * time.Minute).In(berlin).Format(time.DateTime)
	}
	const n = 48 * 45
	rooms := func(header, line string) []string {
		r := noiseOf(1)
		return tableOf(header, n, func(i int) string {
			when := day(local(i)[:16])
			return fmt.Sprintf(line, local(i), 14+3*daily(when)+.2*r.NormFloat64()+8*within(i, 1500, 1512), 19+daily(when)+.15*r.NormFloat64())
		})
	}
	r := noiseOf(2)
	outside := []planted{{"outside", "2024-11-01T06:00", "2024-11-01T12:00"}}
	zone, ends := []string{"source.csv.zone=Europe/Berlin"}, "end of summer time"
	sep := rooms("sep=,\r\n\"Time\",\"outside\",\"living room\"\r\n", "%s,%.1f,%.1f\r\n")
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(strings.Join(sep, ""))) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	return []importCase{
		{file: "units.csv", lines: rooms("\"Time\",\"outside\",\"living room\"\n", "%s,%.1f °C,%.1f °C\n"), remarks: []string{ends}, set: zone,
			wanted: []string{"unit: °C", "layout: wide", "time: Time", "values: [outside, living room]"}, keys: 2, events: outside},
		{file: "pct.csv", lines: tableOf("\"Time\",\"cpu\"\n", n, func(i int) string {
			return fmt.Sprintf("%s,%.1f%%\n", local(i), 35+5*r.NormFloat64()+60*within(i, 1500, 1512))
		}), remarks: []string{ends}, set: zone, wanted: []string{"unit: '%'", "key: none", "values: [cpu]"}, keys: 1,
			events: []planted{{"", "2024-11-01T06:00", "2024-11-01T12:00"}}},
		{file: "prices.csv", lines: tableOf("Time,price\n", 400, func(i int) string { return fmt.Sprintf("%s,\"$1,%03d.%02d\"\n", local(i), r.IntN(1000), r.IntN(100)) }),
			wanted: []string{"thousands: ','", "unit: $", "values: [price]"}},
		{file: "si.csv", lines: tableOf("\"Time\",\"rx\"\n", 400, func(i int) string {
			v := 8e5 * math.Exp(.4*r.NormFloat64())
			if v >= 1e6 {
				return fmt.Sprintf("%s,%.1f MB/s\n", local(i), v/1e6)
			}
			return fmt.Sprintf("%s,%.1f kB/s\n", local(i), v/1e3)
		}), doubt: "several units, kB/s, MB/s", unwanted: []string{"\n    unit:"}},
		{file: "sep.csv", lines: append([]string{"\ufeff"}, sep...), remarks: []string{ends}, set: zone,
			wanted: []string{"skip: 1", "layout: wide"}, keys: 2, events: outside},
		{file: "sep16.csv", lines: []string{string(wide)}, remarks: []string{ends}, set: zone, wanted: []string{"skip: 1", "layout: wide"}, keys: 2, events: outside},
	}
}

// influx are tables as InfluxDB writes them.
func influx() []importCase {
	const annotations = "#group,false,false,true,true,false,false,true,true,true\r\n#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string,string\r\n#default,_result,,,,,,,,\r\n"
	const header = ",result,table,_start,_stop,_time,_value,_field,_measurement,sensor_id\r\n"
	r := noiseOf(3)
	block := func(table, n int, mean, sd, rise float64, labels string) (lines []string) {
		return tableOf("", n, func(i int) string {
			stamp := day("2022-06-01 00:00").Add(time.Duration(i) * 10 * time.Minute).Format(time.RFC3339)
			return fmt.Sprintf(",,%d,2022-06-01T00:00:00Z,2022-06-11T00:00:00Z,%s,%.5f,%s\r\n", table, stamp, mean+sd*r.NormFloat64()+rise*within(i, 500, 512), labels)
		})
	}
	two := slices.Concat(block(0, 600, 71, .3, 4, "temperature,airSensors,TLM0202"), block(1, 600, 35, .2, 0, "humidity,airSensors,TLM0202"))
	third := block(2, 600, 7, .05, 0, "pH,h2o_pH,coyote_creek")
	wants := []string{"time: _time", "values: [_value]", "_field"}
	events := []planted{{"temperature", "2022-06-04T11:20", "2022-06-04T13:20"}}
	return []importCase{
		{file: "single.csv", lines: slices.Concat([]string{annotations, header}, two), wanted: append([]string{"comment: '#'"}, wants...), keys: 2, events: events},
		{file: "export.csv", lines: slices.Concat([]string{annotations, header}, two, []string{"\r\n", annotations, strings.Replace(header, "sensor_id", "location", 1)}, third),
			wanted: append([]string{"comment: '#'"}, wants...), keys: 3, events: events},
		{file: "noann.csv", lines: append([]string{header}, two...), wanted: wants, keys: 2, events: events},
	}
}

// documents are exports of a database of JSON documents.
func documents() []importCase {
	r := noiseOf(5)
	values := make([]float64, 960)
	for i := range values {
		values[i] = 20 + r.NormFloat64() + 8*within(i, 700, 706)
	}
	lines := func(form string, stamp func(time.Time) string, begin, separator, end string) []string {
		lines := tableOf(begin, len(values), func(i int) string {
			text := strings.NewReplacer("AT", stamp(day("2025-03-01 00:00").Add(time.Duration(i)*15*time.Minute)), "X", fmt.Sprintf("%.3f", values[i]), "I", fmt.Sprintf("%024x", i), "N", fmt.Sprint(i)).Replace(form)
			if i < len(values)-1 {
				text += separator
			}
			return text
		})
		return append(lines, end)
	}
	iso := func(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z") }
	ms := func(t time.Time) string { return fmt.Sprint(t.UnixMilli()) }
	const document = `{"_id":{"$oid":"I"},"time":{"$date":"AT"},"meta":{"sensor":"s1"},"temp":X}`
	const canonical = `{"_id":{"$oid":"I"},"time":{"$date":{"$numberLong":"AT"}},"meta":{"sensor":"s1"},"temp":{"$numberDouble":"X"},"n":{"$numberLong":"N"}}`
	cases := []importCase{
		{file: "relaxed.jsonl", lines: lines(document, iso, "", "\n", "\n")},
		{file: "canonical.jsonl", lines: lines(canonical, ms, "", "\n", "\n")},
		{file: "array.json", lines: lines(strings.NewReplacer(",", ",\n  ", "{", "{\n  ").Replace(document), iso, "[\n", ",\n", "\n]\n")},
		{file: "array.jsonl", lines: lines(document, iso, "[", ", ", "]")},
		{file: "msajax.jsonl", lines: lines(`{"time":"/Date(AT)/","temp":X}`, ms, "", "\n", "\n")},
	}
	for i := range cases {
		c := &cases[i]
		c.wanted, c.keys, c.events = []string{"key: meta.sensor", "time: time.$date", "values: [temp"}, 1, []planted{{"s1", "2025-03-08T07:00", "2025-03-08T08:30"}}
		if c.file == "msajax.jsonl" {
			c.wanted, c.events[0].key = []string{"key: none", "time: time", "values: [temp]"}, ""
		}
	}
	return cases
}

// twoColumns have date and time of day in two columns.
func twoColumns() []importCase {
	r := noiseOf(6)
	comma := func(v float64) string { return strings.Replace(fmt.Sprintf("%.1f", v), ".", ",", 1) }
	air := tableOf("Date;Time;CO(GT);T;RH;;\n", 1500, func(i int) string {
		when := day("2004-03-10 18:00").Add(time.Duration(i) * time.Hour)
		co := "-200"
		if r.Float64() > .15 {
			co = comma(2 + .8*daily(when) + .3*r.NormFloat64())
		}
		return fmt.Sprintf("%s;%s;%s;%s;;\n", when.Format("02/01/2006;15.04.05"), co, comma(14+4*daily(when)+r.NormFloat64()+20*within(i, 1200, 1206)), comma(45+3*r.NormFloat64()))
	})
	return []importCase{
		{file: "household.csv", maxFalseAlarms: 3, lines: tableOf("Date;Time;Global_active_power;Voltage\n", 3000, func(i int) string {
			when := day("2006-12-16 17:24").Add(time.Duration(i) * 10 * time.Minute)
			if within(i, 900, 905) > 0 {
				return when.Format("2/1/2006;15:04:05;") + "?;?\n"
			}
			return fmt.Sprintf("%s;%.3f;%.2f\n", when.Format("2/1/2006;15:04:05"), 1+.4*daily(when)+.1*r.NormFloat64()+3*within(i, 2000, 2010), 240+r.NormFloat64())
		}), wanted: []string{"delimiter: ;", "time: [Date, Time]", "time_format: '%d/%m/%Y %H:%M:%S'", "missing: ['?']", "layout: wide"}, keys: 2,
			events: []planted{{"Global_active_power", "2006-12-30T14:44", "2006-12-30T16:24"}}},
		{file: "air.csv", maxFalseAlarms: 2, lines: append(air, strings.Repeat(";;;;;;\n", 20)), remarks: []string{"-200 occurs"}, set: []string{"source.csv.missing=['-200']"},
			wanted: []string{"delimiter: ;", "decimal: ','", "time: [Date, Time]", "time_format: '%d/%m/%Y %H.%M.%S'", "layout: wide"}, keys: 3, rejected: 60,
			events: []planted{{"T", "2004-04-29T18:00", "2004-04-30T00:00"}}},
	}
}

// meters are exports of Home Assistant: a counter that falls slightly and is reset, a door, and a thermometer, one
// after the other.
func meters() []importCase {
	r := noiseOf(40)
	begin := day("2025-08-31 22:00")
	const header = "entity_id,state,last_changed\n"
	stamp := func(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z") }
	door := tableOf(header, 150, func(i int) string {
		state := []string{"on", "off", "on", "off", "on", "off", "on", "off", "unavailable"}[i%9]
		return fmt.Sprintf("binary_sensor.front_door,%s,%s\n", state, stamp(begin.Add(time.Duration((7*float64(i)+3*r.Float64())*float64(time.Hour)))))
	})
	when, v := begin, 21.
	thermometer := tableOf("", 1000, func(int) string {
		when = when.Add(time.Duration(55 * r.ExpFloat64() * float64(time.Minute)))
		v += .3*(21-v) + .2*r.NormFloat64()
		state := fmt.Sprintf("%.1f", v)
		if chance := r.Float64(); chance < .04 {
			state = []string{"unavailable", "unknown"}[int(chance/.03)]
		}
		return fmt.Sprintf("sensor.kitchen_temperature,%s,%s\n", state, stamp(when))
	})
	total := 18894.5
	meter := tableOf("", 24*45, func(i int) string {
		when := begin.Add(time.Duration(i) * time.Hour)
		total += max(0, .25+.15*daily(when)+.05*r.NormFloat64())
		if i == 800 {
			total = .7
		}
		return fmt.Sprintf("sensor.meter_energy_import,%.3f,%s\n", total-.6*within(i, 500, 501), stamp(when))
	})
	return []importCase{
		{file: "history.csv", lines: slices.Concat(door, thermometer, meter), wanted: []string{"key: entity_id", "time: last_changed", "values: [state]", "missing: [off, on, unavailable, unknown]"},
			remarks: []string{"like a counter, such as sensor.meter_energy_import", "off and on count as missing"}},
		{file: "meter.csv", lines: append([]string{header}, meter...), wanted: []string{"aggregate: {every: 1h, value: increase}", "key: entity_id", "# season: [24h, 168h]"}, keys: 1},
	}
}

// constants have values that change only at an event.
func constants() []importCase {
	lines := func(x func(i int) float64) []string {
		return tableOf("time,x\n", 3000, func(i int) string {
			return fmt.Sprintf("%s,%g\n", day("2016-04-01 00:00").Add(time.Duration(i)*time.Minute).Format(time.RFC3339), x(i))
		})
	}
	expected := []planted{{"", "2016-04-03T00:19", "2016-04-03T00:20"}}
	return []importCase{
		{file: "flatneg.csv", lines: lines(func(i int) float64 { return -5 * within(i, 2899, 2900) }), wanted: []string{"family: normal"}, keys: 1, events: expected},
		{file: "ramp.csv", lines: lines(func(i int) float64 { return float64(i+1) + float64(1799-i)*within(i, 2899, 2910) }), keys: 1,
			wanted: []string{"value: increase"}, events: []planted{{"", "2016-04-03T00:19", "2016-04-03T00:31"}}},
		{file: "flat.csv", lines: lines(func(i int) float64 { return 10 * within(i, 2899, 2900) }), keys: 1, events: expected},
	}
}

// eventful are raw events, short series, and change records.
func eventful() []importCase {
	r := noiseOf(13)
	var office []string
	for d := range 30 {
		start := day("2023-11-01 08:00").AddDate(0, 0, d).Add(time.Duration(6 * r.NormFloat64() * float64(time.Minute)))
		for end := day("2023-11-01 18:00").AddDate(0, 0, d).Add(time.Duration(6 * r.NormFloat64() * float64(time.Minute))); start.Before(end); start = start.Add(time.Duration((100 + 100*r.Float64()) * float64(time.Second))) {
			h := float64(start.Hour()) + float64(start.Minute())/60
			v := 100*math.Exp(-.5*(h-13)*(h-13)/4) + r.NormFloat64()
			if d == 25 && 10 <= h && h < 10.5 {
				v += 45
			}
			office = append(office, fmt.Sprintf("%s,%.2f\n", start.Format(time.RFC3339), v))
		}
	}
	var short []string
	var outliers []planted
	for k := range 60 {
		for i := range 40 {
			short = append(short, fmt.Sprintf("c%02d,%.2f\n", k, 50+2*r.NormFloat64()+40*within(i, 30, 31)*float64(1-k%2)))
		}
		if k%2 == 0 {
			outliers = append(outliers, planted{key: fmt.Sprintf("c%02d", k)})
		}
	}
	changes := func(number string) []string {
		r := noiseOf(24)
		return tableOf("", 900, func(i int) string {
			start := int64(1700000000000 + 60000*i)
			after, op, extra := fmt.Sprintf(`{"id":%d,"temp":`+number+`,"measured_at":%d}`, i%3+1, 20+r.NormFloat64()+9*within(i, 600, 612), start*1000), "u", ""
			if i%100 == 99 {
				after, op, extra = "null", "d", "null\n"
			}
			return fmt.Sprintf(`{"before":null,"after":%s,"source":{"connector":"postgresql","table":"sensors","ts_ms":%d},"op":"%s","ts_ms":%d}`+"\n", after, start, op, start+120) + extra
		})
	}
	const begins, ends = "2023-11-15T08:13", "2023-11-15T08:26"
	raised := []planted{{"1", begins, ends}, {"2", begins, ends}, {"3", begins, ends}}
	var hits []string
	var bursts []planted
	for k := range 6 {
		hit := func(start time.Time) { hits = append(hits, fmt.Sprintf("%s,cat%02d\n", start.Format(time.RFC3339), k)) }
		for start := day("2019-03-01 00:00"); start.Before(day("2019-03-15 00:00")); start = start.Add(time.Duration(r.ExpFloat64() / []float64{.5, 2, 8}[k%3] * float64(time.Hour))) {
			hit(start)
		}
		for range 60 {
			hit(day("2019-03-13 14:00").Add(time.Duration(900 * r.Float64() * float64(time.Second))))
		}
		bursts = append(bursts, planted{fmt.Sprintf("cat%02d", k), "2019-03-13T14:00", "2019-03-13T15:00"})
	}
	slices.Sort(hits)
	return []importCase{
		{file: "office.csv", maxFalseAlarms: 4, lines: append([]string{"time,value\n"}, office...), set: []string{"aggregate={every: 10m, value: sum}"}, wanted: []string{"key: none", "time: time", "values: [value]"},
			keys: 1, events: []planted{{"", "2023-11-26T10:00", "2023-11-26T10:40"}}},
		{file: "n30.csv", lines: append([]string{"key,value\n"}, short...), remarks: []string{"no column of times"}, wanted: []string{"warm_up: 10", "key: key", "order: arrival", "detect: {budget: 100, rest: 3, settling: 0}"},
			keys: 60, events: outliers, minEvents: 25, maxFalseAlarms: 3},
		{file: "double.jsonl", maxFalseAlarms: 1, lines: changes("%.2f"), wanted: []string{"key: after.id", "values: [after.temp]"}, keys: 3, rejected: 18, events: raised},
		{file: "string.jsonl", maxFalseAlarms: 1, lines: changes(`"%.2f"`), wanted: []string{"key: after.id", "values: [after.temp]"}, keys: 3, rejected: 18, events: raised},
		{file: "hits.csv", set: []string{"aggregate.every=1h"}, lines: append([]string{"time,category\n"}, hits...),
			wanted: []string{"family: poisson", "value: count", "key: category"}, keys: 6, events: bursts, maxFalseAlarms: 4},
		{file: "rig.csv", maxFalseAlarms: 1, lines: tableOf("time,torque\n", 1200, func(i int) string {
			return fmt.Sprintf("%s,%.2f\n", day("2024-05-06 10:00").Add(time.Duration(i)*time.Second).Format(time.RFC3339), 12+.3*r.NormFloat64()+4*within(i, 900, 905))
		}), wanted: []string{"detect: {budget: 10m, season: [], settling: 0}"}, unwanted: []string{"# season"}, keys: 1, events: []planted{{"", "2024-05-06T10:15:00", "2024-05-06T10:15:10"}}},
	}
}

// labelled have columns of names: of rows, as R and pandas write them, and of devices.
func labelled() []importCase {
	r := noiseOf(28)
	stamp := func(i int) string {
		return day("2015-02-02 14:19").Add(time.Duration(i) * time.Minute).Format(time.DateTime)
	}
	co2 := func(i int) float64 { return 600 + 20*r.NormFloat64() + 400*within(i, 800, 810) }
	return []importCase{
		{file: "rownames.csv", maxFalseAlarms: 1, lines: tableOf("\"date\",\"Temperature\",\"CO2\"\n", 1000, func(i int) string {
			return fmt.Sprintf("\"%d\",\"%s\",%.3f,%.1f\n", i+140, stamp(i), 23+.1*r.NormFloat64(), co2(i))
		}), wanted: []string{"layout: wide", "time: date"}, keys: 2, events: []planted{{"CO2", "2015-02-03T03:39", "2015-02-03T03:49"}}},
		{file: "rownum.csv", lines: tableOf(",date,CO2\n", 1000, func(i int) string { return fmt.Sprintf("%d,%s,%.1f\n", i, stamp(i), co2(i)) }),
			wanted: []string{"key: none", "time: date", "values: [CO2]"}, keys: 1, events: []planted{{"", "2015-02-03T03:39", "2015-02-03T03:49"}}},
		{file: "imei.csv", lines: tableOf("ts,imei,rssi\n", 1500, func(i int) string {
			return fmt.Sprintf("%s,%d,%d\n", stamp(i/5*10), 860000000000017+i%5*7919, int(-65+3*r.NormFloat64()))
		}), wanted: []string{"family: normal", "key: imei", "values: [rssi]"}, keys: 5, maxFalseAlarms: 2},
	}
}

// families are whole numbers of several kinds.
func families() []importCase {
	r := noiseOf(8)
	timeOf := func(i int) time.Time { return day("2003-03-03 00:00").Add(time.Duration(i) * 30 * time.Minute) }
	counts := func(sd float64) []string {
		return tableOf("time,calls\n", 48*21, func(i int) string {
			mean, n := 120*(1+.85*daily(timeOf(i)))*math.Exp(sd*r.NormFloat64()), 0
			for sum := r.ExpFloat64(); sum < mean; sum += r.ExpFloat64() { // Poisson
				n++
			}
			return fmt.Sprintf("%s,%d\n", timeOf(i).Format(time.RFC3339), n)
		})
	}
	return []importCase{
		{file: "calls.csv", lines: counts(.25), wanted: []string{"family: normal", "scale: "}, keys: 1, maxFalseAlarms: 1},
		{file: "even.csv", lines: counts(0), wanted: []string{"family: poisson"}, keys: 1, maxFalseAlarms: 1},
		{file: "ratings.csv", lines: tableOf("time,rating\n", 600, func(i int) string {
			return fmt.Sprintf("%s,%d\n", timeOf(i).Format(time.RFC3339), min(5, max(1, int(math.Round(3.8+r.NormFloat64())))))
		}), wanted: []string{"family: normal", "values: [rating]"}, unwanted: []string{"scale:"}, keys: 1, maxFalseAlarms: 1},
		{file: "choices.csv", lines: tableOf("time,subject,choice\n", 600, func(i int) string {
			return fmt.Sprintf("%s,%d,%d\n", timeOf(i/3).Format(time.RFC3339), 1+i%3, 1+r.IntN(2))
		}), wanted: []string{"family: bernoulli", `values_as: ["1", "2"]`, "key: subject", "values: [choice]"}, keys: 3, maxFalseAlarms: 3},
	}
}

// calendars write times in several formats.
func calendars() []importCase {
	r := noiseOf(9)
	lines := func(n int, stamp func(i int) string) []string {
		return tableOf("time,x\n", n, func(i int) string { return fmt.Sprintf("%q,%.2f\n", stamp(i), 20+r.NormFloat64()) })
	}
	hour := func(form string) func(i int) string {
		return func(i int) string { return day("2026-01-01 00:00").Add(time.Duration(i) * time.Hour).Format(form) }
	}
	return []importCase{
		{file: "http.csv", lines: lines(200, hour("Mon, 02 Jan 2006 15:04:05 GMT")), wanted: []string{"# 2026-01-01 00:00 to 2026-01-09 07:00"}, keys: 1},
		{file: "months.csv", lines: lines(60, func(i int) string { return day("2006-01-01 00:00").AddDate(0, i, 0).Format("Jan-06") }), wanted: []string{"time_format: '%b-%y'", "# 2006-01-01 00:00 to 2010-12-01 00:00"}, keys: 1},
		{file: "quarters.csv", lines: lines(60, func(i int) string { return fmt.Sprintf("%d-Q%d", 2000+i/4, 1+i%4) }),
			wanted: []string{"time_format: '%Y-Q%q'", "# 2000-01-01 00:00 to 2014-10-01 00:00"}, keys: 1},
		{file: "weeks.csv", lines: lines(60, func(i int) string {
			year, week := day("2024-01-01 00:00").AddDate(0, 0, 7*i).ISOWeek()
			return fmt.Sprintf("%d-W%02d", year, week)
		}), wanted: []string{"time_format: '%G-W%V'", "# 2024-01-01 00:00 to 2025-02-17 00:00"}, keys: 1},
		{file: "dayfirst.csv", lines: lines(280, hour("02/01/2006 15:04")), wanted: []string{"time_format: '%d/%m/%Y %H:%M'", "to 2026-01-12 15:00"}, keys: 1},
		{file: "monthfirst.csv", lines: lines(280, hour("01/02/2006 15:04")), wanted: []string{"time_format: '%m/%d/%Y %H:%M'", "to 2026-01-12 15:00"}, keys: 1},
		{file: "hours.csv", lines: tableOf("date,hour,load\n", 400, func(i int) string {
			return fmt.Sprintf("%s,%d,%.1f\n", day("2026-01-01 00:00").AddDate(0, 0, i/24).Format(time.DateOnly), 1+i%24, 200+9*r.NormFloat64())
		}), wanted: []string{"time: [date, hour]", "2026-01-01 01:00 to"}, unwanted: []string{"key: hour"}, doubt: "they are read as hours", keys: 1},
		{file: "either.csv", lines: lines(12, func(i int) string { return fmt.Sprintf("%02d/03/2026", 1+i) }), doubt: "fits them as well"},
		{file: "yesterday.csv", lines: lines(60, func(i int) string { return []string{"today", "yesterday", "last week"}[i%3] }), unwanted: []string{"key: time"}, doubt: `column "time" has the name of a time`},
	}
}

// Draft reads the files as people mean them, or reports a doubt. A run with the config reports the events.
func TestFoundFiles(t *testing.T) {
	expect.Long(t, "the files of practitioners")
	for _, c := range slices.Concat(panels(t), influx(), documents(), meters(), twoColumns(), constants(), eventful(), labelled(), families(), calendars()) {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			draft := expect.Get(sniff.Draft(write(t, c.file, c.lines...)))(t)
			text := string(draft.Config)
			for _, want := range c.wanted {
				if !strings.Contains(text, want) {
					t.Errorf("no %q", want)
				}
			}
			if i := slices.IndexFunc(append(c.unwanted, "lateness:"), func(not string) bool { return strings.Contains(text, not) }); i >= 0 {
				t.Errorf("there is %q", append(c.unwanted, "lateness:")[i])
			}
			quoted := func(part string, doubt bool) bool {
				return slices.ContainsFunc(draft.Remarks, func(r sniff.Remark) bool { return r.Doubt == doubt && strings.Contains(r.Text, part) })
			}
			if draft.Sure() != (c.doubt == "") || c.doubt != "" && !quoted(c.doubt, true) || slices.ContainsFunc(c.remarks, func(part string) bool { return !quoted(part, false) }) {
				t.Errorf("remarks %+v", draft.Remarks)
			}
			if c.keys > 0 {
				c.run(t, text)
			}
			if t.Failed() {
				t.Log("\n" + text)
			}
		})
	}
}

// run runs the config, and compares its alarms with the events.
func (c importCase) run(t *testing.T, text string) {
	path := filepath.Join(t.TempDir(), "alerts.jsonl")
	g := compose(t, text, append([]string{"sink=none", "dead_letter={jsonl: {path: " + path + ".rejected}}", "alerts={jsonl: {path: " + path + "}, kinds: [novelty, change]}"}, c.set...)...)
	s := expect.Get(Run{Graph: g}.Execute(t.Context(), nil))(t)
	if s.Keys != c.keys || s.Rejected != c.rejected {
		t.Errorf("%d keys, %d rejected for %d and %d", s.Keys, s.Rejected, c.keys, c.rejected)
	}
	reported, falseAlarms := map[planted]bool{}, 0
	for _, line := range readLines(t, path) {
		if line == "" {
			continue
		}
		a := unmarshalled[struct{ Key, Time string }](t, line)
		i := slices.IndexFunc(c.events, func(e planted) bool {
			return strings.Contains(a.Key, e.key) && a.Time >= e.begin && (e.end == "" || a.Time < e.end)
		})
		if i >= 0 && !reported[c.events[i]] {
			reported[c.events[i]] = true
		} else {
			falseAlarms++
			t.Log(line)
		}
	}
	if minEvents := cmp.Or(c.minEvents, len(c.events)); len(reported) < minEvents || falseAlarms > c.maxFalseAlarms {
		t.Errorf("%d of %d events, and %d other alarms", len(reported), len(c.events), falseAlarms)
	}
}
