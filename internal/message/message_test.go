package message

import "testing"

func TestEdits(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"famly", "family", 1}, {"top", "tpo", 1}, {"Top", "top", 0}, {"kitten", "sitting", 3}} {
		if got := Edits(test.a, test.b); got != test.want {
			t.Errorf("%s, %s: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
