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

// A client sends requests to a server like a caller.
type client struct {
	testing.TB
	*Server
}

func newClient(t testing.TB) client {
	c := client{t, &Server{Version: "1"}}
	c.must('h', []byte(`{"protocol":1,"version":"1"}`))
	return c
}

// ask sends bytes, and returns the answer, which must be a single frame.
func (c client) ask(frame []byte) (kind byte, payload []byte) {
	c.Helper()
	var out bytes.Buffer
	expect.OK(c, c.Serve(bytes.NewReader(frame), &out))
	kind, payload, err := readFrame(&out)
	expect.OK(c, err)
	if out.Len() > 0 {
		c.Fatalf("%d bytes after the frame", out.Len())
	}
	return kind, payload
}

// must returns the answer to a valid frame.
func (c client) must(kind byte, payload []byte) []byte {
	c.Helper()
	got, answer := c.ask(appendFrame(nil, kind, payload))
	if got != kind {
		c.Fatalf("%c %s", got, answer)
	}
	return answer
}

// mustFail returns the error for an invalid frame.
func (c client) mustFail(frame []byte) (e codedError) {
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

// A request is a batch from a caller.
type request struct {
	model, flags uint32
	length       int
	horizon, now int64
	keys         []keyRequest
	written      string
}

type keyRequest struct {
	key    string
	state  []byte
	times  []int64
	texts  []string // with withTexts; nil: those of times
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
		for i, t := range k.times {
			switch {
			case r.flags&withTexts == 0:
				b = n.AppendUint64(b, uint64(t))
			case k.texts == nil:
				b = text(b, timeOf(t).Format(time.RFC3339Nano))
			default:
				b = text(b, k.texts[i])
			}
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
	records, alerts, reasons string
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
	a.records, a.alerts, a.reasons = string(in.text()), string(in.text()), string(in.text())
	if in.cut || len(in.b) > 0 {
		c.Fatalf("answer with %d unread bytes, cut: %v", len(in.b), in.cut)
	}
	return a
}

// everyMinute returns a part of a batch: one key with an observation every minute, of one value each.
func everyMinute(key string, state []byte, start int, values ...float64) keyRequest {
	k := keyRequest{key: key, state: state, values: values}
	for i := range values {
		k.times = append(k.times, minute(start+i))
	}
	return k
}

func minute(i int) int64 { return int64(i) * int64(time.Minute) }

const everyAnswer = withRecords | withColumns | withAlerts | withStates

// Rows and rejects have the index of their observation in the batch; -1 for an observation of an earlier batch.
func TestBatchPlaces(t *testing.T) {
	c := newClient(t)
	d := c.model(Settings{Text: "model: {family: poisson}\nlateness: 3m\n"})
	k := keyRequest{key: "a", times: []int64{minute(5), minute(4), minute(9), minute(1), none}, values: []float64{1, 2, 3, 4, 5}}
	a := c.batch(d, request{flags: everyAnswer, length: 1, horizon: none, now: none, keys: []keyRequest{k, everyMinute("b", nil, 1, 7, -1, math.NaN())}})
	expect.Same(t, []int{2, 0}, a.rows, "rows")
	expect.Same(t, []int32{1, 0}, a.places[:2])
	expect.Same(t, []int32{3, 4, 6}, a.rejected)
	for i, want := range []string{"late: ", "no time", "below zero"} {
		if got := strings.Split(a.reasons, "\n")[i]; !strings.Contains(got, want) {
			t.Errorf("rejected with %q, want %q", got, want)
		}
	}
	next := c.batch(d, request{flags: everyAnswer, length: 1, horizon: end, now: none, keys: []keyRequest{
		{key: "a", state: a.states[0], times: []int64{minute(9), minute(8)}, values: []float64{6, 7}}, {key: "b", state: a.states[1]},
	}})
	expect.Same(t, []int{3, 2}, next.rows)
	expect.Same(t, []int32{1, -1, 0, -1, -1}, next.places)
	expect.Same(t, []float64{7, 3, 6, 7}, next.columns["x"][:4])
	if x := next.columns["x"][4]; !math.IsNaN(x) {
		t.Errorf("missing is %v", x)
	}
	expect.Same(t, minute(9+3), a.deadlines[0], "the lateness after the first waiting observation")
}

// Observations without times are learned in the order of their arrival.
func TestArrival(t *testing.T) {
	c := newClient(t)
	e := c.mustFail(appendFrame(nil, 's', jsonOf(Settings{Untimed: true})))
	if !strings.Contains(e.Text, "order: arrival") {
		t.Errorf("%+v", e)
	}
	d := c.model(Settings{Text: "order: arrival", Untimed: true})
	a := c.batch(d, request{flags: everyAnswer, length: 1, horizon: end, now: none, keys: []keyRequest{{key: "a", times: []int64{none, none}, values: []float64{3, 1}}}})
	expect.Same(t, []int64{none, none}, a.times)
	expect.Same(t, []float64{3, 1}, a.columns["x"])
	expect.Same(t, int64(none), a.deadlines[0])
}

// A batch whose times are far apart can have more intervals than an answer may have. It is an error.
func TestManyIntervals(t *testing.T) {
	defer func(n int) { maxRows = n }(maxRows)
	maxRows = 1000
	c := newClient(t)
	c.model(Settings{Text: "model: {family: poisson}\naggregate: {every: 1m, value: count}"})
	r := request{flags: everyAnswer, horizon: end, now: none, keys: []keyRequest{{key: "a", times: []int64{minute(1), minute(500)}}}}
	c.must('b', r.payload())
	r.keys[0].times[1] = minute(5000)
	if e := c.mustFail(appendFrame(nil, 'b', r.payload())); e.Code != "batch" || e.Key != "a" || !strings.Contains(e.Text, "more than 1000 rows") {
		t.Errorf("%+v", e)
	}
}

// At a key's deadline, a silence is reported, once. At the next deadline, the key is forgotten.
func TestDeadlines(t *testing.T) {
	c := newClient(t)
	d := c.model(Settings{Text: "silence: {after: 1h}\nexpire: 24h"})
	ask := func(k keyRequest, now int64) (state []byte, deadline int64, alerts string) {
		a := c.batch(d, request{flags: everyAnswer, length: 1, horizon: now, now: now, keys: []keyRequest{k}})
		return a.states[0], a.deadlines[0], a.alerts
	}
	state, deadline, alerts := ask(everyMinute("a", nil, 0, make([]float64, 100)...), minute(99))
	if deadline <= minute(100) || deadline > minute(24*60) || alerts != "" {
		t.Fatalf("the deadline is %v, alerts %s", timeOf(deadline), alerts)
	}
	_, unchanged, alerts := ask(keyRequest{key: "a", state: state}, deadline-1)
	if unchanged != deadline || alerts != "" {
		t.Errorf("before the deadline: %v, %s", timeOf(unchanged), alerts)
	}
	silent, next, alerts := ask(keyRequest{key: "a", state: state}, deadline)
	if !strings.Contains(alerts, `"kind":"silent"`) || next <= deadline {
		t.Errorf("at the deadline: %v, %s", timeOf(next), alerts)
	}
	if empty, never, alerts := ask(keyRequest{key: "a", state: silent}, next); len(empty) > 0 || never != none || alerts != "" {
		t.Errorf("at the next deadline: %x, %v, %s", empty, timeOf(never), alerts)
	}
	_, _, alerts = ask(everyMinute("a", silent, 200, 0), minute(200))
	if !strings.Contains(alerts, `"kind":"recovered"`) {
		t.Errorf("after the silence: %s", alerts)
	}
}

// Errors in settings use the words of the configuration.
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
		e := c.mustFail(appendFrame(nil, 's', jsonOf(Settings{Text: s.text, Values: []string{"x", "y"}[:1+strings.Count(s.text, "mv")]})))
		if e.Code != "settings" || !strings.Contains(e.Text, s.want) {
			t.Errorf("%s: %s %s\nwant %s", s.text, e.Code, e.Text, s.want)
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

// Another protocol or version is an error, and so are frames before hello.
func TestHello(t *testing.T) {
	c := client{t, &Server{Version: "1.2"}}
	for payload, want := range map[string]string{`{"protocol":2,"version":"1.2"}`: "its caller protocol 2", `{"protocol":1,"version":"1.3"}`: "is 1.2, and its caller 1.3", "{": "hello"} {
		if e := c.mustFail(appendFrame(nil, 'h', []byte(payload))); e.Code != "version" || !strings.Contains(e.Text, want) {
			t.Errorf("%s: %+v", payload, e)
		}
	}
	expect.Same(t, "version", c.mustFail(appendFrame(nil, 's', []byte("{}"))).Code)
	expect.Same(t, `{"protocol":1,"version":"1.2"}`, string(c.must('h', []byte(`{"protocol":1}`))))
}

// A panic is answered by an error, and the server continues.
func TestPanicIsAnswered(t *testing.T) {
	c := newClient(t)
	c.models = []*model{{}}
	r := request{horizon: none, now: none, keys: []keyRequest{{key: "a"}}}
	if e := c.mustFail(appendFrame(nil, 'b', r.payload())); e.Code != "panic" || !strings.Contains(e.Text, "please report it") {
		t.Errorf("%+v", e)
	}
	expect.Same(t, 1, c.model(Settings{}).Model)
}

// Texts of times give the answer of the times that a frame t returns for them. A text that is no time is rejected.
func TestTextsOfTimes(t *testing.T) {
	c := newClient(t)
	d := c.model(Settings{Text: "detect: true", Zone: "Europe/Berlin"})
	k := everyMinute("a", nil, 0, 1, 2, 3, 4)
	k.texts = []string{"2026-10-25 02:30", "2026-10-25 02:30", "soon", "1792900000"}
	var found struct{ Times []int64 }
	expect.OK(t, json.Unmarshal(c.must('t', jsonOf(map[string]any{"zone": "Europe/Berlin", "times": k.texts, "keys": []int{0, 0, 0, 0}})), &found))
	a := c.batch(d, request{flags: everyAnswer | withTexts, length: 1, horizon: none, now: none, keys: []keyRequest{k}})
	expect.Same(t, []int32{2}, a.rejected)
	if !strings.Contains(a.reasons, "soon") {
		t.Errorf("reasons: %s", a.reasons)
	}
	k.times = append(found.Times[:2:2], found.Times[3])
	k.values = []float64{1, 2, 4}
	want := c.batch(d, request{flags: everyAnswer, length: 1, horizon: none, now: none, keys: []keyRequest{k}})
	expect.Same(t, string(want.states[0]), string(a.states[0]))
}

// The server keeps the models that were used last, and makes a model again when its settings come again.
func TestModelsAreBounded(t *testing.T) {
	c := newClient(t)
	settings := func(i int) Settings { return Settings{Text: fmt.Sprintf("{top: 0.%d}", i+1)} }
	first := c.model(settings(0))
	for i := range maxModels {
		c.model(settings(i))
		c.model(settings(0))
	}
	expect.Same(t, 0, c.model(settings(0)).Model)
	old := c.model(settings(1))
	c.batch(old, request{flags: everyAnswer, length: 1, horizon: none, now: none, keys: []keyRequest{everyMinute("a", nil, 0, 1)}})
	expect.Same(t, 1, len(c.states.recent))
	for i := 2; i < maxModels; i++ {
		c.model(settings(i))
	}
	c.model(settings(0))
	second := c.model(settings(maxModels))
	expect.Same(t, 0, len(c.states.recent), "states of a model that is dropped")
	expect.Same(t, maxModels, second.Model)
	expect.Same(t, maxModels, len(c.modelIndex))
	r := request{model: 1, horizon: none, now: none}
	if e := c.mustFail(appendFrame(nil, 'b', r.payload())); !strings.Contains(e.Text, "send its settings first") {
		t.Errorf("%+v", e)
	}
	expect.Same(t, maxModels+1, c.model(settings(1)).Model)
	c.batch(first, request{flags: everyAnswer, length: 1, horizon: none, now: none, keys: []keyRequest{everyMinute("a", nil, 0, 1)}})
}

// A wrong length allocates only memory for the bytes that arrive. After a wrong frame, the next frame is still
// read.
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

// A flipped byte after the length of a frame is an error, and the server continues.
func TestFlippedBytes(t *testing.T) {
	c := newClient(t)
	d := c.model(Settings{})
	right := request{model: uint32(d.Model), flags: everyAnswer, length: 1, horizon: end, now: none, keys: []keyRequest{everyMinute("a", nil, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)}}
	frame := appendFrame(nil, 'b', right.payload())
	want := c.must('b', right.payload())
	for i := range 300 {
		bad := bytes.Clone(frame)
		bad[4+i*7%(len(bad)-4)] ^= byte(1 + i%255)
		expect.Same(t, "frame", c.mustFail(bad).Code)
	}
	// With a correct checksum, the answer is an error or has other numbers, but is not a panic.
	for i := range 300 {
		bad := right.payload()
		bad[i*5%len(bad)] ^= byte(1 << (i % 8))
		if kind, answer := c.ask(appendFrame(nil, 'b', bad)); kind != 'b' && bytes.Contains(answer, []byte("panic")) {
			t.Errorf("byte %d: %s", i*5%len(bad), answer)
		}
	}
	if got := c.must('b', right.payload()); !bytes.Equal(got, want) {
		t.Error("the answer differs from the first one")
	}
}

// A state is bound to its settings, and its checksum is verified before the state is decoded.
func TestStates(t *testing.T) {
	c := newClient(t)
	d, other := c.model(Settings{Text: "model: {family: normal}"}), c.model(Settings{Text: "model: {family: normal}\ntop: 0.9"})
	ask := func(model Description, state []byte, flags uint32) (byte, string) {
		r := request{model: uint32(model.Model), flags: flags, length: 1, horizon: none, now: none, keys: []keyRequest{everyMinute("a", state, 9, 1)}, written: d.Settings}
		kind, answer := c.ask(appendFrame(nil, 'b', r.payload()))
		return kind, string(answer)
	}
	state := c.batch(d, request{flags: withStates, length: 1, horizon: none, now: none, keys: []keyRequest{everyMinute("a", nil, 0, 1, 2, 3)}}).states[0]
	if kind, response := ask(other, state, withStates|withWritten); kind != 'e' || !strings.Contains(response, `"code":"other_config"`) || !strings.Contains(response, "top") {
		t.Errorf("with other settings: %c %s", kind, response)
	}
	if kind, response := ask(other, state, withStates|withWritten|migrates); kind != 'b' {
		t.Errorf("migrated: %c %s", kind, response)
	}
	for i := range state {
		bad := bytes.Clone(state)
		bad[i] ^= 4
		if kind, response := ask(d, bad, withStates); kind != 'e' || !strings.Contains(response, `"code":"state"`) || !strings.Contains(response, `"key":"a"`) {
			t.Fatalf("byte %d: %c %s", i, kind, response)
		}
	}
}

// Columns have the numbers of the records, and the state of an episode.
func TestColumns(t *testing.T) {
	episodes := 0
	for _, s := range []struct {
		settings Settings
		length   int
	}{
		{Settings{Text: "{detect: true, interval: 0.9, quiet: [{match: '*', from: '1970-01-01T00:20:00Z', to: '1970-01-01T00:25:00Z'}]}"}, 1},
		{Settings{Text: "{model: {family: mvnormal, prior: auto}, detect: true, interval: 0.9}", Values: []string{"u", "v"}}, 2},
		{Settings{Text: "{model: {family: normal, prior: auto}, detect: {settling: 0s}}"}, 1},
		{Settings{Text: "{model: {family: binomial}}", Values: []string{"k", "n"}}, 2},
		{Settings{Text: "{model: {family: categorical, prior: {alpha: [1, 1, 1]}}}"}, 1},
		{Settings{Text: "{model: {family: regression, dim: 3}}", Values: []string{"a", "b", "y"}}, 3},
		{Settings{Text: "{aggregate: {every: 10m, value: mean}, detect: true}"}, 1},
		{Settings{Text: "{model: {family: poisson}, aggregate: {every: 10m, value: count}}"}, 0},
	} {
		c := newClient(t)
		d := c.model(s.settings)
		k := keyRequest{key: "a"}
		for i := range 200 {
			k.times = append(k.times, minute(i))
			for j := range s.length {
				k.values = append(k.values, float64((i*(j+1))%3))
				if d.Columns[1] == "x_0" && j == 1 && strings.Contains(s.settings.Text, "binomial") {
					k.values[len(k.values)-1] = 5
				}
				if i == 150 && strings.Contains(s.settings.Text, "settling") {
					k.values[len(k.values)-1] = 1e6
				}
			}
		}
		a := c.batch(d, request{flags: everyAnswer, length: s.length, horizon: end, now: none, keys: []keyRequest{k}})
		lines := strings.Split(strings.TrimSuffix(a.records, "\n"), "\n")
		if a.rejects[0] > 0 || len(lines) != a.rows[0] || len(lines) < 20 {
			t.Errorf("%s: %d records, %s", s.settings.Text, len(lines), a.reasons)
			continue
		}
		for i, line := range lines {
			var record map[string]any
			expect.OK(t, json.Unmarshal([]byte(line), &record))
			expect.Same(t, record["time"], timeOf(a.times[i]).Format(time.RFC3339Nano))
			flat := map[string]float64{}
			if detect, ok := record["detect"].(map[string]any); ok {
				episode, open := detect["episode"].(map[string]any)
				if delete(detect, "episode"); open {
					episodes++
				}
				detect["episode_state"] = episode["state"] // columns have no ids
			}
			flatten("", record, flat, d.Names)
			for name, column := range a.columns {
				want, found := flat[name]
				if optional := name == "warm_up" || name == "quiet"; !found && !optional {
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
	if episodes == 0 {
		t.Error("no record is of an episode")
	}
}

// flatten names the numbers of a record like the columns.
func flatten(prefix string, v any, flat map[string]float64, names map[string][]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if prefix == "" && (name == "key" || name == "time" || name == "id") {
				continue
			}
			flatten(strings.TrimPrefix(prefix+"_"+name, "_"), field, flat, names)
		}
	case []any:
		for i, element := range v {
			flatten(fmt.Sprint(prefix, "_", i), element, flat, names)
		}
	case float64:
		flat[prefix] = v
	case bool:
		flat[prefix] = map[bool]float64{true: 1}[v]
	case string:
		flat[prefix] = float64(slices.Index(names[prefix], v))
	case nil:
		flat[prefix] = math.NaN()
	}
}
