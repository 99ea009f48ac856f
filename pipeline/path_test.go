package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/expect"
)

// TestFolders checks that keys and ids of files with one base name differ, and that a run resumes when a day is added.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	add := func(day int) {
		for _, site := range "ab" {
			folder := filepath.Join(dir, fmt.Sprintf("site=%c/day=%d", site, day))
			expect.OK(t, os.MkdirAll(folder, 0o777))
			expect.OK(t, os.WriteFile(filepath.Join(folder, "part.jsonl"), []byte(fmt.Sprintf(`{"time":"2026-01-%02d","x":%d}`, day, site)), 0o666))
		}
	}
	config := func(key, state string) string {
		return "model: {family: normal}\nstate: " + filepath.Join(dir, state) + "\nsource: {jsonl: {path: " + dir + "/*/*/*.jsonl, key: " + key + "}}\n"
	}
	records := func(text string) (got []string) {
		s, estimates, _ := runConfig(t, text)
		expect.Same(t, int64(0), s.Rejected)
		for _, line := range estimates {
			r := unmarshalled[struct {
				Key, ID string
				N       int
				X       float64
			}](t, line)
			got = append(got, fmt.Sprint(r.Key, " ", r.N, " ", r.ID, " ", r.X))
		}
		slices.Sort(got)
		return got
	}
	add(1)
	add(2)
	text := config(`{path: "site=*"}`, "states")
	expect.Same(t, []string{"a 1 site=a/day=1/part.jsonl:1 97", "a 2 site=a/day=2/part.jsonl:1 97", "b 1 site=b/day=1/part.jsonl:1 98", "b 2 site=b/day=2/part.jsonl:1 98"}, records(text))
	add(3)
	expect.Same(t, []string{"a 3 site=a/day=3/part.jsonl:1 97", "b 3 site=b/day=3/part.jsonl:1 98"}, records(text), "a later run")
	none := records(config("none", "others"))
	expect.Same(t, []any{6, "site=a/day=1/part 1 site=a/day=1/part.jsonl:1 97"}, []any{len(none), none[0]}, "key: none")
	_, err := Run{Graph: compose(t, config("{path: 99}", "third"))}.Execute(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "key {path: 99}: 0 parts of the path "+dir+"/site=a/day=1/part.jsonl match") {
		t.Errorf("%v", err)
	}
}

// TestRecordTimes checks that values without a time have the timestamps of their Kafka records, and that a run without
// this setting names it.
func TestRecordTimes(t *testing.T) {
	b := fakeBus(t, 1, "out", "rejected")
	for i := range 3 {
		b.Produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(`{"x":1}`), Timestamp: start.Add(time.Duration(i) * time.Minute)})
	}
	b.Produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(`{"x":2}`), Timestamp: time.UnixMilli(-1)})
	reasons := func() string { return strings.Join(b.values(t, "rejected"), "") }
	expect.Get(Run{Graph: compose(t, b.config("bounded: true", "lateness: 1m"))}.Execute(t.Context(), nil))(t)
	const advice = "no time; observations without one need order: arrival; time: {record: true} in source.kafka takes the time of the Kafka record"
	expect.Same(t, 4, strings.Count(reasons(), advice))
	expect.Get(Run{Graph: compose(t, b.config("bounded: true, time: {record: true}", "lateness: 1m\nsilence: {after: 5m}\naggregate: {every: 1m, value: count}\n"))}.Execute(t.Context(), nil))(t)
	var got []string
	for _, line := range b.values(t, "out") {
		r := unmarshalled[struct {
			Key  string
			Time time.Time
			X    float64
		}](t, line)
		got = append(got, fmt.Sprint(r.Key, " ", r.Time.Sub(start.Truncate(time.Minute)), " ", r.X))
	}
	expect.Same(t, []string{"k 0s 1", "k 1m0s 1", "k 2m0s 1"}, got)
	expect.Same(t, 1, strings.Count(reasons(), "the Kafka record has no timestamp, which time: {record: true} needs"))
}
