package pipeline

import (
	"testing"

	"hafvf/internal/testing/expect"
)

// A receiver of changes without novelties gets a warning if no key can raise a change alarm.
func TestChangesNotRaised(t *testing.T) {
	const warning = ".kinds: no key can raise change alarms, only those of bernoulli and categorical do: add novelty"
	for _, c := range []struct {
		family, more, alerts string
		want                 []string
	}{
		{"normal", "", "{jsonl: {path: a}, kinds: [change]}", []string{"alerts" + warning}},
		{"normal", "", "[{jsonl: {path: a}}, {jsonl: {path: b}, kinds: [silent, change]}]", []string{"alerts.1" + warning}},
		{"normal", "", "{jsonl: {path: a}, kinds: [change, novelty]}", nil},
		{"normal", "", "{jsonl: {path: a}, kinds: [silent], beliefs: [change]}", nil},
		{"bernoulli", "", "{jsonl: {path: a}, kinds: [change]}", nil},
		{"bernoulli", "aggregate: {every: 1h, value: max}\n", "{jsonl: {path: a}, kinds: [change]}", nil},
		{"categorical, prior: {alpha: [1, 1, 1]}", "", "{jsonl: {path: a}, kinds: [change]}", nil},
		{"poisson", "", "{jsonl: {path: a}, kinds: [change]}", []string{"alerts" + warning}},
	} {
		g := compose(t, "model: {family: "+c.family+"}\ndetect: true\n"+c.more+"source: {jsonl: {path: in}}\nalerts: "+c.alerts+"\n")
		expect.Same(t, c.want, g.Warnings, c.family, " ", c.more, c.alerts)
	}
	if g := compose(t, "model: {family: normal}\nsilence: true\nsource: {jsonl: {path: in}}\nalerts: {jsonl: {path: a}, kinds: [change]}\n"); g.Warnings != nil {
		t.Errorf("without detection: %q", g.Warnings)
	}
}
