package incidents

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// A digest has the alarms of its period that are in no incident by its end. Periods follow the local time, and open
// digests survive storing at any time.
func TestDigests(t *testing.T) {
	berlin := expect.Get(time.LoadLocation("Europe/Berlin"))(t)
	every := []time.Duration{24 * time.Hour, 7 * 24 * time.Hour}
	// On 29 March 2026, a Sunday, the clock goes forward: the day has 23 hours.
	local := func(day, hour int) time.Time { return time.Date(2026, 3, day, hour, 0, 0, 0, berlin) }
	d := NewDigests(every, berlin)
	var got []string
	step := func(end time.Time, flush bool) {
		for _, c := range d.Close(end, flush) {
			var ids []string
			for _, a := range c.Alarms {
				ids = append(ids, a.ID)
			}
			got = append(got, fmt.Sprintf("%v %s to %s: %s", c.Every, c.From.Format(time.DateTime), c.To.Format(time.DateTime), strings.Join(ids, " ")))
		}
		stored, read := NewDigests(every, berlin), NewDigests(nil, nil)
		if rest, err := read.Decode(d.Append(nil)); err != nil || len(rest) > 0 {
			t.Fatal("a state that was written cannot be read")
		}
		stored.TakeOver(read)
		d = stored
	}
	add := func(id string, t time.Time, score float64, incident string) {
		d.Add(Alarm{ID: id, Key: "k", Kind: "novelty", Time: t, Score: score}, incident)
	}
	add("a", local(28, 0), 3, "")
	add("b", local(28, 23), 4, "")
	add("c", local(28, 23), 9, "")
	add("d", local(28, 23), 9, "i")
	d.Add(Alarm{ID: "c", Key: "k", Kind: "novelty"}, "j") // an incident that was found later
	for _, want := range []time.Time{local(29, 0), local(30, 0)} {
		if end, open := d.Next(); !open || !end.Equal(want) {
			t.Errorf("the next digest ends at %v, want %v", end, want)
		}
		step(want, false)
		if want.Equal(local(29, 0)) {
			add("e", local(29, 12), 1, "")
		}
	}
	step(local(31, 0), false)
	add("f", local(31, 5), 2, "")
	step(local(31, 6), true)
	want := []string{
		"24h0m0s 2026-03-27 23:00:00 to 2026-03-28 23:00:00: b a",
		"24h0m0s 2026-03-28 23:00:00 to 2026-03-29 22:00:00: e",
		"168h0m0s 2026-03-22 23:00:00 to 2026-03-29 22:00:00: b a e",
		"24h0m0s 2026-03-30 22:00:00 to 2026-03-31 22:00:00: f",
		"168h0m0s 2026-03-29 22:00:00 to 2026-04-05 22:00:00: f",
	}
	got = slices.DeleteFunc(got, func(s string) bool { return strings.HasSuffix(s, ": ") })
	expect.Same(t, want, got)
	if end, open := d.FirstEnd(time.Date(1969, 12, 31, 12, 0, 0, 0, time.UTC)); !open || !end.Equal(time.Date(1969, 12, 31, 23, 0, 0, 0, time.UTC)) {
		t.Error(end)
	}
	// A digest also ends in the hour that occurs twice.
	hourly := NewDigests([]time.Duration{time.Hour}, berlin)
	for now, n := time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), 0; n < 8; n++ {
		hourly.Add(Alarm{ID: fmt.Sprint(n), Key: "k", Time: now}, "")
		end, _ := hourly.Next()
		if !end.After(now) {
			t.Fatalf("at %v a digest ends at %v", now, end)
		}
		hourly.Close(end, false)
		now = now.Add(time.Hour)
	}
}

// A digest contains the alarm that opens it, also before a midnight that the clock skips.
func TestDigestFirstAlarm(t *testing.T) {
	zone := expect.Get(time.LoadLocation("America/Sao_Paulo"))(t)
	d := NewDigests([]time.Duration{24 * time.Hour}, zone)
	now := time.Date(2017, 10, 14, 23, 50, 0, 0, zone)
	d.Add(Alarm{ID: "a", Key: "k", Time: now}, "")
	midnight := now.Add(10 * time.Minute)
	if end, _ := d.FirstEnd(now); !end.Equal(midnight) {
		t.Errorf("it would end at %v", end)
	}
	if closed := d.Close(midnight, false); len(closed) != 1 || !closed[0].To.Equal(midnight) || len(closed[0].Alarms) != 1 {
		t.Errorf("at %v: %v", midnight, closed)
	}
}

// Digests with all periods can be decoded, forget a key, and be encoded again.
func TestDigestsForget(t *testing.T) {
	every := []time.Duration{24 * time.Hour, 7 * 24 * time.Hour}
	now := time.Date(2026, 3, 28, 5, 0, 0, 0, time.UTC)
	encoded := func(keys ...string) []byte {
		d := NewDigests(every, nil)
		for _, k := range keys {
			d.Add(Alarm{ID: k + ":1", Key: k, Kind: "novelty", Time: now, Score: 3}, "")
		}
		return d.Append(nil)
	}
	d := NewDigests(nil, nil)
	expect.Get(d.Decode(encoded("a", "gone", "b")))(t)
	d.Forget(func(key string) bool { return key == "gone" })
	if got, want := d.Append(nil), encoded("a", "b"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
