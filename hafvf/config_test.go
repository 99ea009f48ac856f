package hafvf_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
)

// weights runs the filter of a config and returns the weight and memory that it
// ends with.
func weights(t *testing.T, c hafvf.Config) (weight, memory float64) {
	t.Helper()
	// As it arrives in another process.
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var there hafvf.Config
	if err := json.Unmarshal(text, &there); err != nil {
		t.Fatal(err)
	}
	b, err := there.NewBank()
	if err != nil {
		t.Fatal(err)
	}
	s := b.NewState()
	f, err := c.Filter()
	if err != nil {
		t.Fatal(err)
	}
	u := f.NewState()
	for i := range 30 {
		x := []float64{math.Sin(float64(i))}
		step, out := f.Update(u, x), b.Update(s, x)
		if out.Members[0].Step != step {
			t.Fatalf("%+v, step %d: bank %+v, filter %+v", c, i, out.Members[0].Step, step)
		}
		weight, memory = step.Weight, step.Memory
	}
	return weight, memory
}

// A configuration without a member has the default one; what a member says holds, zeros too.
func TestConfigDefaults(t *testing.T) {
	paper := hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}}
	wantWeight, wantMemory := weights(t, paper)
	if w, m := weights(t, hafvf.Config{Family: "normal"}); w != wantWeight || m != wantMemory {
		t.Errorf("a config of the family alone ends with weight %g and memory %g; the paper's filter with %g and %g", w, m, wantWeight, wantMemory)
	}
	for _, c := range []struct {
		cfg            hafvf.Config
		weight, memory float64
	}{
		{hafvf.Config{Family: "normal", Member: &hafvf.Member{}}, 0, 1},
		{hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{}, Top: 1}}, 1, 30},
		{hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: 1}}, 1, 30},
		{hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: .5}}, .5, 2 - math.Pow(2, -29)},
	} {
		if w, m := weights(t, c.cfg); w != c.weight || m != c.memory {
			t.Errorf("%+v: weight %g, memory %g; want %g and %g", *c.cfg.Member, w, m, c.weight, c.memory)
		}
	}
	levels := hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: paper.Member.Levels}}
	f, err := levels.Filter()
	if err != nil {
		t.Fatal(err)
	}
	if s := f.NewState(); f.Levels() != 2 || f.PriorWeight(s) != .9 {
		t.Errorf("levels with top 0: %d levels, prior weight %g", f.Levels(), f.PriorWeight(s))
	}
}

// One filter of a config that asks for more is refused, not cut down to it.
func TestConfigFilterRefusesMore(t *testing.T) {
	for want, c := range map[string]hafvf.Config{
		"bank: one filter has none; NewBank makes it":    {Family: "normal", Bank: hafvf.DefaultBank()},
		"detect: one filter has none; NewBank makes it":  {Family: "normal", Detect: &hafvf.Detect{}},
		"warm_up: one filter has none; NewBank makes it": {Family: "normal", WarmUp: 50},
	} {
		if _, err := c.Filter(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSeasonOfFamilies(t *testing.T) {
	day := []usual.Season{{Period: 24 * time.Hour, Harmonics: 1}}
	for family, want := range map[string]string{"normal": "", "exponential": "", "poisson": "", "bernoulli": "categories"} {
		_, err := hafvf.Config{Family: family, Season: &usual.RhythmConfig{Seasons: day}}.NewBank()
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", family, err)
		}
	}
}
