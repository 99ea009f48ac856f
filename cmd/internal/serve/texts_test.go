package serve

import (
	"encoding/json"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// Texts are read as times like the times of a file: in any format, and in an hour that occurs twice by the order of the
// records of their key.
func TestTimes(t *testing.T) {
	c := client{t, &Server{}}
	c.ask(appendFrame(nil, 'h', []byte(`{"protocol":1}`)))
	kind, payload := c.ask(appendFrame(nil, 't', []byte(`{"zone":"Europe/Berlin","keys":[0,1,0,0,1,0,0,0],"times":
		["2026-10-25 02:00","","2026-10-25 02:30","2026-10-25 02:00","2026-10-25 02:30+01:00","1767323045000","soon","3026-01-01"]}`)))
	var got struct {
		Times []int64
		Wrong map[int]string
	}
	expect.OK(t, json.Unmarshal(payload, &got))
	nanos := func(hour, minute int) int64 { return time.Date(2026, 10, 25, hour, minute, 0, 0, time.UTC).UnixNano() }
	expect.Same(t, []int64{nanos(0, 0), none, nanos(0, 30), nanos(1, 0), nanos(1, 30), 1767323045e9, none, none}, got.Times)
	expect.Same(t, "the time \"3026-01-01\" is outside of the years 1678 to 2261", got.Wrong[7])
	if kind != 't' || len(got.Wrong) != 2 || got.Wrong[6] == "" {
		t.Errorf("%c %v", kind, got.Wrong)
	}
}

// YAML is converted to JSON. Times keep their text.
func TestYAML(t *testing.T) {
	c := client{t, &Server{}}
	c.ask(appendFrame(nil, 'h', []byte(`{"protocol":1}`)))
	for text, want := range map[string]string{
		"":                                  "null",
		"a: [2026-12-25, 2026-01-01 02:00]": `{"a":["2026-12-25","2026-01-01 02:00"]}`,
		"a: &b {x: 1}\nc: *b\n":             `{"a":{"x":1},"c":{"x":1}}`,
		"a: [1":                             "yaml: line 1: did not find expected ',' or ']'",
		"{1: 2}":                            "json: unsupported type: map[interface {}]interface {}",
		"{a: .inf}":                         "json: unsupported value: +Inf",
	} {
		kind, payload := c.ask(appendFrame(nil, 'y', []byte(text)))
		if kind == 'e' {
			var wrong codedError
			expect.OK(t, json.Unmarshal(payload, &wrong))
			payload = []byte(wrong.Text)
		}
		expect.Same(t, want, string(payload))
	}
}
