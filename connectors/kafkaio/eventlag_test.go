package kafkaio

import (
	"hafvf/internal/testing/expect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The usual lag is what 99 % of the records keep to, rounded up by less than 5 %. One that
// stands out does not count, nor does history.
func TestUsualLag(t *testing.T) {
	var none lag
	none.add(base, nil)
	none.add(base, []time.Duration{48 * time.Hour, 300 * 24 * time.Hour})
	if none.usual != 0 || none.most != 0 {
		t.Errorf("of history %v", none.usual)
	}
	var ahead lag
	if ahead.add(base, []time.Duration{-time.Hour}); ahead.usual != time.Millisecond || ahead.most != time.Millisecond {
		t.Errorf("of a time ahead of the clock %v, at most %v", ahead.usual, ahead.most)
	}
	rapid.Check(t, func(t *rapid.T) {
		var l lag
		usual := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(lagHistory/2)).Draw(t, "lag"))
		for i := range 300 {
			d := usual
			if i == 200 {
				d = lagHistory - time.Millisecond
			}
			l.add(base.Add(time.Duration(i)*time.Second), []time.Duration{d})
			if l.usual > l.most {
				t.Fatalf("99 %% are within %v, all of them within %v", l.usual, l.most)
			}
		}
		if l.usual < usual || l.usual > usual+usual/20 {
			t.Fatalf("%v, want %v", l.usual, usual)
		}
		var again lag
		if again.add(base, []time.Duration{l.usual}); again.usual != l.usual {
			t.Fatalf("%v is %v after a restart", l.usual, again.usual)
		}
		if l.most != lagHistory-time.Millisecond {
			t.Fatalf("at most %v", l.most)
		}
	})
}

// A lag that is over is forgotten: after a time where many records come, and after a number of
// records where few do. A pause alone forgets nothing.
func TestUsualLagForgets(t *testing.T) {
	was := func() lag {
		var l lag
		for range 1000 {
			l.add(base, []time.Duration{10 * time.Minute})
		}
		return l
	}
	many := was()
	for i := range 200 {
		at := base.Add(time.Duration(i) * time.Second)
		if many.add(at, make([]time.Duration, 1000)); i == 0 && many.usual < 10*time.Minute {
			t.Errorf("a thousand records of one moment leave %v", many.usual)
		}
	}
	if many.usual > time.Second {
		t.Errorf("after 200,000 records it is %v", many.usual)
	}
	few := was()
	few.add(base.Add(1000*time.Hour), []time.Duration{0})
	if few.usual < 10*time.Minute {
		t.Errorf("a pause leaves %v", few.usual)
	}
	for i := range 10 * lagRecords {
		few.add(base.Add(time.Duration(1000+i)*time.Hour), []time.Duration{0})
	}
	if few.usual > time.Second {
		t.Errorf("after %d records it is %v", 10*lagRecords, few.usual)
	}
}

