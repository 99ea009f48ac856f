package transforms_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx/schema"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

// users is a struct of a user's pipeline.
type users struct {
	Name        string
	Observation keyed.Observation
	Estimate    keyed.Estimate
	Alert       keyed.Alert
	Told        keyed.AlertEvent
	Silent      keyed.SilenceEvent
	Rejected    keyed.Rejected
	Smoothed    keyed.Smoothed
}

func init() {
	beam.RegisterType(reflect.TypeFor[users]())
	register.Function2x0(emitUsers)
	register.Function2x1(checkUsers)
	register.Emitter1[users]()
	register.Iter1[users]()
}

func usersOf() users {
	o := keyed.Value(timeAt(5), "id", 3)
	nan := math.NaN()
	alert := keyed.Alert{Kind: "change", LogOdds: nan, Size: math.Inf(1), Message: "m"}
	e := keyed.Estimate{Time: timeAt(5), ID: "id", N: 3, X: [][]float64{{3}, {nan}}, LogPredictive: nan, Alarm: &alert, Recovered: &keyed.EndedAlarm{ID: "a", Alert: &alert}}
	return users{"n", o, e, alert, e.Alerts("k")[1], keyed.SilenceEvent{N: 4}, keyed.Rejected{Key: "k", Observation: o, Reason: "r"}, keyed.Smoothed{Time: timeAt(6), ID: "s", ChangeEvidence: nan}}
}

func emitUsers(_ []byte, emit func(users)) { emit(usersOf()) }

func checkUsers(_ int, next func(*users) bool) error {
	var u users
	for next(&u) {
		if diff := gocmp.Diff(usersOf(), u, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			return fmt.Errorf("(-want +got) %s", diff)
		}
	}
	return nil
}

// The types that the nodes take and return can be fields of a struct in a user's pipeline.
func TestTypesInStruct(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	col := beam.ParDo(s, emitUsers, beam.Impulse(s))
	beam.ParDo0(s, checkUsers, beam.GroupByKey(s, beam.AddFixedKey(s, col)))
	expect.Get(execute(t.Context(), p))(t)
}

// An estimate and an alert are also Beam rows, with a schema of their fields.
func TestRows(t *testing.T) {
	for _, v := range []any{usersOf().Estimate, usersOf().Alert} {
		typ := reflect.TypeOf(v)
		fields := expect.Get(schema.FromType(typ))(t).GetFields()
		if len(fields) != typ.NumField() {
			t.Errorf("%v: %d fields of %d", typ, len(fields), typ.NumField())
		}
		var row bytes.Buffer
		expect.OK(t, expect.Get(coder.RowEncoderForStruct(typ))(t)(v, &row))
		got := expect.Get(expect.Get(coder.RowDecoderForStruct(typ))(t)(&row))(t)
		if diff := gocmp.Diff(v, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got) %s", diff)
		}
	}
}
