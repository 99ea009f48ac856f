package decode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/promio"
	"hafvf/internal/domain"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// fileOf decodes a record of a file with one observation.
func fileOf(d *Decoder, records []connectors.Record) (one Decoded) {
	d.File(records, func(found []Decoded) { one = found[0] })
	return one
}

// split decodes lines of JSON into texts of their observations.
func split(t *testing.T, f config.Fields, lines ...string) (results []string) {
	t.Helper()
	p := expect.Get(NewParser(f))(t)
	var records []connectors.Record
	for i, line := range lines {
		records = append(records, connectors.Record{Source: "in", Position: int64(i + 1), Raw: []byte(line)})
	}
	NewDecoder(connectors.JSONLines, p).File(records, func(found []Decoded) {
		for _, o := range found {
			if o.Err != nil {
				results = append(results, fmt.Sprintf("%s: %v", o.ID, o.Err))
				continue
			}
			results = append(results, fmt.Sprintf("%s: %s %d %v", o.ID, o.Key, o.Time.Unix(), o.X))
		}
	})
	return results
}

func TestWideObjects(t *testing.T) {
	lines := []string{
		`{"time":100,"site":"a/b","S1":1,"S2":2.5,"note":"x","S\u0033":null}`,
		`{"S1":"bad","S2":NaN,"time":101,"site":"c","S2":7}`,
		`[1]`,
		`{"time":102,"site":"c","note":"y"}`,
		`{"time":103,"S1":4}`,
	}
	for _, c := range []struct {
		key, columns []string
		want         []string
	}{
		{nil, []string{"*"}, []string{
			"in:1: S1 100 [[1]]", "in:1: S2 100 [[2.5]]", "in:1: S3 100 [[NaN]]", "in:2: S2 101 [[7]]", "in:3: not a JSON object",
			"in:4: no field with a number matches *", "in:5: S1 103 [[4]]",
		}},
		{[]string{"site"}, []string{"S1", "S?"}, []string{
			"in:1: a%2Fb/S1 100 [[1]]", "in:1: a%2Fb/S2 100 [[2.5]]", "in:1: a%2Fb/S3 100 [[NaN]]", `in:2: the text "bad" where a number is due`, "in:2: c/S2 101 [[7]]",
			"in:3: not a JSON object", "in:4: no field with a number matches S1, S?", `in:5: no key: no field "site", in its part "site"`,
		}},
	} {
		got := split(t, config.Fields{Key: c.key, Time: []string{"time"}, Values: []string{"value"}, Columns: c.columns, Layout: config.Wide}, lines...)
		expect.Same(t, c.want, got, c.key, ", ", c.columns)
	}
}

func TestSeries(t *testing.T) {
	f := config.Fields{Key: []string{"metric"}, Time: []string{"timestamps"}, Values: []string{"values"}, Layout: config.Series}
	got := split(t, f,
		`{"metric":{"job":"x","__name__":"up","a":"q\"\\"},"values":[1,null,"2.5"],"timestamps":[1767225600000,1767225601000,1767225602000]}`,
		`{"metric":"m","values":[1,2],"timestamps":[1]}`,
		`{"metric":"m","values":[],"timestamps":[]}`,
		`{"metric":{},"values":[1],"timestamps":[1]}`,
		`{"metric":{"a":[1]},"values":[1],"timestamps":[1]}`,
		`{"metric":{"job":"y"},"values":[[1767225600.5,"1"],[1767225660,"NaN"],[1767225720,"+Inf"]]}`,
		`{"metric":"m","values":[1]}`,
		`{"metric":"m","timestamps":[1]}`,
		`{"metric":"m","values":1,"timestamps":[1]}`,
	)
	want := []string{
		`in:1/0: up{a="q\"\\",job="x"} 1767225600 [[1]]`, `in:1/1: up{a="q\"\\",job="x"} 1767225601 [[NaN]]`, `in:1/2: up{a="q\"\\",job="x"} 1767225602 [[2.5]]`,
		`in:2: 1 times in "timestamps" and 2 values in "values"`,
		"in:4/0: the key is empty",
		`in:5/0: the label "a" of the key is a list, not text`,
		`in:6/0: {job="y"} 1767225600 [[1]]`, `in:6/1: {job="y"} 1767225660 [[NaN]]`, `in:6/2: the number is infinite`,
		`in:7: no list of times "timestamps", and the elements of "values" are not pairs of a time and a value`,
		`in:8: no field "values"`,
		`in:9: the field "values" is a number; the layout series needs a list`,
	}
	expect.Same(t, want, got)
}

// TestSeriesWithoutTimes checks that lists of trials without times are read in their order.
func TestSeriesWithoutTimes(t *testing.T) {
	f := config.Fields{Key: []string{"subject"}, Time: nil, Values: []string{"rts"}, Layout: config.Series, Untimed: true}
	none := time.Time{}.Unix()
	got := split(t, f, `{"subject":"p","rts":[512.5,null,"7"]}`, `{"subject":"q","rts":[]}`, `{"subject":"r","rts":[[1,2]]}`)
	want := []string{fmt.Sprintf("in:1/0: p %d [[512.5]]", none), fmt.Sprintf("in:1/1: p %d [[NaN]]", none), fmt.Sprintf("in:1/2: p %d [[7]]", none)}
	if len(got) < 3 {
		t.Fatal(got)
	}
	expect.Same(t, want, got[:3])
}

