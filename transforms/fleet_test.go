package transforms

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
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
	if err := eachNotice(AppendNotice(nil, "a/b", told, keyed.Pace{Step: time.Minute, Budget: time.Hour}), func(n notice) error {
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

func (t *tellerOf) alert(key string, told keyed.Told, _ string) {
	*t.alerts = append(*t.alerts, key+" "+told.Of.ID+" "+told.Kind)
}

// A key that is forgotten while a run goes on is told of before, and nothing of it is left. In a
// state between two runs nobody is told, and the others are as before.
func TestFleetForgets(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := keyed.Moments{Mean: []float64{0}, SD: []float64{1}}
	fleetOf := func(keys ...string) *fleetNode {
		fn := &fleetNode{cfg: IncidentsConfig{Separators: ".", Digests: []time.Duration{24 * time.Hour}}}
		var err error
		if fn.fleet, err = fn.cfg.Fleet(); err == nil {
			err = fn.begin()
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			fn.of.Register(key, at, time.Minute, time.Hour)
			for j, when := range []time.Time{at, at.Add(time.Hour)} {
				told := keyed.Told{Of: &keyed.Estimate{Time: when, ID: fmt.Sprint(key, ":", j), X: [][]float64{{1}}, Predicted: m}, Alert: &keyed.Alert{Kind: "novelty", Score: float64(i), Before: m, After: m, Usual: m}}
				if err := eachNotice(AppendNotice(nil, key, told, keyed.Pace{}), func(n notice) error {
					fn.hold(alarmName{n.key, told.Of.ID, told.Kind}, heldAlert{when, n.told}, told)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		var before []string
		if err := fn.advance(at, &tellerOf{alerts: &before}); err != nil || len(before) != len(keys) {
			t.Fatal(before, err)
		}
		return fn
	}
	encoded := func(fn *fleetNode) []byte {
		b, err := fn.encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	fn := fleetOf("a.b", "the.secret")
	state := encoded(fn)
	var got []string
	if err := fn.forget("the.secret", &tellerOf{alerts: &got}); err != nil || !slices.Equal(got, []string{"the.secret the.secret:1 novelty"}) {
		t.Errorf("%q, %v", got, err)
	}
	without, names, err := ForgetInFleet(state, func(key string) bool { return strings.HasPrefix(key, "the.") })
	if err != nil || len(names) != 1 || !names["the.secret"] {
		t.Fatal(names, err)
	}
	for name, b := range map[string][]byte{"a run": encoded(fn), "a state": without} {
		if bytes.Contains(b, []byte("secret")) || !bytes.Contains(b, []byte("a.b:1")) {
			t.Errorf("%s: %q", name, b)
		}
		if !bytes.Equal(b, without) {
			t.Errorf("%s has another state", name)
		}
	}
	same, names, err := ForgetInFleet(state, func(string) bool { return false })
	if err != nil || len(names) != 0 || !bytes.Equal(same, state) {
		t.Errorf("nothing is forgotten, and the state is another: %v", err)
	}
	if _, _, err := ForgetInFleet(state[:len(state)-1], func(string) bool { return true }); err == nil {
		t.Error("a state that is cut off is accepted")
	}
}
