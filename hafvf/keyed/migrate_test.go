package keyed

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
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
	b, parts, err := m.Migrate("k", state, written)
	if carried = parts.String(); carried == "" && err == nil && !bytes.Equal(b, state) {
		t.Error("a state that goes on as it is has changed")
	}
	return b, carried, err
}

func TestMigrateRefuses(t *testing.T) {
	normal := Config{Filter: hafvf.Config{Family: "normal"}}
	in := shifting(30)
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

	if _, carried, err := migrated(t, normal, normal, in); err != nil || carried != "" {
		t.Errorf("the same: %s, %v", carried, err)
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
