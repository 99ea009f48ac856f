package transforms

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/keyed"
	"hafvf/internal/pipelineproto"
	"hafvf/internal/testing/expect"
)

// A runner shows the family of a filter and of a smoother in the name of a step. The steps that have
// states are named alike for all families.
func TestStepsSayTheFamily(t *testing.T) {
	names := func(family string) (all []string) {
		p, s := beam.NewPipelineWithRoot()
		col := beam.ParDo(s, func(_ []byte, emit func(string, keyed.Observation)) {}, beam.Impulse(s))
		Filter(s, Config{Config: keyed.Recommended(family)}, col)
		Smooth(s, SmoothConfig{SmoothConfig: keyed.RecommendedSmoothing(family, time.Minute)}, col)
		proto := expect.Get(pipelineproto.Marshal(p, "localhost:1", nil))(t)
		for _, step := range proto.GetComponents().GetTransforms() {
			all = append(all, step.GetUniqueName())
		}
		slices.Sort(all)
		return all
	}
	normal, poisson := names("normal"), names("poisson")
	said := 0
	for i, name := range normal {
		if strings.Contains(name, "normal") {
			said++
		}
		if got := strings.ReplaceAll(name, "normal", "poisson"); got != poisson[i] {
			t.Errorf("the step %s of one family is %s of another", name, poisson[i])
		}
	}
	if said < 2 {
		t.Errorf("the family stands in %d of %v", said, normal)
	}
}