// TestReach: a partition has passed what the records of two keys have reached; one without keys what
// two records have. A time after that of the topic counts as that, and what has no time says
// nothing.
func TestReach(t *testing.T) {
	c := &consumer{src: Source{Clock: "test"}, clock: func(r Record) (time.Time, bool) {
		at, err := time.Parse(time.RFC3339, string(r.Value))
		return at, err == nil
	}}
	p := &partitionReader{fetcher: &fetcher{}}
	now := base.Add(1000 * time.Hour)
	for i, step := range []struct {
		key    string
		at     int // hours after base; negative: none that can be read
		passed int // before the record, where that is later; 0: it is not
	}{
		{"a", 10, 0}, {"a", 20, 0}, {"a", 5, 0}, {"b", 15, 0}, {"b", 12, 15}, {"b", 18, 0}, {"b", 30, 0},
		{"a", 19, 20}, {"c", 900, 0}, {"c", 25, 30}, {"a", -1, 0}, {"a", 40, 0}, {"b", 30, 40},
		{"d", 2000, 0}, {"b", 41, 900},
	} {
		r := Record{Key: []byte(step.key), Value: []byte("none"), Time: now}
		if at := base.Add(time.Duration(step.at) * time.Hour); step.at >= 0 {
			r.Value = []byte(at.Format(time.RFC3339))
		}
		got := c.stamp(p, batch{at: now.Add(time.Second), records: []Record{r}}).Records[0].LogTime
		want := time.Time{}
		if step.passed > 0 {
			want = base.Add(time.Duration(step.passed) * time.Hour)
		}
		if step.at >= 0 && !got.Equal(want) {
			t.Errorf("record %d: the log has passed %v, want %v", i, got, want)
		}
	}
	if got := p.reach.latest(); !got.Equal(now) {
		t.Errorf("the latest time is %v, want that of the topic's timestamp", got)
	}
	r := Record{Key: []byte("e"), Value: []byte(now.Add(-time.Hour).Format(time.RFC3339)), Time: now}
	if c.stamp(p, batch{at: now, records: []Record{r}}); !p.reach.logTime(false).Equal(now.Add(-time.Hour)) || !p.reach.logTime(true).Equal(now.Add(-2*time.Hour)) {
		t.Errorf("after a record of the present, which comes an hour late, the log has passed %v, with lags %v", p.reach.logTime(false), p.reach.logTime(true))
	}
	for range 20 * lagForgetting {
		c.stamp(p, batch{at: now, records: []Record{{Key: []byte("e"), Value: r.Value, Time: now.Add(-time.Hour)}}})
	}
	if got := p.reach.logTime(true); now.Add(-time.Hour).Sub(got) > 2*lagForgetting*time.Millisecond {
		t.Errorf("after many that come at once it has passed %v with lags", got)
	}
	one := timeReach{}
	for i := range 3 {
		at := base.Add(time.Duration(i) * time.Hour)
		one.observe(&Record{Key: []byte("a"), Time: at}, at, now)
	}
	if got, want := one.logTime(true), base.Add(2*time.Hour-lagUnknown); !one.logTime(false).IsZero() || got.Before(want) || got.After(want.Add(lagUnknown/100)) {
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

// TestLagOfABacklog: by the topic's timestamps, unless these are the times themselves; not by
// the clock, which shows for how long nobody has read. A time beyond the clock is worth no more
// than the clock.
func TestLagOfABacklog(t *testing.T) {
	times := map[int64]time.Time{}
	c := &consumer{src: Source{Clock: "test"}, clock: func(r Record) (time.Time, bool) { at, ok := times[r.Offset]; return at, ok }}
	p := &partitionReader{fetcher: &fetcher{}}
	at := base.Add(5 * time.Hour)
	stamped := func(offset int64, t time.Time, lag time.Duration) Record {
		times[offset] = t
		return Record{Position: Position{Offset: offset}, Time: t.Add(lag)}
	}
	c.stamp(p, batch{at: at, records: []Record{stamped(0, base, 0), {Position: Position{Offset: 1}, Time: base}}})
	expect.Same(t, time.Duration(0), p.lag.usual, "lag of equal times")
	expect.Same(t, lagUnknown, c.lagOf(p), "without any")
	other, ahead := &partitionReader{}, &partitionReader{}
	ahead.lag.add(base, []time.Duration{-time.Hour})
	c.parts = []*partitionReader{p, ahead}
	expect.Same(t, lagUnknown, c.lagOf(p), "with that of a time ahead of the clock")
	other.lag.add(base, []time.Duration{time.Minute})
	c.parts = []*partitionReader{p, other, ahead}
	expect.Same(t, other.lag.usual, c.lagOf(p), "with that of others")
	c.stamp(p, batch{at: at, records: []Record{stamped(2, base, time.Minute), stamped(3, at.Add(time.Hour), 0)}})
	if got := p.lag.usual; got < time.Minute || got > 63*time.Second {
		t.Errorf("timestamps show a lag of %v", got)
	}
	if got := p.reach.latest(); !got.Equal(at) {
		t.Errorf("the latest time is %v, want that of the clock", got)
	}
	c.src.Disorder = time.Hour
	if got := c.lagOf(p); got != time.Hour {
		t.Errorf("less than the disorder: %v", got)
	}
}
