package transforms_test

import (
	"flag"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline/direct"
	"hafvf/transforms"
)

var onPrism = flag.Bool("prism", false, "run the nodes on Beam's Prism, which opens a port on all interfaces")

// On Beam's own runner, for an input with an end, the results of the nodes equal those of a plain loop. Without the
// experiment, Prism splits a bundle within a key, and would lose updates of states.
func TestPrism(t *testing.T) {
	if !*onPrism {
		t.Skip("Prism opens a port on all interfaces: give -prism")
	}
	execute = prism.Execute
	*jobopts.Experiments = "prism_disable_sdf_split"
	defer func() { execute, *jobopts.Experiments = direct.Execute, "" }()
	for name, cfg := range map[string]keyed.Config{
		"in order":  keyed.Config{Filter: twoLevels},
		"late":      keyed.Config{Filter: twoLevels, Lateness: time.Hour},
		"detection": keyed.Config{Filter: hafvf.Config{Family: "normal", Bank: hafvf.DefaultBank(), Forgetting: .999, Detect: &hafvf.Detect{}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := randomStream(2000, 7)
			for _, cells := range [][]string{nil, {"a", "b", "c"}} {
				same(t, runFilter(t.Context(), t, cfg, in, cells...).out, loop(t, cfg, in))
			}
		})
	}
	for name, cfg := range map[string]transforms.SmoothConfig{"levels": sessions, "segments": segments} {
		t.Run(name, func(t *testing.T) {
			in := sessionStream(500, 5)
			same(t, runSmooth(t, cfg, in, nil).smoothed, smoothLoop(t, cfg, in))
		})
	}
	t.Run("types in a struct", TestTypesInStruct)
	t.Run("panics", TestFilterPanic)
	t.Run("panics in sessions", TestSmoothPanic)
}
