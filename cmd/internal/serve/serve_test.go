package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// A client asks a server as a caller does.
type client struct {
	testing.TB
	*Server
}

func newClient(t testing.TB) client {
	c := client{t, &Server{Version: "1"}}
	c.must('h', []byte(`{"protocol":1,"version":"1"}`))
	return c
}

// ask sends bytes, and returns the frame that answers them.
func (c client) ask(frame []byte) (kind byte, payload []byte) {
	c.Helper()
	var out bytes.Buffer
	expect.OK(c, c.Serve(bytes.NewReader(frame), &out))
	kind, payload, err := readFrame(&out)
	expect.OK(c, err)
	if out.Len() > 0 {
		c.Fatalf("%d bytes more than a frame", out.Len())
	}
	return kind, payload
}

// must returns the answer to a frame that is right.
func (c client) must(kind byte, payload []byte) []byte {
	c.Helper()
	got, answer := c.ask(appendFrame(nil, kind, payload))
	if got != kind {
		c.Fatalf("%c %s", got, answer)
	}
	return answer
}

// refused returns what is said of a frame that is wrong.
func (c client) refused(frame []byte) (e codedError) {
	c.Helper()
	kind, answer := c.ask(frame)
	if kind != 'e' {
		c.Fatalf("%c %.100q", kind, answer)
	}
	expect.OK(c, json.Unmarshal(answer, &e))
	return e
}

func (c client) model(s Settings) (d Description) {
	c.Helper()
	expect.OK(c, json.Unmarshal(c.must('s', jsonOf(s)), &d))
	return d
}

// A request is a batch that a caller sends.
type request struct {
	model, flags uint32
	length       int
	horizon, now int64
	keys         []sent
	written      string
}

type sent struct {
	key    string
	state  []byte
	times  []int64
	values []float64
	ids    []string
}

func text[T string | []byte](b []byte, s T) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

func (r *request) payload() []byte {
	n := binary.LittleEndian
	var b []byte
	for _, v := range []uint32{r.model, r.flags, uint32(r.length), uint32(len(r.keys))} {
		b = n.AppendUint32(b, v)
	}
	b = n.AppendUint64(n.AppendUint64(b, uint64(r.horizon)), uint64(r.now))
	for _, k := range r.keys {
		if b = text(b, k.key); k.state == nil {
			b = n.AppendUint32(b, math.MaxUint32)
		} else {
			b = text(b, k.state)
		}
		b = n.AppendUint32(b, uint32(len(k.times)))
	}
	for _, k := range r.keys {
		for _, t := range k.times {
			b = n.AppendUint64(b, uint64(t))
		}
	}
	for _, k := range r.keys {
		for _, x := range k.values {
			b = n.AppendUint64(b, math.Float64bits(x))
		}
	}
	for _, k := range r.keys {
		for _, id := range k.ids {
			b = text(b, id)
		}
	}
	if r.flags&withWritten != 0 {
		b = text(b, r.written)
	}
	return b
}

// A reply is the answer to a batch.
type reply struct {
	states                   [][]byte
	rows, rejects            []int
	deadlines                []int64
	places, rejected         []int32
	times                    []int64
	columns                  map[string][]float64
	records, alerts, refused string
}

func (c client) batch(d Description, r request) (a reply) {
	c.Helper()
	r.model = uint32(d.Model)
	in := &cursor{b: c.must('b', r.payload())}
	rows, rejects := 0, 0
	for range r.keys {
		a.states = append(a.states, in.text())
		a.rows, a.rejects = append(a.rows, int(in.uint32())), append(a.rejects, int(in.uint32()))
		a.deadlines = append(a.deadlines, in.int64())
		rows, rejects = rows+a.rows[len(a.rows)-1], rejects+a.rejects[len(a.rejects)-1]
	}
	if r.flags&withColumns != 0 {
		for range rows {
			a.places = append(a.places, int32(in.uint32()))
		}
		for range rows {
			a.times = append(a.times, in.int64())
		}
		a.columns = map[string][]float64{}
		for _, name := range d.Columns {
			for range rows {
				a.columns[name] = append(a.columns[name], math.Float64frombits(uint64(in.int64())))
			}
		}
	}
	for range rejects {
		a.rejected = append(a.rejected, int32(in.uint32()))
	}
	a.records, a.alerts, a.refused = string(in.text()), string(in.text()), string(in.text())
	if in.cut || len(in.b) > 0 {
		c.Fatalf("an answer with %d bytes left, cut: %v", len(in.b), in.cut)
	}
	return a
}

