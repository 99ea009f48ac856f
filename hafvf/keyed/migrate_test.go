package keyed

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// migrated has a key learn all under from, and carries its state over to to.
func migrated(t *testing.T, from, to Config, all []Observation) (b []byte, carried string, err error) {
	t.Helper()
	est := newEstimator(t, from)
	track := est.NewTrack("k")
	for _, o := range all {
		est.Estimate(track, o)
	}
	state, _ := track.AppendBinary(nil)
	_, written := from.Settings()("k")
	m := newMigrator(t, to)
	b, carried, err = m.Migrate("k", state, written)
	if carried == "" && err == nil && !bytes.Equal(b, state) {
		t.Error("a state that goes on as it is has changed")
	}
	return b, carried, err
}

func TestMigrate(t *testing.T) {
	normal := Config{Filter: hafvf.Config{Family: "normal"}}
	with := func(c Config, change func(*Config)) Config {
		change(&c)
		return c
	}
	daily := &usual.RhythmConfig{Seasons: usual.DefaultSeasons()}
	for name, c := range map[string]struct {
		from, to Config
		want     string
	}{
		"the same":      {normal, normal, ""},
		"another alert": {detecting, with(detecting, func(c *Config) { c.Alerts.Beliefs = nil }), ""},
		"a rule": {normal, with(normal, func(c *Config) {
			c.Keys = []Rule{{Match: "k", Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: .9}}}}
		}), "samples kept"},
		"another prior":  {normal, with(normal, func(c *Config) { c.Filter.Prior = expfam.Params{"kappa": 4.} }), "samples and levels kept"},
		"more levels":    {normal, with(normal, func(c *Config) { c.Filter.Member = &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 2, Beta: 1}}, Top: .9} }), "samples kept; levels start over"},
		"a bank":         {normal, with(normal, func(c *Config) { c.Filter.Bank = hafvf.DefaultBank() }), "samples and levels kept; shares start over"},
		"detection":      {normal, with(normal, func(c *Config) { c.Filter.Bank, c.Filter.Detect = hafvf.DefaultBank(), &hafvf.Detect{} }), "samples and levels kept; shares, detection and alarms start over"},
		"no detection":   {lagging, with(normal, func(c *Config) { c.TimeUnit = time.Second }), "samples and levels kept"},
		"other excursns": {lagging, with(lagging, func(c *Config) { c.Filter.Detect = &hafvf.Detect{Commit: .9} }), "samples, levels, shares and alarms kept; detection starts over"},
		"bank of others": {lagging, with(lagging, func(c *Config) { c.Filter.Forgetting = .99 }), "samples, levels, detection and alarms kept; shares start over"},
		"a unit of time": {normal, with(normal, func(c *Config) { c.TimeUnit = time.Hour }), "samples kept; levels start over"},
		"order":          {normal, with(normal, func(c *Config) { c.Order = Arrival }), "samples and levels kept"},
		"a season":       {normal, with(normal, func(c *Config) { c.Filter.Season = daily }), "samples, levels and season start over"},
		"silence":        {normal, with(normal, func(c *Config) { c.Silence, c.TimeUnit = &SilenceConfig{}, time.Hour }), "samples kept; levels start over"},
		"prior: auto":    {normal, with(normal, func(c *Config) { c.Filter.WarmUp = 40 }), "samples and levels start over"},
		"a longer one":   {with(normal, func(c *Config) { c.Filter.WarmUp = 40 }), with(normal, func(c *Config) { c.Filter.WarmUp = 50 }), "samples and levels kept"},
	} {
		t.Run(name, func(t *testing.T) {
			in := jumping()
			b, carried, err := migrated(t, c.from, c.to, in[:150])
			if err != nil || carried != c.want {
				t.Fatalf("%q, want %q: %v", carried, c.want, err)
			}
			est := newEstimator(t, c.to)
			track := restored(t, est, b)
			for i, o := range in[150:] {
				if e := est.Estimate(track, o); e.N != int64(151+i) {
					t.Fatalf("observation %d has the number %d", 151+i, e.N)
				}
			}
			b, _ = track.AppendBinary(nil)
			if _, err := est.CheckState("k", b); err != nil {
				t.Fatal(err)
			}
			_, written := c.to.Settings()("k")
			m, _ := NewMigrator(c.to)
			if _, carried, err := m.Migrate("k", b, written); carried != "" || err != nil {
				t.Errorf("the second time: %q, %v", carried, err)
			}
		})
	}
}

