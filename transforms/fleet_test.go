package transforms

import (
	"slices"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
)

// Alarms that wait are told also if the state of their fleet is of other separators, or damaged
// alone.
func TestFleetBeginsAnew(t *testing.T) {
	fn := &fleetNode{}
	if err := fn.begin(); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := keyed.Moments{Mean: []float64{0}, SD: []float64{1}}
	told := keyed.Told{Of: &keyed.Estimate{Time: at, ID: "f:1", X: [][]float64{{1}}, Predicted: m}, Alert: &keyed.Alert{Kind: "novelty", Score: 5, Before: m, After: m, Usual: m}}
	if err := eachNotice(AppendNotice(nil, "a/b", told, Decision, keyed.Pace{Step: time.Minute, Budget: time.Hour}), func(n notice) error {
		fn.of.Register(n.key, n.at, n.pace.Step, n.pace.Budget)
		fn.hold(alarmName{n.key, told.Of.ID, told.Kind}, heldAlert{at, n.told}, told)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	state, err := fn.encode()
	if err != nil {
		t.Fatal(err)
	}
	other := &fleetNode{cfg: IncidentsConfig{Separators: "."}}
	if other.fleet, err = other.cfg.Fleet(); err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(state)
	damaged[1] ^= 0xff // the format of the fleet
	for name, c := range map[string]struct {
		fn    *fleetNode
		state []byte
	}{"same": {&fleetNode{}, state}, "separators": {other, state}, "damaged": {&fleetNode{}, damaged}} {
		if err := c.fn.restore(c.state); err != nil {
			t.Fatal(err)
		}
		var got []string
		tell := &tellerOf{alerts: &got}
		if err := c.fn.advance(at, tell); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, []string{"a/b f:1 novelty"}) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := (&fleetNode{}).restore(state[:len(state)-1]); err != nil {
		t.Errorf("a state that is cut off: %v", err)
	}
}

// A tellerOf notes alerts.
type tellerOf struct {
	teller
	alerts *[]string
}

func (t *tellerOf) alert(key string, told keyed.Told, _ Role, _ string) {
	*t.alerts = append(*t.alerts, key+" "+told.Of.ID+" "+told.Kind)
}
