package serve

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"hafvf/internal/testing/expect"
)

var update = flag.Bool("update", false, "write the golden frames")

// A golden is a frame and its answer, in hex: a line of the file that the client in Python also reads.
type golden struct {
	Name    string `json:"name"`
	Request string `json:"request"`
	Answer  string `json:"answer"`
}

// goldens returns frames for one server, in their order, and its answers.
func goldens(t *testing.T) (list []golden) {
	c := client{t, &Server{}}
	var answer []byte
	add := func(name string, frame []byte) {
		kind, payload := c.ask(frame)
		answer = payload
		list = append(list, golden{name, hex.EncodeToString(frame), hex.EncodeToString(appendFrame(nil, kind, payload))})
	}
	batch := func(name string, r request) (state []byte) {
		add(name, appendFrame(nil, 'b', r.payload()))
		return (&cursor{b: answer}).text()
	}
	settings := func(name string, s Settings) { add(name, appendFrame(nil, 's', jsonOf(s))) }
	add("settings before hello", appendFrame(nil, 's', []byte("{}")))
	add("hello of another protocol", appendFrame(nil, 'h', []byte(`{"protocol":2}`)))
	add("hello", appendFrame(nil, 'h', []byte(`{"protocol":1,"version":"0.1.0"}`)))
	add("a type that there is not", appendFrame(nil, 'x', nil))
	bad := appendFrame(nil, 'h', []byte(`{"protocol":1}`))
	bad[5]++
	add("a wrong checksum", bad)
	add("times", appendFrame(nil, 't', []byte(`{"zone":"Europe/Berlin","times":["2026-10-25 02:00","2026-10-25 02:00","","soon"],"keys":[0,0,0,0]}`)))
	add("YAML", appendFrame(nil, 'y', []byte("detect: {holidays: [2026-12-25]}")))
	settings("settings with two mistakes", Settings{Text: "detekt: true\nlateness: 1 day", Name: "a.yaml"})
	settings("settings of a poisson", Settings{Text: "model: {family: poisson}\nlateness: 2m\nsink: none"})
	settings("settings of vectors, with detection", Settings{Text: `{"model": {"family": "mvnormal"}, "detect": true, "interval": 0.9}`, Values: []string{"u", "v"}})
	settings("settings of another poisson", Settings{Text: "model: {family: poisson}\nlateness: 2m\ntop: 0.9"})
	k := everyMinute("pump", nil, 10, 3, 4, math.NaN(), -1)
	k.times[1], k.ids = minute(13), []string{"a", "b", "c", "d"}
	r := request{flags: everyAnswer | withIDs, length: 1, horizon: none, now: none, keys: []keyRequest{k, {key: "é"}}}
	state := batch("a batch of two keys", r)
	r = request{flags: everyAnswer, length: 1, horizon: minute(30), now: minute(30), keys: []keyRequest{everyMinute("pump", state, 14, 5)}}
	batch("it goes on", r)
	r.flags = withRecords | withWritten
	r.written = c.models[0].description.Settings
	r.model = 2
	batch("a state of other settings", r)
	r.flags |= migrates | withStates
	batch("it is carried over", r)
	state = bytes.Clone(state)
	state[len(state)-1]++
	r.keys, r.flags = []keyRequest{everyMinute("pump", state, 15, 5)}, withRecords
	batch("a damaged state", r)
	v := everyMinute("v", nil, 0, 1, 2)
	v.values = []float64{1, -1, 2, math.Inf(1)}
	batch("vectors", request{model: 1, flags: everyAnswer, length: 2, horizon: end, now: minute(1), keys: []keyRequest{v}})
	batch("a length that the family has not", request{model: 1, flags: everyAnswer, length: 1, horizon: end, now: none, keys: []keyRequest{everyMinute("v", nil, 0, 1)}})
	r = request{model: 9, horizon: none, now: none}
	batch("a model that there is not", r)
	add("a batch that is cut off", appendFrame(nil, 'b', r.payload()[:20]))
	return list
}

// The answers to the frames in testdata are those in the file: go test ./cmd/internal/serve -run GoldenFrames
// -update writes it.
func TestGoldenFrames(t *testing.T) {
	file := filepath.Join("testdata", "frames.jsonl")
	var text bytes.Buffer
	for _, g := range goldens(t) {
		text.Write(append(jsonOf(g), '\n'))
	}
	if *update {
		expect.OK(t, os.WriteFile(file, text.Bytes(), 0o666))
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("other machines round differently")
	}
	want := bufio.NewScanner(bytes.NewReader(expect.Get(os.ReadFile(file))(t)))
	for _, got := range goldens(t) {
		var g golden
		if want.Scan(); json.Unmarshal(want.Bytes(), &g) != nil || g != got {
			t.Errorf("%s: answer %s, want %s", got.Name, got.Answer, g.Answer)
		}
	}
	if want.Scan() {
		t.Errorf("more lines in the file: %s", want.Bytes())
	}
}

// FuzzFrame reads arbitrary bytes as frames.
func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, 'h', []byte(`{"protocol":1}`)))
	f.Add(appendFrame(appendFrame(nil, 'h', []byte(`{"protocol":1}`)), 's', []byte(`{"text":"detect: true"}`)))
	f.Add([]byte("\x00\x00\x00\x40b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		expect.OK(t, (&Server{}).Serve(bytes.NewReader(b), &out))
		for out.Len() > 0 {
			kind, payload, err := readFrame(&out)
			if expect.OK(t, err); kind == 'e' && bytes.Contains(payload, []byte(`"code":"panic"`)) {
				t.Fatalf("%s", payload)
			}
		}
	})
}

// FuzzBatch reads arbitrary bytes as a batch.
func FuzzBatch(f *testing.F) {
	k := everyMinute("a", nil, 1, 1, math.NaN())
	k.ids = []string{"", "b"}
	f.Add((&request{flags: allFlags &^ (withWritten | migrates), length: 1, horizon: end, now: minute(9), keys: []keyRequest{k}}).payload())
	f.Add((&request{model: 1, flags: everyAnswer, length: 2, horizon: none, now: none, keys: []keyRequest{{key: "a", times: []int64{0}, values: []float64{1, 2}}}}).payload())
	f.Add((&request{model: 2, length: 0, horizon: minute(90), now: minute(90), keys: []keyRequest{{key: "a", times: []int64{0}}}}).payload())
	c := newClient(f)
	for _, s := range []Settings{
		{Text: "{model: {family: normal}, detect: true, silence: true, lateness: 1m, expire: 24h}"}, {Text: "{model: {family: mvnormal}}", Values: []string{"u", "v"}},
		{Text: "{model: {family: poisson}, aggregate: {every: 24h, value: count}}"},
	} {
		c.model(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := c.answer('b', b); err != nil && err.(*codedError).Code == "panic" {
			t.Fatal(err)
		}
	})
}
