package transforms

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
)

// recovered returns the value with which f panics, as text.
func recovered(f func()) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	f()
	return ""
}

// If a user's function does not take the elements, the construction of the pipeline panics, with the names of the
// types.
func TestObserveTakesTheElements(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	got := recovered(func() { Filter(s, keyed.Recommended("normal"), observePair, beam.Create(s, 1, 2)) })
	expect.Same(t, "transforms.Filter: observe takes transforms.Given, and the elements of the input are int", got)
}

func ignored[T any](T) (string, keyed.Observation) { return "", keyed.Observation{} }

// Two instances of a generic function have the same name, but are two functions.
func TestObserveIsGeneric(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	ints, texts := registerObserve("Filter", ignored[int], withoutError(ignored[int]), beam.Create(s, 1)), registerObserve("Filter", ignored[string], withoutError(ignored[string]), beam.Create(s, "a"))
	observerOf(ints.Setting)(1)
	observerOf(texts.Setting)("a")
}

func unregistered(Given) (string, keyed.Observation) { return "", keyed.Observation{} }

// A worker in another process knows a function that is registered with Beam. Any other function is an error, and so
// is every closure: its captured values do not exist there.
func TestObserverInOtherProcess(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	col := beam.Create(s, Given{})
	observerThere := func(in Registered) observer {
		observers.Delete(in.Setting) // as in a process that did not construct the pipeline
		return observerOf(in.Setting)
	}
	observe := observerThere(registerObserve("Filter", observePair, withoutError(observePair), col))
	if key, o, _ := observe(Given{"k", keyed.Observation{ID: "id"}}); key != "k" || o.ID != "id" {
		t.Errorf("%q, %v", key, o)
	}
	for _, f := range []func(Given) (string, keyed.Observation){unregistered, func(Given) (string, keyed.Observation) { return t.Name(), keyed.Observation{} }} {
		got := recovered(func() { observerThere(registerObserve("Filter", f, withoutError(f), col)) })
		if !strings.Contains(got, "registered in an init function by register.Function1x2") {
			t.Error(got)
		}
	}
}

// A line is a record of a log.
type line struct {
	Offset int64
	Text   string
}

func (l line) LogPosition() (log string, seq int64) { return "lines-0", l.Offset }

func parseLine(l line) (string, keyed.Observation, error) {
	x, err := strconv.ParseFloat(l.Text, 64)
	return "k", keyed.Value(time.Unix(60*l.Offset, 0), strconv.FormatInt(l.Offset, 10), x), err
}

func init() {
	register.Function1x3(parseLine)
	register.Function2x1(idOf)
	register.Function1x1(reasonOf)
}

func idOf(_ string, e keyed.Estimate) string { return e.ID }

func reasonOf(r keyed.Rejected) string {
	return fmt.Sprintf("%s %s %d: %s", r.Key, r.Observation.Log, r.Observation.Seq, r.Reason)
}

// An element that observe cannot parse is rejected with the error. Observations have the positions of their
// records, so that repeated records are recognised.
func TestFilterParsed(t *testing.T) {
	lines := []line{{1, "5"}, {2, "a word"}, {3, "6"}, {3, "6"}, {4, "7"}}
	p, s := beam.NewPipelineWithRoot()
	out := FilterParsed(s, keyed.Config{Filter: hafvf.Config{Family: "normal"}}, parseLine, beam.CreateList(s, lines))
	passert.EqualsList(s, beam.ParDo(s, idOf, out.Estimates), []string{"1", "3", "4"})
	passert.EqualsList(s, beam.ParDo(s, reasonOf, out.Rejected), []string{`k lines-0 2: strconv.ParseFloat: parsing "a word": invalid syntax`})
	smoothed := SmoothParsed(s, keyed.SmoothConfig{Filter: hafvf.Config{Family: "normal"}, Gap: time.Hour}, parseLine, beam.CreateList(s, lines))
	passert.Count(s, smoothed.Rejected, "rejected of Smooth", 1)
	expect.Get(direct.Execute(t.Context(), p))(t)
}
