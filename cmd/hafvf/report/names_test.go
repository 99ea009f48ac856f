package report

import (
	"testing"

	"hafvf/internal/testing/expect"
)

// Parts that all long keys of a group share are left out. Short keys are complete.
func TestCutNames(t *testing.T) {
	for _, c := range [][2][]string{
		{{`requests{code="200",env="prod",instance="h1:80",job="a"}`, `requests{code="500",env="prod",instance="h2:80",job="a"}`},
			{"200 h1:80", "500 h2:80"}},
		{{`requests{env="prod",job="a",instance="h1:80"}`, `requests{env="prod",instance="h2:80"}`}, {`…job="a",instance="h1:80"…`, `…instance="h2:80"…`}},
		{{"north/hall-2/machine-17/motor-3/temperature", "north/hall-2/machine-18/motor-3/temperature", "short"}, {
			"north/hall-2/machine-17/motor-3/temperature", "north/hall-2/machine-18/motor-3/temperature", "short"}},
		{{"north/hall-2/machine-17/motor-3/temperature", "north/hall-2/machine-18/motor-3/temperature"}, {"…machine-17/…", "…machine-18/…"}},
		{{`p95_ms{instance="ord-1",job="ord",rack="r1"}`, `mem_bytes{instance="web-4",job="web",rack="r4"}`}, {"p95_ms ord-1 ord r1", "mem_bytes web-4 web r4"}},
		{{"north/hall-2/machine-17/motor-3/temperature"}, {"north/hall-2/machine-17/motor-3/temperature"}},
	} {
		expect.Same(t, c[1], cutNames(c[0]))
	}
}
