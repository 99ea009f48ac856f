package decode

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// TestJoinedKeys checks that different parts make different keys, in tables and JSON, and that ordinary parts are
// unchanged.
func TestJoinedKeys(t *testing.T) {
	p := expect.Get(NewParser(config.Fields{Key: []string{"site", "pump"}, Time: []string{"time"}, Values: []string{"x"}}))(t)
	key := func(site, pump string) string {
		line, _ := json.Marshal(map[string]any{"site": site, "pump": pump, "x": 1})
		keys := []string{
			fileOf(NewDecoder(connectors.CSV, p), []connectors.Record{{Source: "in", Fields: []string{site, pump, "", "1"}}}).Key,
			fileOf(NewDecoder(connectors.JSONLines, p), []connectors.Record{{Source: "in", Raw: line}}).Key,
		}
		if keys[0] != keys[1] {
			t.Errorf("%q and %q: %q in a table, %q in JSON", site, pump, keys[0], keys[1])
		}
		return keys[0]
	}
	for want, parts := range map[string][2]string{"north/7": {"north", "7"}, "a%2Fb/c": {"a/b", "c"}, "a/b%2Fc": {"a", "b/c"}, "a%252Fb/c": {"a%2Fb", "c"}} {
		expect.Same(t, want, key(parts[0], parts[1]), parts)
	}
	part := rapid.StringMatching(`[ab/%2F5]{1,5}`)
	seen := map[string][2]string{}
	rapid.Check(t, func(t *rapid.T) {
		parts := [2]string{part.Draw(t, "site"), part.Draw(t, "pump")}
		joined := domain.JoinKey(parts[:])
		if other, ok := seen[joined]; ok && other != parts {
			t.Fatalf("%q and %q are both %q", other, parts, joined)
		}
		seen[joined] = parts
	})
	// A single part is the key unchanged.
	p = expect.Get(NewParser(config.Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}}))(t)
	if got := fileOf(NewDecoder(connectors.CSV, p), []connectors.Record{{Source: "in", Fields: []string{"50%/b", "", "1"}}}).Key; got != "50%/b" {
		t.Errorf("one part is %q", got)
	}
}

// TestHalfSurrogates checks that a key with half of a surrogate pair is rejected. A replacement character would merge
// it with other keys.
func TestHalfSurrogates(t *testing.T) {
	p := expect.Get(NewParser(config.Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}}))(t)
	for text, want := range map[string]string{
		`a\ud800`: "", `\udc00a`: "", `\ud800\ud800`: "", `\ud800x`: "", `\ud83d\\udE00`: "",
		`\ud83d\ude00`: "😀", `\\ud800`: `\ud800`, `\u00e9\n`: "é\n", `\\\u0041`: `\A`, `plain`: "plain", `\ufffd`: "\ufffd",
	} {
		got := fileOf(NewDecoder(connectors.JSONLines, p), []connectors.Record{{Source: "in", Raw: fmt.Appendf(nil, `{"key":"%s","x":1}`, text)}})
		if (got.Err != nil) != (want == "") || got.Key != want || got.Err != nil && !strings.Contains(got.Err.Error(), "half of a surrogate pair") {
			t.Errorf("%s: %q, %v", text, got.Key, got.Err)
		}
	}
}

// TestKeysOfRecords checks that parts of the key that the value lacks are read from the record's key: by the path in
// the value, or by the path without the envelope of a change event. A tombstone has the same key as a value.
func TestKeysOfRecords(t *testing.T) {
	for _, c := range []struct {
		key        []string
		record     string
		want, tomb string // an error if it starts with "!"
	}{
		{[]string{"after.id"}, `{"id":3}`, "3", "3"},
		{[]string{"after.id"}, ` {"id":"a\/b"} `, "a/b", "a/b"},
		{[]string{"after.id"}, `{"after":{"id":4},"id":3}`, "4", "4"},
		{[]string{"payload.after.id"}, `{"schema":{},"payload":{"id":3}}`, "3", "3"},
		{[]string{".after.id"}, `{"":{"id":3}}`, "3", "3"}, // a field without a name
		{[]string{"id"}, `{"id":3}`, "3", "3"},
		{[]string{"id"}, `{"other":3}`, `{"other":3}`, `{"other":3}`},
		{[]string{"id"}, `{"id":3`, `{"id":3`, `{"id":3`},
		{[]string{"id"}, `{"id":null}`, "!the key is null", "!the key is null"},
		{[]string{"id"}, "plain", "plain", "plain"},
		{[]string{"after.site", "after.id"}, `{"site":"a","id":3}`, "a/3", "a/3"},
		{[]string{"after.site", "after.id"}, `{"id":3}`, "!no key: no field \"after.site\", in its part \"after.site\"", "!no key: no field \"after.site\", in its part \"after.site\""},
		{[]string{"after.site", "after.id"}, "a/3", "!no key: no field \"after.site\", in its part \"after.site\"", "a/3"},
	} {
		p := expect.Get(NewParser(config.Fields{Key: c.key, Values: []string{"x"}, Forget: true}))(t)
		for _, kind := range []struct {
			value []byte
			want  string
		}{{[]byte(`{"x":1}`), c.want}, {nil, c.tomb}} {
			var o keyed.Observation
			got, err := p.record(&kafkaio.Record{Position: kafkaio.Position{Topic: "in"}, Key: []byte(c.record), Value: kind.value}, &o)
			if err != nil {
				got = "!" + err.Error()
			}
			if got != kind.want {
				t.Errorf("key %v, record's key %s, value %s: %q, want %q", c.key, c.record, kind.value, got, kind.want)
			}
		}
	}
}

// TestFramedValues checks the error for a value in the framing of a schema registry if the source has no registry.
func TestFramedValues(t *testing.T) {
	p := expect.Get(NewParser(config.Fields{Key: []string{"key"}, Values: []string{"x"}}))(t)
	_, err := p.record(&kafkaio.Record{Value: []byte("\x00\x00\x00\x01\x02{}")}, &keyed.Observation{})
	if err == nil || !strings.HasPrefix(err.Error(), "the value is framed by a schema registry (schema 258): set registry") {
		t.Error(err)
	}
}
