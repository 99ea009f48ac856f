package decode

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
)

var (
	nan     = math.NaN()
	instant = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// plain is the parser of a config without settings for its records.
var plain = parserFor("{}")

// parserFor returns the parser of a JSON Lines source with these keys.
func parserFor(keys string) *Parser {
	family := "normal"
	if strings.Contains(keys, "values: [a") {
		family = "mvnormal"
	}
	c, err := config.Parse("test.yaml", []byte("{model: {family: "+family+"}, order: arrival, source: {jsonl: "+keys+"}}"), []string{"source.jsonl.path=in.jsonl"})
	if err != nil {
		panic(err)
	}
	p, err := NewParser(c.Source.Files().Fields)
	if err != nil {
		panic(err)
	}
	return p
}

func decodeJSON(line []byte) (string, keyed.Observation, error) {
	var o keyed.Observation
	key, err := plain.json(line, origin{}, &o)
	return key, o, err
}

func decodeFields(fields []string) (string, keyed.Observation, error) {
	var o keyed.Observation
	key, err := plain.row(fields, origin{}, &o)
	return key, o, err
}

func TestDecodeJSON(t *testing.T) {
	for _, test := range []struct {
		line string
		key  string
		obs  keyed.Observation
	}{
		{`{"key": "s1", "time": "2026-01-02T03:04:05Z", "x": 1.2}`, "s1", keyed.Observation{Time: instant, X: [][]float64{{1.2}}}},
		{" {\"x\":-0.5e1,\"key\":\"s1\"}\r\n", "s1", keyed.Observation{X: [][]float64{{-5}}}},
		{`{"key":"s1","x":[1,2]}`, "s1", keyed.Observation{X: [][]float64{{1, 2}}, Shape: keyed.Vector}},
		{`{"key":"s1","x":[ [1, 2] , [3] ]}`, "s1", keyed.Observation{X: [][]float64{{1, 2}, {3}}, Shape: keyed.List}},

		// Missing.
		{`{"key":"s1","x":null}`, "s1", keyed.Observation{X: [][]float64{{nan}}}},
		{`{"key":"s1","x":""}`, "s1", keyed.Observation{X: [][]float64{{nan}}}},
		{`{"key":"s1","x":NaN}`, "s1", keyed.Observation{X: [][]float64{{nan}}}},
		{`{"key":"s1","x":"N\u0061N"}`, "s1", keyed.Observation{X: [][]float64{{nan}}}},
		{`{"key":"s1","x":[]}`, "s1", keyed.Observation{X: [][]float64{}, Shape: keyed.List}},
		{`{"key":"s1","x":[null]}`, "s1", keyed.Observation{X: [][]float64{{nan}}, Shape: keyed.Vector}},
		{`{"key":"s1","x":[1,NaN,""]}`, "s1", keyed.Observation{X: [][]float64{{1, nan, nan}}, Shape: keyed.Vector}},
		{`{"key":"s1","x":[[1,null],[],[2,3]]}`, "s1", keyed.Observation{X: [][]float64{{1, nan}, {nan}, {2, 3}}, Shape: keyed.List}},
		{`{"key":"s1","x":[null,[1,2],""]}`, "s1", keyed.Observation{X: [][]float64{{nan}, {1, 2}, {nan}}, Shape: keyed.List}},

		// Keys.
		{`{"key":"a\"\u00e9\n\ud83d\ude00/\/","x":1}`, "a\"é\n😀//", keyed.Observation{X: [][]float64{{1}}}},
		{`{"key":12.50,"x":1}`, "12.50", keyed.Observation{X: [][]float64{{1}}}},
		{`{"\u006bey":"s1","\u0078":1}`, "s1", keyed.Observation{X: [][]float64{{1}}}},
		{`{"Key":"other","X":2,"key":"s1","x":1}`, "s1", keyed.Observation{X: [][]float64{{1}}}},
		{`{"key":true,"x":{},"key":"s1","x":1}`, "s1", keyed.Observation{X: [][]float64{{1}}}},
		{`{"key":"s1","unit":{"a":[1,{"b":[]}],"c":NaN,"d":-Infinity},"ok":true,"no":false,"x":1}`, "s1", keyed.Observation{X: [][]float64{{1}}}},

		// Times.
		{`{"key":"s1","time":null,"x":1}`, "s1", keyed.Observation{X: [][]float64{{1}}}},
		{`{"key":"s1","time":1767323045,"x":1}`, "s1", keyed.Observation{Time: instant, X: [][]float64{{1}}}},
		{`{"key":"s1","time":"1767323045000","x":1}`, "s1", keyed.Observation{Time: instant, X: [][]float64{{1}}}},
		{`{"key":"s1","time":"2026-01-02T03:04:05\u005a","x":1}`, "s1", keyed.Observation{Time: instant, X: [][]float64{{1}}}},
	} {
		t.Run(test.line, func(t *testing.T) {
			key, obs, err := decodeJSON([]byte(test.line))
			expect.OK(t, err)
			equal(t, test.key, key)
			equal(t, test.obs, obs)
		})
	}
}

func TestDecodeJSONRejects(t *testing.T) {
	for _, test := range []struct{ line, reason string }{
		{"", "not JSON: it ends too early"},
		{"s1,2026-01-02,1.2", "not JSON: a value expected at byte 1"},
		{`[1]`, "not a JSON object"},
		{`null`, "not a JSON object"},
		{`{`, "not JSON: it ends too early"},
		{`{"key":"s1\u00`, "not JSON: it ends too early"},
		{`{"key":"s1","x":-`, "not JSON: it ends too early"},
		{`{key:"s1"}`, "not JSON: a string expected at byte 2"},
		{`{"key" "s1"}`, "not JSON: ':' expected at byte 8"},
		{`{"key":"s1",}`, "not JSON: a string expected at byte 13"},
		{`{"key":"s1" "x":1}`, "not JSON: ',' or '}' expected at byte 13"},
		{`{"key":"s1","x":[1 2]}`, "not JSON: ',' or ']' expected at byte 20"},
		{`{"key":"s1","x":[1,]}`, "not JSON: a value expected at byte 20"},
		{`{"key":"s1","u":{"a" 1}}`, "not JSON: ':' expected at byte 22"},
		{`{"key":"s1","x":01}`, "not JSON: ',' or '}' expected at byte 18"},
		{`{"key":"s1","x":+1}`, "not JSON: a value expected at byte 17"},
		{`{"key":"s1","x":1.}`, "not JSON: a digit expected at byte 19"},
		{`{"key":"s1","x":1e}`, "not JSON: a digit expected at byte 19"},
		{`{"key":"s1","x":nul}`, "not JSON: a value expected at byte 17"},
		{`{"key":"s1","x":-Infinity}`, "the number is infinite"},
		{"{\"key\":\"s\t1\"}", "not JSON: a control character in a string at byte 10"},
		{`{"key":"s\1"}`, "not JSON: an unknown escape in a string at byte 11"},
		{`{"key":"s\u00g0"}`, "not JSON: a hexadecimal digit expected at byte 14"},
		{`{"key":"s1"} x`, "not JSON: something follows the object at byte 14"},
		{`{"key":"s1","x":` + strings.Repeat("[", 20_000), "nested too deep"},

		{`{}`, "no key"},
		{`{"key":"s1"}`, `no field "x"`},
		{`{"key":null,"x":1}`, "the key is null"},
		{`{"key":"","x":1}`, "the key is empty"},
		{`{"key":true,"x":1}`, "the key is a boolean, not text"},
		{`{"key":["s1"],"x":1}`, "the key is a list, not text"},
		{`{"key":{},"x":1}`, "the key is empty"},
		{`{"key":NaN,"x":1}`, "the key is NaN, not text"},
		{"{\"key\":\"s\xff\",\"x\":1}", "the key is not UTF-8"},

		{`{"key":"s1","x":"NA"}`, `the text "NA" where a number is due`},
		{`{"key":"s1","x":"-inf"}`, "the number is infinite"},
		{`{"key":"s1","x":Infinity}`, "the number is infinite"},
		{`{"key":"s1","x":1e999}`, "the number 1e999 is out of range"},
		{`{"key":"s1","x":{"a":1}}`, "an object where a number is due"},
		{`{"key":"s1","x":[1,"a"]}`, `the text "a" where a number is due`},
		{`{"key":"s1","x":[1,[2]]}`, "x mixes numbers and vectors"},
		{`{"key":"s1","x":[[[1]]]}`, "x is nested too deep: at most a list of vectors"},

		{`{"key":"s1","time":"yesterday","x":1}`, `the time "yesterday" is in no known format: use ` + times.Understood + ", or set time_format"},
		{`{"key":"s1","time":true,"x":1}`, "the time is a boolean, not text or a number"},
		{`{"key":"s1","time":[1],"x":1}`, "the time is a list, not text or a number"},
		{`{"key":"s1","time":1e300,"x":1}`, "the time 1e300 is outside the years 1 to 9999"},
	} {
		t.Run(test.line[:min(len(test.line), 60)], func(t *testing.T) {
			key, obs, err := decodeJSON([]byte(test.line))
			if err == nil {
				t.Fatalf("accepted as %q %+v", key, obs)
			}
			equal(t, test.reason, err.Error())
		})
	}
}

func TestDecodeFields(t *testing.T) {
	for _, test := range []struct {
		fields []string
		obs    keyed.Observation
	}{
		{[]string{"s1", "2026-01-02 03:04:05", "1.2"}, keyed.Observation{Time: instant, X: [][]float64{{1.2}}}},
		{[]string{"s1", "1767323045", " +1.5e1\t"}, keyed.Observation{Time: instant, X: [][]float64{{15}}}},
		{[]string{"s1", "", "1"}, keyed.Observation{X: [][]float64{{1}}}},
		{[]string{"s1", "", "1", "2"}, keyed.Observation{X: [][]float64{{1, 2}}, Shape: keyed.Vector}},
		{[]string{"s1", "", ".5", "NAN", "", "5."}, keyed.Observation{X: [][]float64{{0.5, nan, nan, 5}}, Shape: keyed.Vector}},
		{[]string{"s1", "", " "}, keyed.Observation{X: [][]float64{{nan}}}},
		{[]string{"s1", "", "-0"}, keyed.Observation{X: [][]float64{{math.Copysign(0, -1)}}}},
		{[]string{"s1", "", "1e-999"}, keyed.Observation{X: [][]float64{{0}}}},
	} {
		t.Run(strings.Join(test.fields, ","), func(t *testing.T) {
			key, obs, err := decodeFields(test.fields)
			expect.OK(t, err)
			equal(t, "s1", key)
			equal(t, test.obs, obs)
		})
	}
}

func TestDecodeFieldsRejects(t *testing.T) {
	for _, test := range []struct {
		fields []string
		reason string
	}{
		{nil, "0 fields; at least 3 are needed"},
		{[]string{"s1", ""}, "2 fields; at least 3 are needed"},
		{[]string{"", "", "1"}, "the key is empty"},
		{[]string{"Z\xfcrich", "", "1"}, "the key is not UTF-8"},
		{[]string{"s1", "noon", "1"}, `the time "noon" is in no known format: use ` + times.Understood + ", or set time_format"},
		{[]string{"s1", "", "abc"}, `the text "abc" where a number is due`},
		{[]string{"s1", "", "1,5"}, `the text "1,5" where a number is due`},
		{[]string{"s1", "", "0x10"}, `the text "0x10" where a number is due`},
		{[]string{"s1", "", "-"}, `the text "-" where a number is due`},
		{[]string{"s1", "", "Inf"}, "the number is infinite"},
		{[]string{"s1", "", "1e999"}, "the number 1e999 is out of range"},
		{[]string{"s1", "", "1", "?"}, `value 2: the text "?" where a number is due`},
	} {
		t.Run(strings.Join(test.fields, ","), func(t *testing.T) {
			_, obs, err := decodeFields(test.fields)
			if err == nil {
				t.Fatalf("accepted as %+v", obs)
			}
			equal(t, test.reason, err.Error())
		})
	}
}

// FuzzDecodeJSON compares decodeJSON with encoding/json: objects with valid types must have the same values.
func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{
		`{"key": "s1", "time": "2026-01-02T03:04:05Z", "x": 1.2}`,
		`{"key":"s\u00e9\ud800","time":1767323045.5,"x":[1,null,""]}`,
		`{"key":-1e5,"time":"2026-01-02 03:04:05","x":[[1,2],[],null]}`,
		`{"u":{"a":[true,false,{}]},"key":"s1","x":NaN}`,
		`{"key":"s1","x":[1,[2]]}`,
		`{"key":"s1","x":["1",true,{"$numberLong":"12"},{"$numberDouble":"NaN"}]}`,
		`{"key":"\ud800","x":[]}`,
		`{"key":"\ufffd\ud83d\ude00\\ud800","x":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		key, obs, err := decodeJSON(line)
		if err != nil && err.Error() == "" {
			t.Fatal("rejected without a reason")
		}
		if err == nil && (key == "" || obs.Shape != keyed.List && len(obs.X) != 1) {
			t.Fatalf("accepted as %q %+v", key, obs)
		}
		for _, row := range obs.X {
			for _, v := range row {
				if math.IsInf(v, 0) {
					t.Fatalf("infinite: %+v", obs)
				}
			}
		}

		var want map[string]json.RawMessage
		if json.Unmarshal(line, &want) != nil || want == nil || !utf8.Valid(line) {
			return
		}
		wantKey, ok := keyByJSON(want["key"])
		if !ok {
			if err == nil {
				t.Fatalf("accepted the key %s", want["key"])
			}
			return
		}
		x, shape, ok := valueByJSON(want["x"])
		if timeText := ""; len(want["time"]) > 0 && (json.Unmarshal(want["time"], &timeText) != nil || timeText != "") {
			// Times are compared separately.
			if err != nil {
				return
			}
		}
		if !ok {
			if err == nil {
				t.Fatalf("accepted x %s as %v", want["x"], obs.X)
			}
			return
		}
		expect.OK(t, err)
		equal(t, wantKey, key)
		equal(t, x, obs.X)
		equal(t, shape, obs.Shape)
	})
}

func keyByJSON(raw json.RawMessage) (string, bool) {
	var key any
	if raw == nil || json.Unmarshal(raw, &key) != nil {
		// The only valid JSON value that does not unmarshal is a number out of range. Its text is still a key.
		return string(raw), raw != nil
	}
	switch key := key.(type) {
	case string:
		return key, key != "" && strings.Count(key, "\ufffd") == replacements(raw)
	case float64:
		return string(raw), true
	}
	return "", false
}

// replacements counts the replacement characters in a JSON text. encoding/json also reads half of a surrogate pair as
// one, and such a key is invalid.
func replacements(raw json.RawMessage) int {
	text := strings.ToLower(strings.ReplaceAll(string(raw), `\\`, ""))
	return strings.Count(text, "\ufffd") + strings.Count(text, `\ufffd`)
}

func valueByJSON(raw json.RawMessage) (x [][]float64, shape keyed.Shape, ok bool) {
	var v any
	if raw == nil || json.Unmarshal(raw, &v) != nil {
		return nil, 0, false
	}
	component := func(v any) (float64, bool) {
		switch v := v.(type) {
		case nil:
			return nan, true
		case float64:
			return v, true
		case string:
			v = strings.TrimSpace(v)
			if v == "" || strings.ToLower(v) == "nan" {
				return nan, true
			}
			c, err := strconv.ParseFloat(v, 64)
			return c, err == nil && strings.Trim(v, "0123456789+-.eE") == ""
		case bool:
			if v {
				return 1, true
			}
			return 0, true
		case map[string]any:
			for name, inner := range v {
				text, isText := inner.(string)
				types := []string{"$numberDouble", "$numberInt", "$numberLong", "$numberDecimal"}
				if len(v) > 1 || !isText || !slices.Contains(types, name) {
					return 0, false
				}
				if text == "NaN" {
					return nan, true
				}
				var c float64
				err := json.Unmarshal([]byte(text), &c)
				return c, err == nil && text != "null" && strings.TrimSpace(text) == text
			}
		}
		return 0, false
	}
	list, isList := v.([]any)
	if !isList {
		c, ok := component(v)
		return [][]float64{{c}}, keyed.Scalar, ok
	}
	if len(list) == 0 {
		return [][]float64{}, keyed.List, true
	}
	vector := []float64{}
	vectors, numbers := false, false
	for _, e := range list {
		row, isVector := e.([]any)
		if !isVector {
			row = []any{e}
		}
		vectors = vectors || isVector
		out := []float64{}
		for _, v := range row {
			c, ok := component(v)
			if !ok {
				return nil, 0, false
			}
			out = append(out, c)
			numbers = numbers || !isVector && !math.IsNaN(c)
		}
		if len(out) == 0 {
			out = []float64{nan}
		}
		x = append(x, out)
		vector = append(vector, out...)
	}
	if !vectors {
		return [][]float64{vector}, keyed.Vector, true
	}
	return x, keyed.List, !numbers
}

func FuzzDecodeFields(f *testing.F) {
	f.Add("s1", "2026-01-02T03:04:05Z", "1.2", "NaN")
	f.Add("s1", "1767323045000", "-inf", "0x1p4")
	f.Fuzz(func(t *testing.T, key, time, x1, x2 string) {
		fields := []string{key, time, x1, x2}
		got, obs, err := decodeFields(fields)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("rejected without a reason")
			}
			return
		}
		if got != key || !obs.Time.IsZero() && (obs.Time.Year() < 1 || obs.Time.Year() > 9999) {
			t.Fatalf("%q %+v", got, obs)
		}
		want := fields[2:]
		if len(obs.X) != 1 || len(obs.X[0]) != len(want) {
			t.Fatalf("%d fields became %v", len(want), obs.X)
		}
		for i, v := range obs.X[0] {
			s := strings.ToLower(strings.TrimSpace(want[i]))
			if math.IsInf(v, 0) || math.IsNaN(v) != (s == "" || s == "nan") {
				t.Fatalf("%q became %v", want[i], v)
			}
		}
	})
}

// TestFields checks records of files and topics with settings other than the defaults.
func TestFields(t *testing.T) {
	const jsonPath = `{path: in.jsonl, key: [site.name, device.id], time: meta.at, values: [data.bar], zone: Europe/Berlin, missing: [NA, -999, null]}`
	obs := func(t time.Time, x ...float64) keyed.Observation {
		o := keyed.Observation{Time: t, X: [][]float64{x}}
		if len(x) > 1 {
			o.Shape = keyed.Vector
		}
		return o
	}
	for _, test := range []struct {
		keys, line string
		from       origin
		key        string
		want       keyed.Observation
		err        string
	}{
		{jsonPath, `{"site":{"name":"a"},"device":{"id":7,"x":[{"id":8}]},"meta":{"at":"2026-01-02 04:04:05"},"data":{"bar":1.5}}`, origin{}, "a/7", obs(instant, 1.5), ""},
		{jsonPath, `{"site.name":"a","device":{"id":7},"meta.at":1767323045,"data":{"bar":null}}`, origin{}, "a/7", obs(instant, nan), ""},
		{jsonPath, `{"site":{"name":"a"},"device":{"id":7},"meta":{},"data":{"bar":"NA"}}`, origin{}, "a/7", obs(time.Time{}, nan), ""},
		{jsonPath, `{"site":{"name":"a"},"device":{"\u0069d":"b"},"data":{"b\u0061r":-999}}`, origin{}, "a/b", obs(time.Time{}, nan), ""},
		{jsonPath, `{"site":{"name":"a"},"device":{"id":7},"data":{"bar":[1,2]}}`, origin{}, "a/7", obs(time.Time{}, 1, 2), ""},
		{jsonPath, `{"site":{"name":"a"},"device":7,"data":{"bar":1}}`, origin{key: []byte("k")}, "", keyed.Observation{}, `no key: no field "device.id", in its part "device.id"`},
		{jsonPath, `{"site":{"name":""},"device":{"id":7},"data":{"bar":1}}`, origin{}, "", keyed.Observation{}, `the key is empty, in its part "site.name"`},
		{jsonPath, `{"site":{"name":"a"},"device":{"id":7},"data":{}}`, origin{}, "a/7", keyed.Observation{}, `no field "data.bar"`},
		{jsonPath, `{"site":{"name":"a"},"device":{"id":7},"meta":{"at":1767323045},"data":{"bar":{}}}`, origin{}, "a/7", keyed.Observation{Time: instant}, `an object where a number is due`},
		{jsonPath, `{"site":{"name":"a"},"device":{"id":7},"data":[{"bar":1}]}`, origin{}, "a/7", keyed.Observation{}, `no field "data.bar"`},
		{`{key: none, values: [a, b]}`, `{"a":1,"b":2}`, origin{series: "in", key: []byte("k")}, "in", obs(time.Time{}, 1, 2), ""},
		{`{key: none, values: [a, b]}`, `{"a":1,"b":null}`, origin{series: "in"}, "in", obs(time.Time{}, 1, nan), ""},
		{`{key: none, values: [a, b]}`, `{"a":1}`, origin{series: "in"}, "in", keyed.Observation{}, `no field "b"`},
		{`{key: none, values: [a, b]}`, `{"a":1,"b":[2]}`, origin{series: "in"}, "in", keyed.Observation{}, `field "b": a list where a number is due`},
		{`{key: [none]}`, `{"none":"n","x":1}`, origin{series: "in"}, "n", obs(time.Time{}, 1), ""},
		{`{key: pump}`, `{"x":1}`, origin{key: []byte("k")}, "k", obs(time.Time{}, 1), ""},
		{`{key: pump}`, `{"x":1}`, origin{key: []byte("k\xff")}, "", keyed.Observation{}, "the key is not UTF-8"},
		{`{key: pump}`, `{"x":1}`, origin{}, "", keyed.Observation{}, `no key: no field "pump"`},
		{`{time: ""}`, `{"key":"k","":"noon","x":1}`, origin{}, "k", obs(time.Time{}, 1), ""},
		{`{time_format: '%Y%m%d'}`, `{"key":"k","time":20260102,"x":1}`, origin{}, "k", obs(instant.Truncate(24*time.Hour), 1), ""},
		{`{values: [a,b,c,d,e,f,g,h,i]}`, `{"key":"k","i":9,"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8}`, origin{}, "k", obs(time.Time{}, 1, 2, 3, 4, 5, 6, 7, 8, 9), ""},
	} {
		t.Run(test.keys+test.line, func(t *testing.T) {
			var o keyed.Observation
			key, err := parserFor(test.keys).json([]byte(test.line), test.from, &o)
			reason := ""
			if err != nil {
				reason = err.Error()
			}
			equal(t, test.err, reason)
			equal(t, test.key, key)
			equal(t, test.want, o)
		})
	}
}

// TestFieldsOfTables checks table rows with settings other than the defaults.
func TestFieldsOfTables(t *testing.T) {
	for _, test := range []struct {
		fields config.Fields
		row    string
		key    string
		x      float64
		err    string
	}{
		{config.Fields{Key: []string{"a", "b"}, Values: []string{"x"}}, "p;q;;1", "p/q", 1, ""},
		{config.Fields{Key: []string{"a", "b"}, Values: []string{"x"}}, "p;;;1", "", 0, `the key is empty, in its part "b"`},
		{config.Fields{Values: []string{"x"}}, ";1", "series", 1, ""},
		{config.Fields{Values: []string{"x"}, Decimal: ','}, ";-1,5e3", "series", -1500, ""},
		{config.Fields{Values: []string{"x"}, Decimal: ','}, ";15", "series", 15, ""},
		{config.Fields{Values: []string{"x"}, Decimal: ','}, ";1.5", "series", 0, `the text "1.5" where a number is due`},
		{config.Fields{Values: []string{"x"}, Decimal: ','}, ";1,5,0", "series", 0, `the text "1,5,0" where a number is due`},
		{config.Fields{Values: []string{"x"}, Missing: []string{"NA", "-"}}, "; NA", "series", nan, ""},
		{config.Fields{Values: []string{"x"}, Missing: []string{"NA", "-"}}, ";-", "series", nan, ""},
		{config.Fields{Values: []string{"x"}, Missing: []string{"NA", "-"}}, ";", "series", nan, ""},
		{config.Fields{Values: []string{"x"}, Missing: []string{"NA", "-"}}, ";na", "series", 0, `the text "na" where a number is due`},
	} {
		t.Run(test.row, func(t *testing.T) {
			p := expect.Get(NewParser(test.fields))(t)
			var o keyed.Observation
			key, err := p.row(strings.Split(test.row, ";"), origin{series: "series"}, &o)
			reason := ""
			if err != nil {
				reason = err.Error()
			}
			equal(t, test.err, reason)
			equal(t, test.key, key)
			if err == nil {
				equal(t, [][]float64{{test.x}}, o.X)
			}
		})
	}
}
