package kafkaio

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"hafvf/internal/testing/expect"
)

// rewrite deletes the states of all keys. It calls more, if set, before it returns the changes.
func rewrite(t *testing.T, c Cluster, more func()) error {
	t.Helper()
	return openClient(t, c).RewriteStates(context30(t), "states", quiet, func(stored []StoredState) (map[string][]byte, error) {
		if more != nil {
			more()
		}
		changed := map[string][]byte{}
		for _, s := range stored {
			changed[s.Key] = nil
		}
		return changed, nil
	})
}

// TestRewriteStates: states can only be changed between two runs. RewriteStates does not disturb a run that is active, or that
// starts meanwhile.
func TestRewriteStates(t *testing.T) {
	_, c := withRecords(t, 50)
	a := startRun(t, c, nil)
	a.mustCommit(5)
	refuses(t, rewrite(t, c, nil), "the changelog states is in use: "+a.run.String()+" has not ended")
	a.mustCommit(6)
	expect.OK(t, a.Close(context30(t), true))

	var b run
	err := rewrite(t, c, func() { b = startRun(t, c, nil) })
	refuses(t, err, "the changelog states is in use: "+b.run.String()+" has not ended")
	b.mustCommit(7)
	b.Close(context30(t), false) // a failed run records its end too
	if state, offset, h := stored(t, c); state != "7" || offset != 7 || !h.Ended {
		t.Errorf("state %s, offset %d, head %+v", state, offset, h)
	}

	no := errors.New("no")
	if err := openClient(t, c).RewriteStates(context30(t), "states", quiet, func([]StoredState) (map[string][]byte, error) { return nil, no }); err != no {
		t.Error(err)
	}
	expect.OK(t, rewrite(t, c, nil))
	if state, offset, h := stored(t, c); state != "" || offset != 7 || !h.Ended || h.Run.Run == b.run.Run {
		t.Errorf("state %s, offset %d, head %+v", state, offset, h)
	}
	d := startRun(t, c, nil)
	if got := slices.Collect(maps.Keys(d.Restored())); len(got) != 0 || d.start["in-0"].Offset != 7 {
		t.Errorf("%v are restored, at %v", got, d.start)
	}
	d.mustCommit(8)
	d.Close(context30(t), true)
}
