package transforms

import (
	"testing"
	"time"

	"hafvf/hafvf/keyed"
)

// What is cut anywhere is an error, not fewer objects.
func TestUnpackOfACut(t *testing.T) {
	b := packObservation("key", keyed.Value(time.Unix(60, 0), "id", 1))
	for n := 1; n <= len(b); n++ {
		objects := 0
		if err := unpack(b[:n], func(string, keyed.Observation) { objects++ }); (err == nil) != (n == len(b)) || (objects == 1) != (n == len(b)) {
			t.Errorf("%d of %d bytes: %d objects, error %v", n, len(b), objects, err)
		}
	}
}
