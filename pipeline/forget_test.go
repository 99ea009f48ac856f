package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A tombstone forgets its key, as if the key had never been: its records begin at 1, and neither
// states nor changelog have anything of it. Other keys, and the default, are as without it.
func TestTombstonesForget(t *testing.T) {
	b := fakeBus(t, 2)
	b.CreateTopic(t, "out", 1, nil)
	b.CreateTopic(t, "rejected", 1, nil)
	minute := 0
	put := func(keys ...string) {
		for _, key := range keys {
			minute++
			at := time.Now().UTC().Add(time.Duration(minute-600) * time.Minute)
			b.Produce(t, &kgo.Record{Topic: "in", Key: []byte(key), Value: fmt.Appendf(nil, `{"key":%q,"time":%q,"x":%d}`, key, at.Format(time.RFC3339), minute%7)})
		}
	}
	forget := func(key string) { b.Produce(t, &kgo.Record{Topic: "in", Key: []byte(key)}) }
	const settings = "group: g, changelog: states, tombstones: forget"
	text := b.config(settings, "detect: true\nincidents: true\nsilence: true\n")
	stored := func() string {
		var all strings.Builder
		if err := ListStates(t.Context(), compose(t, text), "", &all, quiet); err != nil {
			t.Fatal(err)
		}
		return all.String()
	}
	put("a", "b", "a", "b", "c")
	r := launch(t, compose(t, text))
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	forget("a")
	forget("never") // was there
	forget("c")
	put("c")
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	if s := r.halt(t); s.Forgotten != 3 || !strings.Contains(s.String(), "3 keys were forgotten") {
		t.Errorf("%d forgotten: %s", s.Forgotten, s)
	}
	if all := stored(); strings.Contains(all, `"key":"a"`) || strings.Contains(all, `"key":"never"`) || !strings.Contains(all, `"key":"b"`) || !strings.Contains(all, `"key":"c"`) {
		t.Errorf("stored: %s", all)
	}
	put("a", "b", "a")
	r = launch(t, compose(t, text, "source.kafka.bounded=true"))
	<-r.done
	if r.err != nil {
		t.Fatal(r.err)
	}
	var got []string
	for _, line := range b.values(t, "out") {
		var e struct {
			Key string
			N   int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.Key, e.N))
	}
	slices.Sort(got)
	equal(t, []string{"a1", "a1", "a2", "a2", "b1", "b2", "b3", "c1", "c1"}, got)
	if rejected := b.values(t, "rejected"); len(rejected) != 0 {
		t.Errorf("rejected %q", rejected)
	}

	// The default.
	forget("b")
	r = launch(t, compose(t, strings.Replace(text, "forget", "reject", 1), "source.kafka.bounded=true"))
	<-r.done
	if rejected := b.values(t, "rejected"); r.err != nil || len(rejected) != 1 || !strings.Contains(rejected[0], "a tombstone: the record has no value") || !strings.Contains(stored(), `"key":"b"`) {
		t.Errorf("%v, rejected %q", r.err, rejected)
	}
}
