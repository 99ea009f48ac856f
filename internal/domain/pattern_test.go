package domain_test

import (
	"testing"

	"pgregory.net/rapid"

	"hafvf/internal/domain"
	"hafvf/internal/series"
	"hafvf/internal/testing/expect"
)

// A pattern of labels matches series with matching labels, in any order and next to other labels.
func TestLabelPatterns(t *testing.T) {
	for _, c := range []struct {
		labels map[string]string
		key    string
		want   bool
	}{
		{map[string]string{"job": "auth-*", "env": "test"}, `up{env="test",instance="a:1",job="auth-api"}`, true},
		{map[string]string{"job": "auth-*", "env": "test"}, `up{env="prod",instance="a:1",job="auth-api"}`, false},
		{map[string]string{"job": "auth-*"}, `{job="pay"}`, false},
		{map[string]string{"__name__": "up"}, `up{job="pay"}`, true},
		{map[string]string{"__name__": "up"}, `{job="pay"}`, false},
		{map[string]string{"zone": ""}, `up{job="pay"}`, true},
		{map[string]string{"zone": "?*"}, `up{job="pay"}`, false},
		{map[string]string{"path": `*"/a*`}, `{path="x\"/a,b=\"}"}`, true},
		{map[string]string{"job": "*"}, "job", false},
		{map[string]string{"job": "*"}, `a{job="`, false},
		{map[string]string{"job": "*"}, `a{job="b"`, false},
		{map[string]string{"job": "*"}, `a{job="b"x`, false},
	} {
		if got := domain.Matches(domain.LabelPattern(c.labels), c.key); got != c.want {
			t.Errorf("%v, %s: %v", c.labels, c.key, got)
		}
	}
	if domain.CheckPattern(domain.LabelPattern(map[string]string{"a": "["})) == nil {
		t.Error("[ is accepted")
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\"\\\n,={}/")), 0, 6, -1)
		name := rapid.StringMatching("[a-c]")
		labels := rapid.MapOfN(name, text, 1, 3).Draw(t, "labels")
		key := series.Key(labels)
		only := map[string]string{}
		for name, value := range labels {
			if value != "" && rapid.Bool().Draw(t, name) {
				only[name] = "*" + literal(value)
			}
		}
		if !domain.Matches(domain.LabelPattern(only), key) {
			t.Fatalf("%q does not match %s", only, key)
		}
		other := name.Draw(t, "other")
		only[other] = literal(labels[other] + "x")
		if domain.Matches(domain.LabelPattern(only), key) {
			t.Fatalf("%q matches %s", only, key)
		}
	})
}

// literal returns a pattern that matches only text.
func literal(text string) (pattern string) {
	for _, r := range text {
		if r == '\\' {
			pattern += `\`
		}
		pattern += string(r)
	}
	return pattern
}

// Matching finds the patterns that match a text, and Meeting those that may match a text together with another
// pattern.
func TestPatterns(t *testing.T) {
	labels := domain.LabelPattern(map[string]string{"job": "a*"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.OneOf(rapid.StringMatching(`[ab/]{0,3}`), rapid.SampledFrom([]string{"a*", "?", "[a-b]", `a\*`, labels, "*/b"}))
		texts := rapid.SliceOfN(pattern, 0, 8).Draw(t, "patterns")
		list := domain.NewPatterns(texts)
		key := rapid.OneOf(rapid.StringMatching(`[ab*/]{0,3}`), rapid.Just(`up{job="ab"}`)).Draw(t, "key")
		other := pattern.Draw(t, "pattern")
		var matching, meeting []int
		for i, text := range texts {
			if domain.Matches(text, key) {
				matching = append(matching, i)
			}
			if domain.MayMeet(text, other) {
				meeting = append(meeting, i)
			}
		}
		expect.Same(t, matching, list.Matching(nil, key))
		expect.Same(t, meeting, list.Meeting(other))
	})
}

// If MayMeet is false, no text matches both patterns.
func TestMayMeet(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a1", "a1", true}, {"a1", "a10", false}, {"a1", "b1", false}, {"a*", "a1", true}, {"a*", "b1", false}, {"a*", "b*", false}, {"a*", "*b", true},
		{"pump-*", "pump-a*", true}, {"a?", "a", false}, {`a\*`, "a*", true}, {domain.LabelPattern(map[string]string{"job": "a"}), "up{job=\"a\"}", true},
		{domain.LabelPattern(map[string]string{"job": "a"}), "up{job=\"b\"}", false},
	} {
		if domain.MayMeet(c.a, c.b) != c.want || domain.MayMeet(c.b, c.a) != c.want {
			t.Errorf("%q and %q: %t", c.a, c.b, !c.want)
		}
	}
}
