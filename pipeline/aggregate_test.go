package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/internal/testing/expect"
)

// An event is one of a file or topic.
type event struct {
	key string
	at  time.Time
	x   float64
}

func (e event) json() string {
	return fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":%v}\n", e.key, e.at.Format(time.RFC3339Nano), e.x)
}

// manyEvents are those of three keys within some time, sorted. One key pauses.
func manyEvents(from time.Time, within time.Duration) (all []event) {
	noise := rand.New(rand.NewPCG(6, 7))
	for _, key := range []string{"a", "b", "c"} {
		for at := from; ; {
			at = at.Add(time.Duration(noise.ExpFloat64() * float64(10*time.Second))).Truncate(time.Microsecond)
			if at.Sub(from) > within {
				break
			}
			if pause := at.Sub(from) - within/2; key == "b" && pause > 0 && pause < 10*time.Minute {
				continue
			}
			all = append(all, event{key, at, noise.ExpFloat64()})
		}
	}
	slices.SortFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	return all
}

// counted are the counts of events per minute, by a plain loop: of each key from its first event
// to the minute of last, as the fields of records that say it.
func counted(events []event, last time.Time) (lines []string) {
	counts := map[string]map[time.Time]int{}
	for _, e := range events {
		if counts[e.key] == nil {
			counts[e.key] = map[time.Time]int{}
		}
		counts[e.key][e.at.Truncate(time.Minute)]++
	}
	for key, of := range counts {
		first := last
		for at := range of {
			if at.Before(first) {
				first = at
			}
		}
		n := 0
		for at := first.Truncate(time.Minute); !at.After(last); at = at.Add(time.Minute) {
			n++
			stamp := at.UTC().Format(time.RFC3339)
			lines = append(lines, fmt.Sprintf("%s %s %s/%s %d %d %d", key, stamp, key, stamp, n, of[at], of[at]))
		}
	}
	slices.Sort(lines)
	return lines
}

// trimmed are lines without their ends, sorted.
func trimmed(lines []string) (all []string) {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}

