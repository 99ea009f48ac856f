package keyed

import "testing"

// Stars and question marks match slashes, unlike those of paths.
func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, key string
		want         bool
	}{
		{"pump-*", "pump-1", true},
		{"pump-*", "pump-a/b/c", true},
		{"*", "a/b", true},
		{"*", "", true},
		{"plant/*/pump", "plant/a/b/pump", true},
		{"plant/?", "plant/a", true},
		{"plant?a", "plant/a", true},
		{"plant/?", "plant/ab", false},
		{"[a-c]/*", "b/x/y", true},
		{"[a-c]/*", "d/x", false},
		{`a\*`, "a*", true},
		{`a\*`, "ab", false},
		{"pump", "pump/", false},
	} {
		if got := (Rule{Match: test.pattern}).Matches(test.key); got != test.want {
			t.Errorf("matches(%q, %q) = %t", test.pattern, test.key, got)
		}
	}
}
