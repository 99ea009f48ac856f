package webhook

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/connectors"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
)

// A fakeRunner stores a bag and a timer, as a runner does for one key.
type fakeRunner struct {
	state.Provider
	bag   []any
	timer *timers.TimerMap
	err   error
}

func (r *fakeRunner) ReadBagState(string) ([]any, []state.Transaction, error) {
	return slices.Clone(r.bag), nil, r.err
}

func (r *fakeRunner) WriteBagState(t state.Transaction) error {
	r.bag = append(r.bag, t.Val)
	return nil
}

func (r *fakeRunner) ClearBagState(state.Transaction) error {
	r.bag = nil
	return nil
}

func (r *fakeRunner) Set(t timers.TimerMap) { r.timer = &t }

// An alert is in the state, with the timer set, until the receiver has answered. A failure of the state fails the
// bundle.
func TestHoldFn(t *testing.T) {
	answers := &receiver{codes: []int{http.StatusBadRequest, http.StatusOK}}
	url, start := unavailable(t, answers)
	fn := &holdFn{Sink: Sink{URL: secret.Text{Text: url}, Timeout: time.Second}, MaxAge: time.Hour, Waiting: state.MakeBagState[[]byte]("w"), Next: timers.InProcessingTime("n")}
	fn.Setup()
	runner := &fakeRunner{}
	var refused []connectors.Refused
	refuse := func(f connectors.Refused) { refused = append(refused, f) }
	process := func(a Alert) error {
		return fn.ProcessElement(t.Context(), runner, runner, "receiver", a.Chunk(), refuse)
	}
	poll := func() error {
		runner.timer = nil
		return fn.OnTimer(t.Context(), 0, runner, runner, "receiver", timers.Context{}, refuse)
	}
	expect.OK(t, process(Alert{ID: "old", Text: []byte(`{"time":"2020-01-01T00:00:00Z"}`)}))
	if len(runner.bag) != 0 || runner.timer != nil {
		t.Errorf("an alert that is too old stays: %q, %v", runner.bag, runner.timer)
	}
	keyed := alert(1)
	keyed.Key = []byte("k")
	expect.OK(t, process(keyed))
	for range 2 {
		if len(runner.bag) != 1 || runner.timer == nil {
			t.Errorf("the state holds %q, and the timer is %v", runner.bag, runner.timer)
		}
		expect.OK(t, poll())
	}
	outboxes[fn.name].Close(0, 0)
	delete(outboxes, fn.name) // like another process that has only the state
	runner.err = errors.New("no state")
	expect.Error(t, poll(), "no state")
	runner.err = nil
	start()
	expect.Soon(t, "the alert is refused", func() bool { return poll() == nil && len(refused) == 1 })
	expect.Same(t, []any{"k", "1", `{"id":"1"}`}, []any{string(refused[0].Key), refused[0].ID, string(refused[0].Text)})
	if len(runner.bag) != 0 || runner.timer != nil {
		t.Errorf("the state still holds %q, and the timer is %v", runner.bag, runner.timer)
	}
	expect.OK(t, process(alert(2)))
	expect.Soon(t, "the alert is sent", func() bool { return poll() == nil && len(runner.bag) == 0 })
	expect.Same(t, []any{[]string{`{"id":"2"}`}, 1}, []any{answers.bodies, len(refused)})
	runner.bag = []any{[]byte("damaged")}
	if poll() == nil {
		t.Error("a damaged state is taken for an empty one")
	}
	fn.Sink.URL.Text = "http://%"
	fn.Setup()
	expect.Error(t, process(alert(3)), "webhook.url")
	expect.Error(t, poll(), "webhook.url")
}
