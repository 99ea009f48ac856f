package eventlag

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var base = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Usual is the lag that 99 % of the records do not exceed, rounded up by less than 5 %. A single outlier does not
// count, and lags of at least History do not.
func TestUsualLag(t *testing.T) {
	var none Lag
	none.Add(base, nil)
	none.Add(base, []time.Duration{48 * time.Hour, 300 * 24 * time.Hour})
	if none.Usual != 0 || none.Max != 0 {
		t.Errorf("of history %v", none.Usual)
	}
	var ahead Lag
	if ahead.Add(base, []time.Duration{-time.Hour}); ahead.Usual != time.Millisecond || ahead.Max != time.Millisecond {
		t.Errorf("of a time ahead of the clock %v, at most %v", ahead.Usual, ahead.Max)
	}
	rapid.Check(t, func(t *rapid.T) {
		var l Lag
		usual := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(History/2)).Draw(t, "lag"))
		for i := range 300 {
			d := usual
			if i == 200 {
				d = History - time.Millisecond
			}
			l.Add(base.Add(time.Duration(i)*time.Second), []time.Duration{d})
			if l.Usual > l.Max {
				t.Fatalf("99 %% are within %v, all of them within %v", l.Usual, l.Max)
			}
		}
		if l.Usual < usual || l.Usual > usual+usual/20 {
			t.Fatalf("%v, want %v", l.Usual, usual)
		}
		var again Lag
		if again.Add(base, []time.Duration{l.Usual}); again.Usual != l.Usual {
			t.Fatalf("%v is %v after a restart", l.Usual, again.Usual)
		}
		if l.Max != History-time.Millisecond {
			t.Fatalf("at most %v", l.Max)
		}
	})
}

// Old lags are forgotten: after halfTime if many records arrive, and after halfRecords if few do. A pause alone
// forgets nothing.
func TestUsualLagForgets(t *testing.T) {
	was := func() Lag {
		var l Lag
		for range 1000 {
			l.Add(base, []time.Duration{10 * time.Minute})
		}
		return l
	}
	many := was()
	for i := range 200 {
		at := base.Add(time.Duration(i) * time.Second)
		if many.Add(at, make([]time.Duration, 1000)); i == 0 && many.Usual < 10*time.Minute {
			t.Errorf("a thousand records of one moment leave %v", many.Usual)
		}
	}
	if many.Usual > time.Second {
		t.Errorf("after 200,000 records it is %v", many.Usual)
	}
	few := was()
	few.Add(base.Add(1000*time.Hour), []time.Duration{0})
	if few.Usual < 10*time.Minute {
		t.Errorf("a pause leaves %v", few.Usual)
	}
	for i := range 10 * halfRecords {
		few.Add(base.Add(time.Duration(1000+i)*time.Hour), []time.Duration{0})
	}
	if few.Usual > time.Second {
		t.Errorf("after %d records it is %v", 10*halfRecords, few.Usual)
	}
}
