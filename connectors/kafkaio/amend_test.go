package kafkaio

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"hafvf/internal/testing/expect"
)

// amend forgets k, and does more before.
func amend(t *testing.T, c Cluster, more func()) error {
	t.Helper()
	return asks(t, c).AmendStates(context30(t), "states", quiet, func(stored []StoredState) (map[string][]byte, error) {
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

// TestAmend: states are changed between two runs alone. A run that goes on, and one that starts
// meanwhile, commits as if nobody had asked.
func TestAmend(t *testing.T) {
	_, c := fed(t, 50)
	a := begun(t, c, nil)
	a.must(5)
	refuses(t, amend(t, c, nil), "the changelog states is in use: "+a.run.String()+" has not ended")
	a.must(6)
	expect.OK(t, a.Close(context30(t), true))

	var b run
	err := amend(t, c, func() { b = begun(t, c, nil) })
	refuses(t, err, "the changelog states is in use: "+b.run.String()+" has not ended")
	b.must(7)
	b.Close(context30(t), false) // a run that fails says it as well
	if state, offset, h := kept(t, c); state != "7" || offset != 7 || !h.Ended {
		t.Errorf("state %s, offset %d, head %+v", state, offset, h)
	}

	no := errors.New("no")
	if err := asks(t, c).AmendStates(context30(t), "states", quiet, func([]StoredState) (map[string][]byte, error) { return nil, no }); err != no {
		t.Error(err)
	}
	expect.OK(t, amend(t, c, nil))
	if state, offset, h := kept(t, c); state != "" || offset != 7 || !h.Ended || h.Run.Run == b.run.Run {
		t.Errorf("state %s, offset %d, head %+v", state, offset, h)
	}
	d := begun(t, c, nil)
	if got := slices.Collect(maps.Keys(d.Restored())); len(got) != 0 || d.start["in-0"].Offset != 7 {
		t.Errorf("%v are restored, at %v", got, d.start)
	}
	d.must(8)
	d.Close(context30(t), true)
}