// saidCounts are the fields of records that counted gives.
func saidCounts(t *testing.T, records []string) (lines []string) {
	t.Helper()
	for _, line := range records {
		if line == "" {
			continue
		}
		var r struct {
			Key, Time, ID string
			N             int
			X             *float64
			Events        *int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.X == nil || r.Events == nil {
			t.Fatal(line, err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d %v %d", r.Key, r.Time, r.ID, r.N, *r.X, *r.Events))
	}
	slices.Sort(lines)
	return lines
}

// Events of a file, in order and shuffled, in one run and in two, make the records of a plain loop
// that sorts and groups.
func TestAggregate(t *testing.T) {
	events := manyEvents(start, 3*time.Hour)
	last := events[len(events)-1].at
	want := counted(events, last)
	lines := func(all []event) (lines []string) {
		for _, e := range all {
			lines = append(lines, e.json())
		}
		return lines
	}
	const text = "{model: {family: poisson, prior: auto}, detect: true, aggregate: {every: 1m, value: count%s}, source: {jsonl: {path: %s}}%s}"
	s, sorted, rejected := runConfig(t, fmt.Sprintf(text, "", write(t, "in.jsonl", lines(events)...), ""))
	equal(t, want, saidCounts(t, sorted))
	if s.Rejected != 0 || len(rejected) != 1 || s.Records != int64(len(want)) {
		t.Errorf("%d records, %d rejected", s.Records, s.Rejected)
	}

	shuffled := slices.Clone(events)
	rand.New(rand.NewPCG(8, 9)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	_, got, _ := runConfig(t, fmt.Sprintf(text, ", wait: 3h", write(t, "in.jsonl", lines(shuffled)...), ""))
	equal(t, trimmed(sorted), trimmed(got))

	// With a state, in two runs, the second of which begins within an interval.
	file, state := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "s.bin")
	got = nil
	for _, n := range []int{len(events) / 2, len(events)} {
		save(t, file, lines(events[:n])...)
		_, part, _ := runConfig(t, fmt.Sprintf(text, "", file, ", state: "+state))
		got = append(got, part...)
	}
	over := last.Truncate(time.Minute).UTC().Format(time.RFC3339) // the interval that stays open
	complete := slices.DeleteFunc(slices.Clone(sorted), func(line string) bool { return strings.Contains(line, `"time":"`+over) })
	equal(t, trimmed(complete), trimmed(got))
	s, _, _ = runConfig(t, fmt.Sprintf(text, "", file, ", state: "+state))
	if s.Records != 0 || s.Rejected != 0 {
		t.Errorf("the same file again: %+v", s)
	}
}

// A column of values is not needed to count, and other aggregates are of it.
func TestAggregateTable(t *testing.T) {
	table := write(t, "in.csv", "at,who,ms\n", "2026-01-05 16:00:01,a,3\n", "2026-01-05 16:00:30,a,1\n", "2026-01-05 16:00:31,a,\n", "2026-01-05 16:02:00,a,5\n", "2026-01-05 16:01:00,a,x\n")
	for _, c := range []struct{ aggregate, want string }{
		{"count, wait: 5m", "16:00 3 of 3, 16:01 1 of 1, 16:02 1 of 1"},
		{"rate, wait: 5m", "16:00 0.05 of 3, 16:01 0.016666666666666666 of 1, 16:02 0.016666666666666666 of 1"},
		{"count", "16:00 3 of 3, 16:01 0 of 0, 16:02 1 of 1"},
		{"mean", "16:00 2 of 3, 16:01 null of 0, 16:02 5 of 1"},
		{"sum", "16:00 4 of 3, 16:01 0 of 0, 16:02 5 of 1"},
		{"sum, empty: missing", "16:00 4 of 3, 16:01 null of 0, 16:02 5 of 1"},
		{"max, empty: 0", "16:00 3 of 3, 16:01 0 of 0, 16:02 5 of 1"},
		{"last", "16:00 1 of 3, 16:01 null of 0, 16:02 5 of 1"},
	} {
		_, records, _ := runConfig(t, "{model: {family: normal}, aggregate: {every: 1m, value: "+c.aggregate+"}, source: {csv: {path: "+table+", key: who, time: at, values: ms}}}")
		var said []string
		type record struct {
			Time   time.Time
			X      json.RawMessage
			Events int
		}
		for _, r := range parse[record](t, records) {
			said = append(said, fmt.Sprintf("%s %s of %d", r.Time.Format("15:04"), r.X, r.Events))
		}
		if got := strings.Join(said, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.aggregate, got, c.want)
		}
	}
}

// The events of a session are aggregated, and smoothed as the observations that a table has of
// them.
func TestAggregateSessions(t *testing.T) {
	events := manyEvents(start, 2*time.Hour)
	var lines, table []string
	last := map[string]time.Time{}
	for _, e := range events {
		lines = append(lines, e.json())
		last[e.key] = e.at
	}
	for _, line := range counted(events, events[len(events)-1].at) {
		var key, at, id string
		var n, x, all int
		expect.Get(fmt.Sscan(line, &key, &at, &id, &n, &x, &all))(t)
		if at <= last[key].Format(time.RFC3339) { // a session has no minutes after its last event
			table = append(table, fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":%d}\n", key, at, x))
		}
	}
	const text = "{transform: smooth, model: {family: poisson, prior: auto}, session: {gap: 30m}, source: {jsonl: {path: %s}}%s}"
	_, want, _ := runConfig(t, fmt.Sprintf(text, write(t, "table.jsonl", table...), ""))
	_, got, _ := runConfig(t, fmt.Sprintf(text, write(t, "in.jsonl", lines...), ", aggregate: {every: 1m, value: count}"))
	sum := 0
	for i, line := range got {
		before, after, found := strings.Cut(line, `"events":`)
		n, rest, _ := strings.Cut(after, ",")
		count := 0
		if _, err := fmt.Sscan(n, &count); !found || err != nil {
			t.Fatal(line)
		}
		got[i] = before + rest
		sum += count
	}
	equal(t, trimmed(want), trimmed(got))
	equal(t, len(events), sum)
}

// On a topic the watermark closes intervals, of keys that are in both partitions and out of order,
// over a restart within an interval.
func TestKafkaAggregate(t *testing.T) {
	t.Parallel()
	b := fakeBus(t, 2, "out", "rejected")
	text := b.config("group: g, changelog: states, disorder: 5m", "aggregate: {every: 1m, value: count}\n")
	events := manyEvents(time.Now().UTC().Truncate(time.Minute).Add(-2*time.Hour), time.Hour)
	last := events[len(events)-1].at
	noise := rand.New(rand.NewPCG(12, 13))
	arrival := map[event]time.Time{}
	for _, e := range events {
		arrival[e] = e.at.Add(time.Duration(noise.IntN(200)) * time.Second)
	}
	slices.SortFunc(events, func(x, y event) int { return arrival[x].Compare(arrival[y]) })
	put := func(events []event) {
		all := make([]*kgo.Record, len(events))
		for i, e := range events {
			all[i] = &kgo.Record{Topic: "in", Key: fmt.Append(nil, i%7), Value: []byte(e.json())} // to any partition
		}
		b.Produce(t, all...)
	}
	half := len(events) / 2
	put(events[:half])
	r := launch(t, compose(t, text))
	b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
	r.halt(t)
	put(events[half:])
	expect.Get(Run{Graph: compose(t, text, "source.kafka.bounded=true")}.Execute(t.Context(), nil))(t)
	equal(t, counted(events, last), saidCounts(t, b.values(t, "out")))
	if n := len(b.values(t, "rejected")); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// Intervals without events go on while nothing comes at all, over a restart, and what comes for
// them later is late.
func TestKafkaAggregateOfNothing(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected")
	text := b.config("group: g, changelog: states", "aggregate: {every: 1s, value: count}\n")
	at := time.Now().UTC().Add(-time.Second)
	line := event{"a", at, 1}.json()
	b.put(t, line, line, line)
	r := launch(t, compose(t, text))
	b.await(t, "out", 4, r)
	r.halt(t)
	written := len(b.values(t, "out"))
	r = launch(t, compose(t, text))
	b.await(t, "out", written+3, r)
	b.put(t, line)
	b.await(t, "rejected", 1, r)
	r.halt(t)
	var want []string
	got := saidCounts(t, b.values(t, "out"))
	for n := range got {
		of := at.Truncate(time.Second).Add(time.Duration(n) * time.Second).Format(time.RFC3339)
		count := 0
		if n == 0 {
			count = 3
		}
		want = append(want, fmt.Sprintf("a %s a/%s %d %d %d", of, of, n+1, count, count))
	}
	equal(t, want, got)
	if rejected := b.values(t, "rejected"); !strings.Contains(rejected[0], "up to which the intervals of this key are closed") {
		t.Errorf("rejected: %q", rejected)
	}
}

// Shares of events are those of a table with two columns, and a pair that is none is rejected.
func TestShares(t *testing.T) {
	noise := rand.New(rand.NewPCG(14, 15))
	var lines []string
	table := []string{"key,time,errors,requests\n"}
	for minute := range 90 {
		at := start.Truncate(time.Minute).Add(time.Duration(minute) * time.Minute)
		var errors, requests int
		for event := range noise.IntN(4) {
			k, n := noise.IntN(3), 3+noise.IntN(5)
			errors, requests = errors+k, requests+n
			lines = append(lines, fmt.Sprintf("{\"key\":\"a\",\"time\":%q,\"failed\":%d,\"all\":%d}\n", at.Add(time.Duration(event)*time.Second).Format(time.RFC3339), k, n))
		}
		table = append(table, fmt.Sprintf("a,%s,%d,%d\n", at.Format(time.RFC3339), errors, requests))
	}
	first := slices.IndexFunc(table, func(line string) bool { return !strings.HasSuffix(line, ",0,0\n") && line != table[0] })
	table = slices.Delete(table, 1, first) // from the first event on
	last := len(table)
	for strings.HasSuffix(table[last-1], ",0,0\n") {
		last--
	}
	const model = "model: {family: binomial, prior: auto}, detect: true"
	_, want, _ := runConfig(t, "{"+model+", source: {csv: {path: "+write(t, "t.csv", table[:last]...)+", values: [errors, requests]}}}")
	s, got, rejected := runConfig(t, "{"+model+", aggregate: {every: 1m, value: share, of: failed, to: all}, source: {jsonl: {path: "+
		write(t, "e.jsonl", append(lines, "{\"key\":\"a\",\"time\":1,\"failed\":4,\"all\":3}\n")...)+"}}}")
	if len(rejected) != 1 || !strings.Contains(rejected[0], "4 successes of 3 trials") || s.Missing == 0 {
		t.Errorf("rejected %q, %d missing", rejected, s.Missing)
	}
	type record struct {
		Time      time.Time
		N         int
		Predicted struct{ Mean, SD *float64 }
		Estimate  struct{ Mean, SD *float64 }
		Memory    float64
	}
	parsed := func(lines []string) (all []record) {
		for _, line := range lines {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(line, err)
			}
			all = append(all, r)
		}
		return all
	}
	if len(want) < 60 {
		t.Fatal(len(want))
	}
	equal(t, parsed(want), parsed(got))
}
