package transforms

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

// A configuration is sent to workers as text. The text preserves numbers, and nil and empty lists.
func TestConfigRoundTrip(t *testing.T) {
	third := 1 / 3.
	full := stepConfig{Config: keyed.Recommended("normal"), Host: Host{Cells: []string{"a", "b"}, Migrate: true}}
	full.Keys = []keyed.Rule{{Match: "k*", Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: third}, Prior: expfam.Params{"kappa": math.Nextafter(1, 2)}}}}
	full.Lateness, full.TimeUnit, full.Interval = 3, time.Hour, .9
	full.Values, full.Silence = []string{"x"}, &keyed.SilenceConfig{After: time.Minute}
	none := full
	alarms := *full.Alarms
	alarms.Seasons = []usual.Season{}
	none.Alarms = &alarms
	none.Silence, none.Cells, none.Values = &keyed.SilenceConfig{}, []string{}, []string{}
	for name, want := range map[string]stepConfig{"full": full, "empty lists": none, "nil": {Config: keyed.Config{Filter: hafvf.Config{Family: "poisson"}}}} {
		text := expect.Get(json.Marshal(want))(t)
		_, got, err := parseEstimator(string(text))
		expect.OK(t, err)
		expect.Same(t, want, got, name)
	}
	want := SmoothConfig{SmoothConfig: keyed.SmoothConfig{Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: third}}, Gap: time.Second, Odds: third}}
	text := expect.Get(json.Marshal(want))(t)
	_, got, err := parseSmoother(string(text))
	expect.OK(t, err)
	expect.Same(t, want, got)
}

// The step of incidents has the settings of its configuration.
func TestIncidentsSetup(t *testing.T) {
	cfg := IncidentsConfig{Budget: time.Hour, By: []string{"job"}, MaxSinglePages: 3, Digests: []time.Duration{time.Minute}}
	text := expect.Get(json.Marshal(cfg))(t)
	fn := &encodeIncidentsFn{Config: string(text), Encoder: Registered{Name: objects}}
	expect.OK(t, fn.Setup(t.Context()))
	if c := fn.fleetConfig; c.Config.Budget != time.Hour || len(c.Config.By) != 1 || c.Config.MaxSinglePages != 3 || len(c.Digests) != 1 {
		t.Errorf("%+v", c)
	}
	fn.Config = `{"Zone": "Nowhere"}`
	expect.Error(t, fn.Setup(t.Context()), "Nowhere")
}

// A damaged block of a session is an error.
func TestGatherDamaged(t *testing.T) {
	blocks := [][]byte{{0xff}}
	next := func(b *[]byte) bool {
		if len(blocks) == 0 {
			return false
		}
		*b, blocks = blocks[0], nil
		return true
	}
	if (&gatherFn{}).ProcessElement("k", next, func(beam.EventTime, string, []byte) {}) == nil {
		t.Error("a damaged block is accepted")
	}
}