// one is a batch of one key, of one number an observation, every minute from a start.
func one(key string, state []byte, from int, values ...float64) sent {
	k := sent{key: key, state: state, values: values}
	for i := range values {
		k.times = append(k.times, minute(from+i))
	}
	return k
}

func minute(i int) int64 { return int64(i) * int64(time.Minute) }

const allOf = withRecords | withColumns | withAlerts | withStates

// Rows and rejects say which observation of the batch they are of, also of those that have waited.
func TestPlaces(t *testing.T) {
	c := newClient(t)
	d := c.model(Settings{Text: "model: {family: poisson}\nlateness: 3m\n"})
	k := sent{key: "a", times: []int64{minute(5), minute(4), minute(9), minute(1), none}, values: []float64{1, 2, 3, 4, 5}}
	a := c.batch(d, request{flags: allOf, length: 1, horizon: none, now: none, keys: []sent{k, one("b", nil, 1, 7, -1, math.NaN())}})
	expect.Same(t, []int{2, 0}, a.rows, "rows")
	expect.Same(t, []int32{1, 0}, a.places[:2])
	expect.Same(t, []int32{3, 4, 6}, a.rejected)
	for i, want := range []string{"late: ", "no time", "below zero"} {
		if got := strings.Split(a.refused, "\n")[i]; !strings.Contains(got, want) {
			t.Errorf("rejected for %s, not %s", got, want)
		}
	}
	again := c.batch(d, request{flags: allOf, length: 1, horizon: end, now: none, keys: []sent{
		{key: "a", state: a.states[0], times: []int64{minute(9), minute(8)}, values: []float64{6, 7}}, {key: "b", state: a.states[1]},
	}})
	expect.Same(t, []int{3, 2}, again.rows)
	expect.Same(t, []int32{1, -1, 0, -1, -1}, again.places)
	expect.Same(t, []float64{7, 3, 6, 7}, again.columns["x"][:4])
	if x := again.columns["x"][4]; !math.IsNaN(x) {
		t.Errorf("missing is %v", x)
	}
	expect.Same(t, minute(9+3), a.deadlines[0], "a lateness after the first that waits")
}

// Observations without times are learned as they come.
func TestArrival(t *testing.T) {
	c := newClient(t)
	e := c.refused(appendFrame(nil, 's', jsonOf(Settings{Untimed: true})))
	if !strings.Contains(e.Text, "order: arrival") {
		t.Errorf("%+v", e)
	}
	d := c.model(Settings{Text: "order: arrival", Untimed: true})
	a := c.batch(d, request{flags: allOf, length: 1, horizon: end, now: none, keys: []sent{{key: "a", times: []int64{none, none}, values: []float64{3, 1}}}})
	expect.Same(t, []int64{none, none}, a.times)
	expect.Same(t, []float64{3, 1}, a.columns["x"])
	expect.Same(t, int64(none), a.deadlines[0])
}

// Times that are far apart may have more intervals between them than an answer takes.
func TestManyIntervals(t *testing.T) {
	defer func(n int) { maxRows = n }(maxRows)
	maxRows = 1000
	c := newClient(t)
	c.model(Settings{Text: "model: {family: poisson}\naggregate: {every: 1m, value: count}"})
	r := request{flags: allOf, horizon: end, now: none, keys: []sent{{key: "a", times: []int64{minute(1), minute(500)}}}}
	c.must('b', r.payload())
	r.keys[0].times[1] = minute(5000)
	if e := c.refused(appendFrame(nil, 'b', r.payload())); e.Code != "batch" || e.Key != "a" || !strings.Contains(e.Text, "more than 1000 rows") {
		t.Errorf("%+v", e)
	}
}

