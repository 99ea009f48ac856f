package transforms

import (
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/testing/expect"
)

// Bytes that are cut anywhere are an error, not fewer objects.
func TestUnpackCut(t *testing.T) {
	o := keyed.Value(time.Unix(60, 0), "id", 1)
	b := appendObject(nil, "key", &o)
	for n := 1; n <= len(b); n++ {
		objects := 0
		err := unpack(b[:n], func(string, keyed.Observation) { objects++ })
		if whole := n == len(b); (err == nil) != whole || (objects == 1) != whole {
			t.Errorf("%d of %d bytes: %d objects, error %v", n, len(b), objects, err)
		}
	}
}

// An update that does not converge is counted. No observations are known that cause one.
func TestNotConvergedIsCounted(t *testing.T) {
	var c account.Counts
	for _, converged := range []bool{true, false, true} {
		countEstimate(&c, &keyed.Estimate{Converged: converged})
	}
	expect.Same(t, account.Counts{Records: 3, NotConverged: 1}, c)
}