// A sample means the same under any prior: without forgetting, a key whose prior is changed
// goes on as one that had it from the beginning.
func TestMigratedSamples(t *testing.T) {
	for family, c := range map[string]struct {
		from, to expfam.Params
		dim      int
	}{
		"normal":      {nil, expfam.Params{"mu": 1., "kappa": 3., "alpha": 2., "beta": 5.}, 1},
		"poisson":     {nil, expfam.Params{"shape": 2., "rate": 3.}, 1},
		"exponential": {nil, expfam.Params{"shape": 2., "rate": 3.}, 1},
		"bernoulli":   {nil, expfam.Params{"alpha": 2., "beta": 3.}, 1},
		"categorical": {expfam.Params{"alpha": []any{1., 1.}}, expfam.Params{"alpha": []any{2., 3.}}, 2},
		"mvnormal":    {nil, expfam.Params{"kappa": 3.}, 2},
		"regression":  {nil, expfam.Params{"precision": 3.}, 2},
		"ar":          {expfam.Params{"order": 2}, expfam.Params{"order": 2, "precision": 3.}, 1},
	} {
		t.Run(family, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 1))
			in := make([]Observation, 60)
			for i := range in {
				in[i] = Observation{Time: time.Unix(int64(i), 0).UTC(), ID: "id", X: [][]float64{drawn[family](rng, c.dim)}}
			}
			dim := c.dim
			if family == "categorical" {
				dim = 0 // the prior has it
			}
			under := func(prior expfam.Params) Config {
				return Config{Filter: hafvf.Config{Family: family, Dim: dim, Prior: prior, Member: &hafvf.Member{Top: 1}}}
			}
			b, carried, err := migrated(t, under(c.from), under(c.to), in[:40])
			if err != nil || carried != "samples kept" {
				t.Fatalf("%q, %v", carried, err)
			}
			est := newEstimator(t, under(c.to))
			track := restored(t, est, b)
			whole := est.NewTrack("k")
			for i, o := range in {
				want := est.Estimate(whole, o)
				if i < 40 {
					continue
				}
				got := est.Estimate(track, o)
				near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }
				if !near(got.LogPredictive, want.LogPredictive) || !slices.EqualFunc(got.Posterior, want.Posterior, near) {
					t.Fatalf("observation %d: %v and %v, want %v and %v", i, got.LogPredictive, got.Posterior, want.LogPredictive, want.Posterior)
				}
			}
		})
	}
}

func TestMigrateRefuses(t *testing.T) {
	normal := Config{Filter: hafvf.Config{Family: "normal"}}
	in := jumping()[:30]
	for want, to := range map[string]Config{
		"another model.family": {Filter: hafvf.Config{Family: "bernoulli"}},
		"another model.scale":  {Filter: hafvf.Config{Family: "normal", Scale: hafvf.Log}},
	} {
		if _, _, err := migrated(t, normal, to, in); !errors.Is(err, ErrOtherConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	ar := func(order int) Config {
		return Config{Filter: hafvf.Config{Family: "ar", Prior: expfam.Params{"order": order}}}
	}
	if _, _, err := migrated(t, ar(2), ar(3), in); !errors.Is(err, ErrOtherConfig) || !strings.Contains(err.Error(), "other dimensions") {
		t.Error(err)
	}

	// Columns fix a dimension that messages leave open. It is the same one.
	if _, carried, err := migrated(t, normal, Config{Filter: hafvf.Config{Family: "normal", Dim: 1}}, in); err != nil || carried != "samples and levels kept" {
		t.Errorf("%s, %v", carried, err)
	}

	waits := Config{Filter: hafvf.Config{Family: "normal"}, Lateness: time.Hour}
	est := newEstimator(t, waits)
	e := Entity{Track: est.NewTrack("k"), est: est}
	if _, err := e.admit(&in[0]); err != nil {
		t.Fatal(err)
	}
	_, written := waits.Settings()("k")
	m, _ := NewMigrator(Config{Filter: waits.Filter, Order: Arrival})
	if _, _, err := m.Migrate("k", e.append(nil), written); !errors.Is(err, ErrOtherConfig) || !strings.Contains(err.Error(), "1 observation waits in it") {
		t.Error(err)
	}
	if _, _, err := m.Migrate("k", e.append(nil), `{"order":"event_time","colour":1}`); err == nil || !strings.Contains(err.Error(), "colour") {
		t.Error(err)
	}
}
