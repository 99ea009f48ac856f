package transforms

import (
	"testing"

	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/testing/expect"
)

// An update that does not converge is counted. No observations are known that make one.
func TestNotConvergedIsCounted(t *testing.T) {
	var c account.Counts
	for _, converged := range []bool{true, false, true} {
		countEstimate(&c, &keyed.Estimate{Converged: converged})
	}
	expect.Same(t, account.Counts{Records: 3, NotConverged: 1}, c)
}
