package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// A life is the suffix of a key between two pauses in which the key expires. In a run without expiry, each life has a
// key of its own.
var life = regexp.MustCompile(`~[0-9]+|[a-z]+-in-[0-9]+:[0-9]+`) // record positions are removed too

// lives returns observations of keys that pause, sorted by time. If shuffled is set, lines are out of order within a
// minute. No pause is within the margin of expire. named has a key for each life.
func lives(begin time.Time, expire, margin time.Duration, shuffled bool) (lines, named []string) {
	rng := rand.New(rand.NewPCG(36, 1))
	type shown struct {
		event
		life int
	}
	var events []shown
	for k := range 6 {
		when, life := begin.Add(time.Duration(rng.IntN(3600))*time.Second), 0
		for range 300 {
			gap := time.Duration(rng.ExpFloat64()*float64(expire)/40) + time.Second
			if rng.IntN(60) == 0 { // a pause that is short enough, slightly too long, or long
				gap = []time.Duration{expire - margin, expire + margin + time.Second, 3 * expire}[rng.IntN(3)]
			}
			when = when.Add(gap).Truncate(time.Second)
			if gap > expire {
				life++
			}
			events = append(events, shown{event{fmt.Sprint("k", k), when, rng.NormFloat64() + float64(life)}, life})
		}
	}
	slices.SortStableFunc(events, func(a, b shown) int { return a.time.Compare(b.time) })
	if shuffled {
		for part := range slices.Chunk(events, 5) {
			if part[len(part)-1].time.Sub(part[0].time) < time.Minute {
				rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
			}
		}
	}
	for _, e := range events {
		line := func(key string) string {
			return fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":%.6g}\n", key, e.time.Format(time.RFC3339), e.x)
		}
		lines = append(lines, line(e.key))
		named = append(named, line(fmt.Sprintf("%s~%d", e.key, e.life)))
	}
	return lines, named
}

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

// Each life of a key is treated as a key of its own: estimates, alarms and silences equal those of a run with a key for
// each life. This holds for one run, and for three runs that resume their states.
func TestExpireOfAFile(t *testing.T) {
	expect.Long(t, "many runs to the end of a file")
	t.Parallel()
	const expire = 6 * time.Hour
	for _, settings := range []string{
		"detect: true\n",
		"lateness: 1m\ntime_unit: 1m\n",
		"detect: true\nsilence: {after: 2h}\n",
		"detect: true\naggregate: {every: 5m, value: mean}\n",
		"aggregate: {every: 5m, value: count}\nsilence: {after: 2h}\nlateness: 1m\n",
	} {
		t.Run(settings, func(t *testing.T) {
			dir := t.TempDir()
			margin := time.Duration(0)
			if strings.Contains(settings, "aggregate") {
				margin = 5 * time.Minute // the time counts from the start of an interval
			}
			lines, named := lives(start, expire, margin, strings.Contains(settings, "lateness"))
			last := map[string]time.Time{}
			for _, line := range named {
				if e := eventOf(t, line); e.time.After(last[e.key]) {
					last[e.key] = e.time
				}
			}
			run := func(name string, parts [][]string, expire string) (out, alerts []string) {
				for i, part := range parts {
					path := func(kind string) string { return filepath.Join(dir, fmt.Sprint(name, "-", kind, "-", i)) }
					save(t, path("in"), part...)
					text := fmt.Sprintf("model: {family: normal}\n%sexpire: %s\nsource: {jsonl: {path: %q}}\nsink: {jsonl: {path: %q}}\ndead_letter: {jsonl: {path: %q}}\n", settings, expire, path("in"), path("out"), path("rejected"))
					if strings.Contains(settings, "detect") || strings.Contains(settings, "silence") {
						text += fmt.Sprintf("alerts: {jsonl: {path: %q}, kinds: [novelty, change, silent, recovered]}\n", path("alerts"))
					}
					if len(parts) > 1 {
						text += fmt.Sprintf("state: %q\n", filepath.Join(dir, name+".states"))
					}
					expect.Get(Run{Graph: compose(t, text)}.Execute(context.Background(), nil))(t)
					if rejected := readLines(t, path("rejected")); len(trimmed(rejected)) > 0 {
						t.Fatalf("rejected: %q", rejected[0])
					}
					out = append(out, readLines(t, path("out"))...)
					if strings.Contains(text, "alerts:") {
						alerts = append(alerts, readLines(t, path("alerts"))...)
					}
				}
				return trimmed(out), trimmed(alerts)
			}
			whole := func(lines []string) (result []string) {
				for _, line := range lines {
					result = append(result, life.ReplaceAllString(line, ""))
				}
				return trimmed(result)
			}
			got, gotAlerts := run("expire", [][]string{lines}, "6h")
			want, wantAlerts := run("named", [][]string{named}, "never")
			if strings.Contains(settings, "aggregate") { // without expire, intervals continue to the end of the file
				want = slices.DeleteFunc(want, func(line string) bool {
					e := eventOf(t, line)
					return e.time.After(last[e.key].Truncate(5 * time.Minute).Add(expire))
				})
			}
			equal(t, whole(want), whole(got))
			equal(t, whole(wantAlerts), whole(gotAlerts))
			n := len(lines)
			if strings.Contains(settings, "aggregate") {
				return // the end of a file closes its intervals
			}
			parted, partedAlerts := run("parted", [][]string{lines[:n/3], lines[n/3 : n/2], lines[n/2:]}, "6h")
			if strings.Contains(settings, "lateness") {
				return // and releases waiting records
			}
			equal(t, whole(got), whole(parted))
			if !strings.Contains(settings, "silence") { // the end of a file reports silences
				equal(t, whole(gotAlerts), whole(partedAlerts))
			}
		})
	}
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