// At its deadline there is something to tell of a key: a silence, once, and then that it is forgotten.
func TestDeadlines(t *testing.T) {
	c := newClient(t)
	d := c.model(Settings{Text: "silence: {after: 1h}\nexpire: 24h"})
	ask := func(k sent, now int64) (state []byte, deadline int64, alerts string) {
		a := c.batch(d, request{flags: allOf, length: 1, horizon: now, now: now, keys: []sent{k}})
		return a.states[0], a.deadlines[0], a.alerts
	}
	state, at, alerts := ask(one("a", nil, 0, make([]float64, 100)...), minute(99))
	if at <= minute(100) || at > minute(24*60) || alerts != "" {
		t.Fatalf("the deadline is %v, alerts %s", timeOf(at), alerts)
	}
	_, same, alerts := ask(sent{key: "a", state: state}, at-1)
	if same != at || alerts != "" {
		t.Errorf("before it: %v, %s", timeOf(same), alerts)
	}
	silent, next, alerts := ask(sent{key: "a", state: state}, at)
	if !strings.Contains(alerts, `"kind":"silent"`) || next <= at {
		t.Errorf("at it: %v, %s", timeOf(next), alerts)
	}
	if gone, never, alerts := ask(sent{key: "a", state: silent}, next); len(gone) > 0 || never != none || alerts != "" {
		t.Errorf("at the next: %x, %v, %s", gone, timeOf(never), alerts)
	}
	_, _, alerts = ask(one("a", silent, 200, 0), minute(200))
	if !strings.Contains(alerts, `"kind":"recovered"`) {
		t.Errorf("it is back: %s", alerts)
	}
}

// What is wrong with settings is said in the words of the configuration.
func TestSettings(t *testing.T) {
	c := newClient(t)
	for _, s := range []struct{ text, want string }{
		{"model: {family: nomal}", `settings:1: model.family: unknown value "nomal"; did you mean "normal"?`},
		{"detect: true\nlatenes: 1h", "settings:2: latenes: unknown key; did you mean \"lateness\"?"},
		{"quiet:\n - file: times.jsonl", "settings:2: quiet.0.file: hafvf-serve opens no files: give the content of the file"},
		{`{"detect": {"holidays": {"file": "/etc/passwd"}}}`, "settings:1: detect.holidays.file: hafvf-serve opens no files"},
		{"transform: smooth", "settings:1: transform: must be filter"},
		{"model: {family: normal} # mv", "source.values: names 2 columns; normal takes 1"},
		{"model: [", "not YAML"},
	} {
		e := c.refused(appendFrame(nil, 's', jsonOf(Settings{Text: s.text, Values: []string{"x", "y"}[:1+strings.Count(s.text, "mv")]})))
		if e.Code != "settings" || !strings.Contains(e.Text, s.want) {
			t.Errorf("%s: %s %s\nwithout %s", s.text, e.Code, e.Text, s.want)
		}
	}
	d := c.model(Settings{Text: "source: {csv: {path: nothing.csv}}\nalerts: {jsonl: {path: x}}\ndetect: true"})
	expect.Same(t, []string{"source", "alerts"}, d.Unused)
	if !strings.Contains(d.Settings, `"family":"normal"`) || !strings.Contains(d.Settings, `"warm_up":50`) {
		t.Errorf("by default %s", d.Settings)
	}
	expect.Same(t, d, c.model(Settings{Text: "source: {csv: {path: nothing.csv}}\nalerts: {jsonl: {path: x}}\ndetect: true"}))
	expect.Same(t, 1, c.model(Settings{}).Model)
}

