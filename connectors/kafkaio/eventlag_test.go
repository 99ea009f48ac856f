package kafkaio

import (
	"testing"
	"time"

	"hafvf/connectors/internal/eventlag"
	"hafvf/internal/testing/expect"
)

// TestTimeReach: a partition has passed the latest time that records of two keys have reached or, without keys, two
// records. A time after the topic's timestamp counts as the timestamp. A record without a readable time changes
// nothing.
func TestTimeReach(t *testing.T) {
	c := &consumer{src: Source{Clock: "test"}, clock: func(r Record) (time.Time, bool) {
		eventTime, err := time.Parse(time.RFC3339, string(r.Value))
		return eventTime, err == nil
	}}
	p := &partitionReader{fetcher: &fetcher{}}
	now := base.Add(1000 * time.Hour)
	for i, step := range []struct {
		key    string
		hours  int // hours after base; negative: no readable time
		passed int // expected LogTime in hours after base; 0 for none
	}{
		{"a", 10, 0}, {"a", 20, 0}, {"a", 5, 0}, {"b", 15, 0}, {"b", 12, 15}, {"b", 18, 0}, {"b", 30, 0},
		{"a", 19, 20}, {"c", 900, 0}, {"c", 25, 30}, {"a", -1, 0}, {"a", 40, 0}, {"b", 30, 40},
		{"d", 2000, 0}, {"b", 41, 900},
	} {
		r := Record{Key: []byte(step.key), Value: []byte("none"), Time: now}
		if eventTime := base.Add(time.Duration(step.hours) * time.Hour); step.hours >= 0 {
			r.Value = []byte(eventTime.Format(time.RFC3339))
		}
		got := c.stamp(p, batch{arrived: now.Add(time.Second), records: []Record{r}}).Records[0].LogTime
		want := time.Time{}
		if step.passed > 0 {
			want = base.Add(time.Duration(step.passed) * time.Hour)
		}
		if step.hours >= 0 && !got.Equal(want) {
			t.Errorf("record %d: the log has passed %v, want %v", i, got, want)
		}
	}
	if got := p.reach.latest(); !got.Equal(now) {
		t.Errorf("the latest time is %v, want that of the topic's timestamp", got)
	}
	r := Record{Key: []byte("e"), Value: []byte(now.Add(-time.Hour).Format(time.RFC3339)), Time: now}
	if c.stamp(p, batch{arrived: now, records: []Record{r}}); !p.reach.logTime(false).Equal(now.Add(-time.Hour)) || !p.reach.logTime(true).Equal(now.Add(-2*time.Hour)) {
		t.Errorf("after a record of the present, which comes an hour late, the log has passed %v, with lags %v", p.reach.logTime(false), p.reach.logTime(true))
	}
	for range 20 * lagForgetting {
		c.stamp(p, batch{arrived: now, records: []Record{{Key: []byte("e"), Value: r.Value, Time: now.Add(-time.Hour)}}})
	}
	if got := p.reach.logTime(true); now.Add(-time.Hour).Sub(got) > 2*lagForgetting*time.Millisecond {
		t.Errorf("after many that come at once it has passed %v with lags", got)
	}
	one := timeReach{}
	for i := range 3 {
		eventTime := base.Add(time.Duration(i) * time.Hour)
		one.observe(&Record{Key: []byte("a"), Time: eventTime}, eventTime, now)
	}
	if got, want := one.logTime(true), base.Add(2*time.Hour-eventlag.Unknown); !one.logTime(false).IsZero() || got.Before(want) || got.After(want.Add(eventlag.Unknown/100)) {
		t.Errorf("of one key %v, with lags %v, want %v", one.logTime(false), got, want)
	}
	none := timeReach{}
	for _, h := range []int{3, 9, 7} {
		none.add(nil, base.Add(time.Duration(h)*time.Hour).UnixMilli(), false)
	}
	if got := none.logTime(false); !got.Equal(base.Add(7 * time.Hour)) {
		t.Errorf("without keys %v", got)
	}
}

// TestBacklogLag: the lag of a backlog is measured by the topic's timestamps, unless these equal the event times. The
// clock is not used, because it also measures the time without a reader. A time in the future counts as the present.
func TestBacklogLag(t *testing.T) {
	times := map[int64]time.Time{}
	c := &consumer{src: Source{Clock: "test"}, clock: func(r Record) (time.Time, bool) { arrived, ok := times[r.Offset]; return arrived, ok }}
	p := &partitionReader{fetcher: &fetcher{}}
	arrived := base.Add(5 * time.Hour)
	stamped := func(offset int64, t time.Time, lag time.Duration) Record {
		times[offset] = t
		return Record{Position: Position{Offset: offset}, Time: t.Add(lag)}
	}
	c.stamp(p, batch{arrived: arrived, records: []Record{stamped(0, base, 0), {Position: Position{Offset: 1}, Time: base}}})
	expect.Same(t, time.Duration(0), p.lag.Usual, "lag of equal times")
	expect.Same(t, eventlag.Unknown, c.lagOf(p), "without any")
	other, ahead := &partitionReader{}, &partitionReader{}
	ahead.lag.Add(base, []time.Duration{-time.Hour})
	c.parts = []*partitionReader{p, ahead}
	expect.Same(t, eventlag.Unknown, c.lagOf(p), "with that of a time ahead of the clock")
	other.lag.Add(base, []time.Duration{time.Minute})
	c.parts = []*partitionReader{p, other, ahead}
	expect.Same(t, other.lag.Usual, c.lagOf(p), "with that of others")
	c.stamp(p, batch{arrived: arrived, records: []Record{stamped(2, base, time.Minute), stamped(3, arrived.Add(time.Hour), 0)}})
	if got := p.lag.Usual; got < time.Minute || got > 63*time.Second {
		t.Errorf("timestamps show a lag of %v", got)
	}
	if got := p.reach.latest(); !got.Equal(arrived) {
		t.Errorf("the latest time is %v, want that of the clock", got)
	}
	c.src.Disorder = time.Hour
	if got := c.lagOf(p); got != time.Hour {
		t.Errorf("less than the disorder: %v", got)
	}
}
