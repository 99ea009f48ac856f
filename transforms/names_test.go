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

// A runner shows the family of a filter and of a smoother in the name of a step. The steps that have states have
// the same names for all families.
func TestStepNamesHaveFamily(t *testing.T) {
	names := func(family string) (list []string) {
		p, s := beam.NewPipelineWithRoot()
		observe := func([]byte) (string, keyed.Observation) { return "", keyed.Observation{} }
		Filter(s, keyed.Recommended(family), observe, beam.Impulse(s))
		Smooth(s, keyed.RecommendedSmoothing(family, time.Minute), observe, beam.Impulse(s))
		proto := expect.Get(pipelineproto.Marshal(p, "localhost:1", nil))(t)
		for _, step := range proto.GetComponents().GetTransforms() {
			list = append(list, step.GetUniqueName())
		}
		slices.Sort(list)
		return list
	}
	normal, poisson := names("normal"), names("poisson")
	withFamily := 0
	for i, name := range normal {
		if strings.Contains(name, "normal") {
			withFamily++
		}
		if got := strings.ReplaceAll(name, "normal", "poisson"); got != poisson[i] {
			t.Errorf("the step %s for one family is %s for another", name, poisson[i])
		}
	}
	if withFamily < 2 {
		t.Errorf("%d names have the family: %v", withFamily, normal)
	}
}
