package decode

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// TestTimesAhead checks that a time too far ahead of the clock is rejected, in files and topics, and that Clock
// ignores it. A record that is rejected for its value has its key and, unless it is too far ahead, its time.
func TestTimesAhead(t *testing.T) {
	for _, test := range []struct {
		maxAhead time.Duration
		time     time.Time
		want     string // part of the reason; empty: not rejected
	}{
		{time.Hour, time.Now(), ""},
		{time.Hour, time.Now().Add(59 * time.Minute), ""},
		{time.Hour, time.Now().Add(2*time.Hour + time.Minute), " is 2.0 h ahead of the clock: max_ahead of the source allows 1h"},
		{3 * time.Hour, time.Now().Add(2 * time.Hour), ""},
		{time.Hour, time.Now().AddDate(2, 0, 1), " is 2 years ahead of the clock: max_ahead of the source allows 1h"},
		{time.Hour, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "the time 9999-01-01T00:00:00Z is over 292 years ahead of the clock"},
		{time.Hour, time.Time{}, ""}, // no time
		{0, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), ""},
	} {
		f := config.Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}, MaxAhead: test.maxAhead}
		p := expect.Get(NewParser(f))(t)
		text := ""
		if !test.time.IsZero() {
			text = test.time.UTC().Format(time.RFC3339Nano)
		}
		value := fmt.Appendf(nil, `{"key":"k","time":%q,"x":1}`, text)
		noValue := bytes.Replace(value, []byte(`"x":1`), []byte(`"x":"?"`), 1)
		for name, got := range map[string]Decoded{
			"table": fileOf(NewDecoder(connectors.CSV, p), []connectors.Record{{Source: "in", Fields: []string{"k", text, "?"}}}),
			"lines": fileOf(NewDecoder(connectors.JSONLines, p), []connectors.Record{{Source: "in", Raw: noValue}}),
		} {
			want := test.time.UTC()
			if test.want != "" {
				want = time.Time{}
			}
			if got.Key != "k" || !got.Time.Equal(want) || got.Err == nil || !strings.Contains(got.Err.Error(), "number is due") {
				t.Errorf("%s, %s without a value: key %q, time %v, %v", name, text, got.Key, got.Time, got.Err)
			}
		}
		for name, got := range map[string]Decoded{
			"table": fileOf(NewDecoder(connectors.CSV, p), []connectors.Record{{Source: "in", Fields: []string{"k", text, "1"}}}),
			"lines": fileOf(NewDecoder(connectors.JSONLines, p), []connectors.Record{{Source: "in", Raw: value}}),
			"topic": NewDecoder("", p).Topic([]kafkaio.Record{{Value: value}})[0],
		} {
			if (got.Err != nil) != (test.want != "") || got.Err != nil && !strings.Contains(got.Err.Error(), test.want) {
				t.Errorf("%s, %s, at most %v ahead: %v", name, text, test.maxAhead, got.Err)
			}
		}
		if _, ok := p.Clock(&kafkaio.Record{Value: value}); ok != (text != "" && test.want == "") {
			t.Errorf("%s, at most %v ahead: a clock is %t", text, test.maxAhead, ok)
		}
	}
}
