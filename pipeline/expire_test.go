package pipeline

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// eventOf returns the key and time of a record.
func eventOf(t *testing.T, line string) (e event) {
	t.Helper()
	type record struct {
		Key  string
		Time time.Time
	}
	r := unmarshalled[record](t, line)
	return event{key: r.Key, time: r.Time}
}

// A key of a file that expires begins anew, in one run and between two. The file of states does not have its state.
func TestExpireOfAFile(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	text := "model: {family: normal}\nexpire: 6h\nsource: {jsonl: {path: " + in + "}}\nstate: " + dir + "/states\n"
	var lines []string
	for i, hour := range []time.Duration{0, 0, 7, 8, 9} {
		lines = append(lines, event{string("abaab"[i]), start.Add(hour * time.Hour), 1}.json())
	}
	var got []string
	for _, n := range []int{3, 5} {
		save(t, in, lines[:n]...)
		s, out, _ := runConfig(t, text)
		for _, e := range parse[learned](t, out) {
			got = append(got, fmt.Sprint(e.Key, e.N))
		}
		got = append(got, fmt.Sprint(s.ExpiredKeys, " expired"))
		for _, line := range listed(t, text, "") {
			got = append(got, "state of "+eventOf(t, line).key)
		}
	}
	equal(t, []string{"a1", "a1", "b1", "1 expired", "state of a", "a2", "b1", "0 expired", "state of a", "state of b"}, got)
}

// Keys of a topic expire while others continue: neither memory nor changelog has their states, their silences are
// reported before, and their next records start at 1. Other keys continue, also after a restart.
func TestExpireOfATopic(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected", "alerts")
	now := time.Now().UTC().Truncate(time.Second)
	put := func(key string, ago time.Duration, n int) {
		for i := range n {
			b.put(t, event{key, now.Add(time.Duration(i)*time.Minute - ago), float64(i % 3)}.json())
		}
	}
	text := b.config("group: g, changelog: states", "expire: 48h\nsilence: {after: 6h}\ndetect: true\nincidents: true\n") +
		"alerts: {kafka: {topic: alerts}, kinds: [silent], max_age: none}\n"
	await := func(r *running, want ...string) {
		t.Helper()
		expect.Soon(t, fmt.Sprint("states of ", want), func() bool {
			var keys []string
			for _, line := range listed(t, text, "") {
				keys = append(keys, eventOf(t, line).key)
			}
			return r.err != nil || slices.Equal(keys, want)
		})
	}
	for i := range 20 {
		put(fmt.Sprint("old", i), 10*24*time.Hour, 5)
	}
	b.put(t, event{"edge", now.Add(-10 * 24 * time.Hour).Truncate(48 * time.Hour / 16), 1}.json()) // expires exactly when its cell is checked
	put("young", 2*time.Hour, 5)
	put("younger", time.Hour, 5)
	r := launch(t, compose(t, text))
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	await(r, "young", "younger")
	if s := r.halt(t); s.ExpiredKeys != 21 || !strings.Contains(s.String(), "21 keys were forgotten: no record for longer than expire") {
		t.Errorf("%d expired: %s", s.ExpiredKeys, s)
	}
	put("old3", 30*time.Minute, 2)
	put("young", 20*time.Minute, 2)
	r = launch(t, compose(t, text))
	await(r, "old3", "young", "younger")
	if s := r.halt(t); s.ExpiredKeys != 0 {
		t.Errorf("%d expired", s.ExpiredKeys)
	}
	last := map[string]int{}
	for _, e := range b.learned(t, "out") {
		last[e.Key] = e.N
	}
	equal(t, []int{2, 7, 5, 5}, []int{last["old3"], last["young"], last["younger"], last["old4"]})
	silent := map[string]int{}
	for _, line := range b.values(t, "alerts") {
		silent[eventOf(t, line).key]++
	}
	if len(silent) != 21 || silent["old7"] != 1 || silent["young"] != 0 {
		t.Errorf("silent: %v", silent)
	}
}
