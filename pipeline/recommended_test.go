package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// keyed.Recommended returns the settings of a config with prior: auto and detect: true.
func TestRecommendedIsDetect(t *testing.T) {
	for _, row := range familytest.All() {
		family := row.Name
		set := func(c *hafvf.Config) { c.Prior, c.Dim = row.MinParams, row.Dim }
		model := "prior: auto"
		if _, ok := expect.Get(expfam.New(family, row.MinParams, row.Dim))(t).(expfam.Fitted); !ok {
			prior := expfam.Params{}
			maps.Copy(prior, row.MinParams)
			model = "prior: " + string(expect.Get(json.Marshal(prior))(t))
		}
		if row.Dim > 0 {
			model += fmt.Sprintf(", dim: %d", row.Dim)
		}
		g := compose(t, "model: {family: "+family+", "+model+"}\ndetect: true\nsource: {jsonl: {path: in.jsonl}}\n")
		want := keyed.Recommended(family)
		set(&want.Filter)
		got := g.transform.(filtering).cfg
		want.Values, want.NameKeys = got.Values, true // set by the source and by configs
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: recommended (-) and composed (+): %s", family, diff)
		}
		if want.AllSettings().String() != got.AllSettings().String() {
			t.Errorf("%s: a state of one is not one of the other", family)
		}
		m := compose(t, "transform: smooth\nmodel: {family: "+family+", "+model+"}\nsource: {jsonl: {path: in.jsonl}}\n").transform.(smoothing)
		smooth := keyed.RecommendedSmoothing(family, 0)
		set(&smooth.Filter)
		if diff := cmp.Diff(smooth, m.cfg.SmoothConfig, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: recommended (-) and composed (+) for sessions: %s", family, diff)
		}
		if _, err := keyed.NewEstimator(want); err != nil {
			t.Errorf("%s: %v", family, err)
		}
	}
}
