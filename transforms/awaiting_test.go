package transforms

import (
	"testing"
	"time"

	"hafvf/internal/account"
)

// The account of a run awaits the first timer of a node, and what a timer that has fired does until
// the bundle is done. Without one nothing is kept: a node may have millions of timers.
func TestAwaiting(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	run, a := account.Open(account.Keeper{}), &awaiting{}
	a.set(run, timerName{"1", lookTag}, at(20))
	a.set(run, timerName{"2", lookTag}, at(10))
	a.done(run)
	if run.Awaits(at(9)) || !run.Awaits(at(10)) {
		t.Error("the first of two timers is not awaited")
	}
	a.fired(run, timerName{"2", lookTag})
	if !run.Awaits(at(10)) {
		t.Error("what a timer does is not awaited")
	}
	a.set(run, timerName{"2", lookTag}, at(30))
	a.done(run)
	if run.Awaits(at(19)) || !run.Awaits(at(20)) {
		t.Error("the timer that is left is not awaited")
	}
	for _, other := range []*account.Run{nil, account.Watch()} {
		a := &awaiting{}
		a.set(other, timerName{"1", lookTag}, at(1))
		if a.done(other); len(a.all) > 0 {
			t.Errorf("%d timers are kept", len(a.all))
		}
	}
}
