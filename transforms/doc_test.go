package transforms

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"hafvf/internal/account"
)

// The package comment lists account.Counters.
func TestCountersInDoc(t *testing.T) {
	var want strings.Builder
	for _, c := range account.Counters {
		fmt.Fprintf(&want, "//\t%-14s %s\n", c.Name, c.Doc)
	}
	if text, err := os.ReadFile("doc.go"); err != nil || !strings.Contains(string(text), want.String()) {
		t.Errorf("doc.go should list these counters (error %v):\n%s", err, want.String())
	}
}
