package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
)

// What keyed recommends is what prior: auto and detect: true make of a config.
func TestRecommendedIsDetect(t *testing.T) {
	var known []string
	for family, c := range map[string]struct {
		model string
		set   func(*hafvf.Config)
	}{
		"normal":      {"prior: auto", nil},
		"poisson":     {"prior: auto", nil},
		"exponential": {"prior: auto", nil},
		"ar":          {"prior: auto", nil},
		"mvnormal":    {"prior: auto, dim: 3", func(c *hafvf.Config) { c.Dim = 3 }},
		"regression":  {"prior: auto, dim: 3", func(c *hafvf.Config) { c.Dim = 3 }},
		"binomial":    {"prior: auto", nil},
		"bernoulli":   {"prior: {}", nil},
		"categorical": {"prior: {alpha: [1, 1, 1]}", func(c *hafvf.Config) { c.Prior = expfam.Params{"alpha": []float64{1, 1, 1}} }},
	} {
		known = append(known, family)
		g := compose(t, "model: {family: "+family+", "+c.model+"}\ndetect: true\nsource: {jsonl: {path: in.jsonl}}\n")
		want := keyed.Recommended(family)
		if c.set != nil {
			c.set(&want.Filter)
		}
		got := g.transform.(filtering).cfg.Config
		want.Values = got.Values // of the source
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: recommended (-) and composed (+): %s", family, diff)
		}
		if want.AllSettings().String() != got.AllSettings().String() {
			t.Errorf("%s: a state of one is not one of the other", family)
		}
		m := compose(t, "transform: smooth\nmodel: {family: "+family+", "+c.model+"}\nsource: {jsonl: {path: in.jsonl}}\n").transform.(smoothing)
		smooth := keyed.RecommendedSmoothing(family, 30*time.Minute)
		if c.set != nil {
			c.set(&smooth.Filter)
		}
		if diff := cmp.Diff(smooth, m.cfg.SmoothConfig, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: recommended (-) and composed (+) for sessions: %s", family, diff)
		}
		if _, err := keyed.NewEstimator(want); err != nil {
			t.Errorf("%s: %v", family, err)
		}
	}
	slices.Sort(known)
	if all := slices.Sorted(slices.Values(expfam.Families())); !slices.Equal(known, all) {
		t.Errorf("the families %v, of %v", known, all)
	}
}
