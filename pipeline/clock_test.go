package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A record of the future is rejected with its reason, and costs no other record: in a topic by
// default, in a file where the config says so, with either transform.
func TestTimesAhead(t *testing.T) {
	at := func(minute int) string { return start.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339) }
	var lines []string
	for i := range 40 {
		if i == 10 {
			lines = append(lines, `{"key":"k","time":"2126-01-02T00:00:00Z","x":1}`)
		}
		lines = append(lines, fmt.Sprintf(`{"key":"k","time":%q,"x":1}`, at(i)))
	}
	path := write(t, "in.jsonl", strings.Join(lines, "\n")+"\n")
	for _, transform := range []string{"filter", "smooth"} {
		more := "transform: " + transform + "\n"
		if transform == "filter" {
			more += "lateness: 5m\n"
		}
		s, estimates, rejected := runConfig(t, "model: {family: normal}\nsource: {jsonl: {path: "+path+", max_ahead: 1h}}\n"+more)
		if len(estimates) != 40 || s.Rejected != 1 || s.Late != 0 || !strings.Contains(rejected[0], "h ahead of the clock: max_ahead of the source allows 1h") {
			t.Errorf("%s of a file: %d estimates, rejected %q, %d late", transform, len(estimates), rejected, s.Late)
		}
		b := fakeBus(t, 1)
		b.put(t, lines...)
		s, err := Run{Graph: compose(t, b.config("bounded: true", more)), Log: quiet}.Execute(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		rejected = b.values(t, "rejected")
		if len(b.values(t, "out")) != 40 || s.Rejected != 1 || s.Late != 0 || !strings.Contains(rejected[0], `"id":"in-0-10"`) || !strings.Contains(rejected[0], "h ahead of the clock") {
			t.Errorf("%s of a topic: %d estimates, rejected %q, %d late", transform, len(b.values(t, "out")), rejected, s.Late)
		}
	}
}

// Records that come behind their times, with pauses in which the partition is idle, are not late
// within the lateness, and a key that goes on is not told as silent. A restart knows the lag.
func TestKafkaLag(t *testing.T) {
	for _, delay := range []time.Duration{40 * time.Second, 10 * time.Minute} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			b := fakeBus(t, 2)
			b.CreateTopic(t, "out", 1, nil)
			b.CreateTopic(t, "rejected", 1, nil)
			b.CreateTopic(t, "alerts", 1, nil)
			text := b.config("group: g, changelog: states", "lateness: 30s\nsilence: {after: 2m}\nalerts: {kafka: {topic: alerts}}\n")
			line := func(key string, behind time.Duration) string {
				return fmt.Sprintf(`{"key":%q,"time":%q,"x":1}`, key, time.Now().Add(-delay-behind).UTC().Format(time.RFC3339Nano))
			}
			var sum Summary
			for range 2 {
				r := launch(t, compose(t, text))
				time.Sleep(3 * idlePartition / 2) // a start with nothing to read
				b.put(t, line("a", 0), line("b", 0), line("c", 0))
				time.Sleep(2 * idlePartition)
				b.put(t, line("a", 10*time.Second), line("b", 20*time.Second))
				b.committed(t, "g", r, func(lag int64) bool { return lag == 0 })
				s := r.halt(t)
				sum.Counts.Add(s.Counts)
			}
			if sum.Late != 0 || sum.Silences != 0 {
				t.Errorf("%d late, %d silences", sum.Late, sum.Silences)
			}
		})
	}
}

// idlePartition is how long a partition has nothing new before it counts as idle.
const idlePartition = time.Second
