package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// An event is an event of a file or topic.
type event struct {
	key  string
	time time.Time
	x    float64
}

func (e event) json() string {
	return fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":%v}\n", e.key, e.time.Format(time.RFC3339Nano), e.x)
}

// manyEvents returns the events of three keys in a time range, sorted by time. One key pauses, and one ends early.
func manyEvents(begin time.Time, within time.Duration) (lines []string) {
	var events []event
	noise := rand.New(rand.NewPCG(6, 7))
	for _, key := range []string{"a", "b", "c"} {
		for when := begin; ; {
			when = when.Add(time.Duration(noise.ExpFloat64() * float64(10*time.Second))).Truncate(time.Microsecond)
			if when.Sub(begin) > within || key == "c" && when.Sub(begin) > within-20*time.Minute {
				break
			}
			if pause := when.Sub(begin) - within/2; key == "b" && pause > 0 && pause < 10*time.Minute {
				continue
			}
			events = append(events, event{key, when, noise.ExpFloat64()})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return a.time.Compare(b.time) })
	for _, e := range events {
		lines = append(lines, e.json())
	}
	return lines
}

// trimmed returns the lines without surrounding blanks, sorted.
func trimmed(lines []string) (result []string) {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			result = append(result, line)
		}
	}
	slices.Sort(result)
	return result
}

// The aggregate of a table has the values of its intervals. A count also counts events without a value.
func TestAggregateTable(t *testing.T) {
	table := write(t, "in.csv", "at,who,ms\n", "2026-01-05 16:00:01,a,3\n", "2026-01-05 16:00:30,a,1\n", "2026-01-05 16:00:31,a,\n", "2026-01-05 16:02:00,a,5\n", "2026-01-05 16:01:00,a,x\n")
	for _, c := range []struct{ aggregate, want string }{
		{"count, wait: 5m", "16:00 3 of 3, 16:01 1 of 1, 16:02 1 of 1"},
		{"count", "16:00 3 of 3, 16:01 0 of 0, 16:02 1 of 1"},
		{"mean", "16:00 2 of 3, 16:01 null of 0, 16:02 5 of 1"},
		{"max, empty: 0", "16:00 3 of 3, 16:01 0 of 0, 16:02 5 of 1"},
		{"increase, per: 1s", "16:00 0.016666666666666666 of 3, 16:01 null of 0, 16:02 0.04444444444444444 of 1"},
	} {
		_, records, _ := runConfig(t, "{model: {family: normal}, aggregate: {every: 1m, value: "+c.aggregate+"}, source: {csv: {path: "+table+", key: who, time: at, values: ms}}}")
		var quoted []string
		type record struct {
			Time   time.Time
			X      json.RawMessage
			Events int
		}
		for _, r := range parse[record](t, records) {
			quoted = append(quoted, fmt.Sprintf("%s %s of %d", r.Time.Format("15:04"), r.X, r.Events))
		}
		if got := strings.Join(quoted, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.aggregate, got, c.want)
		}
	}
}

// Intervals without events are written while no records arrive, also after a restart. Later events of these intervals
// are late.
func TestKafkaAggregateOfNothing(t *testing.T) {
	expect.Waits(t, "clocks")
	b := fakeBus(t, 1, "out", "rejected")
	text := b.config("group: g, changelog: states", "aggregate: {every: 1s, value: count}\n")
	now := time.Now().UTC().Add(-time.Second)
	line := event{"a", now, 1}.json()
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
	type interval struct {
		ID        string
		N         int
		X, Events *int
	}
	var want []interval
	got := parse[interval](t, b.values(t, "out"))
	for n := range got {
		stamp := now.Truncate(time.Second).Add(time.Duration(n) * time.Second).Format(time.RFC3339)
		count := 0
		if n == 0 {
			count = 3
		}
		want = append(want, interval{"a/" + stamp, n + 1, &count, &count})
	}
	equal(t, want, got)
	if rejected := b.values(t, "rejected"); !strings.Contains(rejected[0], "up to which the intervals of this key are closed") {
		t.Errorf("rejected: %q", rejected)
	}
}

// A share of an interval has the sums of both fields. An invalid pair is rejected.
func TestShares(t *testing.T) {
	table := write(t, "in.csv", "time,bad,all\n", "2026-01-05 16:00:01,1,3\n", "2026-01-05 16:00:30,0,2\n",
		"2026-01-05 16:00:31,4,3\n", "2026-01-05 16:02:00,1,1\n", "2026-01-05 16:03:00,2,4\n")
	s, got, rejected := runConfig(t, "{model: {family: binomial}, aggregate: {every: 1m, value: share, of: bad, to: all}, "+
		"source: {csv: {path: "+table+", key: none}}}")
	if len(rejected) != 1 || !strings.Contains(rejected[0], "4 successes of 3 trials") || s.Missing != 1 {
		t.Errorf("rejected %q, %d missing", rejected, s.Missing)
	}
	type record struct {
		X      any
		Events int
	}
	equal(t, []record{{[]any{1., 5.}, 2}, {[]any{nil, nil}, 0}, {[]any{1., 1.}, 1}, {[]any{2., 4.}, 1}}, parse[record](t, got))
}
