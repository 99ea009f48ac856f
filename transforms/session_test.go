package transforms

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
	"hafvf/internal/testing/expect"
)

// atSeconds returns observations at these seconds.
func atSeconds(seconds ...int64) (observations []keyed.Observation) {
	for i, s := range seconds {
		observations = append(observations, keyed.Value(time.Unix(s, 0).UTC(), "", float64(i)))
	}
	return observations
}

func seconds(observations []keyed.Observation) (list []int64) {
	for _, o := range observations {
		list = append(list, o.Time.Unix())
	}
	return list
}

// Sessions end at gaps. A late observation that closes a gap joins the sessions before and after it to their next
// revision.
func TestSplitSessions(t *testing.T) {
	var sessions []sessionRevision
	for _, o := range keyed.SplitSessions(atSeconds(20, 1, 3, 12, 21), 9*time.Second) {
		sessions = append(sessions, sessionRevision{Observations: o})
	}
	var got [][]int64
	for _, s := range sessions {
		got = append(got, seconds(s.Observations))
	}
	if diff := cmp.Diff([][]int64{{1, 3}, {12, 20, 21}}, got); diff != "" { // 9 s after 3 is a gap
		t.Fatal(diff)
	}
	sessions[1].Revision = 4
	late := sessionRevision{Observations: atSeconds(7)}
	far := sessionRevision{Observations: atSeconds(100)}
	rest := late.Join(append(sessions, far), 9*time.Second)
	expect.Same(t, []int64{1, 3, 7, 12, 20, 21}, seconds(late.Observations))
	if late.Revision != 5 || len(late.Earlier) != 2 || len(rest) != 1 || !rest[0].End().Equal(far.End()) {
		t.Errorf("revision %d replaces %d sessions; %d are left", late.Revision, len(late.Earlier), len(rest))
	}
	var read sessionRevision
	expect.OK(t, compact.Decode(compact.Encode(nil, late, sessionForm), &read, sessionForm))
	expect.Same(t, late, read)
}

func FuzzSession(f *testing.F) {
	s := sessionRevision{Revision: 1, Observations: atSeconds(1), Earlier: []sessionRevision{{Observations: atSeconds(1)}}}
	f.Add(compact.Encode(nil, s, sessionForm))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = compact.Decode(b, new(sessionRevision), sessionForm) })
}