// TestAnsweredSeries checks that the series of a Prometheus response are read from one object, with consecutive
// numbers.
func TestAnsweredSeries(t *testing.T) {
	f := config.Fields{Key: []string{"metric"}, Time: []string{"time"}, Values: []string{"values"}, Layout: config.Series}
	got := split(t, f,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"1"},"values":[[1,"2"],[2,"3"]]},{"metric":{"a":"2"}},{"metric":{"a":"3"},"values":[[3,"4"]]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`,
		`{"status":"error","error":"\"resultType\""}`,
	)
	want := []string{`in:1/0: {a="1"} 1 [[2]]`, `in:1/1: {a="1"} 2 [[3]]`, `in:1: no field "values"`, `in:1/3: {a="3"} 3 [[4]]`, `in:2: no field "values"`, `in:3: no field "values"`}
	expect.Same(t, want, got)
}

// TestLongSeries checks that a long list is decoded in chunks.
func TestLongSeries(t *testing.T) {
	times, values := "0", "0"
	for i := 1; i <= 2*MaxBatch; i++ {
		times += fmt.Sprintf(",%d", i)
		values += fmt.Sprintf(",%d", i*i)
	}
	got := split(t, config.Fields{Key: []string{"k"}, Time: []string{"t"}, Values: []string{"v"}, Layout: config.Series}, `{"k":"a","v":[`+values+`],"t":[`+times+`]}`)
	if last := fmt.Sprintf("in:1/%d: a %d [[%v]]", 2*MaxBatch, 2*MaxBatch, float64(4*MaxBatch*MaxBatch)); len(got) != 2*MaxBatch+1 || got[2*MaxBatch] != last {
		t.Errorf("%d observations, the last %q, want %q", len(got), got[len(got)-1], last)
	}
}

// TestVeryWideObjects checks that an object with very many fields is decoded fast, and that their number is limited.
func TestVeryWideObjects(t *testing.T) {
	object := func(fields int) string {
		var b strings.Builder
		b.WriteString(`{"time":1`)
		for i := range fields {
			fmt.Fprintf(&b, `,"c%d":%d`, i, i%7)
		}
		return b.String() + "}"
	}
	f := config.Fields{Time: []string{"time"}, Layout: config.Wide, Columns: []string{"*"}, Values: []string{"value"}}
	if results := split(t, f, object(100_000), object(100_000)); len(results) != 200_000 || results[199_999] != "in:2: c99999 1 [[4]]" {
		t.Errorf("%d observations, the last one %s", len(results), results[len(results)-1])
	}
	results := split(t, f, object(connectors.MaxColumns+1), object(1))
	if len(results) != 2 || !strings.Contains(results[0], "more than 262144 fields") || results[1] != "in:2: c0 1 [[0]]" {
		t.Errorf("%d observations of an object of too many fields and of one, the first one %.200s", len(results), results[0])
	}
}

// TestLongKeys checks that a key that is too long is rejected, from every source.
func TestLongKeys(t *testing.T) {
	longest := strings.Repeat("k", domain.MaxKey)
	want := "the key has 65537 bytes; at most 65536 are allowed"
	reason := func(d Decoded) string {
		if d.Err == nil {
			return ""
		}
		return d.Err.Error()
	}
	for key, want := range map[string]string{longest: "", longest + "k": want} {
		f := config.Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}}
		p := expect.Get(NewParser(f))(t)
		line := []byte(fmt.Sprintf(`{"key":%q,"time":1,"x":2}`, key))
		if d := fileOf(NewDecoder(connectors.JSONLines, p), []connectors.Record{{Raw: line}}); reason(d) != want || d.Err != nil && d.Key != "" {
			t.Errorf("JSON Lines: %v", d.Err)
		}
		if d := fileOf(NewDecoder(connectors.CSV, p), []connectors.Record{{Fields: []string{key, "1", "2"}}}); reason(d) != want {
			t.Errorf("CSV: %v", d.Err)
		}
		if d := NewDecoder("", p).Topic([]kafkaio.Record{{Value: line}})[0]; reason(d) != want {
			t.Errorf("topic: %v", d.Err)
		}
		if d := NewDecoder("", p).Topic([]kafkaio.Record{{Key: []byte(key), Value: []byte(`{"time":1,"x":2}`)}})[0]; reason(d) != want {
			t.Errorf("the key of a topic's record: %v", d.Err)
		}
		NewDecoder("", p).Series([]promio.Series{{Key: key, Points: []model.SamplePair{{Value: 1}}}}, func(found []Decoded) {
			if d := found[0]; reason(d) != want || len(d.ID) > domain.MaxKey+100 {
				t.Errorf("Prometheus: %v, an id of %d bytes", d.Err, len(d.ID))
			}
		})
	}
}
