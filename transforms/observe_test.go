package transforms

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

// recovered is what a function panics with.
func recovered(f func()) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	f()
	return ""
}

// A user's function that does not take the elements is refused when the pipeline is made, in its own words.
func TestObserveTakesTheElements(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	got := recovered(func() { Filter(s, keyed.Recommended("normal"), observeGiven, beam.Create(s, 1, 2)) })
	expect.Same(t, "transforms.Filter: observe takes transforms.Given, and the elements of the input are int", got)
}

func ignored[T any](T) (string, keyed.Observation) { return "", keyed.Observation{} }

// Two instances of a generic function, which have one name, are two functions.
func TestObserveIsGeneric(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	ints, texts := observing("Filter", ignored[int], beam.Create(s, 1)), observing("Filter", ignored[string], beam.Create(s, "a"))
	observerOf(ints.Setting)(1)
	observerOf(texts.Setting)("a")
}

func unregistered(Given) (string, keyed.Observation) { return "", keyed.Observation{} }

// A worker in another process knows a function that is registered with Beam. It refuses any other, and a
// closure always: what that has captured is not there.
func TestObserverOfAnotherProcess(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	col := beam.Create(s, Given{})
	there := func(in Registered) observer {
		observers.Delete(in.Setting) // as where the pipeline was not made
		return observerOf(in.Setting)
	}
	of := there(observing("Filter", observeGiven, col))
	if key, o := of(Given{"k", keyed.Observation{ID: "id"}}); key != "k" || o.ID != "id" {
		t.Errorf("%q, %v", key, o)
	}
	for _, f := range []func(Given) (string, keyed.Observation){unregistered, func(Given) (string, keyed.Observation) { return t.Name(), keyed.Observation{} }} {
		got := recovered(func() { there(observing("Filter", f, col)) })
		if !strings.Contains(got, "registered in an init function by register.Function1x2") {
			t.Error(got)
		}
	}
}
