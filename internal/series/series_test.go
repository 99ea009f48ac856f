package series

import (
	"testing"

	"hafvf/internal/testing/expect"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Labels inverts Key and Join.
func TestLabels(t *testing.T) {
	for _, c := range []struct {
		key   string
		names []string
		want  map[string]string
	}{
		{`up{host="a",job="b"}`, nil, map[string]string{"metric": "up", "host": "a", "job": "b"}},
		{`{host="a"}`, nil, map[string]string{"host": "a"}},
		{`{}`, nil, map[string]string{}},
		{`up{metric="x"}`, nil, map[string]string{"metric": "up", "exported_metric": "x"}},
		{"pump-1", nil, map[string]string{"key": "pump-1"}},
		{"hall{1", nil, map[string]string{"key": "hall{1"}},
		{`a{b="c"} 1` + "\n" + `a{b="d"}`, nil, map[string]string{"key": `a{b="c"} 1` + "\n" + `a{b="d"}`}},
		{"a%2Fb/c%25", []string{"x", "y"}, map[string]string{"x": "a/b", "y": "c%"}},
		{"a/b", []string{"x"}, map[string]string{"x": "a/b"}},
	} {
		expect.Same(t, c.want, Labels(c.key, c.names), c.key)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,5}`), rapid.String(), 1, 4).Draw(t, "labels")
		if _, exists := labels["metric"]; exists {
			t.Skip()
		}
		if diff := cmp.Diff(labels, Labels(Key(labels), nil)); diff != "" {
			t.Fatalf("%s: (-want +got)\n%s", Key(labels), diff)
		}
	})
}