// Another protocol or version is refused, and frames before hello.
func TestHello(t *testing.T) {
	c := client{t, &Server{Version: "1.2"}}
	for payload, want := range map[string]string{`{"protocol":2,"version":"1.2"}`: "its caller protocol 2", `{"protocol":1,"version":"1.3"}`: "is 1.2, and its caller 1.3", "{": "hello"} {
		if e := c.refused(appendFrame(nil, 'h', []byte(payload))); e.Code != "version" || !strings.Contains(e.Text, want) {
			t.Errorf("%s: %+v", payload, e)
		}
	}
	expect.Same(t, "version", c.refused(appendFrame(nil, 's', []byte("{}"))).Code)
	expect.Same(t, `{"protocol":1,"version":"1.2"}`, string(c.must('h', []byte(`{"protocol":1}`))))
}

// A panic is an answer, and the server goes on.
func TestPanic(t *testing.T) {
	c := newClient(t)
	c.models = []*model{nil}
	r := request{horizon: none, now: none}
	if e := c.refused(appendFrame(nil, 'b', r.payload())); e.Code != "panic" || !strings.Contains(e.Text, "please report it") {
		t.Errorf("%+v", e)
	}
	expect.Same(t, 1, c.model(Settings{}).Model)
}

// A false length takes no memory but for what comes, and no frame is lost by a wrong one.
func TestLengths(t *testing.T) {
	c := newClient(t)
	var out bytes.Buffer
	if n := testing.AllocsPerRun(1, func() {
		expect.OK(t, c.Serve(strings.NewReader("\x00\x00\x00\x40sss"), &out))
	}); n > 20 || out.Len() > 0 {
		t.Errorf("%v allocations, %d bytes", n, out.Len())
	}
	in := append([]byte("\x02\x00\x00\x00xx"), appendFrame(nil, 'h', []byte(`{"protocol":1}`))...)
	expect.OK(t, c.Serve(bytes.NewReader(in), &out))
	kind, _, err := readFrame(&out)
	expect.OK(t, err)
	expect.Same(t, byte('e'), kind)
	kind, _, err = readFrame(&out)
	expect.OK(t, err)
	expect.Same(t, byte('h'), kind)
}

// A flipped byte of a frame, behind its length, is an error, and the server goes on.
func TestFlippedBytes(t *testing.T) {
	c := newClient(t)
	d := c.model(Settings{})
	right := request{model: uint32(d.Model), flags: allOf, length: 1, horizon: end, now: none, keys: []sent{one("a", nil, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)}}
	frame := appendFrame(nil, 'b', right.payload())
	want := c.must('b', right.payload())
	for i := range 300 {
		bad := bytes.Clone(frame)
		bad[4+i*7%(len(bad)-4)] ^= byte(1 + i%255)
		expect.Same(t, "frame", c.refused(bad).Code)
	}
	// With a checksum that is right it is an error or other numbers.
	for i := range 300 {
		bad := right.payload()
		bad[i*5%len(bad)] ^= byte(1 << (i % 8))
		if kind, answer := c.ask(appendFrame(nil, 'b', bad)); kind != 'b' && bytes.Contains(answer, []byte("panic")) {
			t.Errorf("byte %d: %s", i*5%len(bad), answer)
		}
	}
	if got := c.must('b', right.payload()); !bytes.Equal(got, want) {
		t.Error("another answer than before")
	}
}

// A state is that of its settings, and is checked before it is read.
func TestStates(t *testing.T) {
	c := newClient(t)
	d, other := c.model(Settings{Text: "model: {family: normal}"}), c.model(Settings{Text: "model: {family: normal}\ntop: 0.9"})
	ask := func(model Description, state []byte, flags uint32) (byte, string) {
		r := request{model: uint32(model.Model), flags: flags, length: 1, horizon: none, now: none, keys: []sent{one("a", state, 9, 1)}, written: d.Settings}
		kind, answer := c.ask(appendFrame(nil, 'b', r.payload()))
		return kind, string(answer)
	}
	state := c.batch(d, request{flags: withStates, length: 1, horizon: none, now: none, keys: []sent{one("a", nil, 0, 1, 2, 3)}}).states[0]
	if kind, said := ask(other, state, withStates|withWritten); kind != 'e' || !strings.Contains(said, `"code":"other_config"`) || !strings.Contains(said, "top") {
		t.Errorf("of other settings: %c %s", kind, said)
	}
	if kind, said := ask(other, state, withStates|withWritten|migrates); kind != 'b' {
		t.Errorf("migrated: %c %s", kind, said)
	}
	for i := range state {
		bad := bytes.Clone(state)
		bad[i] ^= 4
		if kind, said := ask(d, bad, withStates); kind != 'e' || !strings.Contains(said, `"code":"state"`) || !strings.Contains(said, `"key":"a"`) {
			t.Fatalf("byte %d: %c %s", i, kind, said)
		}
	}
}

