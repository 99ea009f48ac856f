package transforms

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/fleet"
	"hafvf/hafvf/usual"
	"hafvf/internal/account"
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

// taggedEncoder writes a word for each record.
type taggedEncoder struct{ objectEncoder }

func tag(out *Encoded, word string) { out.Alerts = append(out.Alerts, word...) }

func (taggedEncoder) Alert(out *Encoded, _ string, _ keyed.AlertEvent, _ string, _ int) {
	tag(out, "alert")
}
func (taggedEncoder) Single(out *Encoded, _ string, _ keyed.AlertEvent, _ bool, _ int) {
	tag(out, "single")
}
func (taggedEncoder) Incident(out *Encoded, _ *incidents.Event)       { tag(out, "incident") }
func (taggedEncoder) Digest(out *Encoded, _ *incidents.Digest, _ int) { tag(out, "digest") }

// A bundle emits each record of the fleet, also if nothing follows.
func TestIncidentsEmitEachRecord(t *testing.T) {
	fn := &encodeIncidentsFn{encoder: taggedEncoder{}}
	fn.fleet = expect.Get(fleet.New(fleet.Config{}, fn))(t)
	for want, report := range map[string]func(){
		"alert":    func() { fn.Alert("k", keyed.AlertEvent{}, "") },
		"single":   func() { fn.Single("k", keyed.AlertEvent{}, false) },
		"incident": func() { fn.Incident(&incidents.Event{}) },
		"digest":   func() { fn.Digest(&incidents.Digest{}) },
	} {
		got := ""
		fn.StartBundle(func(b []byte) { got += string(b) })
		report()
		expect.OK(t, fn.FinishBundle(nil))
		expect.Same(t, want, got)
	}
}

// The log says why the incidents of the previous run cannot be read. A state of a newer version is an error.
func TestUnreadableIncidents(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	for _, damage := range []error{errors.New("the checksum is wrong"), keyed.ErrNewer} {
		var log strings.Builder
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		fn := &encodeIncidentsFn{Config: "{}", Encoder: Registered{Name: objects}, State: state.MakeValueState[[]byte]("fleet")}
		expect.OK(t, fn.Setup(t.Context()))
		fn.account = account.Open(account.StateKeeper{Restore: func(string) ([]byte, error) { return nil, damage }})
		defer fn.account.Close()
		if err := fn.read(&runner{}); errors.Is(err, keyed.ErrNewer) != (damage == keyed.ErrNewer) {
			t.Error(err)
		} else if err == nil && !strings.Contains(log.String(), `reason="the checksum is wrong"`) {
			t.Error(log.String())
		}
	}
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