// Columns have the numbers of the records.
func TestColumns(t *testing.T) {
	for _, s := range []struct {
		settings Settings
		length   int
	}{
		{Settings{Text: "{detect: true, interval: 0.9, quiet: [{match: '*', from: '1970-01-01T00:20:00Z', to: '1970-01-01T00:25:00Z'}]}"}, 1},
		{Settings{Text: "{model: {family: mvnormal, prior: auto}, detect: true, interval: 0.9}", Values: []string{"u", "v"}}, 2},
		{Settings{Text: "{model: {family: binomial}}", Values: []string{"k", "n"}}, 2},
		{Settings{Text: "{model: {family: categorical, prior: {alpha: [1, 1, 1]}}}"}, 1},
		{Settings{Text: "{model: {family: regression, dim: 3}}", Values: []string{"a", "b", "y"}}, 3},
		{Settings{Text: "{aggregate: {every: 10m, value: mean}, detect: true}"}, 1},
		{Settings{Text: "{model: {family: poisson}, aggregate: {every: 10m, value: count}}"}, 0},
	} {
		c := newClient(t)
		d := c.model(s.settings)
		k := sent{key: "a"}
		for i := range 200 {
			k.times = append(k.times, minute(i))
			for j := range s.length {
				k.values = append(k.values, float64((i*(j+1))%3))
				if d.Columns[1] == "x_0" && j == 1 && strings.Contains(s.settings.Text, "binomial") {
					k.values[len(k.values)-1] = 5
				}
			}
		}
		a := c.batch(d, request{flags: allOf, length: s.length, horizon: end, now: none, keys: []sent{k}})
		lines := strings.Split(strings.TrimSuffix(a.records, "\n"), "\n")
		if a.rejects[0] > 0 || len(lines) != a.rows[0] || len(lines) < 20 {
			t.Errorf("%s: %d records, %s", s.settings.Text, len(lines), a.refused)
			continue
		}
		for i, line := range lines {
			var of map[string]any
			expect.OK(t, json.Unmarshal([]byte(line), &of))
			expect.Same(t, of["time"], timeOf(a.times[i]).Format(time.RFC3339Nano))
			flat := map[string]float64{}
			flatten("", of, flat, d.Names)
			for name, column := range a.columns {
				want, has := flat[name]
				if optional := name == "warm_up" || name == "quiet"; !has && !optional {
					t.Fatalf("%s: %s is in no record, such as %s", s.settings.Text, name, line)
				}
				if delete(flat, name); want != column[i] && !(math.IsNaN(want) && math.IsNaN(column[i])) {
					t.Fatalf("%s: %s is %v, not %v as in %s", s.settings.Text, name, column[i], want, line)
				}
			}
			if len(flat) > 0 {
				t.Fatalf("%s: no columns %v", s.settings.Text, flat)
			}
		}
	}
}

// flatten names the numbers of a record as the columns do.
func flatten(at string, v any, flat map[string]float64, names map[string][]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, of := range v {
			if at == "" && (name == "key" || name == "time" || name == "id") {
				continue
			}
			flatten(strings.TrimPrefix(at+"_"+name, "_"), of, flat, names)
		}
	case []any:
		for i, of := range v {
			flatten(fmt.Sprint(at, "_", i), of, flat, names)
		}
	case float64:
		flat[at] = v
	case bool:
		flat[at] = map[bool]float64{true: 1}[v]
	case string:
		flat[at] = float64(slices.Index(names[at], v))
	case nil:
		flat[at] = math.NaN()
	}
}
